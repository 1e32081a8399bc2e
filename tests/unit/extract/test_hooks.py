"""A host's hooks: told before and after a call, never in the way of an update, the trace bound and restored."""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from deermem.extract.hooks import CallInfo, CallOutcome, Hooks, called
from deermem.extract.models import as_model

ASKED = [{"role": "user", "content": "secret words"}]
INFO = CallInfo(user_id="alice", agent="coder", thread_id="t1", trace_id="tr-1")
TRACE: contextvars.ContextVar[str] = contextvars.ContextVar("trace", default="outer")


@contextmanager
def bound(trace_id: str) -> Iterator[None]:
    token = TRACE.set(trace_id)
    try:
        yield
    finally:
        TRACE.reset(token)


class Recorder:
    """Hooks that remember what they were told, and what trace was bound then."""

    def __init__(self) -> None:
        self.before: list[CallInfo] = []
        self.after: list[CallOutcome] = []
        self.traces: list[str] = []

    def hooks(self) -> Hooks:
        return Hooks(on_model_call=self._before, after_model_call=self.after.append, trace_context=bound)

    def _before(self, info: CallInfo) -> None:
        self.traces.append(TRACE.get())
        self.before.append(info)


def failing(*given: object) -> object:
    raise ValueError("the host's own fault")


def stopping(*given: object) -> object:
    raise SystemExit(3)


def test_without_hooks_a_call_is_a_call():
    assert called(as_model(lambda messages: messages), ASKED, CallInfo(), Hooks()) is ASKED


def test_the_host_is_told_before_and_after_a_call():
    """126"""
    host = Recorder()
    assert called(as_model(lambda messages: "said"), ASKED, INFO, host.hooks()) == "said"
    assert [(info.user_id, info.thread_id, info.model, info.messages) for info in host.before] == [
        ("alice", "t1", "<lambda>", ASKED)
    ]
    (outcome,) = host.after
    assert (outcome.ok, outcome.answer, outcome.error, outcome.call) == (True, "said", None, host.before[0])
    assert outcome.seconds >= 0
    assert "secret" not in repr(outcome)
    assert INFO.messages == []


@pytest.mark.parametrize("error", [TimeoutError("slow"), SystemExit(2), KeyboardInterrupt()])
def test_the_host_is_told_of_a_failure_and_it_is_raised(error: BaseException):
    """126"""

    def model(messages: object) -> object:
        raise error

    host = Recorder()
    with pytest.raises(type(error)):
        called(as_model(model), ASKED, INFO, host.hooks())
    (outcome,) = host.after
    assert (outcome.ok, outcome.error, outcome.answer) == (False, error, None)
    assert outcome.seconds >= 0


def test_a_hook_that_fails_costs_nothing_but_a_log_line(caplog: pytest.LogCaptureFixture):
    """126"""
    hooks = Hooks(on_model_call=failing, after_model_call=failing, on_extracted=failing, trace_context=failing)
    with caplog.at_level(logging.WARNING, "deermem"):
        assert called(as_model(lambda messages: "said"), ASKED, INFO, hooks) == "said"
        hooks.extracted({"facts": 1})
    assert [record.getMessage().split()[2] for record in caplog.records] == [
        *("trace_context", "on_model_call", "after_model_call", "on_extracted")
    ]


def test_a_hook_that_fails_does_not_hide_the_models_failure():
    def model(messages: object) -> object:
        raise TimeoutError("slow")

    with pytest.raises(TimeoutError):
        called(as_model(model), ASKED, INFO, Hooks(after_model_call=failing))


@pytest.mark.parametrize("name", ["on_model_call", "after_model_call", "trace_context"])
def test_a_hook_may_end_the_program(name: str):
    """126"""
    with pytest.raises(SystemExit):
        called(as_model(lambda messages: "said"), ASKED, INFO, Hooks(**{name: stopping}))


def test_the_trace_is_bound_during_the_call_and_restored_after():
    """125"""
    host = Recorder()
    assert called(as_model(lambda messages: TRACE.get()), ASKED, INFO, host.hooks()) == "tr-1"
    assert (host.traces, TRACE.get()) == (["tr-1"], "outer")

    async def later(messages: object) -> str:
        return TRACE.get()

    assert called(as_model(later), ASKED, INFO, host.hooks()) == "tr-1"
    with pytest.raises(ZeroDivisionError):
        called(as_model(lambda messages: 1 // 0), ASKED, INFO, host.hooks())
    assert TRACE.get() == "outer"


def test_a_trace_is_never_invented():
    """125"""
    assert called(as_model(lambda messages: TRACE.get()), ASKED, CallInfo(), Hooks(trace_context=bound)) == "outer"
    with Hooks(trace_context=bound).tracing(None):
        assert TRACE.get() == "outer"
    with Hooks().tracing("tr-1"):
        assert TRACE.get() == "outer"


class Swallowing(AbstractContextManager[None]):
    """A context manager that says that every error is dealt with, or fails itself."""

    def __init__(self, trace_id: str) -> None:
        self.fails = trace_id == "fails"

    def __exit__(self, *given: object) -> bool:
        if self.fails:
            raise ValueError("the host's own fault")
        return True


@pytest.mark.parametrize("trace_id", ["swallows", "fails"])
def test_a_trace_context_cannot_hide_a_failure(trace_id: str):
    with pytest.raises(TimeoutError), Hooks(trace_context=Swallowing).tracing(trace_id):
        raise TimeoutError


def test_what_a_hook_puts_into_config_reaches_invoke_and_no_other_call():
    class Model:
        def invoke(self, messages: object, config: object = None) -> object:
            return config

    def tag(info: CallInfo) -> None:
        info.config["tags"] = [info.thread_id]

    info = CallInfo(thread_id="t1")
    assert called(as_model(Model()), ASKED, info, Hooks(on_model_call=tag)) == {"tags": ["t1"]}
    assert called(as_model(Model()), ASKED, info, Hooks()) is None
