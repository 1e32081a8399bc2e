"""How being found warms a fact, and how it cools."""

from __future__ import annotations

import math

import pytest
from builders_policy import FIRST, LAST, NOW, ago

from deermem.model.usage import Usage
from deermem.policy.heat import MAX_COUNT, MAX_HEAT, decayed, touch, touched


def test_two_accesses_thirty_days_apart():
    """100."""
    first = touch(None, ago(30))
    assert first == Usage(1.0, 1, ago(30))
    assert touch(first, NOW) == Usage(1.5, 2, NOW)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(Usage(4.0, 4, NOW), Usage(5.0, 5, NOW), id="at once"),
        pytest.param(Usage(4.0, 4, ago(60)), Usage(2.0, 5, NOW), id="two half-lives ago"),
        pytest.param(Usage(4.0, 4, ago(-60)), Usage(5.0, 5, NOW), id="a time in the future is now"),
        pytest.param(Usage(4.0, 4, LAST), Usage(5.0, 5, NOW), id="the last day of all"),
        pytest.param(Usage(4.0, 4, FIRST), Usage(1.0, 5, NOW), id="the first day of all"),
        pytest.param(Usage(4.0, 4, None), Usage(1.0, 5, NOW), id="nobody knows when: the heat is gone, the count not"),
        pytest.param(Usage(math.nan, 4, NOW), Usage(1.0, 5, NOW), id="a heat that is no number"),
        pytest.param(Usage(math.inf, 4, NOW), Usage(1.0, 5, NOW), id="an endless heat"),
        pytest.param(Usage(-9.0, -4, NOW), Usage(1.0, 1, NOW), id="below nothing"),
        pytest.param(Usage(1e300, 10**400, NOW), Usage(MAX_HEAT, MAX_COUNT, NOW), id="bounded"),
    ],
)
def test_an_access(before: Usage, after: Usage) -> None:
    assert touch(before, NOW) == after


def test_the_half_life_is_a_rule():
    assert decayed(Usage(8.0, 1, ago(10)), NOW, 10) == 4.0
    assert decayed(None, NOW) == 0.0


@pytest.mark.parametrize(
    ("found", "changed"),
    [
        pytest.param(["b", "a"], ["b", "a"], id="in the order of the search"),
        pytest.param(["a", "a", "a"], ["a"], id="once a search"),
        pytest.param(["dead", "a"], ["a"], id="a deleted fact is never added again"),
        pytest.param(["dead"], [], id="nor warmed where its entry is still there"),
        pytest.param([], [], id="nothing found"),
    ],
)
def test_only_living_facts_warm(found: list[str], changed: list[str]) -> None:
    """102."""
    usage = {"a": Usage(1.0, 1, ago(30)), "dead": Usage(1.0, 1, ago(30))}
    result = touched(usage, found, {"a", "b"}, NOW)
    assert list(result) == changed
    assert all(result[name].count == (2 if name in usage else 1) for name in result)
    assert usage == {"a": Usage(1.0, 1, ago(30)), "dead": Usage(1.0, 1, ago(30))}
