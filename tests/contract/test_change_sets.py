"""The one write path: preconditions, conflicts, what is rebased and what is not."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from builders_store import edit, facts_of, place, tree

from deermem import (
    ABSENT,
    Amend,
    ChangeSet,
    Commit,
    Conflict,
    DeerMem,
    Delete,
    Draft,
    FactConflict,
    FactNotFound,
    InvalidInput,
    Memory,
    RevisionConflict,
    Upsert,
)
from deermem.service.read import token_of
from deermem.store import transaction
from deermem.store.epoch import read_epoch


@pytest.fixture
def rival(root) -> Memory:
    """The same bucket through another engine."""
    return DeerMem(root).memory("alice", "coder")


def test_a_commit_says_what_it_did(memory):
    """42."""
    old = memory.add("Old")
    commit = memory.apply(ChangeSet([Draft(id="fact_b", content="B"), Draft(id="fact_a", content="A")], [old.id]))
    assert isinstance(commit, Commit)
    assert commit.revision == 2
    assert [fact.id for fact in commit.facts] == ["fact_b", "fact_a"]
    assert (commit.deleted, commit.evicted, commit.conflict_copies) == ((old.id,), (), ())
    assert list(commit.facts) == [memory.get("fact_b"), memory.get("fact_a")]


def test_one_changed_fact_is_one_write_without_a_scan(memory, monkeypatch):
    """44: whatever the number of other facts, none is opened or listed."""
    facts = memory.import_document({"facts": [{"content": f"Fact {number}"} for number in range(20)]}).facts
    memory.update(facts[0].id, "Warmed up")
    swept: list[str] = []
    looked: list[str] = []
    monkeypatch.setattr("deermem.service.view.scan_facts", swept.append)
    real = os.open

    def opening(path, *rest, **named):
        if str(path).endswith(".md"):
            looked.append(os.path.basename(path))
        return real(path, *rest, **named)

    monkeypatch.setattr("os.open", opening)
    memory.update(facts[0].id, "Changed again")
    memory.add("A new one")
    memory.delete(facts[1].id)
    assert swept == []
    assert not {f"{fact.id}.md" for fact in facts[2:]} & set(looked)


def test_a_fresh_process_changes_one_and_still_shows_the_others(memory, rival, root):
    """45."""
    facts = [memory.add(f"Fact {number}") for number in range(4)]
    rival.update(facts[2].id, "Changed")
    fresh = DeerMem(root).memory("alice", "coder")
    assert sorted(fact.content for fact in fresh.list()) == ["Changed", "Fact 0", "Fact 1", "Fact 3"]


def test_summary_sections_that_are_not_named_survive(memory, clock):
    """46: and keep their time."""
    memory.update_summaries({"workContext": "Work", "recentMonths": "Recent"})
    clock.advance(hours=2)
    memory.update_summaries({"user": {"topOfMind": {"summary": "Top"}}})
    found = memory.summaries()
    assert (found.work_context.summary, found.recent_months.summary, found.top_of_mind.summary) == (
        "Work",
        "Recent",
        "Top",
    )
    assert (found.work_context.updated_at, found.top_of_mind.updated_at) == (
        "2026-11-30T12:00:00Z",
        "2026-11-30T14:00:00Z",
    )


@pytest.mark.parametrize(
    "given", [{"mood": "x"}, {"workContext": 7}, {"user": {"recent": "x"}}, {"workContext": "a\0"}, []]
)
def test_bad_summaries_are_refused(memory, root, given):
    """46."""
    with pytest.raises(InvalidInput, match="summar"):
        memory.update_summaries(given)
    assert not root.exists()


def test_stale_revisions_have_a_type_each(memory):
    """47: both below Conflict."""
    fact = memory.add("A fact.")
    memory.update(fact.id, "Changed")
    with pytest.raises(RevisionConflict) as shared:
        memory.apply(ChangeSet([Draft(content="New")], expected_revision=1))
    with pytest.raises(FactConflict) as stale:
        memory.update(fact.id, "Later", expected=1)
    with pytest.raises(FactConflict) as existing:
        memory.apply(ChangeSet([Upsert(Draft(id=fact.id, content="Again"), ABSENT)]))
    assert all(isinstance(caught.value, Conflict) for caught in (shared, stale, existing))
    assert stale.value.current == existing.value.current == memory.get(fact.id)
    assert memory.get(fact.id).content == "Changed"


@pytest.mark.parametrize("expected", ["token", "number"])
def test_an_update_and_a_delete_on_what_was_seen_go_through(memory, expected):
    """51: a version token or a revision."""
    fact = memory.add("A fact.")
    changed = memory.update(fact.id, "Second", expected=fact.version if expected == "token" else 1)
    with pytest.raises(FactConflict):
        memory.delete(fact.id, expected=fact.version if expected == "token" else 1)
    memory.delete(fact.id, expected=changed.version if expected == "token" else 2)
    assert memory.list() == []


@pytest.mark.parametrize("wrong", [0, -1, 2, True, "", "1", "1-0000000000000000", 1.0, []])
def test_another_expectation_conflicts_or_is_refused(memory, root, wrong):
    """51: nothing is written, whatever stands there."""
    fact = memory.add("A fact.")
    memory.update(fact.id, "Second")
    memory.update(fact.id, "Third")
    before = tree(root)
    with pytest.raises((FactConflict, InvalidInput)):
        memory.update(fact.id, "Changed", expected=wrong)
    with pytest.raises((FactConflict, InvalidInput)):
        memory.delete(fact.id, expected=wrong)
    assert tree(root) == before


def test_expecting_a_fact_that_is_gone_conflicts(memory):
    """51: also where absent was expected and it is there, and the other way round."""
    fact = memory.add("A fact.")
    memory.delete(fact.id)
    with pytest.raises(FactConflict) as gone:
        memory.update(fact.id, "Changed", expected=fact.version)
    assert gone.value.current is None
    with pytest.raises(FactConflict):
        memory.delete(fact.id, expected=fact.version)
    with pytest.raises(FactNotFound):
        memory.delete(fact.id)
    with pytest.raises(KeyError):
        memory.update(fact.id, "Changed")
    memory.apply(ChangeSet([Upsert(fact, ABSENT)]))
    assert memory.get(fact.id).content == "A fact."


def test_a_point_change_rebases_over_a_moved_revision(memory, rival):
    """48: its own fact still matches; another fact's change doesn't stop it."""
    mine, other = memory.add("Mine"), memory.add("Other")
    rival.update(other.id, "Changed elsewhere")
    memory.apply(ChangeSet([Amend(mine.id, "Mine, changed", expected=mine.version)], expected_revision=2))
    assert memory.get(mine.id).content == "Mine, changed"
    with pytest.raises(FactConflict):
        memory.apply(ChangeSet([Amend(other.id, "Lost", expected=other.version)], expected_revision=2))
    with pytest.raises(RevisionConflict):
        memory.apply(ChangeSet([Amend(other.id, "Lost")], expected_revision=2))
    assert memory.get(other.id).content == "Changed elsewhere"


def test_a_change_set_with_summaries_is_never_rebased(memory, rival, root):
    """49: nothing of it is committed."""
    mine = memory.add("Mine")
    rival.add("Other")
    before = tree(root)
    change = ChangeSet(
        [Amend(mine.id, "Changed", expected=mine.version)], summaries={"topOfMind": "T"}, expected_revision=1
    )
    with pytest.raises(RevisionConflict):
        memory.apply(change)
    with pytest.raises(RevisionConflict):
        memory.update_summaries({"topOfMind": "T"}, expected_revision=1)
    assert tree(root) == before
    assert memory.update_summaries({"topOfMind": "T"}, expected_revision=2).revision == 3


def test_one_bad_item_stops_the_whole_change_set(memory, root):
    """49: conflict, missing fact, duplicate, bad value: not a byte changes."""
    fact = memory.add("A fact.")
    before = tree(root)
    changes: list[Callable[[], ChangeSet]] = [
        lambda: ChangeSet([Draft(content="New"), Amend(fact.id, "X", expected=7)]),
        lambda: ChangeSet([Draft(content="New"), Amend("fact_gone", "X")]),
        lambda: ChangeSet([Draft(content="New"), Draft(content=" a  FACT. ")]),
        lambda: ChangeSet([Draft(content="New"), Draft(content="new")]),
        lambda: ChangeSet([Draft(content="New")], ["fact_gone"]),
        lambda: ChangeSet([Draft(content="New"), Draft(content="Bad", confidence=7)]),
        lambda: ChangeSet([Amend(fact.id, "X")], [fact.id]),
        lambda: ChangeSet([Draft(id="fact_n", content="New"), Draft(id="FACT_N", content="Other")]),
        lambda: ChangeSet([Draft(content="New")], summaries={"nothing": "x"}),
        lambda: ChangeSet([Draft(content="New")], [Delete(fact.id, "1-0")]),
    ]
    for change in changes:
        with pytest.raises((InvalidInput, Conflict, FactNotFound)):
            memory.apply(change())
    assert tree(root) == before


def test_two_engines_that_create_one_id_conflict(memory, rival):
    """50: the first content stays."""
    memory.apply(ChangeSet([Upsert(Draft(id="fact_x", content="First"), ABSENT)]))
    with pytest.raises(FactConflict, match="must not exist already"):
        rival.apply(ChangeSet([Upsert(Draft(id="fact_x", content="Second"), ABSENT)]))
    assert memory.get("fact_x").content == "First"


def test_a_stale_writer_does_not_undo_another(memory, rival):
    """C5: A reads, B writes, A writes on what it read."""
    fact = memory.add("Read by A")
    rival.update(fact.id, "Written by B")
    with pytest.raises(FactConflict) as caught:
        memory.update(fact.id, "Written by A", expected=fact.version)
    assert caught.value.current is not None
    assert caught.value.current.content == "Written by B"
    merged = memory.update(fact.id, "Written by both", expected=caught.value.current.version)
    assert rival.get(fact.id) == merged


def test_an_update_without_expectation_keeps_other_fields_of_the_file(memory, rival):
    """Worked out on the fact as it lies on disk."""
    fact = memory.add("A fact.", topics=["a"])
    rival.update(fact.id, confidence=0.9)
    edit(memory.path(fact.id), "- a\n", "- a\n- b\n")
    changed = memory.update(fact.id, "New content")
    assert (changed.confidence, changed.topics, changed.content) == (0.9, ("a", "b"), "New content")


def test_a_state_token_notices_hand_edits_and_commits(memory, engine, root):
    """A snapshot's decision is refused where anything moved."""

    def token() -> str:
        return token_of(engine.context("alice"), "coder", (root / "users/alice/memory.json").read_bytes())

    fact = memory.add("A fact.")
    seen = token()
    memory.apply(ChangeSet([Draft(content="On what was seen")], state_token=seen))
    with pytest.raises(RevisionConflict):
        memory.apply(ChangeSet([Draft(content="On an old state")], state_token=seen))
    seen = token()
    edit(memory.path(fact.id), "A fact.", "B fact.")
    with pytest.raises(RevisionConflict):
        memory.apply(ChangeSet([Draft(content="Hand edit since")], state_token=seen))
    seen = token()
    place(facts_of(root) / "new.md", "A new file\n")
    with pytest.raises(RevisionConflict):
        memory.apply(ChangeSet([Draft(content="New file since")], state_token=seen))


