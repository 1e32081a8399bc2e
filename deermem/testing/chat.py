"""A LangChain chat model that follows a script. None of LangChain's own fakes takes tools and streams."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr

from deermem.testing.scripted import resolved

Plain: TypeAlias = str | AIMessage | Sequence[AIMessage] | Exception
Said: TypeAlias = Plain | Callable[[Sequence[BaseMessage]], Plain]
_numbers: Final = itertools.count(1)


class ScriptedChatModel(BaseChatModel):
    """What `scripted_chat_model` makes. `script` is what is left to say."""

    script: list[Any] = Field(default_factory=list)
    prompts: list[list[BaseMessage]] = Field(default_factory=list)
    tools: list[str] = Field(default_factory=list)
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any) -> ScriptedChatModel:  # noqa: ARG002 - LangChain's signature
        """Itself: what it says stands in the script. The names of the tools are kept."""
        self.tools = [convert_to_openai_tool(tool)["function"]["name"] for tool in tools]
        return self

    def assert_done(self) -> None:
        """Raises AssertionError where something is left to say."""
        if self.script:
            raise AssertionError(f"{len(self.script)} items of the script are left, after {len(self.prompts)} calls")

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - LangChain's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResult:
        with self._lock:
            self.prompts.append(list(messages))
            if not self.script:
                raise AssertionError(f"the script has nothing to say to call {len(self.prompts)}")
            item = self.script.pop(0)
        return ChatResult(generations=[ChatGeneration(message=_message(resolved(item, messages)))])


def _message(said: object) -> AIMessage:
    if isinstance(said, AIMessage):
        return said
    if isinstance(said, str):
        return AIMessage(said)
    if isinstance(said, list | tuple) and said and all(isinstance(call, AIMessage) for call in said):
        return AIMessage("", tool_calls=[call for message in said for call in message.tool_calls])
    raise TypeError(
        f"an item of the script is {said!r:.60}; give text, a message, a list of tool calls, or an exception"
    )


def calling(tool: str, arguments: dict[str, Any]) -> AIMessage:
    """A message that calls a tool, with an id of its own."""
    return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": f"call-{next(_numbers)}"}])
