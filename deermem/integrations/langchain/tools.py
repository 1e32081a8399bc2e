"""The four memory tools as LangChain tools. Whose memory they use is no argument: the run says it, never the model."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from langchain.tools import BaseTool, ToolRuntime
from langchain_core.tools import StructuredTool, ToolException
from pydantic import BeforeValidator, Field, ValidationError

from deermem.engine import DeerMem
from deermem.integrations import tool_answers
from deermem.integrations.langchain.scope import AGENT_NAME, USER_ID, Named, Run, Whose, run_of
from deermem.memory import Memory
from deermem.model.fact import CATEGORIES, DEFAULT_CATEGORY, DEFAULT_CONFIDENCE

# Without parameters pydantic takes the context for one that is None, and warns of any other.
_Runtime = ToolRuntime[Any, Any]
# An agent gives it; a loop of one's own that calls the tools has none.
_OUTSIDE: Any = None
_WORDS = f"One word, best one of {', '.join(sorted(CATEGORIES))}."


def _default(value: object) -> BeforeValidator:
    """For null: so models leave out what has a default, and some have to say something."""
    return BeforeValidator(lambda given: value if given is None else given)


_Query = Annotated[str, Field(description="What to look for, in the words of the user.")]
_Only = Annotated[str | None, Field(description="Only facts of this category.")]
_Limit = Annotated[
    int, Field(ge=1, le=100, description="How many facts at most."), _default(tool_answers.DEFAULT_LIMIT)
]
_Content = Annotated[str, Field(description="The fact.")]
_Category = Annotated[str, Field(description=_WORDS), _default(DEFAULT_CATEGORY)]
_Confidence = Annotated[float, Field(ge=0, le=1, description="How sure it is."), _default(DEFAULT_CONFIDENCE)]
_Id = Annotated[str, Field(description="The fact_id that memory_search or memory_add gave.")]
_NewContent = Annotated[str | None, Field(description="What the fact is to say.")]
_NewCategory = Annotated[str | None, Field(description=_WORDS)]
_NewConfidence = Annotated[float | None, Field(ge=0, le=1, description="How sure it is.")]


def memory_tools(engine: DeerMem, *, user_id: Named = USER_ID, agent_name: Named = AGENT_NAME) -> list[BaseTool]:
    """memory_search, memory_add, memory_update and memory_delete, for agents that have no `DeerMemMiddleware`.

    `user_id` and `agent_name` are as there. Each answers with JSON text, `{"error"}` and the status "error" where it
    could not do it. A run that says no user raises InvalidInput and ends, because the model can't mend that.
    Outside of an agent, called by `tool.invoke`, they read the run from the config given there. Safe for parallel
    calls.
    """
    whose = Whose(engine, user_id, agent_name)
    return [_search(whose), _add(whose), _update(whose), _delete(whose)]


def _memory(whose: Whose, runtime: _Runtime | None) -> tuple[Memory, Run]:
    run = run_of(runtime, None if runtime is None else runtime.config)
    return whose.memory(run), run


def _search(whose: Whose) -> BaseTool:
    def memory_search(
        query: _Query, runtime: _Runtime = _OUTSIDE, category: _Only = None, limit: _Limit = tool_answers.DEFAULT_LIMIT
    ) -> str:
        return _told(tool_answers.search(_memory(whose, runtime)[0], query, category, limit))

    async def searched(
        query: _Query, runtime: _Runtime = _OUTSIDE, category: _Only = None, limit: _Limit = tool_answers.DEFAULT_LIMIT
    ) -> str:
        return await asyncio.to_thread(memory_search, query, runtime, category, limit)

    return _tool(memory_search, searched, tool_answers.SEARCH)


def _add(whose: Whose) -> BaseTool:
    def memory_add(
        content: _Content,
        runtime: _Runtime = _OUTSIDE,
        category: _Category = DEFAULT_CATEGORY,
        confidence: _Confidence = DEFAULT_CONFIDENCE,
    ) -> str:
        memory, run = _memory(whose, runtime)
        return _told(tool_answers.add(memory, content, category, confidence, run.thread_id))

    async def added(
        content: _Content,
        runtime: _Runtime = _OUTSIDE,
        category: _Category = DEFAULT_CATEGORY,
        confidence: _Confidence = DEFAULT_CONFIDENCE,
    ) -> str:
        return await asyncio.to_thread(memory_add, content, runtime, category, confidence)

    return _tool(memory_add, added, tool_answers.ADD)


def _update(whose: Whose) -> BaseTool:
    def memory_update(
        fact_id: _Id,
        runtime: _Runtime = _OUTSIDE,
        content: _NewContent = None,
        category: _NewCategory = None,
        confidence: _NewConfidence = None,
    ) -> str:
        return _told(tool_answers.update(_memory(whose, runtime)[0], fact_id, content, category, confidence))

    async def updated(
        fact_id: _Id,
        runtime: _Runtime = _OUTSIDE,
        content: _NewContent = None,
        category: _NewCategory = None,
        confidence: _NewConfidence = None,
    ) -> str:
        return await asyncio.to_thread(memory_update, fact_id, runtime, content, category, confidence)

    return _tool(memory_update, updated, tool_answers.UPDATE)


def _delete(whose: Whose) -> BaseTool:
    def memory_delete(fact_id: _Id, runtime: _Runtime = _OUTSIDE) -> str:
        return _told(tool_answers.delete(_memory(whose, runtime)[0], fact_id))

    async def deleted(fact_id: _Id, runtime: _Runtime = _OUTSIDE) -> str:
        return await asyncio.to_thread(memory_delete, fact_id, runtime)

    return _tool(memory_delete, deleted, tool_answers.DELETE)


def _tool(function: Any, coroutine: Any, description: str) -> BaseTool:
    return StructuredTool.from_function(
        function,
        coroutine,
        name=function.__name__,
        description=description,
        handle_tool_error=True,
        handle_validation_error=_refused,
    )


def _told(answer: tool_answers.Answer) -> str:
    """The text. LangChain makes of the exception a message with the same text and the status "error"."""
    if answer.refused:
        raise ToolException(answer.text)
    return answer.text


def _refused(problem: ValueError) -> str:
    faults = problem.errors(include_url=False) if isinstance(problem, ValidationError) else ()
    told = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults]
    return tool_answers.error("; ".join(told) or "these arguments can't be used").text
