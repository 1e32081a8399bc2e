"""Users side by side: while one waits for the disk, others work; what became of them is told in their order.

Plain daemon threads: whoever ends the program at once waits for nobody, and a commit that is cut off harms nothing.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Final

from deermem.model.reports import UserMigration

FROM: Final = 8
"""So many users at least are worth the threads."""
_THREADS: Final = 8
_UNTOLD: Final = 4 * _THREADS
_BYTES: Final = 4 << 20
"""Documents that may be in work at once, in bytes: a larger one is taken alone."""

_log: Final = logging.getLogger("deermem")


@dataclass(slots=True, eq=False)
class _Turn:
    """One user's migration, and what became of it once it has ended."""

    work: Callable[[], UserMigration]
    folder: Path
    size: int
    result: UserMigration | None = None
    error: BaseException | None = None

    def run(self) -> None:
        """Never raises: the error is the calling thread's, which would wait for ever for one that died here."""
        try:
            self.result = self.work()
        except BaseException as error:  # noqa: BLE001
            _log.error("%s: unexpected %s; no user is begun after this one", self.folder, type(error).__name__)
            self.error = error


class Crew:
    """The threads, while it is entered; everything else happens in the thread that calls.

    `tell` is given each result, in the order in which the users were begun. Leaving it by an Exception waits for the
    users in work; by a KeyboardInterrupt or its like it doesn't, and they are finished behind the caller's back.
    """

    def __init__(self, tell: Callable[[UserMigration], object]) -> None:
        self._tell = tell
        self._inbox: SimpleQueue[_Turn | None] = SimpleQueue()
        self._ended: SimpleQueue[_Turn] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._running: set[_Turn] = set()
        self._untold: deque[_Turn] = deque()

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for _ in self._threads:
            self._inbox.put(None)
        if kind is None or issubclass(kind, Exception):
            for thread in self._threads:
                thread.join()

    def make_room(self, folder: Path, size: int) -> None:
        """Waits until this user may begin, and tells of those that ended meanwhile; raises what ended one of them."""
        while self._running and not self._has_room(folder, size):
            self._wait()

    def begin(self, work: Callable[[], UserMigration], folder: Path, size: int) -> None:
        """Hands a user over; there must be room."""
        turn = _Turn(work, folder, size)
        self._running.add(turn)
        self._untold.append(turn)
        if len(self._threads) >= len(self._running) or self._has_new_thread():
            self._inbox.put(turn)
        else:
            turn.run()
            self._ended.put(turn)

    def finish(self) -> None:
        """Waits for all, and tells of them; raises what ended one of them."""
        while self._running:
            self._wait()

    def _has_room(self, folder: Path, size: int) -> bool:
        if len(self._running) >= _THREADS or len(self._untold) >= _UNTOLD:
            return False
        # A user who is named twice would only wait for the lock, and in the end be told that it is held.
        others = [turn.folder for turn in self._running]
        return folder not in others and sum(turn.size for turn in self._running) + size <= _BYTES

    def _has_new_thread(self) -> bool:
        """False where the system gives none: then the caller does the work, or those that are there."""
        thread = threading.Thread(target=self._work, name="deermem-migrate", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return bool(self._threads)
        self._threads.append(thread)
        return True

    def _work(self) -> None:
        while (turn := self._inbox.get()) is not None:
            turn.run()
            self._ended.put(turn)

    def _wait(self) -> None:
        self._running.remove(self._ended.get())
        while self._untold and self._untold[0] not in self._running:
            turn = self._untold.popleft()
            if turn.error is not None:
                raise turn.error
            if turn.result is not None:
                self._tell(turn.result)
