"""An engine in a folder of its own, a clock that stands still, and a person with an editor."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from deermem.clock import Clock, utc_now
from deermem.config import Settings
from deermem.engine import DeerMem
from deermem.errors import InvalidInput
from deermem.memory import Memory

_NOON: Final = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class FakeClock:
    """A clock that stands still until it is told to advance; calling it gives an aware UTC datetime.

    Raises InvalidInput for a time without a zone.
    """

    def __init__(self, now: datetime = _NOON) -> None:
        if now.tzinfo is None:
            raise InvalidInput(f"the clock's time {now} has no zone", hint="give datetime(…, tzinfo=UTC)")
        self.now = now.astimezone(UTC)

    def __call__(self) -> datetime:
        """The time."""
        return self.now

    def advance(
        self, step: timedelta | None = None, *, days: float = 0, hours: float = 0, seconds: float = 0
    ) -> datetime:
        """Moves on by `step` plus the units given; returns the new time."""
        self.now += (step or timedelta()) + timedelta(days=days, hours=hours, seconds=seconds)
        return self.now


@contextmanager
def temporary_engine(
    model: object = None, *, settings: Settings | None = None, clock: Clock = utc_now
) -> Iterator[DeerMem]:
    """An engine over an empty folder, which goes when the block ends, with all that waits in it.

    `model` and `clock` are as for `DeerMem`, so nothing is extracted without a model. Without `settings`, tokens are
    estimated, so that a prompt is the same on every machine. The folder is `engine.root`.
    """
    with (
        tempfile.TemporaryDirectory(prefix="deermem-", ignore_cleanup_errors=True) as folder,
        DeerMem(folder, settings or Settings(token_counting="char"), model, clock=clock) as engine,
    ):
        yield engine


def hand_edit(memory: Memory, fact_id: str, old: str, new: str) -> None:
    """Edits a fact's file as a person does in an editor: `old` becomes `new` wherever it stands, the heading too.

    Deermem is not told. Raises InvalidInput where `old` doesn't stand there, and FactNotFound.
    """
    path = memory.path(fact_id)
    # Bytes: reading as text would change every end of a line.
    text = path.read_bytes().decode()
    if not old or old not in text:
        raise InvalidInput(f"{old!r:.60} does not stand in {path.name}", hint="give a text that the file has")
    draft = path.with_name(f".{path.name}.swp")
    draft.write_bytes(text.replace(old, new).encode())
    os.replace(draft, path)
