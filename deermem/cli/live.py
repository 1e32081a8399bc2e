"""One line at the foot of a terminal that says how far a migration is."""

from __future__ import annotations

import contextlib
import sys
from types import TracebackType
from typing import TYPE_CHECKING

from deermem.cli.output import visible
from deermem.cli.stopping import Stopper
from deermem.model.reports import UserMigration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


class LiveLine:
    """Users done of how many, facts, facts a second, time left; drawn while it is entered, gone afterwards."""

    def __init__(self, console: Console, stopper: Stopper) -> None:
        self._console = console
        self._progress = _progress(console)
        self._task = self._progress.add_task("", total=None, facts=0, rate=0.0, stopper=stopper)
        self._facts = 0

    def __enter__(self) -> LiveLine:
        # A terminal that went away must not end a migration half-way.
        with contextlib.suppress(OSError):
            self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with contextlib.suppress(OSError):
            self._progress.stop()

    def begin(self, users: int) -> None:
        """How many there are."""
        self._progress.update(self._task, total=users)

    def advance(self, result: UserMigration) -> None:
        """One more user is done."""
        self._facts += result.facts
        elapsed = self._progress.tasks[0].elapsed or 0.0
        rate = self._facts / elapsed if elapsed > 0 else 0.0
        self._progress.update(self._task, advance=1, facts=self._facts, rate=rate)

    def tell(self, text: str) -> None:
        """Lines of the answer above the live one, where both go to one terminal."""
        with contextlib.suppress(OSError):
            self._console.print(visible(text), soft_wrap=True)


def live_line(stopper: Stopper) -> LiveLine | None:
    """A line to be drawn on standard error; None where that is no terminal that can draw one."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console

    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    return None if console.is_dumb_terminal else LiveLine(console, stopper)


def _progress(console: Console) -> Progress:
    from rich.progress import Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.completed:.0f}/{task.total} users"),
        TextColumn("{task.fields[facts]} facts"),
        TextColumn("{task.fields[rate]:.0f} facts/s"),
        TimeRemainingColumn(),
        TextColumn("left"),
        TextColumn("{task.fields[stopper]}"),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
