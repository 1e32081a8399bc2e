"""Who goes from a full bucket by each policy, for every way of writing, on real files."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from builders_buckets import TracedFiles, audit, fill, ids, item, metadata, opened, ten, usage
from builders_store import edit, fact_text, facts_of, place, shard, tree

from deermem import ChangeSet, Delete, Draft, NotStored
from deermem.clock import format_timestamp

BOTH = pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="confidence"),
        pytest.param({"fact_eviction_policy": "hybrid-v1"}, id="hybrid"),
        pytest.param({"fact_eviction_shadow_enabled": True}, id="shadow"),
        pytest.param({"retrieval_adapter": ""}, id="without an index"),
    ],
)
HYBRID = {"fact_eviction_policy": "hybrid-v1"}
SHADOW = {"fact_eviction_shadow_enabled": True}

WAYS = {
    "add": lambda memory: memory.add("New", confidence=0.9),
    "apply": lambda memory: memory.apply(ChangeSet([Draft(content="New", confidence=0.9)])),
    "import": lambda memory: memory.import_document({"facts": [{"content": "New", "confidence": 0.9}]}),
    "text": lambda memory: memory.add_text(b"---\nconfidence: 0.9\n---\n\nNew\n"),
    "foreign": lambda memory: memory.import_from("mem0", b'{"results": [{"id": "m1", "memory": "New"}]}'),
}


@BOTH
def test_up_to_the_cap_nobody_goes(root, clock, settings):
    """94: nor is anything said of it."""
    with opened(root, clock, **settings) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, ten(clock()))
        memory.update("fact_3", confidence=0.0)
        memory.update_summaries({"topOfMind": "T"})
        assert len(ids(memory)) == 10
        assert not (metadata(root) / "eviction-audit.json").exists()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("settings", [{}, HYBRID], ids=["confidence", "hybrid"])
def test_every_way_of_writing_gives_the_same_fact_up(root, clock, settings, way):
    """95, 107: automatic, manual, a file's text, a document, another program's memory."""
    with opened(root, clock, **settings) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, ten(clock()))
        if way == "foreign":
            memory.update("fact_0", confidence=0.1)
        clock.advance(seconds=1)
        WAYS[way](memory)
        assert [entry["evicted"][0]["factId"] for entry in audit(root)] == ["fact_0"]
        assert len(ids(memory)) == 10
        assert "fact_0" not in ids(memory)


def test_a_confirmed_fact_outlives_a_surer_stale_one(root, clock):
    """96, 97: by hybrid-v1; by confidence it is the other way round."""
    for agent, settings, expected in (("hybrid", HYBRID, "stale"), ("plain", {}, "confirmed")):
        with opened(root, clock, **settings) as engine:
            memory = engine.memory("alice", agent)
            others = [item(f"other_{number}", 1.0, clock()) for number in range(8)]
            pair = [item("stale", 0.9, clock(), age=730), item("confirmed", 0.7, clock(), age=730, confirmed=1)]
            fill(memory, [*others, *pair])
            commit = memory.apply(ChangeSet([Draft(content="New", confidence=1.0)]))
            assert commit.evicted == (expected,)


def test_what_is_found_often_outlives_what_is_a_little_surer(root, clock):
    """97: two searches are worth more than 0.05 of confidence; a million are worth no more than eight."""
    with opened(root, clock, **HYBRID) as engine:
        memory = engine.memory("alice", "coder")
        others = [item(f"other_{number}", 1.0, clock()) for number in range(7)]
        rivals = [item("asked", 0.70, clock()), item("surer", 0.75, clock()), item("hot", 0.55, clock())]
        fill(memory, [*others, *rivals])
        for _ in range(2):
            assert [hit.fact.id for hit in memory.search("asked")] == ["asked"]
        path = metadata(root) / "fact-usage.json"
        hot = {"accessHeat": 1e9, "accessCount": 1, "lastAccessedAt": format_timestamp(clock())}
        path.write_text(json.dumps({**usage(root), "hot": hot}))
        gone = [memory.apply(ChangeSet([Draft(content=f"New {n}", confidence=1.0)])).evicted for n in range(3)]
        assert gone == [("hot",), ("surer",), ("asked",)]
        assert audit(root)[0]["evicted"][0]["components"]["accessHeat"] == 1.0


def test_corrections_keep_their_places(root, clock):
    """98: one of ten; the others compete, and so does a second correction."""
    with opened(root, clock, **HYBRID) as engine:
        memory = engine.memory("alice", "coder")
        corrections = [item(f"correction_{n}", 0.1 + n / 100, clock(), category="correction") for n in range(2)]
        fill(memory, [*corrections, *ten(clock())[2:]])
        gone = [memory.apply(ChangeSet([Draft(content=f"New {n}", confidence=0.9)])).evicted for n in range(3)]
        assert gone == [("correction_0",), ("fact_2",), ("fact_3",)]
        assert [entry["reservedCorrectionSlots"] for entry in audit(root)] == [1, 1, 1]


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"[]",
        b"{\xff",
        b'{"fact_5": 3, "fact_6": {"accessHeat": "hot", "lastAccessedAt": 5}}',
        b'{"fact_0": {"accessHeat": 1e999, "accessCount": -1, "lastAccessedAt": "yesterday"}}',
    ],
)
def test_a_damaged_usage_file_says_nothing(root, clock, said):
    """99: nothing crashes, and the fact that it names by nonsense has no advantage."""
    with opened(root, clock, **HYBRID) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, ten(clock()))
        place(metadata(root) / "fact-usage.json", said)
        assert memory.apply(ChangeSet([Draft(content="New", confidence=0.9)])).evicted == ("fact_0",)


def test_a_folder_in_the_place_of_a_sidecar_fails_no_write(root, clock, caplog):
    """The sidecars are derived: the commit stands, and the log says what is missing."""
    with opened(root, clock, **HYBRID) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, ten(clock()))
        for name in ("fact-usage.json", "eviction-audit.json"):
            place(metadata(root) / name / "x", "")
        assert memory.apply(ChangeSet([Draft(content="New", confidence=0.9)])).evicted == ("fact_0",)
        assert memory.evictions() == []
        assert len(memory.search("new")) == 1
        assert "lacks an eviction" in caplog.text


@BOTH
def test_a_new_fact_below_all_others_is_not_stored(root, clock, settings):
    """107: nothing is written, not even an entry of the audit."""
    with opened(root, clock, **settings) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, ten(clock()))
        before = tree(root)
        with pytest.raises(NotStored, match="full"):
            memory.add("Less sure than all", confidence=0.1)
        with pytest.raises(NotStored, match="full"):
            memory.apply(ChangeSet([Draft(content="Less sure than all", confidence=0.1)]))
        with pytest.raises(NotStored, match="full"):
            memory.add_text(b"---\nconfidence: 0.1\n---\n\nLess sure than all\n")
        assert tree(root) == before


@BOTH
def test_a_set_that_does_more_goes_on_without_the_fact_that_has_no_room(root, clock, settings):
    """107: the rest is committed, and the commit names the fact that was not let in."""
    with opened(root, clock, **settings) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, ten(clock()))
        low = Draft(id="low", content="Less sure than all", confidence=0.1)
        commit = memory.apply(ChangeSet([low], summaries={"topOfMind": "Kept"}))
        assert (commit.facts, commit.evicted, commit.deleted) == ((), ("low",), ())
        assert memory.summaries().section("topOfMind").summary == "Kept"
        assert "low" not in ids(memory)


@BOTH
def test_a_store_found_over_its_cap_sheds_what_it_adds(root, clock, settings):
    """A migrated store and files by hand evict nobody; the first write doesn't empty the bucket."""
    facts = [item(f"old_{number:02}", 0.5, clock(), age=number) for number in range(25)]
    place(root / "users/alice/memory.json", json.dumps({"version": "1.0", "user": {}, "history": {}, "facts": facts}))
    with opened(root, clock, **settings) as engine:
        memory = engine.memory("alice")
        assert len(ids(memory)) == 25
        for number in range(5):
            place(facts_of(root, agent="__default__") / f"hand_{number}.md", f"By hand {number}\n")
        assert len(ids(memory)) == 30
        assert not metadata(root, "__default__").exists()
        memory.delete("hand_0")
        commit = memory.apply(ChangeSet([Draft(content=f"New {number}", confidence=0.9) for number in range(2)]))
        assert commit.evicted == ("old_24", "old_23")
        assert len(ids(memory)) == 29


