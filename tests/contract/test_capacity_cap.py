"""The cap on facts per agent bucket: who stays, and what a commit may shed."""

from __future__ import annotations

import pytest
from builders_store import edit, facts_of, place

from deermem import ChangeSet, DeerMem, Draft, InvalidInput, NotStored, Settings


@pytest.fixture
def small(root, clock):
    """An engine with room for ten facts a bucket."""
    with DeerMem(root, Settings(max_facts=10), clock=clock) as engine:
        yield engine


@pytest.fixture
def full(small, clock):
    """A full bucket: fact_0 to fact_9, confidence 0.50 to 0.59, a second apart."""
    memory = small.memory("alice", "coder")
    for number in range(10):
        memory.apply(ChangeSet([Draft(id=f"fact_{number}", content=f"Fact {number}", confidence=0.5 + number / 100)]))
        clock.advance(seconds=1)
    return memory


def ids(memory) -> list[str]:
    return [fact.id for fact in memory.list()]


def test_up_to_the_cap_nothing_goes(full):
    """94."""
    assert ids(full) == [f"fact_{number}" for number in range(10)]


def test_the_lowest_confidence_goes_and_the_commit_says_so(full, root):
    """95: its file too, and it is not found any more."""
    commit = full.apply(ChangeSet([Draft(id="fact_new", content="New", confidence=0.9)]))
    assert (commit.evicted, commit.deleted) == (("fact_0",), ())
    assert ids(full) == [*(f"fact_{number}" for number in range(1, 10)), "fact_new"]
    assert len(list(facts_of(root).rglob("*.md"))) == 10
    assert "fact_0" not in [hit.fact.id for hit in full.search("fact 0")]


def test_of_two_equals_the_newer_stays(full, clock):
    """The trap: the newest fact must not be the one to go."""
    for fact_id in ids(full):
        full.update(fact_id, confidence=0.5)
    clock.advance(seconds=1)
    commit = full.apply(ChangeSet([Draft(content="Just as sure, but new", confidence=0.5)]))
    assert commit.evicted == ("fact_0",)
    assert commit.facts[0].id in ids(full)


def test_a_fact_that_ranks_below_all_is_not_stored(full):
    """107: NotStored, and nothing else goes for it."""
    before = ids(full)
    with pytest.raises(NotStored, match="full"):
        full.add("Less sure than all", confidence=0.1)
    assert ids(full) == before
    assert full.document()["revision"] == 10


def test_a_replaced_fact_makes_room_before_another_is_evicted(full):
    """The trap: replacing one fact at the cap costs no other one."""
    commit = full.apply(ChangeSet([Draft(id="fact_new", content="Correction", confidence=0.1)], ["fact_5"]))
    assert (commit.deleted, commit.evicted) == (("fact_5",), ())
    assert len(ids(full)) == 10


def test_an_update_evicts_nothing(full):
    """Also one that makes its fact the lowest."""
    assert full.update("fact_9", confidence=0.0).confidence == 0.0
    assert len(ids(full)) == 10


@pytest.mark.parametrize("indexed", [True, False])
def test_a_store_found_over_its_cap_is_not_emptied(root, clock, indexed):
    """A commit sheds at most as many as it adds: cap lowered, hand-made files."""
    with DeerMem(root, Settings(max_facts=0), clock=clock) as engine:
        engine.memory("alice", "coder").import_document(
            {"facts": [{"id": f"fact_{number:02}", "content": f"Fact {number}"} for number in range(30)]}
        )
    settings = Settings(max_facts=10, retrieval_adapter="fts5" if indexed else "")
    with DeerMem(root, settings, clock=clock) as engine:
        memory = engine.memory("alice", "coder")
        assert len(memory.list()) == 30
        memory.update("fact_07", "Changed")
        memory.update_summaries({"topOfMind": "T"})
        assert len(memory.list()) == 30
        clock.advance(seconds=1)
        assert memory.apply(ChangeSet([Draft(content="One more")])).evicted == ("fact_00",)
        assert len(memory.list()) == 30
        place(facts_of(root) / "hand.md", "By hand\n")
        assert len(memory.list()) == 31


@pytest.mark.parametrize("indexed", [True, False])
def test_a_copy_of_a_file_takes_no_place_of_its_own(root, clock, indexed):
    """A person's or a sync client's second file with the same id is the same fact."""
    settings = Settings(max_facts=10, retrieval_adapter="fts5" if indexed else "")
    with DeerMem(root, settings, clock=clock) as engine:
        memory = engine.memory("alice", "coder")
        facts = [memory.add(f"Fact number {number}", confidence=0.5 + number / 100) for number in range(9)]
        (source,) = root.glob(f"users/alice/agents/coder/facts/*/{facts[8].id}.md")
        copy = root / "users/alice/agents/coder/facts/notes/copy.md"
        copy.parent.mkdir()
        copy.write_bytes(source.read_bytes())
        memory.search("number")
        memory.add("Fact number 9", confidence=0.9)
        assert len(memory.list()) == 10
        commit = memory.apply(ChangeSet([Draft(content="Fact number 10", confidence=0.9)], [facts[8].id]))
        assert (commit.evicted, len(memory.list()), copy.exists()) == ((), 10, False)


