"""Whatever lies at the index's place, the answers are those of the files, and the index is whole again afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from builders_store import edit, facts_of, place

from deermem import DeerMem, Memory, Settings
from deermem.index import schema
from deermem.index.tokens import TOKENIZER
from deermem.service import index_access

ALL = [f"Docker fact number {number}" for number in range(6)]


@pytest.fixture
def index(root: Path) -> Path:
    return root / "users/alice/.retrieval/index.sqlite3"


@pytest.fixture
def stored(root: Path, index: Path) -> Path:
    """A closed store of six facts with its index; gives the index."""
    with DeerMem(root) as engine:
        for content in ALL:
            engine.memory("alice", "coder").add(content)
        assert engine.warm()
    return index


def run(index: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(index, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def one(index: Path, statement: str) -> object:
    with contextlib.closing(sqlite3.connect(index)) as connection:
        return connection.execute(statement).fetchone()[0]


def found(memory: Memory, text: str = "docker") -> list[str]:
    return sorted(hit.fact.content for hit in memory.search(text, 100))


def check_whole(root: Path, index: Path, expected: list[str]) -> None:
    """The next process finds everything through the index, and the database is sound."""
    with DeerMem(root) as engine:
        memory = engine.memory("alice", "coder")
        assert engine.warm() is True
        assert found(memory) == expected
        assert {hit.match for hit in memory.search("docker")} == {"fts5"}
        assert memory.count("docker") == len(expected)
    assert one(index, "PRAGMA integrity_check") == "ok"
    assert one(index, "SELECT count(*) FROM files WHERE fact IS NOT NULL") == len(expected)
    assert one(index, "SELECT count(*) FROM words") == len(expected)


def cut(size: int) -> Callable[[Path], None]:
    return lambda index: os.truncate(index, size)


def overwrite(start: int, count: int) -> Callable[[Path], None]:
    def damage(index: Path) -> None:
        with open(index, "r+b") as stream:
            stream.seek(start)
            stream.write(b"\xa5" * count)

    return damage


def statements(*given: str) -> Callable[[Path], None]:
    return lambda index: run(index, *given)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "garbage": lambda index: index.write_bytes(b"no database at all" * 999),
    "empty file": cut(0),
    "cut in the header": cut(50),
    "cut in a page": cut(5000),
    "cut by half": lambda index: os.truncate(index, index.stat().st_size // 8192 * 4096),
    "header overwritten": overwrite(0, 100),
    "a page overwritten": overwrite(4096, 4096),
    **{
        f"shadow table {name} gone": statements(f"DROP TABLE words_{name}")
        for name in ("data", "idx", "content", "docsize", "config")
    },
    "shadow rows gone": statements("DELETE FROM words_data"),
    "words gone": statements("DROP TABLE words"),
    "no words": statements("DELETE FROM words"),
    "no rows": statements("DELETE FROM files", "DELETE FROM words"),
    "no meta": statements("DELETE FROM meta"),
    "meta gone": statements("DROP TABLE meta"),
    "files gone": statements("DROP TABLE files"),
    "a phantom row": statements(
        "INSERT INTO files (agent, path, rev, fact_id, fact) VALUES ('coder', 'zz/gone.md', 1, 'gone', '{}')",
        "INSERT INTO words (rowid, body) SELECT id, 'docker' FROM files WHERE fact_id = 'gone'",
    ),
    "phantom words": statements("INSERT INTO words (rowid, body) VALUES (999, 'docker')"),
    "rows that nobody wrote": statements("UPDATE files SET fact = '[]'"),
    "columns of another type": statements(
        "UPDATE files SET confidence = 'high', created = 'x', updated = 'y', length = 'z', topics = '{{'"
    ),
    "neither fact nor problem": statements("UPDATE files SET fact = NULL"),
    "other schema": statements("UPDATE meta SET value = '0/' || value WHERE key = 'version'"),
    "other tokeniser": statements(
        "DROP TABLE words",
        "CREATE VIRTUAL TABLE words USING fts5(body, tokenize='unicode61')",
        f"UPDATE meta SET value = replace(value, '{TOKENIZER}', 'unicode61') WHERE key = 'version'",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_whatever_lies_there_the_answers_are_right(root: Path, stored: Path, kind: str) -> None:
    """F20, X3, X6: the first answer, a delete right after the opening, and the next process."""
    DAMAGE[kind](stored)
    with DeerMem(root) as engine:
        memory = engine.memory("alice", "coder")
        gone = next(fact for fact in memory.list() if fact.content == ALL[0])
        memory.delete(gone.id)
        assert found(memory) == ALL[1:]
        assert memory.count("docker") == 5
        memory.add(ALL[0])
        assert found(memory) == ALL
    check_whole(root, stored, ALL)


@pytest.mark.parametrize(
    "harm",
    [
        ("DELETE FROM words WHERE rowid % 2 = 0",),
        ("DELETE FROM files",),
        ("DELETE FROM files", "DELETE FROM words"),
        ("UPDATE files SET confidence = 'high', updated = 'y', length = 'z'",),
    ],
)
def test_rows_that_go_while_it_is_open_are_missed_at_once(root: Path, stored: Path, harm: tuple[str, ...]) -> None:
    with DeerMem(root) as engine:
        memory = engine.memory("alice", "coder")
        assert found(memory, "fact docker") == ALL
        run(stored, *harm)
        assert found(memory, "fact docker") == ALL
        assert memory.count("fact docker") == 6
        assert memory.search("fact docker")[0].match == "fts5"


def test_an_index_that_was_copied_from_another_user_tells_nothing_of_his_words(root: Path, stored: Path) -> None:
    """Not even through an agent that nobody asks for."""
    with DeerMem(root) as engine:
        engine.memory("bob", "writer").add("Docker and a secretword")
        engine.memory("bob", "writer").search("docker")
        before = engine.memory("alice", "coder").search("docker", 1)[0].score
    shutil.copy2(root / "users/bob/.retrieval/index.sqlite3", stored)
    with DeerMem(root) as engine:
        assert engine.memory("alice", "coder").search("docker", 1)[0].score == before
    assert one(stored, "SELECT count(*) FROM words WHERE words MATCH 'secretword'") == 0


def test_a_full_disk_costs_no_index(root: Path, stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written stays, and is written further once there is room again."""
    monkeypatch.setattr(index_access, "_PAUSE_SECONDS", 0.0)
    before = stored.stat().st_ino
    with DeerMem(root) as engine:
        memory = engine.memory("alice", "coder")
        assert found(memory) == ALL
        catalogue = engine.context("alice").view._index.open()
        assert catalogue is not None
        catalogue.connection.execute("PRAGMA max_page_count = 1")
        long = f"Docker {' '.join(f'word{number}' for number in range(6000))}"
        place(facts_of(root) / "00" / "hand.md", long)
        for _ in range(3):
            assert found(memory) == [*ALL, long]
        assert memory.search("word77")[0].match == "substring"
        catalogue.connection.execute("PRAGMA max_page_count = 1000000")
        assert memory.search("word77")[0].match == "fts5"
    assert stored.stat().st_ino == before


