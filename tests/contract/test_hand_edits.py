"""People edit the files: seen at once, by everyone, and never written over."""

from __future__ import annotations

import os
import shutil

import pytest
from builders_store import edit, facts_of, place, replace_by_rename, shard, tree

from deermem import Corruption, DeerMem, FactConflict, FactNotFound, Memory, Settings

OPENERS = ["same engine", "second engine"]


@pytest.fixture(params=OPENERS)
def reader(request, memory, root) -> Memory:
    """Who looks at the edit: the engine that wrote, or another one that has looked before."""
    found = memory if request.param == "same engine" else DeerMem(root).memory("alice", "coder")
    found.list()
    found.search("anything")
    return found


@pytest.mark.parametrize("how", [edit, replace_by_rename])
def test_an_edit_is_seen_by_the_next_read_and_search(memory, reader, how):
    """32, W2, W12, D8: without a reload; the old words are not found any more."""
    fact = memory.add("Prefers Synology storage")
    assert [hit.fact.id for hit in reader.search("synology")] == [fact.id]
    how(memory.path(fact.id), "Prefers Synology storage", "Prefers Fnos storage")
    assert [hit.fact.content for hit in reader.search("fnos")] == ["Prefers Fnos storage"]
    assert reader.search("synology") == []
    assert reader.get(fact.id).content == "Prefers Fnos storage"
    assert [found.content for found in reader.list()] == ["Prefers Fnos storage"]
    assert "Fnos" in reader.context()
    assert reader.document()["facts"][0]["content"] == "Prefers Fnos storage"


def test_edits_of_the_same_size_within_a_clock_tick_are_seen(memory, reader):
    """A signature as fresh as that proves nothing."""
    fact = memory.add("Count is 0000")
    path = memory.path(fact.id)
    for number in range(1, 200):
        # The bare number may stand in the random id as well.
        edit(path, f"Count is {number - 1:04}", f"Count is {number:04}")
        assert reader.get(fact.id).content == f"Count is {number:04}"
        assert reader.list()[0].content == f"Count is {number:04}"


def test_an_edit_with_its_old_times_put_back_is_seen(memory, reader):
    """mtime and size prove nothing."""
    fact = memory.add("Alpha")
    path = memory.path(fact.id)
    status = path.stat()
    edit(path, "Alpha", "Gamma")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert reader.list()[0].content == "Gamma"
    assert [hit.fact.content for hit in reader.search("gamma")] == ["Gamma"]


def test_an_older_version_put_back_with_its_times_is_seen(memory, reader, tmp_path):
    """A backup tool restores file and times."""
    fact = memory.add("Alpha")
    path = memory.path(fact.id)
    backup = shutil.copy2(path, tmp_path / "backup.md")
    memory.update(fact.id, "Gamma")
    assert reader.list()[0].content == "Gamma"
    shutil.copy2(backup, path)
    assert reader.list()[0].content == "Alpha"
    assert [hit.fact.content for hit in reader.search("alpha")] == ["Alpha"]
    shutil.copy2(backup, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)
    assert reader.get(fact.id).content == "Alpha"


@pytest.mark.parametrize("expected", ["token", "number"])
def test_an_edit_between_read_and_write_conflicts(memory, expected):
    """W14: the reader's expectation is refused, the edit stays, the error carries it."""
    fact = memory.add("Read by an agent")
    edit(memory.path(fact.id), "Read by an agent", "Edited by a person")
    before = memory.path(fact.id).read_bytes()
    token = fact.version if expected == "token" else fact.revision
    for call in (lambda: memory.update(fact.id, "By agent", expected=token), lambda: memory.delete(fact.id, token)):
        with pytest.raises(FactConflict) as caught:
            call()
        assert caught.value.current is not None
        assert caught.value.current.content == "Edited by a person"
    assert memory.path(fact.id).read_bytes() == before


