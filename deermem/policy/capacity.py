"""Which facts a full bucket gives up (the policy `confidence`): the lowest, and of two equals the older."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ranked:
    """What the cap judges a fact by. `created_at` is in Unix seconds; `confidence` is finite, 0 to 1."""

    id: str
    confidence: float
    created_at: float


def rank_key(fact: Ranked) -> tuple[float, float, str]:
    """Sorts the first to go to the front: lowest confidence, then the older, then the smaller id.

    The same order in SQL, where a catalogue holds these columns, is ORDER BY confidence, created_at, id: ids are
    ASCII, so that SQLite's binary collation and Python agree on them.
    """
    return fact.confidence, fact.created_at, fact.id


def victims(
    existing_lowest: Sequence[Ranked], added: Sequence[Ranked], *, total_after: int, cap: int, adds: int
) -> tuple[str, ...]:
    """The ids that a commit removes to keep the cap, the first to go first.

    `existing_lowest` are the lowest of the facts that were there and stay, as the commit leaves them: at least
    min(adds, total_after - cap) of them where there are so many, in any order. `added` are the facts that the
    commit adds; `total_after` counts the bucket after its adds and deletes, before anything is shed; `adds` is how
    many facts it adds. A cap of 0 is no limit.

    Never more than `adds`, so that a bucket found over its cap (cap lowered, hand-made files, migrated) isn't
    emptied by its first write; a commit that only updates or deletes sheds nothing. An added fact may be its own
    victim: the caller then doesn't write it.
    """
    surplus = min(total_after - cap, adds)
    if cap == 0 or surplus <= 0:
        return ()
    return tuple(fact.id for fact in sorted((*existing_lowest, *added), key=rank_key)[:surplus])
