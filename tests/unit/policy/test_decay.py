"""Ages and half-lives, at the ends of time too."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from builders_policy import FIRST, LAST, NOW, ago

from deermem.policy.decay import age_days, aware, freshness, since, weight


@pytest.mark.parametrize(
    ("age", "half_life", "left"),
    [
        pytest.param(0, 30, 1.0, id="new"),
        pytest.param(30, 30, 0.5, id="one half-life"),
        pytest.param(60, 30, 0.25, id="two"),
        pytest.param(15, 30, math.sqrt(0.5), id="half of one"),
        pytest.param(-5, 30, 1.0, id="the future is new"),
        pytest.param(None, 30, 0.0, id="nobody knows since when"),
        pytest.param(math.nan, 30, 0.0, id="no number"),
        pytest.param(math.inf, 30, 0.0, id="for ever"),
        pytest.param(1e300, 1e-300, 0.0, id="beyond a float"),
        pytest.param(3_652_058, 1, 0.0, id="ten thousand years of days"),
        pytest.param(10, 0, 0.0, id="no half-life"),
        pytest.param(10, -1, 0.0, id="a half-life below nothing"),
        pytest.param(10, math.nan, 0.0, id="a half-life that is no number"),
        pytest.param(10, math.inf, 1.0, id="nothing ever decays"),
        pytest.param(math.inf, math.inf, 0.0, id="both endless"),
    ],
)
def test_what_is_left(age: float | None, half_life: float, left: float) -> None:
    assert weight(age, half_life) == pytest.approx(left)


@pytest.mark.parametrize(
    ("start", "now", "days"),
    [
        pytest.param(ago(1.5), NOW, 1.5, id="a day and a half"),
        pytest.param(ago(-7), NOW, 0, id="the future counts as now"),
        pytest.param(None, NOW, None, id="not known"),
        pytest.param(FIRST, LAST, 3_652_059, id="all of time"),
        pytest.param(LAST, FIRST, 0, id="all of time, backwards"),
        pytest.param(ago(2).replace(tzinfo=None), NOW, 2, id="without a zone it is UTC"),
        pytest.param(ago(2), NOW.replace(tzinfo=None), 2, id="a clock without a zone is UTC"),
        pytest.param(NOW.astimezone(timezone(timedelta(hours=8))) - timedelta(days=1), NOW, 1, id="another zone"),
        pytest.param(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), LAST, 3_652_059.6, id="before the first"),
        pytest.param(FIRST, datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))), 3_652_059.6, id="after all"),
    ],
)
def test_ages(start: datetime | None, now: datetime, days: float | None) -> None:
    assert age_days(start, now) == pytest.approx(days, abs=0.05)


def test_the_time_between_is_exact():
    start = datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    assert since(start, start + timedelta(days=20_000)).days == 20_000


def test_freshness_halves_from_its_start():
    assert freshness(ago(90), NOW, 90) == 0.5
    assert freshness(None, NOW, 90) == 0.0


def test_a_zone_stays_as_it_is():
    there = timezone(timedelta(hours=8))
    assert aware(NOW.astimezone(there)).tzinfo is there
