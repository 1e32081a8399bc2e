"""Which facts are due for review, and what a review may do to them."""

from __future__ import annotations

import math

import pytest
from builders_policy import FIRST, LAST, NOW, ago, old_fact

from deermem.errors import InvalidInput
from deermem.model.fact import Fact
from deermem.policy.staleness import (
    StalenessRules,
    candidates,
    expected_valid_days,
    extended,
    extensions,
    is_stale,
    new_window,
    reference,
    removals,
    window_days,
)

RULES = StalenessRules()
OFF = StalenessRules(enabled=False)
STALE = tuple(old_fact(name, age) for name, age in (("a", 100), ("b", 300), ("c", 200)))


def ids(facts: tuple[Fact, ...]) -> list[str]:
    return [fact.id for fact in facts]


@pytest.mark.parametrize(
    ("said", "days"),
    [
        (30, 30),
        (1, 1),
        (180.7, 180),
        (1.0, 1),
        (0.5, None),
        (0, None),
        (-3, None),
        (True, None),
        (False, None),
        ("30", None),
        (None, None),
        ([30], None),
        (math.nan, None),
        (math.inf, None),
        (-math.inf, None),
        (1e300, 36_500),
        (10**400, 36_500),
        (-(10**400), None),
    ],
)
def test_days_as_a_model_says_them(said: object, days: int | None) -> None:
    """131."""
    assert expected_valid_days(said) == days


@pytest.mark.parametrize(
    ("said", "days"), [(None, None), (7, 7), (1800, 1800), (1801, 1800), (10**400, 1800), ("7", None), (0.5, None)]
)
def test_a_new_fact_has_twenty_times_the_default_at_most(said: object, days: int | None) -> None:
    """135."""
    assert new_window(said, RULES) == days


@pytest.mark.parametrize(
    ("fact", "stale"),
    [
        pytest.param(old_fact("a", 91), True, id="older than the default"),
        pytest.param(old_fact("a", 90), False, id="just as old"),
        pytest.param(old_fact("a", 90.001), True, id="a moment older"),
        pytest.param(old_fact("a", 900, confirmed=89), False, id="confirmed since"),
        pytest.param(old_fact("a", 900, confirmed=91), True, id="confirmed long ago"),
        pytest.param(old_fact("a", 91, expected_valid_days=180), False, id="good for longer"),
        pytest.param(old_fact("a", 8, expected_valid_days=7), True, id="good for less"),
        pytest.param(old_fact("a", 91, expected_valid_days=0), True, id="a window that is none"),
        pytest.param(old_fact("a", 91, expected_valid_days=10**15), False, id="a window beyond all time"),
        pytest.param(old_fact("a", 91, category="correction"), False, id="a correction"),
        pytest.param(old_fact("a", 91, category=" Correction "), False, id="a correction in another spelling"),
        pytest.param(old_fact("a", -5), False, id="made in the future"),
        pytest.param(old_fact("a", created_at=FIRST), True, id="made in the year 1"),
        pytest.param(old_fact("a", created_at=LAST), False, id="made in the year 9999"),
        pytest.param(old_fact("a", created_at=FIRST, last_confirmed_at=LAST), False, id="confirmed in the year 9999"),
        pytest.param(old_fact("a", created_at=ago(91).replace(tzinfo=None)), True, id="without a zone"),
    ],
)
def test_what_is_stale(fact: Fact, stale: bool) -> None:
    """130."""
    assert is_stale(fact, NOW, RULES) is stale


def test_a_window_and_where_it_starts():
    fact = old_fact("a", 900, confirmed=100)
    assert (window_days(fact, RULES), reference(fact)) == (90, ago(100))
    assert reference(old_fact("a", 900)) == ago(900)


@pytest.mark.parametrize(
    ("facts", "rules", "found"),
    [
        pytest.param(STALE, RULES, ["b", "c", "a"], id="the oldest first"),
        pytest.param(STALE[:2], RULES, [], id="too few"),
        pytest.param(STALE[:2], StalenessRules(min_candidates=2), ["b", "a"], id="enough by rule"),
        pytest.param(STALE, OFF, [], id="switched off"),
        pytest.param((*STALE, old_fact("", 400)), RULES, ["b", "c", "a"], id="one without an id"),
        pytest.param((*STALE[:2], old_fact("", 400)), RULES, [], id="one without an id doesn't count"),
        pytest.param((*STALE, old_fact("new", 1)), RULES, ["b", "c", "a"], id="a fresh one"),
        pytest.param((*STALE, old_fact("0", 300)), RULES, ["0", "b", "c", "a"], id="of one age by id"),
        pytest.param((), RULES, [], id="nothing"),
    ],
)
def test_candidates(facts: tuple[Fact, ...], rules: StalenessRules, found: list[str]) -> None:
    """132, 136."""
    assert ids(candidates(facts, NOW, rules)) == found
    assert ids(candidates(facts[::-1], NOW, rules)) == found