def test_a_victim_that_a_person_just_raised_stays(full):
    """An eviction victim that changed since it was judged is not removed."""
    edit(full.path("fact_0"), "confidence: 0.5\n", "confidence: 0.99\n")
    full.apply(ChangeSet([Draft(id="fact_new", content="New", confidence=0.9)]))
    assert {"fact_0", "fact_new"} <= set(ids(full))
    assert full.get("fact_0").confidence == 0.99


def test_an_import_shares_the_policy(full, clock):
    """107: the lowest of old and new go, never more than were added."""
    clock.advance(seconds=1)
    facts = [{"id": f"new_{number}", "content": f"New {number}", "confidence": number / 10} for number in range(4, 9)]
    commit = full.import_document({"facts": facts})
    assert sorted(commit.evicted) == ["fact_0", "fact_1", "fact_2", "new_4", "new_5"]
    assert [fact.id for fact in commit.facts] == ["new_6", "new_7", "new_8"]
    assert len(ids(full)) == 10


def test_an_import_of_which_nothing_is_kept_says_so(full):
    """Its facts rank below all others: nothing is written, and their ids are named as those that had to go."""
    before, revision = ids(full), full.summaries().revision
    facts = [{"id": f"low_{number}", "content": f"Low {number}", "confidence": 0.1} for number in range(3)]
    commit = full.import_document({"facts": facts})
    assert (sorted(commit.evicted), commit.facts, commit.deleted) == (["low_0", "low_1", "low_2"], (), ())
    assert commit.revision == revision
    assert ids(full) == before


def test_an_import_that_left_one_fact_out_does_so_again(full, clock):
    """What it says besides is there already; that is no reason to fail."""
    lowest = {"id": "low", "content": "Low", "confidence": 0.1}
    document = {"facts": [*full.document()["facts"], lowest]}
    for _ in range(2):
        report = full.import_document(document)
        assert (report.left_out, len(report.present), report.added) == (("low",), 10, ())
    with pytest.raises(NotStored):
        full.import_document({"facts": [lowest]})


def test_each_agents_bucket_has_a_cap_of_its_own(full, small):
    """Per agent bucket."""
    small.memory("alice", "writer").add("Of another agent", confidence=0.0)
    assert len(ids(full)) == 10


def test_no_cap_and_the_default_cap(root):
    """100 by default; 0 is none; nothing is ever paged silently (250 facts are listed and indexed)."""
    assert Settings().max_facts == 100
    document = {"facts": [{"id": f"f{number:03}", "content": f"Fact number {number}"} for number in range(250)]}
    with DeerMem(root) as engine:
        commit = engine.memory("alice", "coder").import_document(document)
        assert (len(commit.facts), len(commit.evicted)) == (100, 150)
        assert len(engine.memory("alice", "coder").list()) == 100
    with DeerMem(root, Settings(max_facts=0)) as engine:
        memory = engine.memory("alice", "writer")
        assert len(memory.import_document(document).facts) == 250
        assert len(memory.list()) == len(memory.search("number", top_k=1000)) == len(memory.document()["facts"]) == 250
        memory.add("One more number")
        assert engine.reindex("alice").indexed == 351
        assert len(memory.search("number", top_k=1000)) == 251


@pytest.mark.parametrize("value", [-1, 1, 9, 100_001, True, 50.0, "100", None])
def test_caps_out_of_bounds_are_refused(value):
    """10 to 100,000, or 0."""
    with pytest.raises(InvalidInput, match="max_facts"):
        Settings(max_facts=value)


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        ("file_lock_timeout_seconds", [-1, 3601, "10", True, None, float("nan")], [0, 0.5, 3600]),
        ("max_injection_tokens", [0, 99, 8001, "2000"], [100, 8000]),
        ("guaranteed_token_budget", [-1, 8001], [0, 8000]),
        ("mode", ["", "hybrid", None], ["middleware", "tool"]),
        ("retrieval_adapter", ["bm25", None, 5], ["fts5", ""]),
        ("guaranteed_categories", ["correction"], [(), ("correction", "goal"), ["goal"]]),
    ],
)
def test_settings_have_bounds(name, bad, good):
    """Each violation names the setting; Settings is frozen."""
    for value in bad:
        with pytest.raises(InvalidInput, match=name):
            Settings(**{name: value})
    for value in good:
        settings = Settings(**{name: value})
        with pytest.raises(AttributeError):
            setattr(settings, name, value)
