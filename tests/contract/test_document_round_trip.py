"""Export and import: every field there and back, and what an import may and may not change."""

from __future__ import annotations

import json

import pytest
from builders_store import edit, facts_of, place, shard, tree

from deermem import ChangeSet, DeerMem, Draft, Fact, InvalidInput, Settings

RICH = """---
id: fact_rich
schemaVersion: 2
category: other
categoryExtension: Workflow
confidence: 0.85
status: active
topics: [deploy, ci]
source:
  type: conversation
  threadId: t-1
  messageId: m-1
revision: 4
createdAt: '2026-01-01T00:00:00.000001Z'
updatedAt: '2026-02-01T00:00:00Z'
user_id: alice
agent_name: coder
sourceError: said otherwise before
expected_valid_days: 180
expiresAt: '2030-01-01T00:00:00Z'
lastConfirmedAt: '2026-03-01T00:00:00Z'
confirmationCount: 3
consolidatedFrom: [fact_a, fact_b]
consolidatedAt: '2026-02-15T00:00:00Z'
pinned: true
mine:
  deep: [1, null, {x: "y"}]
title_of_mine: T
---

# My own heading

    indented first line
last line
"""
FIELDS = [
    "id",
    "content",
    "title",
    "category",
    "confidence",
    "topics",
    "source",
    "created_at",
    "updated_at",
    "status",
    "source_error",
    "expected_valid_days",
    "expires_at",
    "last_confirmed_at",
    "confirmation_count",
    "consolidated_from",
    "consolidated_at",
    "extra",
]


@pytest.fixture
def rich(memory, root):
    """A bucket with one fact that has every field, and summaries."""
    place(facts_of(root) / shard("fact_rich") / "fact_rich.md", RICH)
    memory.update_summaries({"workContext": "Work", "longTermBackground": "Background"})
    memory.add("A plain fact")
    return memory


def test_every_field_comes_back(rich, engine, tmp_path):
    """175, D10: through JSON text into another store."""
    text = json.dumps(rich.document())
    with DeerMem(tmp_path / "other") as other:
        there = other.memory("bob", "writer")
        there.import_document(json.loads(text))
        for fact in rich.list():
            copy = there.get(fact.id)
            assert {name: vars_of(copy, name) for name in FIELDS} == {name: vars_of(fact, name) for name in FIELDS}
            assert (copy.user_id, copy.agent_name) == ("bob", "writer")
        assert there.summaries().work_context == rich.summaries().work_context
        assert there.summaries().long_term_background == rich.summaries().long_term_background
        back = there.document()
        assert back["facts"] == rich.document()["facts"]


def vars_of(fact, name):
    return {item: value for item in FIELDS if (value := fact.__getattribute__(item)) is not None or item == name}[name]


@pytest.mark.parametrize("replace", [False, True])
def test_an_export_imported_again_changes_nothing(rich, root, clock, replace):
    """D10: not a byte, no revision; nor does it grow the store."""
    document = rich.document()
    before = tree(root)
    clock.advance(days=1)
    commit = rich.import_document(document, replace=replace)
    assert tree(root) == before
    assert commit.revision == document["revision"]
    assert (commit.deleted, commit.evicted) == ((), ())


def test_an_older_export_is_restored_without_conflict(rich, clock):
    """D11, W16: the document wins over what is stored under its ids; what it lacks stays."""
    document = rich.document()
    clock.advance(days=1)
    rich.update("fact_rich", "Changed since")
    rich.update_summaries({"workContext": "Changed since"})
    later = rich.add("Added since")
    rich.import_document(document)
    assert rich.get("fact_rich").content == "    indented first line\nlast line"
    assert rich.summaries().work_context.summary == "Work"
    assert rich.get(later.id) == later
    assert rich.get("fact_rich").revision > 4


def test_a_replacing_import_deletes_what_the_document_lacks(rich, clock):
    """And empties the summaries that it leaves out; nothing else."""
    gone = rich.add("Not in the document")
    commit = rich.import_document(
        {"facts": [{"id": "fact_rich", "content": "Kept"}], "user": {"topOfMind": "Top"}}, replace=True
    )
    assert gone.id in commit.deleted
    assert [fact.id for fact in rich.list()] == ["fact_rich"]
    found = rich.summaries()
    assert (found.work_context.summary, found.top_of_mind.summary) == ("", "Top")


def test_a_replacing_import_keeps_unreadable_files_and_other_agents(rich, engine, root):
    """What can't be read is not known to lack in the document."""
    bad = place(facts_of(root) / "bad.md", b"\xff")
    engine.memory("alice", "writer").add("Another agent's")
    rich.import_document({"facts": []}, replace=True)
    assert rich.list() == []
    assert bad.exists()
    assert len(engine.memory("alice", "writer").list()) == 1


