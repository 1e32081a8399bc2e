"""Any Markdown file below an agent's facts/ is a fact; what can't be read is named and hides nothing."""

from __future__ import annotations

import os

import pytest
from builders_store import edit, fact_text, facts_of, place, shard, tree

from deermem import Corruption, DeerMem, FactNotFound, StoreUnavailable


@pytest.fixture
def facts(root):
    """The facts folder of agent coder of user alice."""
    return facts_of(root)


def only(memory):
    (fact,) = memory.list()
    return fact


@pytest.mark.parametrize("path", ["note.md", "work/note.md", "work/2026/release notes/note.md", "ab/note.md"])
def test_a_file_without_front_matter_is_a_fact_where_it_lies(memory, facts, path):
    """Hand edits: any sub-folder; defaults; source manual; the id is its stem."""
    text = "We release on Tuesdays.\n\nNever on Fridays.\n"
    file = place(facts / path, text)
    fact = only(memory)
    assert (fact.id, fact.content) == ("note", text.strip())
    assert (fact.category, fact.confidence, fact.source.type) == ("context", 0.5, "manual")
    assert memory.get("note") == fact
    assert [hit.fact.id for hit in memory.search("tuesdays")] == ["note"]
    assert memory.path("note") == file
    assert file.read_text() == text


def test_an_update_completes_a_hand_made_file_where_it_lies(memory, facts):
    """Hand edits: left where the person put it."""
    file = place(facts / "work" / "note.md", "Old words\n")
    fact = memory.update("note", "New words", expected=only(memory).version)
    assert fact.content == "New words"
    assert list(facts.rglob("*.md")) == [file]
    assert "id: note\n" in file.read_text()
    assert only(memory) == fact


def test_a_hand_made_file_is_deleted_where_it_lies(memory, facts):
    """Delete: also through clear."""
    place(facts / "a" / "one.md", "One\n")
    place(facts / "b" / "two.md", "Two\n")
    memory.delete("one")
    assert [path.name for path in facts.rglob("*.md")] == ["two.md"]
    memory.clear()
    assert list(facts.rglob("*.md")) == []


def test_a_name_that_is_no_id_is_made_one(memory, facts):
    """The stem made valid; two names stay two."""
    place(facts / "my note.md", "First\n")
    place(facts / "my-note.md", "Second\n")
    place(facts / "我的笔记.md", "Third\n")
    found = {fact.content: fact.id for fact in memory.list()}
    assert found["Second"] == "my-note"
    assert len(set(found.values())) == 3
    for content, fact_id in found.items():
        assert memory.get(fact_id).content == content
        assert memory.update(fact_id, confidence=0.9).content == content


def test_a_file_found_before_the_first_write_is_served(root, memory, facts):
    """X5: files first, index later; no memory.json at all."""
    place(facts / "note.md", "Found without a document\n")
    assert [hit.fact.id for hit in memory.search("document")] == ["note"]
    assert memory.summaries().is_empty()
    assert memory.add("Another").revision == 1
    assert len(memory.list()) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\ufeff---\nid: x\ncategory: goal\n---\n\n# T\n\nContent\n", ("x", "goal", "Content")),
        ("---\r\nid: x\r\ncategory: goal\r\n---\r\n\r\n# T\r\n\r\nContent\r\n", ("x", "goal", "Content")),
        ("---\r\nid: x\r\ncategory: goal\r\n---\r\n\r\nA\nB\n", ("x", "goal", "A\nB")),
        ("--- \nid: x\n---  \nContent\n", ("x", "context", "Content")),
        ("---\nid: x\ntitle:\n---\nContent\n", ("x", "context", "Content")),
        ("---\nid: x\ntitle: None\n---\nContent\n", ("x", "context", "Content")),
        ("---\n\ntext\n", ("n", "context", "---\n\ntext")),
        ("---\nid: x\n---\n# Only a heading\n", ("x", "context", "Only a heading")),
        ("---\nid: x\ncategory: null\nconfidence: null\n---\nContent\n", ("x", "context", "Content")),
        ("---\nid: x\ncategory: no\n---\nContent\n", ("x", "no", "Content")),
        ("---\nid: 0123\ncategory: 12:30:45\n---\nContent\n", ("0123", "12:30:45", "Content")),
        ("---\nid: x\ncontent: y\nhandler: z\nno: w\n---\nContent\n", ("x", "context", "Content")),
    ],
)
def test_what_people_and_editors_write_is_accepted(memory, facts, text, expected):
    """M3, M6, M10, M12, M20, D1 and the YAML traps."""
    place(facts / "n.md", text)
    fact = only(memory)
    content = fact.content.replace("\r\n", "\n")
    assert (fact.id, fact.category, content) == expected


