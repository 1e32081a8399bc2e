"""Ctrl-C and SIGTERM while many users are taken, a few at a time: those in work are finished first."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Final

INTERRUPTED: Final = 130
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stopper:
    """While it is entered, the first of these signals sets `asked`, and the second is a KeyboardInterrupt.

    The first is acknowledged on standard error where it is `aloud`; as text it says what it was asked.
    A signal that the caller has switched off stays off; outside the main thread nothing is caught.
    """

    def __init__(self) -> None:
        self.asked = False
        self.aloud = True
        self._before: dict[signal.Signals, object] = {}

    def __str__(self) -> str:
        return "stopping after the users in work" if self.asked else ""

    def __enter__(self) -> Stopper:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in _SIGNALS}
            for number, before in self._before.items():
                if before is not signal.SIG_IGN:
                    signal.signal(number, self._caught)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, before in self._before.items():
            if callable(before) or isinstance(before, signal.Handlers):
                signal.signal(number, before)

    def _caught(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        if self.aloud:
            # Past the stream: the signal may have come in the middle of a write, and a buffer can't be entered twice.
            with contextlib.suppress(OSError):
                os.write(sys.stderr.fileno(), f"deermem: {self}; once more stops at once\n".encode())
