"""The four memory tools as LangChain tools. Whose memory they use is no argument: the run says it, never the model."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from langchain.tools import BaseTool, ToolRuntime
from langchain_core.tools import StructuredTool
from pydantic import Field, ValidationError

from deermem.engine import DeerMem
from deermem.integrations import tool_answers
from deermem.integrations.langchain.scope import AGENT_NAME, USER_ID, Named, Run, Whose, run_of
from deermem.memory import Memory
from deermem.model.fact import CATEGORIES, DEFAULT_CATEGORY, DEFAULT_CONFIDENCE

# Without parameters pydantic takes the context for one that is None, and warns of any other.
_Runtime = ToolRuntime[Any, Any]
_WORDS = f"One word, best one of {', '.join(sorted(CATEGORIES))}."
_Query = Annotated[str, Field(description="What to look for, in the words of the user.")]
_Only = Annotated[str | None, Field(description="Only facts of this category.")]
_Limit = Annotated[int, Field(ge=1, le=100, description="How many facts at most.")]
_Content = Annotated[str, Field(description="The fact.")]
_Category = Annotated[str, Field(description=_WORDS)]
_Confidence = Annotated[float, Field(ge=0, le=1, description="How sure it is.")]
_Id = Annotated[str, Field(description="The fact_id that memory_search or memory_add gave.")]
_NewContent = Annotated[str | None, Field(description="What the fact is to say.")]
_NewCategory = Annotated[str | None, Field(description=_WORDS)]
_NewConfidence = Annotated[float | None, Field(ge=0, le=1, description="How sure it is.")]


def memory_tools(engine: DeerMem, *, user_id: Named = USER_ID, agent_name: Named = AGENT_NAME) -> list[BaseTool]:
    """memory_search, memory_add, memory_update and memory_delete, for agents that have no `DeerMemMiddleware`.

    `user_id` and `agent_name` are as there. Each answers with JSON text, `{"error"}` where it could not do it. A run
    that says no user raises InvalidInput and ends, because the model can't mend that. Safe for parallel calls.
    """
    whose = Whose(engine, user_id, agent_name)
    return [_search(whose), _add(whose), _update(whose), _delete(whose)]


def _memory(whose: Whose, runtime: _Runtime) -> tuple[Memory, Run]:
    run = run_of(runtime, runtime.config)
    return whose.memory(run), run


def _search(whose: Whose) -> BaseTool:
    def memory_search(
        query: _Query, runtime: _Runtime, category: _Only = None, limit: _Limit = tool_answers.DEFAULT_LIMIT
    ) -> str:
        return tool_answers.search(_memory(whose, runtime)[0], query, category, limit)

    async def searched(
        query: _Query, runtime: _Runtime, category: _Only = None, limit: _Limit = tool_answers.DEFAULT_LIMIT
    ) -> str:
        return await asyncio.to_thread(memory_search, query, runtime, category, limit)

    return _tool(memory_search, searched, tool_answers.SEARCH)


def _add(whose: Whose) -> BaseTool:
    def memory_add(
        content: _Content,
        runtime: _Runtime,
        category: _Category = DEFAULT_CATEGORY,
        confidence: _Confidence = DEFAULT_CONFIDENCE,
    ) -> str:
        memory, run = _memory(whose, runtime)
        return tool_answers.add(memory, content, category, confidence, run.thread_id)

    async def added(
        content: _Content,
        runtime: _Runtime,
        category: _Category = DEFAULT_CATEGORY,
        confidence: _Confidence = DEFAULT_CONFIDENCE,
    ) -> str:
        return await asyncio.to_thread(memory_add, content, runtime, category, confidence)

    return _tool(memory_add, added, tool_answers.ADD)


def _update(whose: Whose) -> BaseTool:
    def memory_update(
        fact_id: _Id,
        runtime: _Runtime,
        content: _NewContent = None,
        category: _NewCategory = None,
        confidence: _NewConfidence = None,
    ) -> str:
        return tool_answers.update(_memory(whose, runtime)[0], fact_id, content, category, confidence)

    async def updated(
        fact_id: _Id,
        runtime: _Runtime,
        content: _NewContent = None,
        category: _NewCategory = None,
        confidence: _NewConfidence = None,
    ) -> str:
        return await asyncio.to_thread(memory_update, fact_id, runtime, content, category, confidence)

    return _tool(memory_update, updated, tool_answers.UPDATE)


def _delete(whose: Whose) -> BaseTool:
    def memory_delete(fact_id: _Id, runtime: _Runtime) -> str:
        return tool_answers.delete(_memory(whose, runtime)[0], fact_id)

    async def deleted(fact_id: _Id, runtime: _Runtime) -> str:
        return await asyncio.to_thread(memory_delete, fact_id, runtime)

    return _tool(memory_delete, deleted, tool_answers.DELETE)


def _tool(function: Any, coroutine: Any, description: str) -> BaseTool:
    return StructuredTool.from_function(
        function,
        coroutine,
        name=function.__name__,
        description=description,
        handle_validation_error=_refused,
    )


def _refused(problem: ValueError) -> str:
    faults = problem.errors(include_url=False) if isinstance(problem, ValidationError) else ()
    told = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults]
    return tool_answers.error("; ".join(told) or "these arguments can't be used")