def test_the_shadow_changes_nothing_and_says_where_it_disagrees(root, clock):
    """105: hybrid-v1 beside confidence."""
    with opened(root, clock, **SHADOW) as engine:
        memory = engine.memory("alice", "coder")
        rivals = [item("stale", 0.9, clock(), age=730), item("confirmed", 0.7, clock(), age=730, confirmed=1)]
        fill(memory, [*[item(f"other_{number}", 1.0, clock()) for number in range(8)], *rivals])
        gone = [memory.apply(ChangeSet([Draft(content=f"New {n}", confidence=1.0)])).evicted for n in range(2)]
        assert gone == [("confirmed",), ("stale",)]
        assert [entry["shadow"] for entry in audit(root)] == [
            {"policyVersion": "hybrid-v1", "wouldEvict": ["stale"], "disagrees": True},
            {"policyVersion": "hybrid-v1", "wouldEvict": ["stale"], "disagrees": False},
        ]


def test_plain_confidence_does_without_the_usage_file(root, clock):
    """106: it is not looked at by a write, a search or a block for the prompt, and never written."""
    files = TracedFiles()
    with opened(root, clock, files=files) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, ten(clock())[1:])
        place(metadata(root) / "fact-usage.json", '{"fact_1": {"accessHeat": 99}}')
        memory.search("content")
        memory.add("Another", confidence=0.8)
        memory.context()
        memory.update("fact_2", confidence=0.9)
        assert files.touched("fact-usage.json") == []
        # An eviction is a deletion: what the file says of a fact goes with it, and that alone is why it is read.
        memory.apply(ChangeSet([Draft(content="New", confidence=0.9)]))
        assert usage(root) == {}