@pytest.mark.parametrize("which", ["agent", "user"])
def test_what_was_decided_before_a_clear_cannot_bring_it_back(memory, engine, root, which):
    """An update under way notices the clear."""
    memory.add("A fact.")
    before = read_epoch(engine.context("alice").files, engine.context("alice").paths)
    if which == "agent":
        memory.clear()
    else:
        engine.clear("alice")
    with pytest.raises(RevisionConflict, match="cleared"):
        memory.apply(ChangeSet([Draft(content="A fact.")], summaries={"topOfMind": "T"}, epoch=before))
    assert memory.list() == []
    after = read_epoch(engine.context("alice").files, engine.context("alice").paths)
    assert after not in ("", before)
    memory.apply(ChangeSet([Draft(content="Decided afterwards")], epoch=after))
    assert len(memory.list()) == 1


def test_an_import_decides_on_a_fresh_state_after_a_conflict(memory, rival, monkeypatch):
    """52: a person takes the place of a file in between; all is decided again."""
    real = transaction.Transaction.commit
    calls = []

    def commit(self, changes, manifest):
        if not calls:
            place(memory._user.paths.fact("coder", "fact_x"), "---\nid: fact_x\n---\n\nBy hand\n")
        calls.append(len(changes))
        return real(self, changes, manifest)

    monkeypatch.setattr(transaction.Transaction, "commit", commit)
    memory.import_document({"facts": [{"id": "fact_x", "content": "Imported"}, {"id": "fact_y", "content": "Too"}]})
    assert len(calls) == 2
    assert [fact.content for fact in rival.list()] == ["Imported", "Too"]
    assert memory.document() == rival.document()
