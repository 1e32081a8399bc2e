"""What is private, and that no link below the root is followed."""

from __future__ import annotations

import os
import stat

import pytest
from builders_store import fact_text, facts_of, place, shard, tree

from deermem import ChangeSet, DeerMem, DeerMemError, Draft, StoreUnavailable


def modes(root) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {"folders": set(), "files": set()}
    for path in [root, *root.rglob("*")]:
        kind = "folders" if path.is_dir() else "files"
        found[kind].add(stat.S_IMODE(path.stat().st_mode))
    return found


@pytest.mark.parametrize("mask", [0o022, 0o000, 0o077])
def test_everything_made_is_private(root, mask):
    """C14: folders 0700, files 0600, whatever the umask; index, journal, lock, backups, sidecars too."""
    before = os.umask(mask)
    try:
        place(root / "users/old/memory.json", '{"facts": [{"id": "a", "content": "Old"}]}')
        with DeerMem(root) as engine:
            memory = engine.memory("alice", "coder")
            fact = memory.add("A fact.")
            memory.update(fact.id, "Changed")
            memory.import_document({"facts": [{"content": str(number)} for number in range(10)]})
            memory.update_summaries({"workContext": "Work"})
            memory.search("fact")
            engine.memory("old").list()
            memory.delete(fact.id)
            engine.memory("old").clear()
            old = root / "users/old"
            os.chmod(old, 0o700)
            os.chmod(root, 0o700)
            os.chmod(root / "users", 0o700)
            assert modes(root) == {"folders": {0o700}, "files": {0o600}}
    finally:
        os.umask(before)


def test_a_link_in_place_of_a_shard_is_not_followed(engine, memory, root, tmp_path):
    """P5: facts/ab → elsewhere: nothing is read from there, nothing written, nothing removed."""
    elsewhere = tmp_path / "elsewhere"
    victim = place(elsewhere / "fact_x.md", fact_text("fact_x", "Outside"))
    folder = facts_of(root) / shard("fact_x")
    memory.add("Inside")
    if not folder.exists():
        folder.symlink_to(elsewhere)
    before = tree(tmp_path / "elsewhere")
    assert [fact.content for fact in memory.list()] == ["Inside"]
    assert memory.search("outside") == []
    with pytest.raises(KeyError):
        memory.get("fact_x")
    with pytest.raises(DeerMemError):
        memory.update("fact_x", "Changed")
    with pytest.raises(StoreUnavailable, match="link"):
        memory.apply(ChangeSet([Draft(id="fact_x", content="New")]))
    with pytest.raises(StoreUnavailable, match="link"):
        memory.import_document({"facts": [{"id": "fact_x", "content": "New"}, {"id": "fact_y", "content": "Too"}]})
    memory.clear()
    engine.clear("alice")
    assert tree(elsewhere) == before
    assert victim.exists()


def test_a_fact_file_that_is_a_link_is_not_followed(memory, root, tmp_path):
    """P5: neither read nor written through nor removed."""
    outside = place(tmp_path / "outside.md", fact_text("fact_x", "Outside"))
    memory.add("Inside")
    link = facts_of(root) / shard("fact_x") / "fact_x.md"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside)
    (facts_of(root) / "dangling.md").symlink_to(tmp_path / "nowhere")
    assert [fact.content for fact in memory.list()] == ["Inside"]
    for call in (memory.get, memory.delete, lambda name: memory.update(name, "x")):
        with pytest.raises(KeyError):
            call("fact_x")
    with pytest.raises(DeerMemError):
        memory.apply(ChangeSet([Draft(id="fact_x", content="New")]))
    memory.clear()
    assert outside.read_text() == fact_text("fact_x", "Outside")
    assert link.is_symlink()


