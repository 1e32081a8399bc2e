"""The index is derived: whatever becomes of it, the answers are the same."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from builders_store import edit, facts_of, place

from deermem import DeerMem, DuplicateFact, Settings


@pytest.fixture
def index(root):
    """Where the index of user alice lies."""
    return root / "users/alice/.retrieval/index.sqlite3"


@pytest.fixture
def stored(memory):
    """Five facts, indexed."""
    for number in range(5):
        memory.add(f"Docker fact {number}", confidence=number / 10)
    memory.search("docker")
    return memory


def contents(memory, text: str = "docker", top_k: int = 100) -> list[str]:
    return sorted(hit.fact.content for hit in memory.search(text, top_k))


def rows(index) -> int:
    connection = sqlite3.connect(index)
    try:
        (count,) = connection.execute("SELECT count(*) FROM files WHERE fact IS NOT NULL").fetchone()
        return int(count)
    finally:
        connection.close()


ALL = [f"Docker fact {number}" for number in range(5)]


def test_the_index_survives_a_restart(stored, engine, root, index, monkeypatch):
    """81, X4: below users/{user}/.retrieval/; nothing is parsed again."""
    engine.close()
    assert rows(index) == 5
    parsed = []
    monkeypatch.setattr("deermem.format.markdown.decode", lambda *_, **__: parsed.append(1))
    with DeerMem(root) as again:
        memory = again.memory("alice", "coder")
        assert contents(memory) == ALL
        assert {hit.match for hit in memory.search("docker")} == {"fts5"}
    assert parsed == []


DAMAGE = {
    "deleted": lambda index: shutil.rmtree(index.parent),
    "database deleted": lambda index: index.unlink(),
    "garbage": lambda index: index.write_bytes(b"not a database at all" * 500),
    "empty": lambda index: index.write_bytes(b""),
    "cut": lambda index: index.write_bytes(index.read_bytes()[:5000]),
    "another schema": lambda index: run(index, "UPDATE meta SET value = '0/old' WHERE key = 'version'"),
    "no rows": lambda index: run(index, "DELETE FROM files", "DELETE FROM words"),
    "no words": lambda index: run(index, "DELETE FROM words"),
    "orphan row": lambda index: run(
        index, "INSERT INTO files (agent, path, rev, fact_id, fact) VALUES ('coder', 'zz/gone.md', 1, 'gone', '{}')"
    ),
    "words table gone": lambda index: run(index, "DROP TABLE words"),
    "another database": lambda index: (index.unlink(), run(index, "CREATE TABLE meta (a)", "CREATE TABLE files (b)")),
    "a folder": lambda index: (index.unlink(), index.mkdir()),
}


def run(index, *statements: str) -> None:
    connection = sqlite3.connect(index, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_index_changes_no_answer(stored, engine, root, index, kind, caplog):
    """87, X3, X6, X20: found at a start: deleted, garbage, another version, rows missing or too many."""
    engine.close()
    DAMAGE[kind](index)
    with DeerMem(root) as again:
        memory = again.memory("alice", "coder")
        assert contents(memory) == ALL
        assert len(memory.list()) == 5
        with pytest.raises(DuplicateFact):
            memory.add("docker FACT 3")
        added = memory.add("Docker fact 5")
        assert contents(memory) == [*ALL, "Docker fact 5"]
        memory.delete(added.id)
        assert contents(memory) == ALL
    with DeerMem(root) as later:
        assert contents(later.memory("alice", "coder")) == ALL


@pytest.mark.parametrize("kind", ["deleted", "database deleted", "garbage"])
def test_an_index_lost_in_use_changes_no_answer(stored, index, kind, caplog):
    """87: at any time, not only at a start."""
    stored.search("docker")
    for suffix in ("-wal", "-shm"):
        index.with_name(index.name + suffix).unlink(missing_ok=True)
    if kind == "garbage":
        replacement = index.with_name("garbage")
        replacement.write_bytes(b"x" * 9000)
        replacement.replace(index)
    else:
        DAMAGE[kind](index)
    assert contents(stored) == ALL
    stored.add("Docker fact 5")
    assert contents(stored) == [*ALL, "Docker fact 5"]
    assert len(stored.list()) == 6


def test_an_index_locked_by_another_connection_changes_no_answer(stored, root, index, monkeypatch, caplog):
    """92, C9: writes go through, and searches find what was written; later the index catches up."""
    monkeypatch.setattr("deermem.index.schema.BUSY_SECONDS", 0.05)
    with DeerMem(root) as other:
        memory = other.memory("alice", "coder")
        assert contents(memory) == ALL
        blocker = sqlite3.connect(index, isolation_level=None, timeout=5)
        blocker.execute("BEGIN IMMEDIATE")
        try:
            memory.add("Docker fact 5")
            assert contents(memory) == [*ALL, "Docker fact 5"]
            edit(memory.path(memory.list()[0].id), "Docker", "Podman")
            assert len(memory.search("podman")) == 1
        finally:
            blocker.execute("ROLLBACK")
            blocker.close()
        assert len(memory.search("docker", 100)) == 5
        assert {hit.match for hit in memory.search("docker")} == {"fts5"}
    assert rows(index) == 6


def test_an_engine_that_can_not_write_an_index_answers_all_the_same(root, tmp_path, caplog):
    """75, 92: its place is a file."""
    blocked = tmp_path / "blocked"
    blocked.write_text("x")
    with DeerMem(root, Settings(index_root=str(blocked / "index"))) as engine:
        memory = engine.memory("alice", "coder")
        for content in ALL:
            memory.add(content)
        assert contents(memory) == ALL
        assert {hit.match for hit in memory.search("docker")} == {"substring"}
        assert engine.warm() is False
        assert engine.reindex("alice").supported is False
    assert blocked.read_text() == "x"


def test_the_index_may_lie_elsewhere(root, tmp_path):
    """81: nothing of it below the root; two roots never share one."""
    elsewhere = tmp_path / "index"
    for name in ("one", "two"):
        with DeerMem(root / name, Settings(index_root=str(elsewhere))) as engine:
            engine.memory("alice").add(f"Docker of {name}")
            engine.memory().add("Docker of nobody")
            assert [hit.fact.content for hit in engine.memory("alice").search("docker")] == [f"Docker of {name}"]
    assert list(root.rglob(".retrieval")) == []
    assert len(list(elsewhere.rglob("index.sqlite3"))) == 4


def test_a_notification_that_fails_is_made_up_for(stored, monkeypatch, caplog):
    """88: the next search finds the fact all the same."""
    from deermem.service.view import UserView

    def failing(*_, **__):
        raise OSError("no")

    monkeypatch.setattr(UserView, "note", failing)
    stored.add("Docker fact 5")
    monkeypatch.undo()
    assert contents(stored) == [*ALL, "Docker fact 5"]


def test_a_rebuild_counts_facts_and_files_that_can_not_be_read(stored, engine, root, index):
    """89, X3: rows of deleted files go; one bad file only counts."""
    place(facts_of(root) / "bad.md", b"\xff")
    gone = stored.list()[0]
    stored.path(gone.id).unlink()
    report = engine.reindex("alice")
    assert (report.supported, report.indexed, report.failed, report.users) == (True, 4, 1, 1)
    assert rows(index) == 4
    assert engine.reindex().indexed == 4


def test_a_rebuild_accepts_users_whose_id_was_changed_for_the_folder(engine):
    """90, and the trap of folder names taken for ids."""
    engine.memory("user@example.org").add("Docker")
    report = engine.reindex()
    assert (report.indexed, report.failed) == (1, 0)
    (folder,) = engine.users()
    assert len(engine.memory(folder).search("docker")) == 1
    assert engine.memory(folder).update(engine.memory(folder).list()[0].id, "Podman").user_id == "user@example.org"


def test_warming_builds_what_is_missing(stored, engine, root, index):
    """91: true, also with files that can't be read; searches need not build any more."""
    engine.close()
    shutil.rmtree(index.parent)
    place(facts_of(root) / "bad.md", b"\xff")
    with DeerMem(root) as again:
        assert again.warm() is True
        assert rows(index) == 5
        assert again.warm() is True
        assert contents(again.memory("alice", "coder")) == ALL
    with DeerMem(root, Settings(retrieval_adapter="")) as plain:
        assert plain.reindex().supported is False


