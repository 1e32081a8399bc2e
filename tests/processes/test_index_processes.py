"""The index between real processes: rebuilt by several at once, killed in the middle, read meanwhile."""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deermem import DeerMem

WORKERS = Path(__file__).with_name("index_workers.py")
PATIENCE = 60.0
ALL = [f"Docker fact number {number}" for number in range(40)]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def store(root: Path) -> Path:
    with DeerMem(root) as engine:
        memory = engine.memory("ann", "coder")
        memory.import_document({"facts": [{"content": content} for content in ALL]})
        assert engine.warm()
    return root


@pytest.fixture
def start(store: Path) -> Iterator[Start]:
    """Starts a worker on the store: `start("reindex", 3)`."""
    with contextlib.ExitStack() as stack:

        def start(verb: str, turns: int = 0) -> subprocess.Popen[str]:
            pipe = subprocess.PIPE
            command = [sys.executable, "-W", "error", str(WORKERS), verb, str(store), str(turns)]
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield start


def finished(process: subprocess.Popen[str]) -> list[dict[str, object]]:
    """What a worker said; it must end well and say nothing on standard error."""
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert json.loads(process.stdout.readline()) == {"ready": True}


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate(timeout=PATIENCE)


def index_of(store: Path) -> Path:
    return store / "users/ann/.retrieval/index.sqlite3"


def check_whole(store: Path) -> None:
    with DeerMem(store) as engine:
        memory = engine.memory("ann", "coder")
        assert sorted(hit.fact.content for hit in memory.search("docker", 100)) == sorted(ALL)
        assert {hit.match for hit in memory.search("docker")} == {"fts5"}
        assert memory.count("docker") == len(ALL)
    with contextlib.closing(sqlite3.connect(index_of(store))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT count(*) FROM words").fetchone() == (len(ALL),)


def test_rebuilds_at_once_and_no_search_finds_less(start: Start, store: Path) -> None:
    """X9, X10: every rebuild ends well, and a reader has the old index, the new one or the files, never none."""
    searcher = start("search", 30)
    ready(searcher)
    rebuilds = [start("reindex", 4) for _ in range(2)]
    for rebuild in rebuilds:
        for said in finished(rebuild):
            assert (said["indexed"], said["failed"]) == (len(ALL), 0)
    (said,) = finished(searcher)
    assert said["counts"] == [len(ALL)]
    assert set(said["kinds"]) <= {"fts5", "substring"}  # type: ignore[call-overload]
    check_whole(store)


def test_a_rebuild_that_is_killed_costs_nothing(start: Start, store: Path) -> None:
    """X11: whatever it leaves behind, its logs included."""
    chance = random.Random(4)
    for _ in range(4):
        process = start("reindex", 1000)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0, 0.05))
        kill(process)
        check_whole(store)


def test_a_hot_rollback_journal_is_rolled_back(start: Start, store: Path) -> None:
    """X11: left by a process that was killed with half of its pages in the database."""
    process = start("spill")
    ready(process)
    kill(process)
    assert index_of(store).with_name("index.sqlite3-journal").stat().st_size > 0
    check_whole(store)
    assert not index_of(store).with_name("index.sqlite3-journal").exists()


@pytest.mark.parametrize("damage", ["garbage", "old version"])
def test_several_processes_meet_a_bad_index(start: Start, store: Path, damage: str) -> None:
    """All begin at once, and none finds less than everything."""
    if damage == "garbage":
        index_of(store).write_bytes(b"no database" * 999)
    else:
        with contextlib.closing(sqlite3.connect(index_of(store), isolation_level=None)) as connection:
            connection.execute("UPDATE meta SET value = '0/old' WHERE key = 'version'")
    searchers = [start("search", 3) for _ in range(3)]
    for searcher in searchers:
        ready(searcher)
    for searcher in searchers:
        out, _ = searcher.communicate(timeout=PATIENCE)
        assert searcher.returncode == 0
        assert json.loads(out)["counts"] == [len(ALL)]
    check_whole(store)


def test_the_live_database_is_never_opened_as_a_plain_file(start: Start, store: Path) -> None:
    """X15: opening and closing it by other means would drop SQLite's locks on it."""
    (said,) = finished(start("opens"))
    opened = said["opened"]
    assert isinstance(opened, list)
    assert "probe" in opened
    assert [name for name in opened if name in ("index.sqlite3", "index.sqlite3-wal", "index.sqlite3-shm")] == []
