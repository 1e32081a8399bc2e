"""A middleware that shortens conversations, and the memory that learns from what it takes out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.runtime import Runtime
from langgraph.types import Command, Overwrite

from deermem.errors import InvalidInput
from deermem.integrations.langchain.scope import Run, run_of

Captured = Callable[[Run, Sequence[AnyMessage], Sequence[AnyMessage]], None]
"""Called with the run, its conversation, and the messages of it that are about to go."""

_OTHER_HOOKS: Final = tuple(
    f"{a}{hook}"
    for a in ("", "a")
    for hook in ("before_agent", "after_model", "after_agent", "wrap_model_call", "wrap_tool_call")
)
_DECLARED: Final = ("state_schema", "tools", "trace_policy", "transformers")
"""What a middleware has beside its hooks, the last two in newer versions of LangChain alone."""
_JUMPS: Final = "__can_jump_to__"
"""Where LangChain keeps what `hook_config` says of a hook."""


class CaptureDropped(AgentMiddleware[Any, Any, Any]):
    """Another middleware under its own name, whose `before_model` may take messages out of the conversation.

    `capture_dropped` makes one.
    """

    def __init__(self, other: AgentMiddleware[Any, Any, Any], captured: Captured) -> None:
        super().__init__()
        self._other = other
        self._captured = captured
        self.tools = []
        for name in _DECLARED:
            if hasattr(other, name):
                setattr(self, name, getattr(other, name))

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

    def _capture(self, messages: Sequence[AnyMessage], update: object, run: Run) -> None:
        changed = update.update if isinstance(update, Command) else update
        gone = _dropped(messages, changed.get("messages") if isinstance(changed, Mapping) else None)
        if gone:
            self._captured(run, messages, gone)


def capture_dropped(other: AgentMiddleware[Any, Any, Any], captured: Captured) -> CaptureDropped:
    """The other one with its drops captured. Raises InvalidInput for one that does more than its `before_model`."""
    if not isinstance(other, AgentMiddleware):
        raise InvalidInput(f"the middleware is {other!r:.60}", hint="give an instance, as create_agent takes it")
    unused = [hook for hook in _OTHER_HOOKS if _has(other, hook)]
    if unused or not (_has(other, "before_model") or _has(other, "abefore_model")):
        hint = "give one that shortens the conversation in before_model, as SummarizationMiddleware does"
        found = f"has {', '.join(unused)}" if unused else "has no before_model"
        raise InvalidInput(f"the middleware {other.name} {found}", hint=hint)

    def before_model(self: CaptureDropped, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        return CaptureDropped.before_model(self, state, runtime)

    async def abefore_model(
        self: CaptureDropped, state: AgentState[Any], runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        return await CaptureDropped.abefore_model(self, state, runtime)

    # LangChain reads from the class where a hook may jump to, and whether it has a sync form; else a jump is ignored.
    hooks: dict[str, Any] = {"before_model": before_model, "abefore_model": abefore_model}
    for name, hook in hooks.items():
        hook_config(can_jump_to=getattr(getattr(type(other), name), _JUMPS, None))(hook)
    if not _has(other, "before_model"):
        hooks["before_model"] = AgentMiddleware.before_model
    made: CaptureDropped = type(CaptureDropped.__name__, (CaptureDropped,), hooks)(other, captured)
    return made


def _has(middleware: AgentMiddleware[Any, Any, Any], hook: str) -> bool:
    return getattr(type(middleware), hook) is not getattr(AgentMiddleware, hook)


def _dropped(messages: Sequence[AnyMessage], changes: object) -> list[AnyMessage]:
    """The messages that are not there any more once the changes were applied, as LangGraph applies them."""
    if isinstance(changes, Overwrite):
        return _dropped(messages, [RemoveMessage(REMOVE_ALL_MESSAGES), *changes.value])
    changed = changes if isinstance(changes, list) else [changes]
    gone = {change.id for change in changed if isinstance(change, RemoveMessage)}
    if REMOVE_ALL_MESSAGES in gone:
        added = (change for change in changed if isinstance(change, BaseMessage))
        kept = {change.id for change in added} - gone
        return [message for message in messages if message.id not in kept]
    return [message for message in messages if message.id in gone]