def test_an_edit_counts_as_one_change(memory):
    """The effective revision is one more, and the token another one for each state."""
    fact = memory.add("First")
    path = memory.path(fact.id)
    edit(path, "First", "Second")
    edited = memory.get(fact.id)
    assert edited.revision == 2
    edit(path, "Second", "Third")
    again = memory.get(fact.id)
    assert again.revision == 2
    assert len({fact.version, edited.version, again.version}) == 3
    edit(path, "Third", "First")
    assert memory.get(fact.id) == fact
    with pytest.raises(FactConflict):
        memory.update(fact.id, "X", expected=2)
    assert memory.update(fact.id, "Fourth", expected=1).revision == 2


def test_an_integer_never_matches_an_edited_file(memory):
    """Not even the effective revision: two edits in a row share it."""
    fact = memory.add("First")
    edit(memory.path(fact.id), "First", "Second")
    for number in (1, 2, 3):
        with pytest.raises(FactConflict):
            memory.update(fact.id, "X", expected=number)
    changed = memory.update(fact.id, "Third", expected=memory.get(fact.id).version)
    assert changed.revision == 3
    assert memory.update(fact.id, "Fourth", expected=3).revision == 4


def test_an_edit_of_another_field_survives_an_update(memory):
    """M14: with comments, the order of keys and the person's own keys."""
    fact = memory.add("First", topics=["a"])
    path = memory.path(fact.id)
    edit(path, "category: context\n", "category: goal # my comment\nmine: {b: 1, a: [x, y]}\n")
    memory.update(fact.id, "Second")
    text = path.read_text("utf-8")
    assert "category: goal # my comment\nmine: {b: 1, a: [x, y]}\n" in text
    assert memory.get(fact.id).extra == {"mine": {"b": 1, "a": ["x", "y"]}}


def test_untouched_files_are_never_rewritten(memory, root):
    """M15: not by reads, not by writes of others, not by reindex."""
    kept = memory.add("Kept")
    path = memory.path(kept.id)
    edit(path, "\n\nKept\n", "\n\nKept  \nhard break [ref][1]\n\n[1]: https://example.org\n\n\n")
    before = path.read_bytes(), path.stat().st_mtime_ns
    other = memory.add("Other")
    memory.update(other.id, "Changed")
    memory.delete(other.id)
    memory.search("kept")
    memory.document()
    DeerMem(root).reindex()
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_a_deleted_file_is_a_deleted_fact(memory, reader):
    """W: at once, in the index too; putting it back brings it back."""
    fact = memory.add("Here today")
    reader.search("today")
    path = memory.path(fact.id)
    text = path.read_bytes()
    path.unlink()
    assert (reader.list(), reader.search("today")) == ([], [])
    with pytest.raises(FactNotFound):
        reader.get(fact.id)
    with pytest.raises(FactNotFound):
        reader.update(fact.id, "x")
    path.write_bytes(text)
    assert reader.list() == [fact]
    assert [hit.fact.id for hit in reader.search("today")] == [fact.id]


def test_a_moved_file_is_the_same_fact(memory, reader, root):
    """W11: the front matter's id says so; an update stays where the person put it."""
    fact = memory.add("Wanders")
    place_of_a_person = facts_of(root) / "by topic" / "my file.md"
    place_of_a_person.parent.mkdir()
    os.rename(memory.path(fact.id), place_of_a_person)
    assert reader.list() == [fact]
    assert reader.path(fact.id) == place_of_a_person
    changed = reader.update(fact.id, "Wanders on", expected=fact.version)
    assert reader.path(fact.id) == place_of_a_person
    assert [hit.fact for hit in reader.search("wanders")] == [changed]
    assert [path.name for path in facts_of(root).rglob("*.md")] == ["my file.md"]
    reader.delete(fact.id)
    assert not place_of_a_person.exists()


def test_a_file_taken_away_and_made_again_with_the_same_bytes_is_there(memory, reader):
    """W11, X7."""
    fact = memory.add("Comes and goes")
    path = memory.path(fact.id)
    text = path.read_bytes()
    for _ in range(3):
        path.unlink()
        assert reader.list() == []
        path.write_bytes(text)
        assert [hit.fact.id for hit in reader.search("comes")] == [fact.id]