def test_only_content_is_needed(memory, clock):
    """Defaults for the rest; the same document again adds nothing."""
    document = {"facts": [{"content": "Bare"}, {"content": "Other", "id": None, "confidence": None, "category": None}]}
    first, second = memory.import_document(document).facts
    assert (first.category, first.confidence, first.topics, first.created_at) == ("context", 0.5, (), clock.now)
    assert (second.category, second.confidence) == ("context", 0.5)
    memory.import_document(document)
    assert len(memory.list()) == 2


def test_what_a_document_leaves_out_stays(rich):
    """Only content and category are stated: the rest is as it was."""
    rich.import_document({"facts": [{"id": "fact_rich", "content": "New", "category": "goal"}]})
    fact = rich.get("fact_rich")
    assert (fact.content, fact.category) == ("New", "goal")
    assert (fact.confidence, fact.topics, fact.expected_valid_days) == (0.85, ("deploy", "ci"), 180)
    assert fact.extra["pinned"] is True


def test_own_keys_are_restored(memory):
    """The document wins key by key over a hand edit; replacing, its own keys are all there are."""
    memory.import_document({"facts": [{"id": "a", "content": "A", "project": "apollo", "tags": ["x"]}]})
    document = memory.document()
    path = memory.path("a")
    edit(path, "project: apollo\n", "project: gemini # by hand\nadded: 1\n")
    memory.import_document(document)
    assert memory.get("a").extra == {"project": "apollo", "added": 1, "tags": ["x"]}
    assert "project: apollo # by hand\n" in path.read_text()
    edit(path, "project: apollo # by hand\n", "")
    memory.import_document(document)
    assert memory.get("a").extra == {"added": 1, "tags": ["x"], "project": "apollo"}
    memory.import_document({"facts": [{"id": "a", "content": "A", "extra": {"title": "Own"}}]})
    assert memory.get("a").extra["title"] == "Own"
    memory.import_document(document, replace=True)
    assert memory.get("a").extra == {"project": "apollo", "tags": ["x"]}
    before = path.read_bytes()
    memory.import_document(memory.document(), replace=True)
    assert path.read_bytes() == before
    memory.import_document({"facts": [{"id": "a", "content": "A"}]})
    assert memory.get("a").extra == {"project": "apollo", "tags": ["x"]}
    memory.import_document({"facts": [{"id": "a", "content": "A"}]}, replace=True)
    assert memory.get("a").extra == {}


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("note", "n" * 140_000, "note of a takes"),
        ("topics", [f"t{number}" for number in range(20_000)], "topics of a takes"),
        ("big", 10**60, "big holds a number of more than 40 digits"),
        ("deep", json.loads("[" * 40 + "]" * 40), "deep nests deeper than 32 levels"),
        ("source", {"type": "manual", "n": 10**60}, "source.n holds a number"),
        ("revision", 999_999_999_999_999, "revision is 999999999999999"),
    ],
)
def test_what_no_file_can_hold_is_refused_before_a_user_comes_to_be(memory, root, field, value, named):
    with pytest.raises(InvalidInput, match=rf"facts\[0\] \(id 'a'\): {named}"):
        memory.import_document({"facts": [{"id": "a", "content": "A", field: value}]})
    assert not root.exists()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"source": {"type": "manual", "n": 10**60}}, "source.n holds a number"),
        ({"source": {"type": "manual", "n": json.loads("[" * 40 + "]" * 40)}}, "source.n nests deeper"),
        ({"topics": [f"t{number}" for number in range(20_000)]}, "topics of a takes"),
        ({"source_error": "a\0b"}, "source_error holds a NUL"),
    ],
)
def test_nor_does_one_come_to_be_for_such_a_draft_or_fact(memory, root, clock, fields, named):
    with pytest.raises(InvalidInput, match=named):
        memory.apply(ChangeSet([Draft(id="a", content="A", **fields)]))
    fact = Fact(id="a", content="A", title="A", created_at=clock.now, updated_at=clock.now, extra={"n": 10**60})
    with pytest.raises(InvalidInput, match="n holds a number"):
        memory.apply(ChangeSet([fact]))
    assert not root.exists()


def test_v1_forms_are_accepted(memory):
    """D1: string sources, quoted numbers, a text for a section."""
    document = {
        "version": "1.0",
        "user": {"workContext": {"summary": "Work", "updatedAt": "2026-01-01T00:00:00Z"}, "topOfMind": None},
        "history": {"recentMonths": "Recent"},
        "facts": [{"id": "a", "content": "A", "confidence": "0.9", "source": "thread-1"}],
    }
    memory.import_document(document)
    fact = memory.get("a")
    assert (fact.confidence, fact.source.type, fact.source.thread_id) == (0.9, "conversation", "thread-1")
    assert memory.summaries().work_context.updated_at == "2026-01-01T00:00:00Z"
    assert memory.summaries().recent_months.summary == "Recent"


