"""The score of `hybrid-v1` and its rules."""

from __future__ import annotations

import math

import pytest
from builders_policy import FIRST, LAST, NOW, ago, contender

from deermem.errors import InvalidInput
from deermem.model.usage import Usage
from deermem.policy.hybrid import Contender, HybridRules, reserved_places, score

RULES = HybridRules()
STALE_HIGH = contender("stale", 0.9, age=730)
UNKNOWN = Contender(id="x", category="context", confidence=0.8, created_at=None)


@pytest.mark.parametrize(
    ("fact", "confirmation"),
    [
        pytest.param(contender("a", age=0), 0.5, id="new and never confirmed: half"),
        pytest.param(contender("a", age=90), 0.25, id="never confirmed for a half-life"),
        pytest.param(contender("a", age=900, confirmed=0), 1.0, id="just confirmed, however old"),
        pytest.param(contender("a", age=900, confirmed=180), 0.25, id="confirmed two half-lives ago"),
        pytest.param(contender("a", age=-3), 0.5, id="made in the future"),
        pytest.param(contender("a", confirmed=-300), 1.0, id="confirmed in the future"),
        pytest.param(UNKNOWN, 0.0, id="no time at all"),
        pytest.param(Contender(id="x", category="", confidence=0.8, created_at=FIRST), 0.0, id="year 1"),
        pytest.param(Contender(id="x", category="", confidence=0.8, created_at=LAST), 0.5, id="year 9999"),
    ],
)
def test_freshness_of_confirmation(fact: Contender, confirmation: float) -> None:
    """99: a time that is missing is 0, not a crash."""
    found = score(fact, None, RULES, NOW)
    assert found.confirmation == pytest.approx(confirmation)
    assert found.total == pytest.approx(0.65 * 0.8 + 0.25 * confirmation)


@pytest.mark.parametrize(
    ("usage", "access"),
    [
        pytest.param(None, 0.0, id="never found"),
        pytest.param(Usage(1.0, 1, NOW), math.log(2) / math.log(9), id="found once just now"),
        pytest.param(Usage(8.0, 8, NOW), 1.0, id="eight accesses are all"),
        pytest.param(Usage(16.0, 16, ago(30)), 1.0, id="sixteen a half-life ago too"),
        pytest.param(Usage(100_000.0, 100_000, NOW), 1.0, id="bounded"),
        pytest.param(Usage(1e300, 1, NOW), 1.0, id="any number is bounded"),
        pytest.param(Usage(math.inf, 1, NOW), 0.0, id="endless is none"),
        pytest.param(Usage(math.nan, 1, NOW), 0.0, id="no number"),
        pytest.param(Usage(-5.0, 1, NOW), 0.0, id="below nothing"),
        pytest.param(Usage(5.0, 1, None), 0.0, id="nobody knows when"),
        pytest.param(Usage(8.0, 1, LAST), 1.0, id="in the future counts as now"),
    ],
)
def test_access_heat(usage: Usage | None, access: float) -> None:
    """97."""
    assert score(UNKNOWN, usage, RULES, NOW).access == pytest.approx(access)


@pytest.mark.parametrize(
    ("given", "taken"),
    [(0.3, 0.3), (math.nan, 0.5), (math.inf, 0.5), (-math.inf, 0.5), (-1.0, 0.0), (95.0, 1.0)],
)
def test_confidence_is_a_number_from_0_to_1(given: float, taken: float) -> None:
    """95."""
    assert score(contender("a", given), None, RULES, NOW).confidence == taken


def test_a_recent_confirmation_beats_a_higher_confidence():
    """97: 0.7 confirmed today, 0.9 from two years ago."""
    confirmed = score(contender("a", 0.7, age=730, confirmed=0), None, RULES, NOW)
    assert confirmed.total > score(STALE_HIGH, None, RULES, NOW).total


def test_heat_can_turn_a_close_one():
    """97: 0.70 found often against 0.75 never found."""
    hot = score(contender("a", 0.70, age=10), Usage(100_000.0, 9, NOW), RULES, NOW)
    assert hot.total > score(contender("b", 0.75, age=10), None, RULES, NOW).total


def test_a_perfect_fact_scores_one():
    assert score(contender("a", 1.0, confirmed=0), Usage(8.0, 8, NOW), RULES, NOW).total == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("rules", "cap", "places"),
    [
        pytest.param({}, 100, 10, id="a tenth"),
        pytest.param({}, 10, 1, id="a tenth of ten"),
        pytest.param({}, 11, 2, id="rounded up"),
        pytest.param({}, 100_000, 10, id="ten at most"),
        pytest.param({"correction_reserved_fraction": 0.07}, 100, 7, id="a binary rest is no place"),
        pytest.param({"correction_reserved_fraction": 0.0}, 100, 0, id="none by fraction"),
        pytest.param({"correction_reserved_max": 0}, 100, 0, id="none by number"),
        pytest.param({"correction_reserved_fraction": 1.0, "correction_reserved_max": 100}, 50, 50, id="all"),
    ],
)
def test_places_for_corrections(rules: dict[str, float], cap: int, places: int) -> None:
    """98."""
    assert reserved_places(HybridRules(**rules), cap) == places  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        ({"confidence_weight": 0.7}, "confidence_weight, confirmation_weight and access_weight add up to 1.05"),
        ({"confidence_weight": 1.2, "confirmation_weight": -0.3}, "confidence_weight is 1.2"),
        ({"confirmation_weight": math.nan}, "confirmation_weight is nan"),
        ({"access_weight": True}, "access_weight is True"),
        ({"access_weight": "0.1"}, "access_weight is '0.1'"),
        ({"confirmation_half_life_days": 0.5}, "confirmation_half_life_days is 0.5; give a number from 1 to 3650"),
        ({"access_half_life_days": 3651}, "access_half_life_days is 3651"),
        ({"access_half_life_days": math.inf}, "access_half_life_days is inf"),
        ({"correction_reserved_fraction": 1.01}, "correction_reserved_fraction is 1.01"),
        ({"correction_reserved_max": 101}, "correction_reserved_max is 101; give a whole number from 0 to 100"),
        ({"correction_reserved_max": 1.0}, "correction_reserved_max is 1.0"),
    ],
)
def test_rules_out_of_bounds_are_named(rules: dict[str, float], named: str) -> None:
    """96."""
    with pytest.raises(InvalidInput) as caught:
        HybridRules(**rules)  # type: ignore[arg-type]
    assert named in str(caught.value)


def test_weights_may_miss_one_by_a_rounding():
    assert HybridRules(confidence_weight=0.65 + 5e-7).confidence_weight > 0.65