def test_a_hot_fact_has_no_advantage_by_confidence(root, clock):
    """106."""
    with opened(root, clock) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, ten(clock()))
        hot = {"accessHeat": 8, "accessCount": 8, "lastAccessedAt": format_timestamp(clock())}
        place(metadata(root) / "fact-usage.json", json.dumps({"fact_0": hot}))
        assert memory.apply(ChangeSet([Draft(content="New", confidence=0.9)])).evicted == ("fact_0",)


@BOTH
def test_an_expired_fact_makes_room_before_a_living_one_goes(root, clock, settings):
    """Its end may have been written by hand, and its sidecar data goes with it."""
    with opened(root, clock, **settings) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, ten(clock()))
        place(metadata(root) / "fact-usage.json", '{"fact_9": {"accessHeat": 1}, "fact_8": {"accessHeat": 1}}')
        end = format_timestamp(clock() + timedelta(days=1))
        edit(memory.path("fact_9"), "confidence:", f"expiresAt: '{end}'\nconfidence:")
        assert len(ids(memory)) == 10
        clock.advance(days=2)
        assert "fact_9" not in [hit.fact.id for hit in memory.search("content", top_k=20)]
        assert "fact_9" not in memory.context()
        commit = memory.apply(ChangeSet([Draft(content="New", confidence=0.9)]))
        assert (commit.evicted, commit.deleted) == ((), ("fact_9",))
        assert len(list(facts_of(root).rglob("*.md"))) == 10
        assert "fact_9" not in usage(root)


def test_an_end_written_by_hand_counts_though_nobody_swept_since(root, clock):
    """By hybrid-v1, which looks at every file anyway."""
    with opened(root, clock, **HYBRID) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, ten(clock()))
        path = memory.path("fact_9")
    with opened(root, clock, **HYBRID) as engine:
        edit(path, "confidence:", "expiresAt: '2026-11-01T00:00:00Z'\nconfidence:")
        commit = engine.memory("alice", "coder").apply(ChangeSet([Draft(content="New", confidence=0.9)]))
        assert (commit.evicted, commit.deleted) == ((), ("fact_9",))