def test_a_database_that_somebody_holds_is_waited_for_once(
    root: Path, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "BUSY_SECONDS", 0.0)
    tries: list[Path] = []
    connect = schema.connect
    monkeypatch.setattr(schema, "connect", lambda path, **more: tries.append(path) or connect(path, **more))
    with contextlib.closing(sqlite3.connect(stored, isolation_level=None)) as stranger:
        stranger.execute("PRAGMA locking_mode = EXCLUSIVE")
        stranger.execute("BEGIN EXCLUSIVE")
        with DeerMem(root) as engine:
            memory = engine.memory("alice", "coder")
            assert found(memory) == ALL
            assert memory.count("docker") == 6
            memory.add("Docker again")
            assert found(memory) == ["Docker again", *ALL]
    assert len(tries) == 1


def test_rows_are_kept_over_open_and_close(root: Path, stored: Path) -> None:
    """X4: nothing is dropped at a start."""
    identity = one(stored, "SELECT value FROM meta WHERE key = 'identity'")
    rows = one(stored, "SELECT group_concat(id || fact) FROM files")
    for _ in range(3):
        with DeerMem(root) as engine:
            assert found(engine.memory("alice", "coder")) == ALL
    assert one(stored, "SELECT value FROM meta WHERE key = 'identity'") == identity
    assert one(stored, "SELECT group_concat(id || fact) FROM files") == rows


def test_an_index_that_is_switched_on_later_holds_what_was_there(root: Path, index: Path) -> None:
    """X5."""
    with DeerMem(root, Settings(retrieval_adapter="")) as engine:
        for content in ALL:
            engine.memory("alice", "coder").add(content)
        assert found(engine.memory("alice", "coder")) == ALL
    assert not index.exists()
    check_whole(root, index, ALL)


def test_a_path_that_was_gone_and_is_back(root: Path, stored: Path) -> None:
    """X7: in one process and over two, with a search or a rebuild in between, or without."""
    with DeerMem(root) as engine:
        memory = engine.memory("alice", "coder")
        path = memory.path(memory.list()[0].id)
        text = path.read_bytes()
        for between in (lambda: None, lambda: found(memory), lambda: engine.reindex("alice")):
            path.unlink()
            between()
            path.write_bytes(text)
            assert found(memory) == ALL
    path.unlink()
    with DeerMem(root) as engine:
        assert len(found(engine.memory("alice", "coder"))) == 5
    path.write_bytes(text)
    check_whole(root, stored, ALL)


