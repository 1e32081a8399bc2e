"""The port to a language model, and the model that the settings name."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from deermem.config import ModelSettings
from deermem.errors import InvalidInput
from deermem.extract.shapes import encodable, read_message

Messages: TypeAlias = list[dict[str, str]]
"""`{"role", "content"}` each; role is system or user."""

_FORMS = 'give a function of a list of messages, an object with invoke(messages), or a name such as "openai:gpt-5-mini"'


@runtime_checkable
class Model(Protocol):
    """What LangChain's chat models are. `config` is passed only where a hook put something into it."""

    def invoke(self, messages: Messages, /, **config: object) -> object:
        """Text, or a message with `content`, which is text or a list of blocks."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A model that can be asked; `as_model` makes one. `name` is for hooks and logs."""

    name: str
    _ask: Callable[[Messages, Mapping[str, object]], object] = field(repr=False)

    def __call__(self, messages: Messages, config: Mapping[str, object] | None = None) -> object:
        """The model's answer as it gave it. What the model raises is raised; TimeoutError where its call was cancelled.

        A model that answers with an awaitable is run to its end in an event loop of its own, a new one each time.
        `config` goes to an object's `invoke(messages, config=…)`; a function gets messages alone.
        """
        try:
            answer = self._ask(messages, config or {})
            return _outcome(answer) if isinstance(answer, Awaitable) else answer
        except BaseException as error:
            # It is no Exception: it would end the thread, and the conversation would be tried for ever.
            if _is_cancelled(error):
                raise TimeoutError("the model's call was cancelled") from error
            raise


def as_model(model: object) -> ModelCall:
    """A model to be asked, from an object with `invoke`, a function, or what `settings.model` may be.

    What settings name is built at the first call, so an engine opens without the `llm` extra.
    Raises InvalidInput for anything else.
    """
    if isinstance(model, ModelCall):
        return model
    if isinstance(model, ModelSettings | str | Mapping):
        settings = ModelSettings.of(model)
        if settings is None:
            raise InvalidInput("the model has no name", hint=_FORMS)
        return ModelCall(settings.label, _Built(settings))
    if isinstance(model, type):
        raise InvalidInput(f"the model is the class {model.__name__}", hint="give an instance")
    if isinstance(model, Model) and callable(model.invoke):
        return ModelCall(_name_of(model), _Invoked(model))
    if callable(model):
        return ModelCall(_name_of(model), _Called(model))
    raise InvalidInput(f"the model is {type(model).__name__}", hint=_FORMS)


def answer_text(answer: object) -> str:
    """The text of a model's answer, to be kept and to be read.

    Adjacent string chunks are joined as they are, text blocks by line breaks; thinking is left out. A mapping without
    `content`, or one that is no block in its place, is the answer itself, as models with structured output give it,
    and becomes JSON.
    Raises InvalidInput for what is no answer.
    """
    if isinstance(answer, str):
        return encodable(answer)
    if isinstance(answer, Mapping) and "content" not in answer:
        return encodable(_as_json(answer))
    content = answer if isinstance(answer, list | tuple) else _content(answer)
    if isinstance(content, Mapping) and not {"type", "text"} & content.keys():
        return encodable(_as_json(content))
    return read_message(("assistant", content), "the model's answer").text


@dataclass(frozen=True, slots=True)
class _Invoked:
    model: Model

    def __call__(self, messages: Messages, config: Mapping[str, object]) -> object:
        return self.model.invoke(messages, config=dict(config)) if config else self.model.invoke(messages)


@dataclass(frozen=True, slots=True)
class _Called:
    model: Callable[[Messages], object]

    def __call__(self, messages: Messages, config: Mapping[str, object]) -> object:  # noqa: ARG002 - the port's shape
        return self.model(messages)


@dataclass(slots=True)
class _Built:
    """The model that settings name, built once for all threads; what failed is tried again at the next call."""

    settings: ModelSettings
    _model: _Invoked | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __call__(self, messages: Messages, config: Mapping[str, object]) -> object:
        with self._lock:
            if self._model is None:
                self._model = _Invoked(_build(self.settings))
        return self._model(messages, config)


def _build(settings: ModelSettings) -> Model:
    try:
        from langchain.chat_models import init_chat_model
    except ImportError:
        hint = "pip install 'deermem[llm]', or hand over a model of your own"
        raise InvalidInput(f"setting model is {settings.label}, and langchain is not installed", hint=hint) from None
    where = f"setting model: {settings.label}"
    try:
        model = init_chat_model(settings.model, model_provider=settings.chosen_provider, **settings.options())
    except ImportError as error:
        # LangChain names the package to be installed.
        raise InvalidInput(f"{where} can't be loaded: {_without_key(error, settings)}", hint="install it") from None
    except (ValueError, TypeError) as error:
        # A validation error shows its input, and with it parts of the key; so only those of LangChain itself speak.
        told = f": {_without_key(error, settings)}" if type(error) in (ValueError, TypeError) else ""
        hint = "look at provider, model, api_key, base_url and temperature"
        raise InvalidInput(f"{where} can't be built ({type(error).__name__}){told}", hint=hint) from None
    if not isinstance(model, Model):
        raise InvalidInput(f"{where} is {type(model).__name__}, which can't be asked", hint="name a chat model")
    return model


def _without_key(error: Exception, settings: ModelSettings) -> str:
    text = " ".join(str(error).split())
    return re.sub(re.escape(settings.api_key), "***", text) if settings.api_key else text


def _is_cancelled(error: BaseException) -> bool:
    loaded = sys.modules.get("asyncio")
    return loaded is not None and isinstance(error, loaded.CancelledError)


def _outcome(answer: Awaitable[object]) -> object:
    """What an awaitable comes to, in an event loop of this call alone."""
    import asyncio

    async def awaited() -> object:
        return await answer

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(awaited())
    # Else Python would warn, much later and somewhere else, of a coroutine that nobody awaited.
    if isinstance(answer, _Closable):
        answer.close()
    raise InvalidInput("the model is async, and this thread runs an event loop", hint="ask it in a thread of its own")


@runtime_checkable
class _Closable(Protocol):
    def close(self) -> object: ...


def _name_of(model: object) -> str:
    """The model's own name as LangChain's classes give it, else a function's name or that of the class."""
    for name in ("model_name", "model", "__name__"):
        found = getattr(model, name, None)
        if isinstance(found, str) and found.strip():
            return found.strip()
    return type(model).__name__


def _content(answer: object) -> object:
    if isinstance(answer, Mapping):
        return answer["content"]
    if isinstance(answer, _WithContent):
        return answer.content
    hint = "it must give text, or a message with content"
    raise InvalidInput(f"the model answered with {type(answer).__name__}", hint=hint)


@runtime_checkable
class _WithContent(Protocol):
    content: object


def _as_json(answer: Mapping[object, object]) -> str:
    try:
        return json.dumps(dict(answer), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        hint = "it must give text, or a message with content"
        raise InvalidInput(f"the model answered with a mapping that is no JSON: {error}", hint=hint) from None
