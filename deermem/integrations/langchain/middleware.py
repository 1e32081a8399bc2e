"""`DeerMemMiddleware`: an agent that knows its user from one conversation to the next."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, get_args

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.messages import AnyMessage
from langgraph.runtime import Runtime

from deermem.engine import DeerMem
from deermem.errors import InvalidInput
from deermem.integrations.langchain.dropping import CaptureDropped
from deermem.integrations.langchain.recall import RecallMode, recalled, with_last_block
from deermem.integrations.langchain.scope import AGENT_NAME, USER_ID, Named, Run, Whose, run_of
from deermem.integrations.langchain.tools import memory_tools
from deermem.memory import Memory

_log: Final = logging.getLogger("deermem")


class DeerMemMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Puts what is remembered of the user before each model call, and has each run's conversation remembered.

    `user_id` and `agent_name` say whose memory a run uses: by default what its context, else its
    `config["configurable"]`, has under these names. A function of the `Run` reads them from elsewhere, and text or
    None is the same one for all runs. A run without a user raises InvalidInput before the model is asked.

    `recall` "context" shows the model `memory.context()`, "search" the facts that the person's last message finds, at
    most `top_k`, None nothing. `capture` hands the conversation to extraction when a run ends. `tools` gives the model
    the four memory tools. Left out, the engine's setting `mode` decides: "middleware" captures, "tool" gives tools.

    What is shown is the last block of the system message of that one call: it is read from the files each time, and
    stands in no state and no checkpoint. A memory that can't be read or written is logged, and the agent goes on.
    """

    def __init__(  # noqa: PLR0913 - all but one are keyword-only
        self,
        engine: DeerMem,
        *,
        user_id: Named = USER_ID,
        agent_name: Named = AGENT_NAME,
        recall: RecallMode | None = "context",
        top_k: int = 10,
        capture: bool | None = None,
        tools: bool | None = None,
    ) -> None:
        super().__init__()
        by_tools = engine.settings.mode == "tool"
        _check(recall, top_k, by_tools)
        self._engine = engine
        self._whose = Whose(engine, user_id, agent_name)
        self._recall = recall
        self._top_k = top_k
        self._captures = not by_tools if capture is None else capture
        gives_tools = by_tools if tools is None else tools
        self.tools = memory_tools(engine, user_id=user_id, agent_name=agent_name) if gives_tools else []

    def before_dropping(self, other: AgentMiddleware[Any, Any, Any]) -> CaptureDropped:
        """The other middleware, such as LangChain's `SummarizationMiddleware`, to be used in its place.

        What it takes out of the conversation is extracted at once, before nobody has it any more. Raises InvalidInput
        for one that does more than its `before_model`.
        """
        return CaptureDropped(other, self._capture_dropped)

    # --- hooks

    def before_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:  # noqa: ARG002 - the hook's shape
        """Refuses a run that says no user, before anything is paid for."""
        self._whose.memory(run_of(runtime))

    async def abefore_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """As `before_agent`; touches no disk."""
        self.before_agent(state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Shows the model the memory as the files are now."""
        return handler(self._with_memory(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """As `wrap_model_call`; the files are read in a thread."""
        return await handler(await asyncio.to_thread(self._with_memory, request))

    def after_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Hands the conversation to extraction; that waits for more of it, and goes on without this process."""
        run = run_of(runtime)
        if self._captures:
            self._capture(run, state["messages"], state["messages"], urgent=False)

    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """As `after_agent`; the disk is written in a thread."""
        await asyncio.to_thread(self.after_agent, state, runtime)

    # --- the memory, beside the agent

    def _with_memory(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        if self._recall is None:
            return request
        text = self._recalled(self._whose.memory(run_of(request.runtime)), request.messages)
        return request.override(system_message=with_last_block(request.system_message, text)) if text else request

    def _recalled(self, memory: Memory, messages: Sequence[AnyMessage]) -> str:
        if self._recall is None:
            return ""
        try:
            return recalled(self._engine, memory, messages, self._recall, self._top_k)
        except Exception:  # noqa: BLE001 - whatever is wrong with the memory, the person still gets an answer
            _log.warning("the memory could not be read, and the agent goes on without it", exc_info=True)
            return ""

    def _capture_dropped(self, run: Run, messages: Sequence[AnyMessage], dropped: Sequence[AnyMessage]) -> None:
        self._capture(run, messages, dropped, urgent=True)

    def _capture(self, run: Run, messages: Sequence[AnyMessage], taken: Sequence[AnyMessage], *, urgent: bool) -> None:
        """`messages` are all of the conversation, which name it where the run has no thread."""
        memory = self._whose.memory(run)
        thread = run.thread_id or _first_id(messages)
        if thread is None:
            return
        try:
            (memory.capture_now if urgent else memory.capture)(taken, thread)
        except Exception:  # noqa: BLE001 - the answer is there already, and must not be lost with the memory of it
            _log.warning("the conversation could not be captured, and the agent goes on", exc_info=True)


def _first_id(messages: Sequence[AnyMessage]) -> str | None:
    """The id of the first message: the same for as long as the host hands the same conversation in."""
    return next((message.id for message in messages if message.id), None)


def _check(recall: object, top_k: object, by_tools: bool) -> None:
    if recall is not None and recall not in get_args(RecallMode):
        raise InvalidInput(f"recall is {recall!r:.40}", hint='give "context", "search" or None')
    if recall == "search" and by_tools:
        hint = 'give recall="context", or open the engine with Settings(mode="middleware")'
        raise InvalidInput('recall is "search", and mode "tool" shows no facts in the prompt', hint=hint)
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
        raise InvalidInput(f"top_k is {top_k!r:.40}", hint="give a whole number, 1 or more")
