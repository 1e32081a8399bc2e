"""What a host is told of extraction, and what it may decide. A hook of its own that fails costs no memory."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from deermem.extract.messages import KeepHidden
from deermem.extract.models import Messages, ModelCall

_log = logging.getLogger("deermem")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallInfo:
    """One call of a model and whose memory it is for.

    What a hook puts into `config` goes to the model's `invoke(messages, config=…)`. `trace_id` None: the host gave
    none. `messages` and `model`, its name, are filled in by `called`.
    """

    user_id: str | None = None
    agent: str = ""
    thread_id: str = ""
    trace_id: str | None = None
    model: str = ""
    messages: Messages = field(default_factory=list, repr=False)
    config: dict[str, object] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """How a call ended: with an `answer`, or with an `error`; `seconds` is how long it took."""

    call: CallInfo
    seconds: float
    answer: object = field(default=None, repr=False)
    error: BaseException | None = None

    @property
    def ok(self) -> bool:
        """Whether the model answered."""
        return self.error is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """A host's functions, all optional. They are called in the thread that extracts, with no lock held.

    - `should_keep_hidden_message(additional_kwargs)`: whether a message that the host hides is a person's own word.
    - `on_model_call(CallInfo)` before a model is asked, `after_model_call(CallOutcome)` after it answered or failed.
    - `on_extracted(metrics)`: what became of an answer.
    - `trace_context(trace_id)`: a context manager that is entered for an update whose host gave a trace id.

    Where one fails, that is logged and the update goes on; SystemExit and KeyboardInterrupt end it.
    """

    should_keep_hidden_message: KeepHidden | None = None
    on_model_call: Callable[[CallInfo], object] | None = None
    after_model_call: Callable[[CallOutcome], object] | None = None
    on_extracted: Callable[[Any], object] | None = None
    trace_context: Callable[[str], AbstractContextManager[object]] | None = None

    def keep_hidden(self) -> KeepHidden | None:
        """The host's word on hidden messages; None where it has none. Where it fails, the message stays hidden."""
        asked = self.should_keep_hidden_message
        if asked is None:
            return None
        return lambda extra: bool(_told("should_keep_hidden_message", asked, extra))

    def extracted(self, metrics: object) -> None:
        """Tells the host what became of an answer."""
        if self.on_extracted is not None:
            _told("on_extracted", self.on_extracted, metrics)

    @contextmanager
    def tracing(self, trace_id: str | None) -> Iterator[None]:
        """Binds the host's trace id for a block and restores what was bound before; does nothing without an id."""
        context = None
        if trace_id is not None and self.trace_context is not None:
            context = _told("trace_context", _entered, self.trace_context, trace_id)
        try:
            yield
        finally:
            # Its verdict doesn't count: a context manager of the host must not hide that an update failed.
            if isinstance(context, AbstractContextManager):
                _told("trace_context", context.__exit__, *sys.exc_info())


def called(model: ModelCall, messages: Messages, info: CallInfo, hooks: Hooks) -> object:
    """The model's answer as it gave it, with the host's hooks around the call and its trace id bound.

    Raises what the model raises, after `after_model_call` was told.
    """
    call = replace(info, messages=messages, model=model.name, config=dict(info.config))
    with hooks.tracing(info.trace_id):
        if hooks.on_model_call is not None:
            _told("on_model_call", hooks.on_model_call, call)
        started = time.perf_counter()
        try:
            answer = model(messages, call.config)
        except BaseException as error:
            _after(hooks, CallOutcome(call=call, seconds=time.perf_counter() - started, error=error))
            raise
        _after(hooks, CallOutcome(call=call, seconds=time.perf_counter() - started, answer=answer))
        return answer


def _after(hooks: Hooks, outcome: CallOutcome) -> None:
    if hooks.after_model_call is not None:
        _told("after_model_call", hooks.after_model_call, outcome)


def _entered(factory: Callable[[str], AbstractContextManager[object]], trace_id: str) -> object:
    context = factory(trace_id)
    context.__enter__()
    return context


def _told(name: str, hook: Callable[..., object], *given: object) -> object:
    """What the hook gives back; None where it failed."""
    try:
        return hook(*given)
    except Exception:  # noqa: BLE001 - code of others, beside the update; what it raises concerns the host alone
        _log.warning("the hook %s failed and is passed over", name, exc_info=True)
        return None