def test_dates_tags_and_numbers_are_read_as_typed(memory, facts):
    """M2, M18, D1, X20: a bare date, a comma list, a quoted number, dates in other forms."""
    place(facts / "a.md", '---\ncreatedAt: 2026-04-05\ntags: a, b\nconfidence: "0.9"\n---\nFirst\n')
    place(facts / "b.md", "---\ncreatedAt: 2026-04-05 10:00:00\nconfidence: 9e-1\ntags: [c]\n---\nSecond\n")
    place(facts / "c.md", "---\ncreatedAt: 2026-04-05T10:00:00+02:00\n---\nThird\n")
    first, second, third = memory.list()
    assert (first.created_at.isoformat(), first.topics, first.confidence) == (
        "2026-04-05T00:00:00+00:00",
        ("a", "b"),
        0.9,
    )
    assert (second.created_at.isoformat(), second.topics, second.confidence) == (
        "2026-04-05T10:00:00+00:00",
        ("c",),
        0.9,
    )
    assert third.created_at.isoformat() == "2026-04-05T08:00:00+00:00"
    assert memory.document()["facts"][0]["createdAt"] == "2026-04-05T00:00:00Z"


BAD = {
    "not-utf8": (b"---\nid: bad\n---\nab\ncd\xff\n", 5),
    "no closing fence": (b"---\nid: bad\ncategory: goal\n\ntext\n", 1),
    "colon in a value": (b"---\nid: bad\ntitle: L2 (Split: Core)\nx: [\n---\ntext\n", None),
    "unclosed list": (b"---\nid: bad\ntopics: [a\n---\ntext\n", None),
    "duplicate key": (b"---\nid: bad\nid: worse\n---\ntext\n", 3),
    "bad confidence": (b"---\nid: bad\nconfidence: high\n---\ntext\n", 3),
    "confidence 95": (b"---\nid: bad\nconfidence: 95\n---\ntext\n", 3),
    "bad date": (b"---\nid: bad\ncreatedAt: 2026-13-45\n---\ntext\n", 3),
    "deleted status": (b"---\nid: bad\nstatus: deleted\n---\ntext\n", 3),
    "empty": (b"", 1),
    "nul": (b"text\0text", 1),
    "newer schema": (b"---\nid: bad\nschemaVersion: 3\n---\ntext\n", 3),
    "another user's": (fact_text("bad", user_id="bob").encode(), None),
    "another agent's": (fact_text("bad", agent_name="writer").encode(), None),
    "cyclic alias": (b"---\nid: bad\nmine: &a [*a]\n---\ntext\n", None),
}


@pytest.mark.parametrize("kind", BAD)
def test_an_unreadable_file_is_named_and_hides_nothing(engine, memory, facts, kind):
    """25, M1, M7, D2 and the trap of the stray file: check names file, line and mend; the others are served."""
    data, line = BAD[kind]
    good = memory.add("Good fact")
    file = place(facts / shard("bad") / "bad.md", data)
    assert memory.list() == [good]
    assert [hit.fact for hit in memory.search("good fact text")] == [good]
    assert memory.context().count("\n- ") == 1
    (finding,) = [found for found in engine.check("alice") if found.path == str(file)]
    assert finding.severity == "error"
    assert finding.hint
    assert str(file) in str(finding)
    assert "\n" not in str(finding)
    assert line is None or finding.line == line
    for call in (memory.get, memory.delete, lambda name: memory.update(name, "x")):
        with pytest.raises(Corruption) as caught:
            call("bad")
        assert caught.value.path == str(file)
        assert caught.value.reason
    assert file.read_bytes() == data
    assert memory.add("Another").revision == 1
    assert engine.stats("alice").unreadable == engine.reindex("alice").failed == 1
    assert engine.reindex("alice").indexed == 2


def test_an_unreadable_file_elsewhere_is_refused_by_its_stem(memory, facts):
    """M8: what can't be parsed is never rewritten, wherever it lies."""
    file = place(facts / "work" / "bad.md", b"---\nid: bad\ntopics: [a\n---\ntext\n")
    before = file.read_bytes()
    for call in (memory.get, memory.delete, lambda name: memory.update(name, "x")):
        with pytest.raises(Corruption, match=r"bad\.md"):
            call("bad")
    assert file.read_bytes() == before


def test_a_mended_file_is_served_at_once(memory, facts):
    """And broken again, it is not."""
    file = place(facts / "n.md", "---\nid: n\ntopics: [a\n---\ntext\n")
    assert memory.list() == []
    edit(file, "[a\n", "[a]\n")
    assert only(memory).topics == ("a",)
    assert [hit.fact.id for hit in memory.search("text")] == ["n"]


