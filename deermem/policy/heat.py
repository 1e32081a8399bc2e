"""Access heat: each time that a search returns a fact it warms by one, and it cools by half in a half-life."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from datetime import datetime
from typing import Final

from deermem.model.usage import Usage
from deermem.policy.decay import freshness

HALF_LIFE_DAYS: Final = 30.0
MAX_HEAT: Final = 1_000_000.0
MAX_COUNT: Final = 1_000_000_000


def decayed(usage: Usage | None, now: datetime, half_life_days: float = HALF_LIFE_DAYS) -> float:
    """The heat that is left at `now`, 0 to MAX_HEAT; 0 where nothing or nothing sound is known."""
    if usage is None or not 0 < usage.heat < math.inf:
        return 0.0
    return min(MAX_HEAT, usage.heat) * freshness(usage.last_access, now, half_life_days)


def touch(usage: Usage | None, now: datetime, half_life_days: float = HALF_LIFE_DAYS) -> Usage:
    """The entry of a fact that was just found."""
    before = usage.count if usage is not None and usage.count > 0 else 0
    heat = min(MAX_HEAT, decayed(usage, now, half_life_days) + 1)
    return Usage(heat, min(MAX_COUNT, before + 1), now)


def touched(
    usage: Mapping[str, Usage],
    found: Iterable[str],
    living: Container[str],
    now: datetime,
    half_life_days: float = HALF_LIFE_DAYS,
) -> dict[str, Usage]:
    """The entries that change when a search returned `found`, in that order.

    Each id counts once a search. One that isn't among the `living` ids of the bucket is passed over: a fact that
    was deleted since the search must not come back.
    """
    ids = dict.fromkeys(fact_id for fact_id in found if fact_id in living)
    return {fact_id: touch(usage.get(fact_id), now, half_life_days) for fact_id in ids}
