"""What a host brings and is told: kinds of models, event loops, traces, hooks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import pytest
from builders_extraction import Scripted, contents, flushed, owns, states, talk

from deermem import DeerMem, ExtractionFailed, Hooks, Settings

TRACE: ContextVar[str] = ContextVar("trace", default="outer")


@pytest.fixture
def opened(root, clock) -> Iterator[Callable[..., DeerMem]]:
    """Makes engines with a model over one root; each is closed."""
    made: list[DeerMem] = []

    def make(model: object, hooks: Hooks | None = None) -> DeerMem:
        made.append(DeerMem(root, Settings(close_timeout_seconds=0), model, hooks=hooks, clock=clock))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


class Invoked:
    """A model as LangChain has them."""

    def __init__(self) -> None:
        self.configs: list[object] = []

    def invoke(self, messages: list[dict[str, str]], **config: object) -> object:
        self.configs.append(config)
        return {"role": "assistant", "content": [{"type": "text", "text": Scripted()(messages)}]}


async def later(messages: list[dict[str, str]]) -> object:
    """An async model."""
    await asyncio.sleep(0)
    return Scripted()(messages)


@pytest.mark.parametrize("model", [Scripted(), Invoked(), later], ids=["function", "invoke", "async"])
@pytest.mark.parametrize("within_a_loop", [False, True])
def test_any_kind_of_model_works_with_and_without_a_loop(opened, model, within_a_loop):
    """124: capture and extract called from a coroutine, too."""
    engine = opened(model)
    memory = engine.memory("alice", "coder")

    def both() -> None:
        assert memory.capture(talk(1), "t")
        assert memory.extract(talk(2), "t").stored
        flushed(engine)

    async def run() -> None:
        both()

    asyncio.run(run()) if within_a_loop else both()
    assert contents(memory) == [owns(1), owns(2)]


def test_what_a_model_raises_reaches_extract_and_never_capture(opened, root):
    """124: it waits, with an explanation for whoever asked directly."""

    def fails(number: int) -> None:
        raise ValueError("key rejected")

    engine = opened(Scripted(act=fails))
    memory = engine.memory("alice", "coder")
    assert memory.capture_now(talk(1), "t")
    assert not engine.flush(30)
    with pytest.raises(ExtractionFailed, match="key rejected") as caught:
        memory.extract(talk(1), "t")
    assert isinstance(caught.value.__cause__, ValueError)
    assert states(root) == ["urgent"]


@contextmanager
def bound(trace_id: str) -> Iterator[None]:
    token = TRACE.set(trace_id)
    try:
        yield
    finally:
        TRACE.reset(token)


def test_the_trace_is_bound_for_the_update_and_gone_afterwards(opened):
    """125: in the queue's thread as in the caller's; never invented."""
    seen: list[str] = []
    engine = opened(Scripted(act=lambda _: seen.append(TRACE.get())), hooks=Hooks(trace_context=bound))
    memory = engine.memory("alice", "coder")
    memory.extract(talk(1), "t", trace_id="tr-1")
    memory.extract(talk(2), "t")
    memory.capture(talk(3), "t", trace_id="tr-3")
    flushed(engine)
    memory.capture(talk(4), "t")
    flushed(engine)
    assert seen == ["tr-1", "outer", "tr-3", "outer"]
    assert TRACE.get() == "outer"


def failing(*_: object) -> object:
    raise RuntimeError("a host's fault")


def test_hooks_that_fail_cost_no_memory(opened, caplog):
    """126: also the one that is asked while messages are read; then what is hidden stays hidden."""
    hooks = Hooks(
        should_keep_hidden_message=failing, on_model_call=failing, after_model_call=failing,
        on_extracted=failing, trace_context=failing,
    )  # fmt: skip
    model = Scripted()
    memory = opened(model, hooks=hooks).memory("alice", "coder")
    hidden = {"role": "user", "content": "gadget-hidden", "additional_kwargs": {"hide_from_ui": True}}
    memory.extract([hidden, *talk(1)], "t", trace_id="x")
    assert contents(memory) == [owns(1)]
    assert model.names() == {"gadget-1", "reply-1"}
    assert caplog.text.count("failed and is passed over") >= 5


def test_a_host_hears_of_each_call_and_may_configure_it(opened):
    """126: with its duration, in success and failure."""
    outcomes: list[object] = []
    hooks = Hooks(on_model_call=lambda call: call.config.update(tags=["memory"]), after_model_call=outcomes.append)
    model = Invoked()
    memory = opened(model, hooks=hooks).memory("alice", "coder")
    memory.extract(talk(1), "t", trace_id="tr")
    assert model.configs == [{"config": {"tags": ["memory"]}}]
    (outcome,) = outcomes
    assert (outcome.ok, outcome.call.thread_id, outcome.call.trace_id) == (True, "t", "tr")
    assert outcome.seconds >= 0
