"""Agents of LangChain with a scripted model, over an engine whose clock stands still."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deermem import DeerMem, Settings
from deermem.testing import ScriptedModel, scripted_chat_model

PROMPT = "You help with travel plans."


@pytest.fixture
def extractor() -> ScriptedModel:
    """The model that reads conversations; a test adds its answers."""
    return ScriptedModel()


@pytest.fixture
def engine(root: Path, clock: Any, extractor: ScriptedModel) -> Iterator[DeerMem]:
    with DeerMem(root, Settings(close_timeout_seconds=0), extractor, clock=clock) as opened:
        yield opened


@pytest.fixture
def make_agent(engine: DeerMem) -> Callable[..., tuple[Any, Any]]:
    """Makes an agent with memory, and the model that it asks: `make_agent("said first", tools=True)`."""
    pytest.importorskip("langchain")
    from langchain.agents import create_agent
    from langgraph.checkpoint.memory import InMemorySaver

    from deermem.integrations.langchain import DeerMemMiddleware

    def make(*script: Any, before: Any = (), saver: Any = None, **options: Any) -> tuple[Any, Any]:
        model = scripted_chat_model(*script)
        memory = DeerMemMiddleware(engine, **options)
        others = before(memory) if callable(before) else before
        agent = create_agent(
            model, system_prompt=PROMPT, middleware=[*others, memory], checkpointer=saver or InMemorySaver()
        )
        return agent, model

    return make


@pytest.fixture
def say() -> Callable[..., Any]:
    """One turn: `say(agent, "I like tea", user="alice", thread="t1")`; gives the answer's text."""

    def say(agent: Any, text: str, *, user: object = "alice", thread: str = "t1", **configurable: Any) -> str:
        config = {"configurable": {"thread_id": thread, **configurable}}
        state = agent.invoke({"messages": [("user", text)]}, config, context={"user_id": user})
        return state["messages"][-1].text

    return say


@pytest.fixture
def shown() -> Callable[[Any], str]:
    """The text of the last block of the system message that the model was shown in a call, the last by default."""

    def shown(model: Any, call: int = -1) -> str:
        content = model.prompts[call][0].content
        return content if isinstance(content, str) else content[-1]["text"]

    return shown
