"""`DeerMemMiddleware`: an agent that knows its user from one conversation to the next."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, get_args

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.messages import AnyMessage
from langgraph.runtime import Runtime

from deermem.engine import DeerMem
from deermem.errors import InvalidInput
from deermem.integrations.langchain.conversation import (
    Conversations,
    answering_tools,
    split_at_last_answer,
    with_an_answer,
    with_answers,
)
from deermem.integrations.langchain.dropping import CaptureDropped, capture_dropped
from deermem.integrations.langchain.recall import RecallMode, labelled, recalled, with_last_block
from deermem.integrations.langchain.scope import (
    AGENT_NAME,
    USER_ID,
    Named,
    Run,
    Whose,
    as_text,
    called_by_a_tool,
    run_of,
)
from deermem.integrations.langchain.tools import memory_tools
from deermem.memory import Memory

_log: Final = logging.getLogger("deermem")
# LangGraph keeps : and | for itself, and the model reads the name between angle brackets.
_NAME: Final = re.compile(r"[\w.-]+( [\w.-]+)*")
_NAME_HINT: Final = "give letters, digits, . _ - and single spaces between them"


class DeerMemMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Puts what is remembered of the user before each model call, and has each run's conversation remembered.

    `user_id` and `agent_name` say whose memory a run uses: by default what its context, else its
    `config["configurable"]`, has under these names. A function of the `Run` reads them from elsewhere, and text or
    None is the same one for all runs. A run without a user raises InvalidInput before the model is asked.

    `recall` "context" shows the model `memory.context()`, "search" the facts that the person's last message finds, at
    most `top_k`, None nothing. `capture` hands the conversation to extraction when a run ends. `tools` gives the model
    the four memory tools. Left out, the engine's setting `mode` decides: "middleware" captures, "tool" gives tools.
    An agent that another one calls as a tool is spoken to by a model, so it captures only where `capture` is True.

    Two memories in one agent need two names: LangChain refuses a second middleware of the same `name`, which is that
    of the class unless it is given. The model reads a given name before what is remembered there.

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
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._engine = engine
        self._whose = Whose(engine, user_id, agent_name)
        by_tools = engine.settings.mode == "tool"
        _check(recall, top_k, by_tools)
        for option, value in (("capture", capture), ("tools", tools)):
            if not isinstance(value, bool | None):
                raise InvalidInput(f"{option} is {value!r:.40}", hint="give True, False or None")
        if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name)):
            raise InvalidInput(f"name is {name!r:.80}", hint=_NAME_HINT)
        self._name = name
        self._recall = recall
        self._top_k = top_k
        self._captures = not by_tools if capture is None else capture
        self._captures_models = capture is True
        self._answering: set[str] = set()
        self._conversations = Conversations()
        gives_tools = by_tools if tools is None else tools
        self.tools = memory_tools(engine, user_id=user_id, agent_name=agent_name) if gives_tools else []

    @property
    def name(self) -> str:
        """What LangChain calls it, in errors and in the names of its nodes."""
        return super().name if self._name is None else self._name

    def before_dropping(self, other: AgentMiddleware[Any, Any, Any]) -> CaptureDropped:
        """The other middleware, such as LangChain's `SummarizationMiddleware`, to be used in its place.

        What it takes out of the conversation is extracted at once, before nobody has it any more; what `capture`
        handed in when it was answered is not extracted again. Asked for by name, it extracts also where `capture` is
        False. Raises InvalidInput for one that does more than its `before_model`.
        """
        return capture_dropped(other, self._capture_dropped)

    # --- hooks

    def before_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:  # noqa: ARG002 - the hook's shape
        """Refuses a run that says no user, or no usable thread, before anything is paid for."""
        run = run_of(runtime)
        self._whose.memory(run)
        as_text(run.configurable.get("thread_id"), "thread_id")

    async def abefore_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """As `before_agent`; touches no disk."""
        self.before_agent(state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Shows the model the memory as the files are now."""
        response = handler(self._with_memory(request))
        self._answering |= answering_tools(response)
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """As `wrap_model_call`; the files are read in a thread."""
        response = await handler(await asyncio.to_thread(self._with_memory, request))
        self._answering |= answering_tools(response)
        return response

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
            block = recalled(self._engine, memory, messages, self._recall, self._top_k)
        except Exception:  # noqa: BLE001 - whatever is wrong with the memory, the person still gets an answer
            _log.warning("the memory could not be read, and the agent goes on without it", exc_info=True)
            return ""
        return labelled(block, self._name)

    def _capture_dropped(self, run: Run, messages: Sequence[AnyMessage], dropped: Sequence[AnyMessage]) -> None:
        lost = dropped
        if self._captures:
            answered, rest = split_at_last_answer(with_answers(messages, self._answering))
            # Extracted again, it would bring back a fact that somebody deleted meanwhile.
            if self._capture(run, messages, answered, urgent=False):
                gone = {message.id for message in dropped}
                lost = [message for message in rest if message.id in gone]
        self._capture(run, messages, lost, urgent=True)
        self._conversations.drop(messages, dropped)

    def _capture(self, run: Run, messages: Sequence[AnyMessage], taken: Sequence[AnyMessage], *, urgent: bool) -> bool:
        """Whether nothing of it is lost. `messages` are all of the conversation; they name it without a thread."""
        memory = self._whose.memory(run)
        by_a_tool = called_by_a_tool(run)
        own = self._conversations.name(messages)
        # A called agent has the thread of the one that calls it, and each would be extracted after the other anew.
        thread = f"{run.thread_id}:{own}" if run.thread_id and by_a_tool else run.thread_id or own
        if thread is None or (by_a_tool and not self._captures_models):
            return True
        try:
            told = with_answers(taken, self._answering)
            if urgent:
                memory.capture_now(with_an_answer(told), thread)
            else:
                memory.capture(told, thread)
        except Exception:  # noqa: BLE001 - the answer is there already, and must not be lost with the memory of it
            _log.warning("the conversation could not be captured, and the agent goes on", exc_info=True)
            return False
        return True


def _check(recall: object, top_k: object, by_tools: bool) -> None:
    if recall is not None and recall not in get_args(RecallMode):
        raise InvalidInput(f"recall is {recall!r:.40}", hint='give "context", "search" or None')
    if recall == "search" and by_tools:
        hint = 'give recall="context", or open the engine with Settings(mode="middleware")'
        raise InvalidInput('recall is "search", and mode "tool" shows no facts in the prompt', hint=hint)
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
        raise InvalidInput(f"top_k is {top_k!r:.40}", hint="give a whole number, 1 or more")