def test_a_folder_taken_away_takes_its_facts_along(memory, reader, root):
    """A branch switch: gone and back, with nothing lost."""
    ids = [memory.add(f"Fact {number}").id for number in range(5)]
    reader.search("fact")
    os.rename(facts_of(root), root / "aside")
    assert (reader.list(), reader.search("fact")) == ([], [])
    os.rename(root / "aside", facts_of(root))
    assert sorted(fact.id for fact in reader.list()) == sorted(ids)
    assert len(reader.search("fact")) == 5


@pytest.mark.parametrize("indexed", [True, False])
def test_a_fact_that_came_and_went_in_a_new_folder_is_gone(memory, root, indexed):
    """W10: both between two looks of a process that was told of neither."""
    with DeerMem(root, Settings(retrieval_adapter="fts5" if indexed else "")) as engine:
        reader = engine.memory("alice", "coder")
        memory.add("Kept")
        for _ in range(3):
            reader.list()
        added = reader.import_document({"facts": [{"content": f"Fact {number}"} for number in range(4)]}).facts
        for fact in added:
            memory.delete(fact.id)
        assert [fact.content for fact in reader.list()] == ["Kept"]
        assert reader.search("fact") == []


def test_a_half_written_file_serves_its_last_good_version_for_a_minute(memory, clock):
    """Half-written: an editor mid-save; never written over."""
    fact = memory.add("Good version")
    memory.list()
    path = memory.path(fact.id)
    whole = path.read_bytes()
    half = b"---\nid: " + fact.id.encode() + b"\ncategory: [unclosed"
    path.write_bytes(half)
    assert [found.content for found in memory.list()] == ["Good version"]
    assert [hit.fact.content for hit in memory.search("version")] == ["Good version"]
    with pytest.raises(Corruption, match=path.name):
        memory.update(fact.id, "x")
    clock.advance(seconds=61)
    assert memory.list() == memory.search("version") == []
    assert path.read_bytes() == half
    path.write_bytes(whole)
    assert memory.list() == [fact]


def test_an_emptied_file_is_never_served(memory, reader):
    """Half-written: an empty file says nothing, not even for a moment."""
    fact = memory.add("Was here")
    reader.list()
    memory.path(fact.id).write_bytes(b"")
    assert (reader.list(), reader.search("here")) == ([], [])


def test_an_edit_while_the_index_is_built_is_not_lost(memory, root, monkeypatch):
    """W10: a file written during a scan is neither missed nor taken for removed."""
    from deermem.service import view

    memory.import_document({"facts": [{"content": f"Fact {number}"} for number in range(5)]})
    real, placed = view.scan_facts, []

    def scanning(folder):
        found = real(folder)
        if not placed:
            placed.append(place(facts_of(root) / "late.md", "Written during the scan\n"))
        return found

    monkeypatch.setattr(view, "scan_facts", scanning)
    fresh = DeerMem(root)
    fresh.reindex()
    assert placed
    assert [hit.fact.id for hit in fresh.memory("alice", "coder").search("scan")] == ["late"]
    assert len(memory.list()) == 6


def test_two_edits_of_one_kind_by_two_programs_are_told_apart(memory, root):
    """A higher revision without a new digest is another engine's, and counts once."""
    fact = memory.add("First")
    path = memory.path(fact.id)
    edit(path, "revision: 1\n", "revision: 5\n")
    edit(path, "First", "Second")
    found = memory.get(fact.id)
    assert (found.revision, found.content) == (5, "Second")
    assert memory.update(fact.id, "Third", expected=found.version).revision == 6


def test_a_hand_edit_never_moves_or_copies_a_file(memory, root):
    """We never rewrite a file just because a person edited it."""
    fact = memory.add("Stays")
    edit(memory.path(fact.id), "Stays", "Stays here")
    before = tree(root)
    memory.list()
    memory.search("stays")
    memory.context()
    DeerMem(root).check()
    assert tree(root) == before
    assert f"users/alice/agents/coder/facts/{shard(fact.id)}/{fact.id}.md" in before
