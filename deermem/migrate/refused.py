"""Everything that stops one document, in one message: a person mends it in one go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from deermem.errors import MigrationError

_SHOWN: Final = 20


def refuse(shown: str, unreadable: Sequence[str], stops: Sequence[MigrationError]) -> None:
    """Raises one MigrationError that names the first twenty, on one line; nothing where both are empty.

    `unreadable` are texts about single facts, `stops` errors whose message names the document itself.
    """
    if not unreadable and len(stops) == 1:
        raise stops[0]
    texts = [*unreadable, *(str(stop).removeprefix(f"{shown}: ") for stop in stops)]
    if texts:
        more = f" | and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
        raise MigrationError(f"{shown}: {' | '.join(texts[:_SHOWN])}{more}")
