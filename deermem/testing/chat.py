"""A LangChain chat model that follows a script. None of LangChain's own fakes takes tools and streams."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr

from deermem.errors import InvalidInput
from deermem.testing.scripted import is_exception, is_function, resolved

Plain: TypeAlias = str | AIMessage | Sequence[AIMessage] | Exception
Said: TypeAlias = Plain | Callable[[Sequence[BaseMessage]], Plain]
_numbers: Final = itertools.count(1)


class ScriptedChatModel(BaseChatModel):
    """What `scripted_chat_model` makes. `script` is what is left to say."""

    script: list[Any] = Field(default_factory=list)
    prompts: list[list[BaseMessage]] = Field(default_factory=list)
    tools: list[str] = Field(default_factory=list)
    _beyond: int = PrivateAttr(default=0)
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any) -> ScriptedChatModel:  # noqa: ARG002 - LangChain's signature
        """Itself: what it says stands in the script. The names of the tools are kept."""
        self.tools = [_name(tool) for tool in tools]
        return self

    def add(self, *script: Said) -> None:
        """More to say, after what is left. Raises InvalidInput for what can't be said, and adds nothing then."""
        checked = [checked_item(item) for item in script]
        with self._lock:
            self.script += checked

    def assert_done(self) -> None:
        """Raises AssertionError where something is left to say, or where it was asked more often than that."""
        with self._lock:
            left, beyond = len(self.script), self._beyond
        if left or beyond:
            said = f"{left} items of the script are left" if left else f"{beyond} calls came after the last item"
            raise AssertionError(f"{said}; the model was asked {len(self.prompts)} times")

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - LangChain's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - LangChain's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in _in_words(self._next(messages)):
            yield ChatGenerationChunk(message=chunk)

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        with self._lock:
            self.prompts.append(list(messages))
            if not self.script:
                self._beyond += 1
                raise AssertionError(f"the script has nothing to say to call {len(self.prompts)}")
            item = self.script.pop(0)
        return _message(resolved(item, messages))


def checked_item(item: object) -> object:
    """The item itself; raises InvalidInput for what can't be said."""
    if not (is_exception(item) or is_function(item)):
        _message(item)
    return item


def _in_words(message: AIMessage) -> Iterator[AIMessageChunk]:
    """A text word by word, as models stream it; the calls and all else that the message has come with the last word."""
    rest = message.model_dump(exclude={"type", "content", "chunk_position"})
    text = message.content
    *words, last = re.findall(r"\S+\s*|\s+", text) or [""] if isinstance(text, str) else [text]
    for word in words:
        yield AIMessageChunk(content=word, id=message.id)
    yield AIMessageChunk(content=last, chunk_position="last", **rest)


def _name(tool: Any) -> str:
    """A tool's name; that of a provider's own, such as a web search, is its type."""
    known = convert_to_openai_tool(tool)
    named = known.get("function", known)
    return str(named.get("name") or named.get("type"))


def _message(said: object) -> AIMessage:
    if isinstance(said, AIMessage):
        # LangChain writes an id into it: said a second time, it would take the place of the first.
        return said.model_copy()
    if isinstance(said, str):
        return AIMessage(said)
    if isinstance(said, list | tuple) and said and all(isinstance(call, AIMessage) for call in said):
        return AIMessage("", tool_calls=[call for message in said for call in message.tool_calls])
    hint = "give text, a message, a list of tool calls, an exception, or a function of the messages"
    raise InvalidInput(f"an item of the script is {said!r:.60}", hint=hint)


def calling(tool: str, arguments: dict[str, Any]) -> AIMessage:
    """A message that calls a tool, with an id of its own."""
    return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": f"call-{next(_numbers)}"}])
