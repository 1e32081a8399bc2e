"""What time takes away: ages that can't overflow, and weights that halve."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Final

_DAY: Final = timedelta(days=1)


def aware(moment: datetime) -> datetime:
    """The moment with a zone; UTC where it has none, since those with and without can't be compared."""
    return moment.replace(tzinfo=UTC) if moment.utcoffset() is None else moment


def since(start: datetime, now: datetime) -> timedelta:
    """The time from `start` to `now`, nothing where `start` lies in the future.

    Two datetimes are never further apart than a timedelta can say, so no year makes this overflow. Adding to a
    datetime can, so nothing here does.
    """
    return max(timedelta(), aware(now) - aware(start))


def age_days(start: datetime | None, now: datetime) -> float | None:
    """The age in days and parts of a day, 0 for the future; None where nobody knows since when."""
    return None if start is None else since(start, now) / _DAY


def weight(age: float | None, half_life_days: float) -> float:
    """What is left after `age` days of something that halves every `half_life_days`: 1 for a new one, towards 0.

    0 where the age is not known or either number is none; an age below 0 counts as 0.
    """
    if age is None or math.isnan(age) or not half_life_days > 0:
        return 0.0
    halvings = max(0.0, age) / half_life_days
    # inf / inf, and a power that underflows, must not raise.
    return 0.0 if math.isnan(halvings) else math.exp2(-halvings)


def freshness(start: datetime | None, now: datetime, half_life_days: float) -> float:
    """The weight of something that was new at `start`."""
    return weight(age_days(start, now), half_life_days)