@pytest.mark.parametrize(
    "place_of_link", ["users/alice", "users/alice/agents", "users/alice/agents/coder", "users/alice/agents/coder/facts"]
)
def test_a_folder_that_is_a_link_is_not_followed(root, tmp_path, place_of_link):
    """P5: users/x, agents, the agent, facts: nothing is served from behind it, and nothing changes there."""
    with DeerMem(tmp_path / "other") as other:
        other.memory("alice", "coder").add("Outside")
    behind = tmp_path / "other" / place_of_link
    before = tree(tmp_path / "other", operational=True)
    link = root / place_of_link
    link.parent.mkdir(parents=True)
    link.symlink_to(behind)
    with DeerMem(root) as engine:
        memory = engine.memory("alice", "coder")
        for call in (memory.list, lambda: memory.search("outside"), lambda: memory.document()["facts"]):
            assert answer_or_refusal(call) == []
        for write in (
            lambda: memory.add("New"),
            memory.clear,
            lambda: engine.clear("alice"),
            engine.reindex,
            engine.warm,
        ):
            answer_or_refusal(write)
        engine.check()
        engine.migrate()
        with pytest.raises(DeerMemError, match="link"):
            memory.add("New")
    assert tree(tmp_path / "other", operational=True) == before


def answer_or_refusal(call):
    """The answer; [] where the link was refused."""
    try:
        return call()
    except StoreUnavailable:
        return []


@pytest.mark.parametrize("name", [".journal", ".retrieval", "memory.json", ".memory.lock"])
def test_an_operational_name_that_is_a_link_is_not_followed(root, tmp_path, name, caplog):
    """P5: nothing behind it is made, changed or removed; facts stay readable."""
    behind = tmp_path / "behind"
    if name in ("memory.json", ".memory.lock"):
        place(behind, '{"version": "2.0", "revision": 5, "user": {}, "history": {}}')
    else:
        behind.mkdir()
        place(behind / "index.sqlite3", "mine")
        place(behind / "record", "mine")
    home = root / "users/alice"
    place(facts_of(root) / "note.md", "A note\n")
    (home / name).symlink_to(behind)
    before = tree(tmp_path / "behind") or behind.read_bytes()
    with DeerMem(root) as engine:
        memory = engine.memory("alice", "coder")
        assert [fact.id for fact in memory.list()] == ["note"]
        assert [hit.fact.id for hit in memory.search("note")] == ["note"]
        try:
            memory.add("New")
        except DeerMemError as error:
            assert "link" in str(error) or name in str(error)  # noqa: PT017
        engine.check()
        engine.reindex()
    assert (tree(tmp_path / "behind") or behind.read_bytes()) == before


def test_the_root_itself_may_be_a_link(tmp_path):
    """Only links below users/ are refused."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with DeerMem(tmp_path / "link") as engine:
        fact = engine.memory("alice").add("Through a link")
    with DeerMem(tmp_path / "real") as engine:
        assert engine.memory("alice").get(fact.id) == fact


def test_special_files_are_no_facts(memory, root):
    """A pipe named like a fact never blocks a read."""
    memory.add("A fact.")
    os.mkfifo(facts_of(root) / "pipe.md")
    (facts_of(root) / "folder.md").mkdir()
    place(facts_of(root) / "folder.md" / "inner.md", "Inside a folder with that name\n")
    assert sorted(fact.content for fact in memory.list()) == ["A fact.", "Inside a folder with that name"]
    memory.clear()
    assert (facts_of(root) / "pipe.md").exists()


def test_a_read_only_disk_says_what_is_wrong(memory, root, monkeypatch):
    """C13: a refused write names the file and what to do; reads go on."""
    fact = memory.add("A fact.")
    real = os.open

    def refusing(path, flags, *rest, **named):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(30, "Read-only file system", str(path))
        return real(path, flags, *rest, **named)

    monkeypatch.setattr("os.open", refusing)
    with pytest.raises(DeerMemError, match=r"[Rr]ead-only"):
        memory.update(fact.id, "Changed")
    assert memory.get(fact.id) == fact
    monkeypatch.undo()
    assert memory.update(fact.id, "Changed").revision == 2