def test_a_fault_in_the_index_is_never_an_error(stored, monkeypatch, caplog):
    """92: the canonical result, marked as substring."""

    def broken(*_, **__):
        raise sqlite3.DatabaseError("malformed")

    monkeypatch.setattr("deermem.service.retrieval.search", broken)
    assert contents(stored) == ALL
    assert {hit.match for hit in stored.search("docker")} == {"substring"}


def test_closing_releases_the_index(stored, engine, index):
    """93: no write-ahead log stays behind."""
    engine.close()
    assert not index.with_name("index.sqlite3-wal").exists()


def test_a_restored_file_is_indexed_again(stored, engine):
    """X7: rm, reindex, restore, reindex."""
    path = stored.path(stored.list()[0].id)
    text = path.read_bytes()
    for _ in range(2):
        path.unlink()
        assert engine.reindex("alice").indexed == 4
        assert len(stored.search("docker", 10)) == 4
        path.write_bytes(text)
        assert engine.reindex("alice").indexed == 5
        assert contents(stored) == ALL


def test_rebuilds_and_searches_at_once(stored, engine, root, caplog):
    """X9, X10: no error, and no search sees an empty index."""
    stop = threading.Event()
    counts: list[int] = []

    def searching():
        with DeerMem(root) as other:
            memory = other.memory("alice", "coder")
            while not stop.is_set():
                counts.append(len(memory.search("docker", 10)))

    def rebuilding(_):
        with DeerMem(root) as other:
            return other.reindex("alice").indexed

    searcher = threading.Thread(target=searching)
    searcher.start()
    try:
        with ThreadPoolExecutor(2) as pool:
            assert set(pool.map(rebuilding, range(8))) == {5}
    finally:
        stop.set()
        searcher.join()
    assert set(counts) <= {5}
    assert contents(stored) == ALL


def test_many_writers_and_one_index(engine):
    """86: 20 adds from 8 threads are all searchable."""
    memory = engine.memory("alice", "coder")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: memory.add(f"Docker fact {number}"), range(20)))
    assert len(memory.search("docker", 100)) == 20