@pytest.mark.parametrize("way", ["add_text", "write_text"])
def test_a_file_that_is_edited_whole_ends_expired_facts_too(root, clock, way):
    """The next write deletes them, whichever it is."""
    with opened(root, clock) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, [item("fact_0", 0.5, clock()), item("over", 0.5, clock(), expiresAt="2026-11-30T13:00:00Z")])
        text = memory.text("fact_0").data
        clock.advance(days=1)
        if way == "add_text":
            memory.add_text(b"New\n")
        else:
            memory.write_text("fact_0", text + b"\nAnd more.\n")
        assert not (facts_of(root) / shard("over") / "over.md").exists()


@BOTH
def test_a_copy_does_not_bring_an_evicted_fact_back(root, clock, settings):
    """A sync client's copy has the same id; it counts as no fact, and its rank is not the fact's."""
    with opened(root, clock, **settings) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, ten(clock()))
        place(facts_of(root) / "copy of fact_9.md", fact_text("fact_9", "An older text", confidence=0.01))
        place(facts_of(root) / "copy of fact_0.md", fact_text("fact_0", "An older text", confidence=0.99))
        assert len(ids(memory)) == 10
        commit = memory.apply(ChangeSet([Draft(id="new", content="New", confidence=0.9)]))
        assert commit.evicted == ("fact_0",)
        assert ids(memory) == [*(f"fact_{number}" for number in range(1, 10)), "new"]
        assert memory.get("fact_9").confidence == 0.59


@BOTH
@pytest.mark.parametrize(
    ("copy_ends", "left"), [("2026-11-30T13:00:00Z", False), ("2027-11-30T12:00:00Z", True)], ids=["both", "one"]
)
def test_an_expired_fact_is_not_brought_back_by_a_copy(root, clock, settings, copy_ends, left):
    """A copy that has expired too goes with it; of one that has not, a person says which holds."""
    with opened(root, clock, **settings) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, [item("over", 0.5, clock(), expiresAt="2026-11-30T13:00:00Z")])
        copy = place(facts_of(root) / "copy.md", fact_text("over", "An older text", expiresAt=copy_ends))
        clock.advance(days=1)
        commit = memory.apply(ChangeSet([Draft(id="new", content="New")]))
        assert ids(memory) == ["new"]
        assert commit.deleted == (() if left else ("over",))
        assert (copy.exists(), (facts_of(root) / shard("over") / "over.md").exists()) == (left, left)


@BOTH
def test_the_expired_copy_of_a_living_fact_says_nothing_of_it(root, clock, settings):
    with opened(root, clock, **settings) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, [item("alive", 0.5, clock())])
        place(facts_of(root) / "copy.md", fact_text("alive", "An older text", expiresAt="2026-11-30T11:00:00Z"))
        assert memory.apply(ChangeSet([Draft(id="new", content="New")])).deleted == ()
        assert ids(memory) == ["alive", "new"]


def test_a_fact_of_two_files_is_deleted_once(root, clock):
    with opened(root, clock) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, [item("fact_0", 0.5, clock())])
        place(facts_of(root) / "copy.md", fact_text("fact_0", "An older text"))
        assert ids(memory) == ["fact_0"]
        assert memory.apply(ChangeSet(deletes=[Delete("fact_0")])).deleted == ("fact_0",)
        assert ids(memory) == []


@BOTH
def test_a_fact_whose_end_is_over_takes_nobodys_place(root, clock, settings):
    """Whether it comes in so or is ended by the same commit: it is never served."""
    over = "2026-11-30T11:00:00Z"
    with opened(root, clock, **settings) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, ten(clock()))
        new = [item(name, 1.0, clock()) for name in ("dead", "new_1", "new_2")]
        new[0]["expiresAt"] = over
        report = memory.import_document({"facts": [item("fact_9", 0.9, clock(), expiresAt=over), *new]})
        assert report.evicted == ("fact_0",)
        assert ids(memory) == [*(f"fact_{number}" for number in range(1, 9)), "new_1", "new_2"]
