"""Plans, committed: what lies on disk afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders_replies import LABELS, answer, gone, new, planned, told
from builders_store import edit

from deermem import ChangeSet, DeerMem, Draft, RevisionConflict, Settings
from deermem.extract.basis import Basis, PlanRules, Shown
from deermem.policy.consolidation import ConsolidationRules

RULES = PlanRules(confirms=True, consolidation=ConsolidationRules(enabled=True, min_facts=3))


@pytest.fixture
def memory(root, clock):
    with DeerMem(root, Settings(max_facts=10), clock=clock) as engine:
        yield engine.memory("alice", "coder")


def add(memory, *contents: str, **values: object) -> list[str]:
    drafts = [Draft(content=text, id=f"f{n}", source="t0", **values) for n, text in enumerate(contents)]
    return [fact.id for fact in memory.apply(ChangeSet(drafts)).facts]


def basis(memory, clock) -> Basis:
    token = memory.state_token()
    facts = memory.list()
    return Basis(
        facts=facts,
        shown=Shown.of(facts, clock(), RULES),
        now=clock(),
        item_id="item",
        thread="thread-1",
        summaries=memory.summaries(),
        signals=("reinforcement",),
        rules=RULES,
        state_token=token,
    )


def test_a_whole_answer_is_one_commit(memory, clock):
    add(memory, "Lives in Kiel", "Drinks tea", "Wants A", "Wants B", "Wants C", category="goal", confidence=0.8)
    clock.advance(days=100)
    reply = answer(
        new("Lives in Bonn"),
        user={"workContext": told("Trains")},
        factsToReinforce=[gone("f1")],
        factsToRemove=[gone("f0", replacementFactIndex=0)],
        staleFactsToExtend=[{"id": "f4", "extend_by_days": 30}],
        factsToConsolidate=[
            {"sourceIds": ["f2", "f3"], "consolidated": {"content": "Wants A and B", "category": "goal", **LABELS}}
        ],
    )
    done = planned(reply, basis(memory, clock))
    revision = memory.summaries().revision
    commit = memory.apply(done.change)
    assert commit.revision == revision + 1
    assert sorted(commit.deleted) == ["f0", "f2", "f3"]
    assert done.outcome.settled(commit) == done.outcome
    assert {fact.content for fact in memory.list()} == {"Lives in Bonn", "Drinks tea", "Wants A and B", "Wants C"}
    assert memory.summaries().work_context.summary == "Trains"
    assert (memory.get("f1").confirmation_count, memory.get("f4").expected_valid_days) == (1, 130)
    (merged,) = done.outcome.merged
    assert (memory.get(merged).consolidated_from, memory.get(merged).source.type) == (("f2", "f3"), "consolidation")
    (stored,) = done.outcome.stored
    assert memory.get(stored).source.thread_id == "thread-1"


def test_the_same_answer_again_changes_nothing(memory, clock):
    """A crash after the commit and before the queue was told."""
    add(memory, "Lives in Kiel")
    reply = answer(new("Lives in Bonn"), factsToRemove=[gone("f0", replacementFactIndex=0)])
    memory.apply(planned(reply, basis(memory, clock)).change)
    assert planned(reply, basis(memory, clock)).is_empty()


def test_a_confirmation_keeps_a_persons_keys_and_comments(memory, clock):
    add(memory, "Drinks tea")
    path = memory.path("f0")
    edit(path, "category: context\n", "category: context  # as she says\nmine: [1, 2]\n")
    memory.apply(planned(answer(factsToReinforce=[gone("f0")]), basis(memory, clock)).change)
    text = path.read_text("utf-8")
    assert "category: context  # as she says\nmine: [1, 2]\n" in text
    assert memory.get("f0").confirmation_count == 1
    assert memory.get("f0").content == "Drinks tea"


def test_a_hand_edit_since_the_look_is_a_conflict(memory, clock):
    add(memory, "Drinks tea")
    done = planned(answer(factsToRemove=[gone("f0")]), basis(memory, clock))
    edit(memory.path("f0"), "Drinks tea\n", "Drinks mate\n")
    with pytest.raises(RevisionConflict):
        memory.apply(done.change)
    assert memory.get("f0").content.startswith("Drinks")
    shown = replace(basis(memory, clock), shown=Shown(versions={"f0": "what the model saw"}))
    assert planned(answer(factsToRemove=[gone("f0")]), shown).is_empty()


def test_where_the_cap_drops_a_replacement_the_old_fact_stays(memory, clock):
    """116."""
    add(memory, *(f"Fact {n}" for n in range(10)), confidence=0.95)
    clock.advance(seconds=1)
    reply = answer(
        new("Instead of 3", confidence=0.7),
        new("Better", confidence=1.0),
        factsToRemove=[gone("f3", replacementFactIndex=0)],
    )
    done = planned(reply, basis(memory, clock))
    commit = memory.apply(done.change)
    told_of = done.outcome.settled(commit)
    contents = {fact.content for fact in memory.list()}
    assert {"Better", "Fact 3"} <= contents
    assert "Instead of 3" not in contents
    assert (len(told_of.stored), told_of.removed, len(contents)) == (1, (), 10)
    assert [(item.kind, item.reason) for item in told_of.refused] == [("fact", "capacity"), ("removal", "replacement")]


def test_a_replacement_at_the_cap_costs_no_other_fact(memory, clock):
    """The trap."""
    add(memory, *(f"Fact {n}" for n in range(10)), confidence=0.95)
    reply = answer(new("Instead of 3", confidence=0.7), factsToRemove=[gone("f3", replacementFactIndex=0)])
    commit = memory.apply(planned(reply, basis(memory, clock)).change)
    assert (commit.deleted, commit.evicted) == (("f3",), ())
    assert "Instead of 3" in {fact.content for fact in memory.list()}