@pytest.mark.parametrize("scope", ["agent", "user"])
def test_clear_removes_what_cannot_be_read_too(engine, memory, facts, root, scope):
    """71, and the trap that clear fails; another owner's file and the host's own files stay."""
    memory.add("Good fact")
    for number, (data, _) in enumerate(BAD.values()):
        place(facts / f"bad{number}.md", data)
    soul = place(facts.parent / "SOUL.md", "# Soul\n")
    picture = place(facts / "picture.png", b"\x89PNG")
    memory.clear() if scope == "agent" else engine.clear("alice")
    left = sorted(path.name for path in facts.rglob("*.md"))
    kinds = list(BAD)
    assert left == sorted(f"bad{kinds.index(kind)}.md" for kind in ("another user's", "another agent's"))
    assert memory.list() == []
    assert soul.exists()
    assert picture.exists()


@pytest.mark.parametrize(
    "name", ["._f1.md", ".#f1.md", ".DS_Store", ".hidden.md", "f1.md~", "f1.txt", "#f1.md#", ".git/x.md"]
)
def test_litter_is_no_fact(engine, memory, facts, name):
    """P10: AppleDouble, editors' locks and backups, hidden folders."""
    place(facts / name, b"\x00\x05\x16\x07\xff")
    assert memory.list() == []
    assert engine.check("alice") == []
    assert memory.clear().deleted == ()
    assert (facts / name).exists()


def test_of_two_files_with_one_id_the_canonical_one_speaks(engine, memory, facts):
    """Then the stem that equals the id, then the first path; check names the other."""
    fact = memory.add("The canonical one")
    copies = ["a first path.md", "b copy.md", f"{fact.id}.sync-conflict-2026.md"]
    for name in copies:
        place(facts / name, memory.path(fact.id).read_bytes().replace(b"The canonical one", b"A copy"))
    assert [found.content for found in memory.list()] == ["The canonical one"]
    assert [hit.fact.content for hit in memory.search("copy canonical")] == ["The canonical one"]
    found = [finding for finding in engine.check("alice") if finding.code == "duplicate-id"]
    assert sorted(os.path.basename(finding.path) for finding in found) == sorted(copies)
    memory.path(fact.id).rename(facts / "moved" if (facts / "moved").mkdir() else facts / "moved" / f"{fact.id}.md")
    assert memory.path(fact.id) == facts / "moved" / f"{fact.id}.md"
    (facts / "moved" / f"{fact.id}.md").unlink()
    assert memory.path(fact.id) == facts / copies[0]
    assert memory.get(fact.id).content == "A copy"


def test_an_owner_is_right_when_it_maps_to_the_folder(engine, root):
    """25: the raw id and the id already made safe; agents without case."""
    memory = engine.memory("user@x", "coder")
    folder = memory.add("First").id and engine.users()[0]
    facts = facts_of(root, folder)
    place(facts / "raw.md", fact_text("raw", "Raw", user_id="user@x", agent_name="Coder"))
    place(facts / "safe.md", fact_text("safe", "Safe", user_id=folder, agent_name="coder"))
    place(facts / "none.md", fact_text("none", "None"))
    place(facts / "other.md", fact_text("other", "Other", user_id="user-x"))
    expected = ["First", "None", "Raw", "Safe"]
    assert sorted(fact.content for fact in memory.list()) == expected
    assert sorted(fact.content for fact in engine.memory(folder, "coder").list()) == expected
    assert memory.update("safe", "Safe, changed").user_id == folder


def test_a_file_without_permission_is_said_to_be_so(engine, memory, facts, monkeypatch):
    """C13: a PermissionError is not "deleted"."""
    fact, other = memory.add("Locked away"), memory.add("Still open")
    path = str(memory.path(fact.id))
    real = os.open

    def refusing(name, *rest, **named):
        if str(name) == path:
            raise PermissionError(13, "Permission denied", path)
        return real(name, *rest, **named)

    fresh = DeerMem(engine.root)
    monkeypatch.setattr("os.open", refusing)
    assert other in fresh.memory("alice", "coder").list()
    fresh.reindex("alice")
    (finding,) = fresh.check("alice")
    assert (finding.path, "Permission denied" in finding.message) == (path, True)
    with pytest.raises((Corruption, StoreUnavailable), match="Permission denied"):
        fresh.memory("alice", "coder").update(fact.id, "x")
    monkeypatch.undo()
    assert len(fresh.memory("alice", "coder").list()) == 2


def test_no_name_reaches_outside_the_bucket(engine, memory, root):
    """P3: an id in the front matter that looks like a path makes the file unreadable, not another file."""
    place(facts_of(root) / "n.md", "---\nid: ../../../evil\n---\ntext\n")
    outside = place(root / "users/alice/agents/evil.md", "outside\n")
    assert memory.list() == []
    assert len(engine.check("alice")) == 1
    with pytest.raises((FactNotFound, Corruption)):
        memory.update("n", "x")
    memory.clear()
    assert outside.read_text() == "outside\n"
    assert "agents/evil.md" in "\n".join(tree(root))
