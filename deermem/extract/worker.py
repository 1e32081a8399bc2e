"""When what runs: each job has a time of its own, each user one job at a time, threads come as they are needed.

It knows no files and no models: what a job does is the caller's. Nothing here is kept; the spool is.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from deermem.clock import Clock

_log: Final = logging.getLogger("deermem")
_MOST_THREADS: Final = 4
_MOST_URGENT_THREADS: Final = 16
_BUSY_SECONDS: Final = 0.2
"""How long a user is left alone whose work another process does."""
_LONGEST_SLEEP: Final = 3600.0
"""Seconds. A date far ahead, from a file or a clock that was wrong, is more than a thread can sleep."""
_AFTER_CRASH: Final = timedelta(seconds=60)


class Job(NamedTuple):
    """One entry of one user's spool; `folder` None is the no-user root."""

    folder: str | None
    id: str


class Done(NamedTuple):
    """How a job ended. `due`: it waits again, until then. `busy`: another process is at work for that user."""

    ok: bool
    due: datetime | None = None
    busy: bool = False


@dataclass(slots=True)
class _Planned:
    due: datetime
    urgent: bool


@dataclass(slots=True, eq=False)
class _Flush:
    pending: set[Job]
    failed: bool = False


@dataclass(slots=True)
class Worker:
    """A schedule and its threads. `run` does one job, without any lock held.

    It raises only what ends a thread, SystemExit of a host's code or a fault of ours: the job then waits a minute.
    """

    run: Callable[[Job], Done]
    clock: Clock
    _jobs: dict[Job, _Planned] = field(default_factory=dict)
    _running: set[Job] = field(default_factory=set)
    _left_alone: dict[str | None, float] = field(default_factory=dict)
    _flushes: set[_Flush] = field(default_factory=set)
    _threads: int = 0
    _idle: int = 0
    _stopped: bool = False
    _wake: threading.Condition = field(default_factory=threading.Condition)

    def waiting(self) -> int:
        """How many jobs wait or run."""
        with self._wake:
            return len(self._jobs) + len(self._running)

    def put(self, job: Job, due: datetime, *, urgent: bool = False) -> None:
        """Plans a job, or plans it anew."""
        with self._wake:
            if self._stopped:
                return
            if job not in self._running:
                self._jobs[job] = _Planned(due, urgent)
            self._start_thread(urgent)
            self._wake.notify_all()

    def drop(self, jobs: set[Job]) -> None:
        """Takes jobs off the plan; what runs already goes on."""
        with self._wake:
            for job in jobs - self._running:
                self._jobs.pop(job, None)
                self._settle(job, ok=True)
            self._wake.notify_all()

    def flush(self, timeout: float | None) -> bool:
        """Runs at once all that is planned or runs, and waits for it; whether all of it was done in time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._wake:
            flush = _Flush({*self._jobs, *self._running})
            self._flushes.add(flush)
            try:
                for _ in range(min(len(flush.pending), _MOST_THREADS)):
                    self._start_thread(urgent=False)
                self._wake.notify_all()
                left = None if deadline is None else deadline - time.monotonic()
                # Without a thread, as at the end of the interpreter, nothing would ever come.
                self._wake.wait_for(lambda: not (flush.pending and self._threads), left)
                return not flush.pending and not flush.failed
            finally:
                self._flushes.discard(flush)

    def stop(self) -> None:
        """Ends every thread once its job is done; nothing is planned any more. Doesn't wait."""
        with self._wake:
            self._stopped = True
            for job in self._jobs:
                self._settle(job, ok=False)
            self._jobs.clear()
            self._wake.notify_all()

    # --- threads

    def _start_thread(self, urgent: bool) -> None:
        most = _MOST_URGENT_THREADS if urgent else _MOST_THREADS
        if self._idle < len(self._jobs) and self._threads < most and not self._stopped:
            try:
                threading.Thread(target=self._work, name="deermem-extract", daemon=True).start()
            except RuntimeError as error:
                # At the end of the interpreter: what was spooled must not look as if it had failed.
                _log.warning("conversations wait on disk for the next engine: %s", error)
            else:
                self._threads += 1

    def _work(self) -> None:
        while (job := self._take()) is not None:
            done = None
            try:
                done = self.run(job)
            finally:
                self._end(job, done)

    def _end(self, job: Job, done: Done | None) -> None:
        """None: its thread ends with it, and another one must do what waits, or a flush never returns."""
        with self._wake:
            self._finish(job, done or Done(ok=False, due=self.clock() + _AFTER_CRASH))
            if done is None:
                self._threads -= 1
                self._start_thread(urgent=False)
            self._wake.notify_all()

    def _take(self) -> Job | None:
        with self._wake:
            while not self._stopped:
                job, seconds = self._next()
                if job is not None:
                    del self._jobs[job]
                    self._running.add(job)
                    return job
                self._idle += 1
                self._wake.wait(seconds)
                self._idle -= 1
            self._threads -= 1
            return None

    def _next(self) -> tuple[Job | None, float | None]:
        """The job to do now; else after how many seconds to look again, None for whenever something changes."""
        now, tick = self.clock(), time.monotonic()
        at_work = {job.folder for job in self._running}
        flushed: set[Job] = set().union(*(flush.pending for flush in self._flushes))
        soonest: float | None = None
        for job, planned in sorted(self._jobs.items(), key=lambda item: (not item[1].urgent, item[1].due)):
            if job.folder in at_work:
                continue
            wait = 0.0 if planned.urgent or job in flushed else (planned.due - now).total_seconds()
            wait = max(wait, self._left_alone.get(job.folder, tick) - tick)
            if wait <= 0:
                return job, None
            soonest = min(_LONGEST_SLEEP if soonest is None else soonest, wait)
        return None, soonest

    def _finish(self, job: Job, done: Done) -> None:
        self._running.discard(job)
        if done.busy:
            self._left_alone[job.folder] = time.monotonic() + _BUSY_SECONDS
            if self._stopped:
                self._settle(job, ok=False)
            else:
                self._jobs[job] = _Planned(done.due or self.clock(), urgent=False)
            return
        self._left_alone.pop(job.folder, None)
        if done.due is not None and not self._stopped:
            self._jobs[job] = _Planned(done.due, urgent=False)
        self._settle(job, ok=done.ok)

    def _settle(self, job: Job, *, ok: bool) -> None:
        for flush in self._flushes:
            if job in flush.pending:
                flush.pending = flush.pending - {job}
                flush.failed = flush.failed or not ok
