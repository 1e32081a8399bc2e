"""Which facts are offered for merging, and which merge is one."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from builders_policy import FIRST, NOW, ago, old_fact

from deermem.errors import InvalidInput
from deermem.model.fact import Fact
from deermem.policy.consolidation import (
    ConsolidationRules,
    Cycle,
    Group,
    Merged,
    Proposal,
    candidates,
    merge_all,
)

RULES = ConsolidationRules(enabled=True)
FACTS = tuple(
    old_fact(f"g{number}", 50 + number, category="goal", confidence=(80 + number) / 100) for number in range(8)
)
OTHERS = (
    old_fact("k0", 10, category="knowledge", confidence=0.9),
    old_fact("k1", 20, category="knowledge", confidence=0.9),
    old_fact("c0", 10, category="correction", confidence=0.9),
    old_fact("c1", 10, category="correction", confidence=0.9),
    old_fact("loose", 10, category="goal", confidence=0.9),
)
OFFERED = (
    Group("goal", tuple(fact.id for fact in FACTS)),
    Group("knowledge", ("k0", "k1")),
    Group("correction", ("c0", "c1")),
)
CYCLE = Cycle(offered=OFFERED, threshold=0.7, now=NOW, rules=RULES)


def proposal(*sources: str, **values: object) -> Proposal:
    return Proposal(**{"sources": sources, "content": "All in one.", **values})  # type: ignore[arg-type]


def outcome(*proposals: Proposal, facts: tuple[Fact, ...] = (*FACTS, *OTHERS), cycle: Cycle = CYCLE) -> list[str]:
    """`+` and the sources of each merge, then the reasons of the others."""
    done, refused = merge_all(proposals, facts, cycle)
    return [*(f"+{'+'.join(merge.sources)}" for merge in done), *refused]


def merge(given: Proposal, *facts: Fact, cycle: Cycle = CYCLE) -> Merged:
    (found,), _ = merge_all([given], facts, cycle)
    return found


def many(category: str, count: int) -> list[Fact]:
    return [old_fact(f"{category}{number}", 10 + number, category=category) for number in range(count)]


@pytest.mark.parametrize(
    ("sizes", "offered"),
    [
        pytest.param({"goal": 8}, [("goal", 8)], id="just enough"),
        pytest.param({"goal": 7}, [], id="too few"),
        pytest.param({"goal": 8, "context": 11, "other": 3}, [("context", 8), ("goal", 8)], id="the largest first"),
        pytest.param({"b": 8, "a": 8, "d": 9, "c": 8}, [("d", 8), ("a", 8), ("b", 8)], id="three, of equals by word"),
        pytest.param({"correction": 20}, [], id="a protected one"),
        pytest.param({}, [], id="nothing"),
    ],
)
def test_what_is_offered(sizes: dict[str, int], offered: list[tuple[str, int]]) -> None:
    """137."""
    facts = [fact for category, count in sizes.items() for fact in many(category, count)]
    groups = candidates(facts, RULES)
    assert [(group.category, len(group.ids)) for group in groups] == offered
    assert candidates(facts[::-1], RULES) == groups
    assert candidates(facts, ConsolidationRules()) == ()


def test_the_oldest_of_a_category_are_offered():
    assert candidates(many("goal", 10), RULES)[0].ids == tuple(f"goal{number}" for number in range(9, 1, -1))


def test_one_word_in_several_spellings_is_one_category():
    facts = [
        replace(fact, category=word) for fact, word in zip(FACTS, ["Goal", "goal ", "GOAL", "goal"] * 2, strict=True)
    ]
    assert [len(group.ids) for group in candidates(facts, RULES)] == [8]


@pytest.mark.parametrize("odd", [replace(FACTS[0], id=""), replace(FACTS[0], expires_at=ago(-5))])
def test_a_fact_without_an_id_or_with_an_end_of_its_own_is_not_offered(odd: Fact) -> None:
    """136."""
    assert candidates([odd, *FACTS[1:]], RULES) == ()


@pytest.mark.parametrize(
    ("given", "result"),
    [
        pytest.param(proposal("g0", "g1"), "+g1+g0", id="two of a group, the oldest first"),
        pytest.param(proposal("g0", "g1", "g0"), "+g1+g0", id="one named twice counts once"),
        pytest.param(proposal("g0", "g1", category=" Goal "), "+g1+g0", id="the category said"),
        pytest.param(proposal("g0"), "source_count", id="one source"),
        pytest.param(proposal("g0", "g0"), "source_count", id="one source twice"),
        pytest.param(proposal(*(f"g{number}" for number in range(9))), "source_count", id="nine"),
        pytest.param(proposal(), "source_count", id="none"),
        pytest.param(proposal("g0", "ghost"), "unknown_source", id="a source that isn't there"),
        pytest.param(proposal("g0", "loose"), "not_offered", id="one that the model wasn't shown"),
        pytest.param(proposal("g0", "k0"), "mixed_groups", id="across categories"),
        pytest.param(proposal("c0", "c1"), "protected", id="of corrections"),
        pytest.param(proposal("g0", "g1", category="Correction"), "protected", id="into a correction"),
        pytest.param(proposal("g0", "g1", category="knowledge"), "category", id="into another category"),
        pytest.param(proposal("g0", "g1", confidence=0.6), "confidence", id="too unsure to be stored"),
        pytest.param(proposal("g0", "g1", confidence=-math.inf), "confidence", id="less than nothing"),
        pytest.param(proposal("g0", "g1", content=" \n"), "content", id="blank"),
        pytest.param(proposal("g0", "g1", content="half \ud800"), "content", id="half a character"),
        pytest.param(proposal("g0", "g1", content="x" * 70_000), "content", id="too long"),
        pytest.param(proposal("g0", "g1", content="content  OF\tk0."), "duplicate", id="what another fact says"),
        pytest.param(proposal("g0", "g1", content="Content of g2."), "duplicate", id="what another of the group says"),
        pytest.param(proposal("g0", "g1", content="CONTENT of g1."), "+g1+g0", id="what a source says"),
    ],
)
def test_one_merge(given: Proposal, result: str) -> None:
    """138."""
    assert outcome(given) == [result]


@pytest.mark.parametrize(
    ("given", "results"),
    [
        pytest.param(
            [proposal("g0", "g1"), proposal("g1", "g2", content="Two.")], ["+g1+g0", "consumed"], id="a source twice"
        ),
        pytest.param([proposal("g0", "g1"), proposal("g2", "g3")], ["+g1+g0", "duplicate"], id="the same result twice"),
        pytest.param(
            [proposal("g0", "g1"), proposal("g2", "g3", content="content of G0.")],
            ["+g1+g0", "+g3+g2"],
            id="what a source said that is gone now",
        ),
        pytest.param(
            [proposal("g0", "g9"), proposal("g0", "g1"), proposal("g2")],
            ["+g1+g0", "unknown_source", "source_count"],
            id="a failure costs itself",
        ),
    ],
)
def test_several_merges(given: list[Proposal], results: list[str]) -> None:
    """138."""
    assert outcome(*given) == results


def test_successes_are_counted_not_attempts():
    """140."""
    failures = [proposal("g0", "ghost")] * 5
    good = [proposal(f"g{n}", f"g{n + 1}", content=f"Number {n}.") for n in (0, 2, 4, 6)]
    assert outcome(*failures, *good) == ["+g1+g0", "+g3+g2", "+g5+g4", *["unknown_source"] * 5, "too_many"]


def test_nothing_is_merged_where_it_is_off():
    """140: switched off since it was offered."""
    assert outcome(proposal("g0", "g1"), cycle=replace(CYCLE, rules=ConsolidationRules())) == ["disabled"]


@pytest.mark.parametrize(
    ("changed", "result"),
    [
        pytest.param({"category": "knowledge"}, "mixed_groups", id="another category"),
        pytest.param({"category": "correction"}, "mixed_groups", id="a protected one"),
        pytest.param({"expires_at": ago(-3)}, "not_offered", id="an end"),
        pytest.param({"expires_at": ago(3)}, "unknown_source", id="an end that has come"),
    ],
)
def test_what_a_person_changed_since_counts(changed: dict[str, object], result: str) -> None:
    facts = (replace(FACTS[0], **changed), *FACTS[1:])  # type: ignore[arg-type]
    assert outcome(proposal("g0", "g1"), facts=facts) == [result]


def test_facts_that_were_offered_apart_are_not_merged_though_they_are_of_one_category_by_now():
    facts = (*FACTS, replace(OTHERS[0], category="goal"))
    assert outcome(proposal("g0", "k0"), facts=facts) == ["mixed_groups"]


def test_a_category_that_turned_into_a_protected_one_as_a_whole():
    facts = tuple(replace(fact, category="correction") for fact in FACTS)
    assert outcome(proposal("g0", "g1"), facts=facts) == ["protected"]


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        pytest.param(None, 0.9, id="missing: the best source's"),
        pytest.param(0.75, 0.75, id="as said"),
        pytest.param(0.99, 0.9, id="at most the best source's"),
        pytest.param(95, 0.9, id="out of bounds"),
        pytest.param(10**400, 0.9, id="too large for a float"),
        pytest.param(math.nan, 0.9, id="no number"),
        pytest.param(math.inf, 0.9, id="endless"),
        pytest.param(True, 0.9, id="true"),
        pytest.param("0.8", 0.9, id="text"),
    ],
)
def test_confidence(said: object, stored: float) -> None:
    """138."""
    facts = (replace(FACTS[0], confidence=0.9), replace(FACTS[1], confidence=0.72))
    assert merge(proposal("g0", "g1", confidence=said), *facts).confidence == stored


@pytest.mark.parametrize(
    ("first", "second", "window"),
    [
        pytest.param({"age": 60}, {"age": 80}, 70, id="the older one's deadline, from the newer one's creation"),
        pytest.param({"age": 60, "expected_valid_days": 20}, {"age": 80}, 20, id="a short window counts"),
        pytest.param({"age": 60}, {"age": 80, "confirmed": 10}, 90, id="a confirmation moves it"),
        pytest.param({"age": 0}, {"age": 500}, 1, id="a deadline that is over: one day"),
        pytest.param(
            {"age": 60, "expected_valid_days": 9999}, {"age": 80, "expected_valid_days": 9999}, 1800, id="capped"
        ),
        pytest.param({"age": 60}, {"created_at": FIRST}, 1, id="the year 1"),
        pytest.param({"age": 60}, {"age": 80, "expected_valid_days": 10**15}, 90, id="days beyond all time"),
    ],
)
def test_the_window_ends_with_the_earliest_deadline(
    first: dict[str, object], second: dict[str, object], window: int
) -> None:
    """139."""
    shared = {"category": "goal", "confidence": 0.9}
    facts = (old_fact("g0", **first, **shared), old_fact("g1", **second, **shared))  # type: ignore[arg-type]
    assert merge(proposal("g0", "g1"), *facts).expected_valid_days == window


def test_what_the_merged_fact_is_made_of():
    """139."""
    facts = (
        replace(FACTS[0], source_error=" Said B. "),
        replace(FACTS[1], source_error="Said A."),
        replace(FACTS[2], source_error="Said B."),
        replace(FACTS[3], source_error="  "),
    )
    found = merge(proposal("g3", "g0", "g2", "g1", content="\n  All of it. \n"), *facts)
    assert found == Merged(
        sources=("g3", "g2", "g1", "g0"),
        content="  All of it.",
        category="goal",
        confidence=0.83,
        created_at=ago(50),
        consolidated_at=NOW,
        source_error="Said B.; Said A.",
        expected_valid_days=87,
    )
    assert merge(proposal("g0", "g1"), *FACTS).source_error is None


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"min_facts": 2}, "min_facts is 2; give a whole number from 3 to 30"),
        ({"max_groups_per_cycle": 11}, "max_groups_per_cycle is 11"),
        ({"max_sources": 1}, "max_sources is 1; give a whole number from 2 to 20"),
        ({"protected_categories": "goal"}, "protected_categories is a string"),
    ],
)
def test_rules_out_of_bounds_are_named(given: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ConsolidationRules(**given)  # type: ignore[arg-type]
    assert named in str(caught.value)
