"""The way from an engine to extraction: made when it is first needed, anew in a forked child. Loads nothing heavy."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from deermem.errors import DeerMemError
from deermem.model.scope import Scope

if TYPE_CHECKING:
    from deermem.extract.extraction import Extraction, Opened, Parts
    from deermem.extract.hooks import Hooks
    from deermem.extract.outcome import Outcome
    from deermem.model.reports import Finding, Waiting
    from deermem.store.layout import UserPaths


class Conversations:
    """What an engine does with conversations. `model` None: that of the settings, else there is none to ask."""

    def __init__(self, engine: Opened, parts: Parts, model: object, hooks: Hooks | None) -> None:
        self._engine = engine
        self._parts = parts
        self._model = model if model is not None else engine.settings.model
        self._hooks = hooks
        self._made: Extraction | None = None
        self._closed = False
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Says now what can't be used, and goes on with what an earlier process left behind.

        Raises InvalidInput for a model that can't be asked, and for patterns or prompts that can't be loaded.
        """
        settings = self._engine.settings
        if self._model is not None or settings.patterns_dir or settings.prompts_dir:
            self._extraction().begin()

    def capture(
        self,
        scope: Scope,
        messages: Iterable[object],
        thread_id: str,
        *,
        urgent: bool = False,
        trace_id: str | None = None,
    ) -> bool:
        """As `Extraction.capture`."""
        return self._extraction().capture(scope, messages, thread_id, urgent=urgent, trace_id=trace_id)

    def extract(self, scope: Scope, messages: Iterable[object], thread_id: str, trace_id: str | None) -> Outcome:
        """As `Extraction.extract`."""
        return self._extraction().extract(scope, messages, thread_id, trace_id=trace_id)

    def alone(self, model: object) -> Extraction:
        """Extraction with a model of its own, beside the queue: nothing that waits is taken up.

        Raises InvalidInput for a model that can't be asked.
        """
        from deermem.extract.extraction import make_extraction

        return make_extraction(self._engine, self._parts, model, self._hooks)

    def waiting(self, users: Iterable[UserPaths]) -> list[Waiting]:
        """What waits for these users, or was set aside, the oldest first."""
        from deermem.extract.spooled import waiting

        found = [item for paths in users for item in waiting(self._parts[0], paths)]
        return sorted(found, key=lambda item: (item.since, item.path))

    def retry(self, users: Iterable[UserPaths]) -> int:
        """Lets what was set aside for these users wait again; how many."""
        from deermem.extract.spooled import retry

        done = sum(retry(self._parts[0], paths, self._parts[2]) for paths in users)
        if done:
            self.begin()
        return done

    def findings(self, paths: UserPaths) -> list[Finding]:
        """What of one user's queue waits for a person."""
        from deermem.extract.spooled import findings

        return list(findings(self._parts[0], paths))

    def flush(self, timeout: float | None) -> bool:
        """As `Extraction.flush`."""
        return self._extraction().flush(timeout)

    def passed_over(self, before: bytes | None, spooled: Sequence[bytes]) -> bytes:
        """The watermarks `before`, moved beyond conversations that a clear drops."""
        from deermem.extract.dropped import beyond_dropped

        return beyond_dropped(before, spooled, max_keys=self._engine.settings.watermark_max_keys)

    def cancel(self, folder: str | None, agent: str | None) -> int:
        """As `Extraction.cancel`."""
        return self._extraction().cancel(folder, agent)

    def close(self, timeout: float) -> None:
        """As `Extraction.close`; does nothing where nothing was made."""
        with self._lock:
            made, self._made, self._closed = self._made, None, True
        if made is not None:
            made.close(timeout)

    def start_over(self) -> None:
        """In a forked child: the threads are the parent's, which goes on with what waits."""
        self._lock, self._made = threading.Lock(), None

    def _extraction(self) -> Extraction:
        from deermem.extract.extraction import make_extraction

        with self._lock:
            if self._closed:
                raise DeerMemError("the engine is closed", hint="open a new one")
            if self._made is None:
                self._made = make_extraction(self._engine, self._parts, self._model, self._hooks)
            return self._made