@pytest.mark.parametrize("fact_id", ["https://example.org/notes/1", "a:b", "a b", "é", "note.v1"])
def test_an_id_that_no_file_can_have_is_mapped(memory, fact_id):
    """P8: always to the same id."""
    (fact,) = memory.import_document({"facts": [{"id": fact_id, "content": "A"}]}).facts
    assert memory.get(fact.id).content == "A"
    memory.import_document({"facts": [{"id": fact_id, "content": "B"}]})
    assert [found.content for found in memory.list()] == ["B"]


@pytest.mark.parametrize("fact_id", ["../x", "/etc/passwd", "a/../../b", "..", "", "x" * 129, 7, "\ud800"])
def test_an_id_that_looks_like_a_path_is_refused(memory, root, fact_id):
    """P3: or, for an empty one, taken as none."""
    if fact_id == "":
        assert memory.import_document({"facts": [{"id": fact_id, "content": "A"}]}).facts[0].id.startswith("fact_")
        return
    with pytest.raises(InvalidInput, match=r"facts\[0\]"):
        memory.import_document({"facts": [{"id": fact_id, "content": "A"}]})
    assert memory.list() == []


def test_bad_facts_are_named_together_and_nothing_is_stored(memory, root):
    """One InvalidInput, one line, the first five."""
    facts = [{"content": ""}, {"content": "Good"}, {"content": "x", "confidence": 7}, {"id": "a", "content": "a"}]
    facts += [{"id": "A", "content": "b"}, *[{"confidence": 1} for _ in range(5)]]
    with pytest.raises(InvalidInput) as caught:
        memory.import_document({"facts": facts})
    text = str(caught.value)
    assert "\n" not in text
    assert all(word in text for word in ("facts[0]", "facts[2]", "facts[4]", "and 3 more"))
    assert memory.list() == []
    assert not (root / "users/alice/memory.json").exists()


def test_an_import_can_be_cut_short_and_done_again(memory, root, monkeypatch):
    """D11: an import that dies half-way is there whole or not at all, and a repeat adds nothing twice."""
    document = {"facts": [{"content": f"Fact {number}"} for number in range(20)]}
    from deermem.store.files import Files

    calls = []

    def dying(self, path, data, *, flush=True):
        calls.append(path)
        if len(calls) == 15:
            raise KeyboardInterrupt
        return real(self, path, data, flush=flush)

    real = Files.create
    monkeypatch.setattr(Files, "create", dying)
    with pytest.raises(KeyboardInterrupt):
        memory.import_document(document)
    monkeypatch.undo()
    assert memory.list() == []
    assert len(memory.import_document(document).facts) == 20
    assert len(memory.list()) == 20


def test_expired_facts_are_not_exported_and_not_shown(rich, engine, clock):
    """Expiry: not listed, got, found, injected or exported; the time of the engine's clock counts."""
    clock.advance(days=365 * 4)
    assert "fact_rich" not in [fact.id for fact in rich.list()]
    with pytest.raises(KeyError):
        rich.get("fact_rich")
    assert rich.search("indented") == engine.search("alice", "indented") == []
    assert "indented" not in rich.context()
    assert "fact_rich" not in [item["id"] for item in rich.document()["facts"]]


@pytest.mark.parametrize("indexed", [True, False])
def test_an_expired_fact_is_gone_with_the_next_write(rich, engine, root, clock, indexed):
    """Expiry: its file too; its content may be stored anew, and it can't be updated back to life."""
    clock.advance(days=365 * 4)
    with pytest.raises(KeyError):
        rich.update("fact_rich", "Back")
    settings = Settings(retrieval_adapter="fts5" if indexed else "")
    with DeerMem(root, settings, clock=clock) as later:
        later.memory("alice", "coder").add("    indented first line\nlast line")
    assert not list(facts_of(root).rglob("fact_rich.md"))
    assert len(rich.list()) == 2


def test_bad_items_of_another_program_are_skipped_where_asked_for(memory):
    graph = b'{"results": [{"id": "m1", "memory": "Likes tea"}, {"id": "m2", "memory": 5}, {"memory": " "}]}'
    with pytest.raises(InvalidInput, match=r"results\[1\].*\| results\[2\]"):
        memory.import_from("mem0", graph)
    report = memory.import_from("mem0", graph, skip_bad=True)
    assert [fact.content for fact in report.facts] == ["Likes tea"]
    assert [line.partition(" ")[0] for line in report.bad] == ["results[1]", "results[2]:"]
    assert memory.import_from("mem0", graph, skip_bad=True).present == report.added
    with pytest.raises(InvalidInput, match=r"memories\[0\]"):
        memory.import_from("mem0", b'[{"memory": 5}]', skip_bad=True)


@pytest.mark.parametrize(("kind", "options"), [("deermem", {}), ("mem0", {"replace": True})])
def test_bad_items_are_not_skipped_where_that_could_lose_something(memory, kind, options):
    with pytest.raises(InvalidInput, match="can't be skipped here"):
        memory.import_from(kind, b'{"facts": [], "results": []}', skip_bad=True, **options)
