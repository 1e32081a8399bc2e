"""A thread that deletes, now and then, the items whose time is over."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from deermem.errors import DeerMemError
from deermem.integrations.langgraph_store.checks import says_closed

_log: Final = logging.getLogger("deermem")


class Sweeper:
    """Calls `sweep` at an interval until it is stopped or the engine is closed.

    What else a sweep raises is logged, and the next one tries again.
    """

    def __init__(self, sweep: Callable[[], int]) -> None:
        self._sweep = sweep
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, minutes: float) -> None:
        """Starts the thread; one that runs goes on as it is."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            self._stopped = threading.Event()
            self._thread = threading.Thread(
                target=self._run, args=(self._stopped, minutes * 60), name="deermem-ttl", daemon=True
            )
            self._thread.start()

    def stop(self, timeout: float | None) -> bool:
        """Ends the thread and waits for it, for `timeout` seconds at most; whether none runs any more."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._stopped.set()
        if thread is None:
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def _run(self, stopped: threading.Event, seconds: float) -> None:
        while not stopped.wait(min(seconds, threading.TIMEOUT_MAX)):
            try:
                gone = self._sweep()
            except (DeerMemError, OSError) as error:
                if says_closed(error):
                    return
                _log.warning("items whose time is over could not be deleted: %s", error)
            else:
                _log.debug("%d items whose time was over were deleted", gone)
