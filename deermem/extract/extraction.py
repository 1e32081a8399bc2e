"""Extraction as an engine offers it: capturing conversations, and what becomes of them."""

from __future__ import annotations

import contextvars
import logging
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from deermem.clock import Clock
from deermem.config import Settings
from deermem.errors import ExtractionFailed, InvalidInput
from deermem.extract.acknowledgements import without_acknowledgements
from deermem.extract.hooks import Hooks
from deermem.extract.items import Item
from deermem.extract.messages import Turn, has_both_sides, read_turns
from deermem.extract.models import ModelCall, as_model
from deermem.extract.pipeline import Pipeline
from deermem.extract.queue import Queue, QueueRules
from deermem.extract.shapes import encodable
from deermem.extract.signals import load_patterns
from deermem.extract.templates import load_prompts
from deermem.extract.watermarks import Tail
from deermem.model.scope import Scope
from deermem.store.files import Files
from deermem.store.layout import Layout
from deermem.store.spool import new_id

if TYPE_CHECKING:
    from deermem.extract.outcome import Outcome
    from deermem.service.user import UserContext

Parts: TypeAlias = tuple[Files, Layout, Clock]
"""An engine's files, layout and clock."""

T = TypeVar("T")
_log: Final = logging.getLogger("deermem")
_LOOK_AGAIN: Final = timedelta(minutes=10)
"""An engine may live for months: what a process leaves behind that dies beside it is found with a later capture."""
_NO_MODEL: Final = "hand one to DeerMem(model=…) or set `model`; everything but extraction works without"


class Opened(Protocol):
    """What extraction needs of the engine."""

    settings: Settings

    def context(self, user_id: str | None) -> UserContext:
        """A user, opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What the engine hands over: its files and clock, a model where there is one, and the host's hooks."""

    files: Files
    layout: Layout
    clock: Clock
    model: ModelCall | None = None
    hooks: Hooks = field(default_factory=Hooks)


