"""One observer of watchdog over the followed folders: started whole or not at all, watched over, ended in time."""

from __future__ import annotations

import errno
import logging
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from deermem.errors import InvalidInput
from deermem.watch.events import Event

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent, FileSystemEventHandler
    from watchdog.observers.api import BaseObserver

_QUEUE_SIZE: Final = "/proc/sys/fs/inotify/max_queued_events"
_USUAL_QUEUE: Final = 16_384
_WITHOUT_EVENTS: Final = ("kqueue", "polling")
_EVENTS_LOG: Final = "watchdog.observers.inotify"
_WANTED: Final = (
    *("FileCreatedEvent", "FileModifiedEvent", "FileMovedEvent", "FileDeletedEvent", "FileClosedEvent"),
    *("FileAttribEvent", "DirCreatedEvent", "DirMovedEvent", "DirDeletedEvent", "DirAttribEvent"),
)


class Observation(Protocol):
    """Folders that are being followed."""

    @property
    def alive(self) -> bool:
        """Whether all of its threads run."""

    def stop(self, timeout: float) -> None:
        """Ends it, waiting at most so many seconds; harmless when it has ended."""


Follow = Callable[[Sequence[str], Callable[[Event], None]], Observation]


def require_watchdog() -> None:
    """Raises InvalidInput where watchdog isn't installed."""
    try:
        import watchdog.observers  # noqa: F401
    except ImportError:
        raise InvalidInput("watching needs the package watchdog", hint="pip install 'deermem[watch]'") from None


def overflow_limit() -> int:
    """From how many events without a pause on the kernel's queue may have overflowed.

    Half of what it holds, since the two halves of a rename arrive as one event.
    """
    try:
        with open(_QUEUE_SIZE, encoding="ascii") as setting:
            size = int(setting.read())
    except (OSError, ValueError):
        size = _USUAL_QUEUE
    return max(16, min(size, _USUAL_QUEUE) // 2)


def follow(folders: Sequence[str], take: Callable[[Event], None]) -> Observation:
    """Follows folders with all that is below them; `take` is called in the observer's thread.

    Raises OSError where the system's limits don't allow it, or where each file would cost a descriptor.
    """
    from watchdog.observers import Observer

    if Observer.__module__.rpartition(".")[2] in _WITHOUT_EVENTS:
        raise OSError(errno.ENOTSUP, "this system tells of no events without a descriptor for each file")
    # A thread that is being ended may still come round once and call that an error, for all the terminal to see.
    logging.getLogger(_EVENTS_LOG).addFilter(_said_while_running)
    # Said of folders made in quick succession, where it means nothing; as an error it would end the reading thread.
    warnings.filterwarnings("ignore", message="Callback with id ", category=RuntimeWarning)
    observer = Observer(timeout=0.2)
    try:
        _start(observer, folders, _handler(take), recursive=True)
        # Newer releases of watchdog keep the limit to themselves when they reach it below the first folder.
        if sys.platform.startswith("linux"):
            _probe(folders[0])
    except OSError:
        observer.stop()
        raise
    return _Observed(observer)


def _said_while_running(_: logging.LogRecord) -> bool:
    """Whether to let a line of watchdog's through: unless it comes from a thread of its own that was told to end."""
    from watchdog.utils import BaseThread

    speaker = threading.current_thread()
    return not isinstance(speaker, BaseThread) or speaker.should_keep_running()


def _start(observer: BaseObserver, folders: Sequence[str], handler: FileSystemEventHandler, *, recursive: bool) -> None:
    from watchdog import events

    # What is only opened and read raises no event then, our own reads least of all.
    wanted = [vars(events)[name] for name in _WANTED if name in vars(events)]
    for folder in folders:
        observer.schedule(handler, folder, recursive=recursive, event_filter=wanted)
    observer.start()


def _probe(folder: str) -> None:
    """Raises OSError where the kernel has no room for one watch more."""
    from watchdog.observers import Observer

    observer = Observer(timeout=0.2)
    try:
        _start(observer, [folder], _handler(lambda _: None), recursive=False)
    finally:
        observer.stop()


def _handler(take: Callable[[Event], None]) -> FileSystemEventHandler:
    from watchdog.events import FileSystemEventHandler

    class Handler(FileSystemEventHandler):
        def dispatch(self, event: FileSystemEvent) -> None:
            take(event)

    return Handler()


class _Observed:
    def __init__(self, observer: BaseObserver) -> None:
        self._observer = observer

    @property
    def alive(self) -> bool:
        observer = self._observer
        return observer.is_alive() and all(emitter.is_alive() for emitter in list(observer.emitters))

    def stop(self, timeout: float) -> None:
        end = time.monotonic() + timeout
        # It waits for its emitters without a bound of its own.
        stopper = threading.Thread(target=self._observer.stop, name="deermem-watch-stop", daemon=True)
        stopper.start()
        stopper.join(timeout)
        self._observer.join(max(0.0, end - time.monotonic()))
