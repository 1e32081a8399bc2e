"""A middleware that shortens conversations, and the memory that learns from what it takes out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.runtime import Runtime

from deermem.errors import InvalidInput
from deermem.integrations.langchain.scope import Run, run_of

Captured = Callable[[Run, Sequence[AnyMessage], Sequence[AnyMessage]], None]
"""Called with the run, its conversation, and the messages of it that are about to go."""

_OTHER_HOOKS: Final = tuple(
    f"{a}{hook}"
    for a in ("", "a")
    for hook in ("before_agent", "after_model", "after_agent", "wrap_model_call", "wrap_tool_call")
)


class CaptureDropped(AgentMiddleware[Any, Any, Any]):
    """Another middleware under its own name, whose `before_model` may take messages out of the conversation.

    `DeerMemMiddleware.before_dropping` makes one.
    """

    def __init__(self, other: AgentMiddleware[Any, Any, Any], captured: Captured) -> None:
        super().__init__()
        unused = [hook for hook in _OTHER_HOOKS if _has(other, hook)]
        if unused or not _has(other, "before_model"):
            hint = "give one that shortens the conversation in before_model, as SummarizationMiddleware does"
            found = f"has {', '.join(unused)}" if unused else "has no before_model"
            raise InvalidInput(f"the middleware {other.name} {found}", hint=hint)
        self._other = other
        self._captured = captured
        self.state_schema = other.state_schema
        self.tools = list(other.tools) if hasattr(other, "tools") else []

    @property
    def name(self) -> str:
        """The name of the other one, so that two of a kind are noticed as ever."""
        return self._other.name

    def before_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """What the other one does; what it drops is captured first."""
        update = self._other.before_model(state, runtime)
        self._capture(state["messages"], update, run_of(runtime))
        return update

    async def abefore_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """As `before_model`; the disk is written in a thread."""
        if _has(self._other, "abefore_model"):
            update = await self._other.abefore_model(state, runtime)
        else:
            update = await asyncio.to_thread(self._other.before_model, state, runtime)
        await asyncio.to_thread(self._capture, state["messages"], update, run_of(runtime))
        return update

    def _capture(self, messages: Sequence[AnyMessage], update: Mapping[str, Any] | None, run: Run) -> None:
        gone = _dropped(messages, (update or {}).get("messages") or [])
        if gone:
            self._captured(run, messages, gone)


def _has(middleware: AgentMiddleware[Any, Any, Any], hook: str) -> bool:
    return getattr(type(middleware), hook) is not getattr(AgentMiddleware, hook)


def _dropped(messages: Sequence[AnyMessage], changes: object) -> list[AnyMessage]:
    """The messages that are not there any more once the changes were applied, as LangGraph applies them."""
    changed = changes if isinstance(changes, list) else [changes]
    gone = {change.id for change in changed if isinstance(change, RemoveMessage)}
    if REMOVE_ALL_MESSAGES in gone:
        added = (change for change in changed if isinstance(change, BaseMessage))
        kept = {change.id for change in added} - gone
        return [message for message in messages if message.id not in kept]
    return [message for message in messages if message.id in gone]