@pytest.mark.parametrize(
    ("proposed", "rules", "gone"),
    [
        pytest.param({"a", "b", "c"}, RULES, ("c", "b", "a"), id="the lowest confidence first, of equals the older"),
        pytest.param({"a", "b", "c"}, StalenessRules(max_removals_per_cycle=1), ("c",), id="so many a cycle"),
        pytest.param({"a", "fresh", "nobody"}, RULES, ("a",), id="none but candidates"),
        pytest.param({"a", "b", "c"}, OFF, (), id="switched off"),
        pytest.param(set(), RULES, (), id="nothing proposed"),
        pytest.param({"odd"}, RULES, ("odd",), id="a confidence that is no number"),
        pytest.param({"odd", "c", "b"}, RULES, ("c", "odd", "b"), id="and counts as 0.5"),
        pytest.param({""}, RULES, (), id="no id"),
    ],
)
def test_removals(proposed: set[str], rules: StalenessRules, gone: tuple[str, ...]) -> None:
    """133."""
    reviewed = (
        old_fact("a", 100, confidence=0.8),
        old_fact("b", 300, confidence=0.8),
        old_fact("c", 200, confidence=0.3),
        old_fact("odd", 200, confidence=math.nan),
        old_fact("", 200),
    )
    assert removals(proposed, reviewed, rules) == gone
    assert removals(proposed, reviewed[::-1], rules) == gone


def test_ten_removals_a_cycle():
    """133."""
    facts = [old_fact(f"f{number:02}", 200, confidence=number / 20) for number in range(15)]
    assert removals([fact.id for fact in facts], facts, RULES) == tuple(f"f{number:02}" for number in range(10))


@pytest.mark.parametrize(
    ("fact", "more", "window"),
    [
        pytest.param(old_fact("a", 100), 30, 130, id="age and days"),
        pytest.param(old_fact("a", 100.9), 1, 101, id="begun days don't count"),
        pytest.param(old_fact("a", 900, confirmed=100), 30, 130, id="one reference: since the confirmation"),
        pytest.param(old_fact("a", 100), 5_000, 3_650, id="ten years at most"),
        pytest.param(old_fact("a", created_at=FIRST), 30, 3_650, id="from the year 1"),
        pytest.param(old_fact("a", 100), 10**400, 3_650, id="days beyond all time"),
        pytest.param(old_fact("a", 100), 2.9, 102, id="a fraction is cut off"),
        pytest.param(old_fact("a", 100), 0, None, id="no days"),
        pytest.param(old_fact("a", 100), -7, None, id="less than none"),
        pytest.param(old_fact("a", 100), "30", None, id="text"),
        pytest.param(old_fact("a", 100), None, None, id="not asked"),
        pytest.param(old_fact("a", 100), math.nan, None, id="no number"),
        pytest.param(old_fact("a", 10), 30, None, id="a fresh fact"),
        pytest.param(old_fact("a", 100, category="correction"), 30, None, id="a protected one"),
    ],
)
def test_extension(fact: Fact, more: object, window: int | None) -> None:
    """134."""
    assert extended(fact, more, NOW, RULES) == window


def test_an_extended_fact_comes_back_when_its_days_are_over():
    fact = old_fact("a", 900, confirmed=100)
    longer = old_fact("a", 900, confirmed=100, expected_valid_days=extended(fact, 30, NOW, RULES))
    assert not is_stale(longer, NOW, RULES)
    later = old_fact("a", 931, confirmed=131, expected_valid_days=longer.expected_valid_days)
    assert is_stale(later, NOW, RULES)


def test_what_is_proposed_for_removal_is_not_extended():
    """134: nor what is no candidate, nor anything where the review is off."""
    asked = {"a": 30, "b": 30, "c": 0, "fresh": 30, "nobody": 30}
    reviewed = (*STALE, old_fact("fresh", 5), old_fact("", 500))
    assert extensions(asked, {"b"}, reviewed, NOW, RULES) == {"a": 130}
    assert extensions(asked, {"b"}, reviewed, NOW, OFF) == {}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"age_days": 29}, "age_days is 29; give a whole number from 30 to 365"),
        ({"age_days": 90.0}, "age_days is 90.0"),
        ({"min_candidates": 0}, "min_candidates is 0"),
        ({"max_removals_per_cycle": 51}, "max_removals_per_cycle is 51"),
        ({"max_lifetime_multiplier": True}, "max_lifetime_multiplier is True"),
        ({"max_extension_days": 89}, "max_extension_days is 89; give a whole number from 90 to 36500"),
        ({"protected_categories": "correction"}, "protected_categories is a string"),
    ],
)
def test_rules_out_of_bounds_are_named(given: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        StalenessRules(**given)  # type: ignore[arg-type]
    assert named in str(caught.value)


def test_the_longest_window_is_one_that_a_file_takes():
    rules = StalenessRules(age_days=365, max_lifetime_multiplier=100, protected_categories=["goal"])
    assert (rules.max_window_days, rules.protected_categories) == (36_500, ("goal",))
