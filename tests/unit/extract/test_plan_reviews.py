"""The review of old facts and the merging of many, as a plan carries them out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders_policy import NOW, old_fact
from builders_replies import MERGING, answer, basis, gone, new, planned, reasons, stored

from deermem.extract.basis import PlanRules
from deermem.model.changes import ABSENT
from deermem.model.fact import Source

CONFIRMS = PlanRules(confirms=True)
FROM_TALK = Source("conversation", "t0")
OLD = stored(*(old_fact(f"s{n}", 200 - n, confidence=0.5 + n / 10, source=FROM_TALK) for n in range(4)))


def group(count: int = 4, **values: object) -> tuple:
    facts = (
        old_fact(f"g{n}", 50 - n, category="goal", source=FROM_TALK, confidence=0.8, **values) for n in range(count)
    )
    return stored(*facts)


def merged(*ids: str, content: str = "Wants much", **values: object) -> dict[str, object]:
    fact = new(content, category="goal", **values)
    return {"sourceIds": list(ids), "consolidated": fact}


# --- review


def test_a_review_removes_and_extends_its_candidates():
    """133, 134."""
    done = planned(
        answer(
            staleFactsToRemove=[{"id": "s0", "reason": "over"}, {"id": "s9", "reason": "?"}],
            staleFactsToExtend=[
                {"id": "s0", "extend_by_days": 30},
                {"id": "s1", "extend_by_days": 30},
                {"id": "s1", "extend_by_days": 60},
            ],
        ),
        basis(OLD),
    )
    assert [(item.id, item.replaced_by) for item in done.change.deletes] == [("s0", None)]
    assert [item.fact for item in done.change.upserts] == [replace(OLD[1], expected_valid_days=199 + 60)]
    assert (done.outcome.retired, done.outcome.extended) == (("s0",), ("s1",))
    assert reasons(done) == [
        ("stale_removal", "unknown", "s9"),
        ("extension", "candidate", "s0"),
        ("extension", "duplicate", "s1"),
    ]


def test_a_review_touches_no_other_fact():
    correction = old_fact("c", 300, category="correction", source=FROM_TALK)
    facts = (*OLD, *stored("Fresh", correction))
    ids = ["f0", "c"]
    done = planned(
        answer(
            staleFactsToRemove=[{"id": name, "reason": "r"} for name in ids],
            staleFactsToExtend=[{"id": name, "extend_by_days": 9} for name in ids],
        ),
        basis(facts),
    )
    assert done.is_empty()
    assert [why for _, why, _ in reasons(done)] == ["candidate", "candidate"] * 2


def test_what_was_just_confirmed_or_is_said_again_is_not_outdated():
    reply = answer(
        new(OLD[1].content),
        factsToReinforce=[gone("s0")],
        staleFactsToRemove=[{"id": "s0", "reason": "r"}, {"id": "s1", "reason": "r"}],
    )
    done = planned(reply, basis(OLD, rules=CONFIRMS, signals=["reinforcement"]))
    assert done.change.deletes == ()
    assert done.outcome.confirmed == ("s0",)
    assert reasons(done) == [
        ("stale_removal", "candidate", "s0"),
        ("stale_removal", "restated", "s1"),
        ("fact", "duplicate", "0"),
    ]


def test_a_confirmed_and_extended_fact_keeps_both():
    asked = {"factsToReinforce": [gone("s0")], "staleFactsToExtend": [{"id": "s1", "extend_by_days": 9}]}
    done = planned(answer(**asked), basis(OLD, rules=CONFIRMS, signals=["reinforcement"]))
    assert [(item.fact.id, item.expected) for item in done.change.upserts] == [
        ("s0", OLD[0].version),
        ("s1", OLD[1].version),
    ]


def test_a_cycle_has_a_limit():
    many = stored(*(old_fact(f"s{n:02}", 200, confidence=n / 100, source=FROM_TALK) for n in range(12)))
    done = planned(answer(staleFactsToRemove=[{"id": fact.id, "reason": "r"} for fact in reversed(many)]), basis(many))
    assert sorted(done.outcome.retired) == [f"s{n:02}" for n in range(10)]
    assert reasons(done) == [("stale_removal", "limit", "s11"), ("stale_removal", "limit", "s10")]


# --- merges


def test_facts_of_one_category_become_one():
    """139: each source goes for it."""
    facts = group()
    done = planned(answer(factsToConsolidate=[merged("g0", "g1")]), basis(facts, rules=MERGING))
    (upsert,) = done.change.upserts
    fact = upsert.fact
    assert (fact.content, fact.category, fact.confidence) == ("Wants much", "goal", 0.8)
    assert (fact.consolidated_from, fact.consolidated_at, fact.created_at) == (("g0", "g1"), NOW, facts[1].created_at)
    assert (fact.source, upsert.expected) == (Source("consolidation"), ABSENT)
    assert {(item.id, item.replaced_by) for item in done.change.deletes} == {("g0", fact.id), ("g1", fact.id)}
    assert (done.outcome.merged, done.outcome.consolidated) == ((fact.id,), ("g0", "g1"))


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (merged("g0"), "malformed"),
        (merged("g0", "g9"), "unknown"),
        (merged("g0", "g1", durability="session"), "durability"),
        (merged("g0", "g1", confidence=0.1), "confidence"),
        (merged("g0", "g1", content="a\0"), "storage"),
        (merged("g0", "g1", content="\ud800"), "storage"),
        (merged("g0", "g1", content="<<<<<<< a\nb\n=======\nc\n>>>>>>> d"), "storage"),
        (merged("g0", "g1", content="Content of g2."), "duplicate"),
        (merged("g0", "g1", content="New one"), "duplicate"),
        ({"sourceIds": ["g0", "g1"], "consolidated": new("M", category="context")}, "category"),
    ],
)
def test_a_merge_that_is_none_leaves_its_sources(item, reason):
    """138."""
    done = planned(answer(new("New one"), factsToConsolidate=[item]), basis(group(), rules=MERGING))
    assert done.change.deletes == ()
    assert [(kind, why) for kind, why, _ in reasons(done)] == [("merge", reason)]


def test_each_refused_merge_is_named_by_its_sources():
    reply = answer(
        factsToConsolidate=[merged("g0", "g9"), merged("g0", "g1"), merged("g1", "g2", content="Other"), merged("g3")]
    )
    done = planned(reply, basis(group(), rules=MERGING))
    assert done.outcome.consolidated == ("g0", "g1")
    assert reasons(done) == [
        ("merge", "unknown", "g0, g9"),
        ("merge", "duplicate", "g1, g2"),
        ("merge", "malformed", "g3"),
    ]


def test_merges_are_off_by_default():
    asked = answer(factsToConsolidate=[merged("g0", "g1")])
    assert reasons(planned(asked, basis(group()))) == [("merge", "off", "g0, g1")]


def test_a_source_that_goes_otherwise_is_not_merged():
    """141."""
    reply = answer(factsToRemove=[gone("g0")], factsToConsolidate=[merged("g0", "g1"), merged("g2", "g3")])
    done = planned(reply, basis(group(), rules=MERGING))
    assert (done.outcome.removed, done.outcome.consolidated) == (("g0",), ("g2", "g3"))
    assert reasons(done) == [("merge", "unknown", "g0, g1")]