class Extraction:
    """The queue of one engine and the pipeline behind it.

    Raises InvalidInput for a folder of patterns or prompts that can't be used.
    """

    def __init__(self, engine: Opened, host: Host) -> None:
        settings = engine.settings
        patterns, prompts = settings.patterns_dir, settings.prompts_dir
        self._patterns = load_patterns(Path(patterns) if patterns else None)
        self._host = host
        self._pipeline = Pipeline(engine, host.model, host.hooks, load_prompts(Path(prompts) if prompts else None))
        rules = QueueRules(
            debounce_seconds=settings.debounce_seconds,
            max_depth=settings.queue_max_depth,
            max_watermarks=settings.watermark_max_keys,
        )
        self._queue = Queue(host.files, host.layout, host.clock, rules, self._pipeline.run)
        self._looked = host.clock()
        self._said_so = False

    def capture(
        self,
        scope: Scope,
        messages: Iterable[object],
        thread_id: str,
        *,
        urgent: bool = False,
        trace_id: str | None = None,
    ) -> bool:
        """Queues what a conversation holds for memory; whether there was anything, and a model to ask.

        Raises InvalidInput for what can't be messages, QueueFull, and what the store raises.
        """
        thread = _checked(thread_id)
        turns = self._turns(messages)
        known: Tail = ()
        if not urgent:
            known, turns = self._queue.unseen(scope, thread, turns)
        if not has_both_sides(turns):
            return False
        if self._host.model is None:
            self._say_that_nobody_listens()
            return False
        item = self._item(scope, turns, thread_id=thread, urgent=urgent, trace_id=trace_id)
        self._queue.put(scope, replace(item, known=known))
        # A clock that was set back would put it off for as long.
        if abs(self._host.clock() - self._looked) >= _LOOK_AGAIN:
            self.begin()
        return True

    def worth(self, messages: Iterable[object]) -> int:
        """How many turns of a conversation count for memory; 0 where it holds nothing. Raises InvalidInput."""
        turns = self._turns(messages)
        return len(turns) if has_both_sides(turns) else 0

    def extract(
        self, scope: Scope, messages: Iterable[object], thread_id: str, *, trace_id: str | None = None
    ) -> Outcome:
        """Extracts a conversation now, past the queue, and says what became of it; in this thread where it can be.

        Raises InvalidInput for what can't be messages, ExtractionFailed, and what the store raises.
        """
        if self._host.model is None:
            raise ExtractionFailed("there is no model to ask", hint=_NO_MODEL)
        thread = _checked(thread_id)
        turns = self._turns(messages)
        if not has_both_sides(turns):
            raise InvalidInput(
                "the conversation holds nothing for memory",
                hint="it needs something that the person said and something that was answered",
            )
        item = self._item(scope, turns, thread_id=thread, urgent=True, trace_id=trace_id)
        return _beside_a_loop(lambda: self._pipeline.extract(item))

    def flush(self, timeout: float | None) -> bool:
        """Extracts at once all that waits, whatever its deadline; true only if all of it was done in time."""
        if self._host.model is None:
            # Planned, they would be tried and fail, until they were set aside.
            waits = self._queue.count()
            if waits:
                self._say_that_nobody_listens()
            return not waits
        self._queue.take_up()
        return self._queue.flush(timeout)

    def cancel(self, folder: str | None, agent: str | None) -> int:
        """Drops what waits in one scope, never what runs; how many."""
        return self._queue.cancel(folder, agent)

    def begin(self) -> None:
        """Plans what other processes left behind, in a thread of its own: there may be thousands of users."""
        if self._host.model is not None:
            self._looked = self._host.clock()
            try:
                threading.Thread(target=self._queue.take_up, name="deermem-take-up", daemon=True).start()
            except RuntimeError as error:
                # At the end of the interpreter: what was just captured lies on disk all the same.
                _log.warning("what other processes left behind waits for the next engine: %s", error)

    def close(self, timeout: float) -> None:
        """Extracts what this engine knows of for so many seconds; the rest stays on disk for the next one."""
        # With no time to wait for an answer nobody is asked.
        if self._queue.waits() if timeout <= 0 else not self._queue.flush(timeout):
            _log.warning("some conversations are not extracted yet; they wait on disk for the next engine")
        self._queue.stop()

    def _turns(self, messages: Iterable[object]) -> tuple[Turn, ...]:
        keep_hidden = self._host.hooks.keep_hidden()
        return without_acknowledgements(read_turns(messages, keep_hidden=keep_hidden))

    def _item(
        self, scope: Scope, turns: tuple[Turn, ...], *, thread_id: str, urgent: bool, trace_id: str | None
    ) -> Item:
        if not isinstance(trace_id, str | None):
            raise InvalidInput(f"trace_id is {trace_id!r:.60}", hint="give text")
        return Item(
            id=new_id(),
            user_id=scope.user_id,
            agent=scope.agent,
            thread=thread_id,
            turns=turns,
            signals=frozenset(self._patterns.detect(turns)),
            urgent=urgent,
            first_at=self._host.clock(),
            due_at=self._queue.due_at(urgent=urgent),
            trace=trace_id,
        )

    def _say_that_nobody_listens(self) -> None:
        if not self._said_so:
            self._said_so = True
            _log.warning("conversations are not extracted: there is no model; %s", _NO_MODEL)


def _checked(thread_id: object) -> str:
    if not isinstance(thread_id, str) or not thread_id.strip() or len(thread_id) > 1000:
        raise InvalidInput(f"thread_id is {thread_id!r:.60}", hint="give the conversation's id, a text")
    # No fact could name it as its source, and none of the conversation would ever be stored.
    if "\0" in thread_id or encodable(thread_id) != thread_id:
        raise InvalidInput(f"thread_id is {thread_id!r:.60}", hint="leave out NUL and what is no Unicode text")
    return thread_id


def _beside_a_loop(act: Callable[[], T]) -> T:
    """An async model can't be waited for in a thread that runs an event loop: then in one of its own."""
    if not _runs_a_loop():
        return act()
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, "deermem-extract") as pool:
        return pool.submit(contextvars.copy_context().run, act).result()


def _runs_a_loop() -> bool:
    # Where nobody has loaded asyncio there is none, and loading it takes a while.
    if "asyncio" not in sys.modules:
        return False
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def make_extraction(engine: Opened, parts: Parts, model: object, hooks: Hooks | None) -> Extraction:
    """The extraction of an engine.

    Raises InvalidInput for a model that can't be asked, and for patterns or prompts that can't be used.
    """
    files, layout, clock = parts
    asked = None if model is None else as_model(model)
    return Extraction(engine, Host(files=files, layout=layout, clock=clock, model=asked, hooks=hooks or Hooks()))
