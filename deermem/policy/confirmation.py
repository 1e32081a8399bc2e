"""When a fact counts as confirmed: the person said so, and the model named the fact that was meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from deermem.model.fact import Fact

MAX_COUNT: Final = 999_999_999_999_999
"""A count of more digits would make the file unreadable."""


def confirmed(fact: Fact, now: datetime) -> Fact:
    """The fact, confirmed now. A count that is none, or beyond all reason, starts again at 1."""
    said = fact.confirmation_count
    sound = isinstance(said, int) and not isinstance(said, bool) and 1 <= said < MAX_COUNT
    return replace(fact, last_confirmed_at=now, confirmation_count=said + 1 if said is not None and sound else 1)


def confirm(facts: Iterable[Fact], named: Collection[str], *, reinforced: bool, now: datetime) -> tuple[Fact, ...]:
    """The facts that change, each once, in the order given.

    `named` are the ids that the model says were meant; `reinforced` is whether the conversation carries a
    reinforcement signal. Neither is enough alone: a model that is merely reminded of a fact confirms nothing.
    """
    if not reinforced:
        return ()
    chosen = {fact.id: fact for fact in facts if fact.id and fact.id in named}
    return tuple(confirmed(fact, now) for fact in chosen.values())