def spilled(index: Path, folder: Path) -> tuple[Path, Path]:
    """A database and its rollback journal as a process leaves them that is killed in a large transaction."""
    run(index, "PRAGMA journal_mode = DELETE")
    with contextlib.closing(sqlite3.connect(index, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("PRAGMA cache_spill = 1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE files SET fact = '{}', hash = zeroblob(9000)")
        connection.execute("DELETE FROM words")
        journal = index.with_name(f"{index.name}-journal")
        assert journal.stat().st_size > 512
        copies = folder / "db", folder / "journal"
        shutil.copyfile(index, copies[0])
        shutil.copyfile(journal, copies[1])
        connection.execute("ROLLBACK")
    return copies


@pytest.mark.parametrize("whose", ["its own", "another's"])
def test_a_hot_journal_beside_the_database(root: Path, stored: Path, tmp_path: Path, whose: str) -> None:
    """X11: its own is rolled back; one of an older database must not bring old rows into the present one."""
    database, journal = spilled(stored, tmp_path)
    if whose == "its own":
        shutil.copyfile(database, stored)
    else:
        with DeerMem(root) as engine:
            memory = engine.memory("alice", "coder")
            for fact in memory.list():
                memory.update(fact.id, fact.content.replace("fact", "thing"))
            assert engine.reindex("alice").supported
    shutil.copyfile(journal, stored.with_name(f"{stored.name}-journal"))
    expected = ALL if whose == "its own" else [content.replace("fact", "thing") for content in ALL]
    with DeerMem(root) as engine:
        memory = engine.memory("alice", "coder")
        assert found(memory) == expected
        assert memory.count("fact") == (6 if whose == "its own" else 0)
    check_whole(root, stored, expected)


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("ext4", "wal"),
        ("", "wal"),
        ("nfs4", "delete"),
        ("virtiofs", "delete"),
        ("9p", "delete"),
        ("fuse.sshfs", "delete"),
    ],
)
def test_a_file_system_decides_how_the_database_keeps_its_journal(
    root: Path, index: Path, monkeypatch: pytest.MonkeyPatch, kind: str, mode: str
) -> None:
    """X14: a write-ahead log on such a mount corrupts within a minute."""
    monkeypatch.setattr("deermem.store.fingerprints.file_system", lambda device: kind)
    with DeerMem(root) as engine:
        memory = engine.memory("alice", "coder")
        for content in ALL:
            memory.add(content)
        assert found(memory) == ALL
        assert {hit.match for hit in memory.search("docker")} == {"fts5"}
        assert index.with_name(f"{index.name}-wal").exists() == (mode == "wal")
    assert one(index, "PRAGMA journal_mode") == mode
    check_whole(root, index, ALL)


def test_a_store_that_moves_to_such_a_file_system_changes_its_mode(
    root: Path, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert one(stored, "PRAGMA journal_mode") == "wal"
    monkeypatch.setattr("deermem.store.fingerprints.file_system", lambda device: "nfs")
    with DeerMem(root) as engine:
        assert found(engine.memory("alice", "coder")) == ALL
    assert one(stored, "PRAGMA journal_mode") == "delete"


def test_connecting_says_how_the_journal_is_kept(tmp_path: Path) -> None:
    for wal, mode in ((True, "wal"), (False, "delete"), (True, "wal")):
        with contextlib.closing(schema.connect(tmp_path / "index.sqlite3", wal=wal)) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == (mode,)


def test_the_last_word_of_a_long_fact_is_found(root: Path, index: Path) -> None:
    """X18: nothing ends at 6,000 characters."""
    with DeerMem(root) as engine:
        memory = engine.memory("alice", "coder")
        fact = memory.add("filler words " * 1600 + "needleword")
        assert len(fact.content) > 20_000
        (hit,) = memory.search("needleword")
        assert (hit.match, hit.fact.id, "**needleword**" in hit.snippet) == ("fts5", fact.id, True)
        edit(memory.path(fact.id), "needleword", "pinword")
        assert (memory.count("needleword"), memory.count("pinword")) == (0, 1)


def test_facts_folders_are_left_alone(root: Path, stored: Path) -> None:
    """A rebuild touches nothing but the index."""
    before = {path: path.read_bytes() for path in facts_of(root).rglob("*.md")}
    stored.write_bytes(b"x")
    check_whole(root, stored, ALL)
    assert {path: path.read_bytes() for path in facts_of(root).rglob("*.md")} == before
