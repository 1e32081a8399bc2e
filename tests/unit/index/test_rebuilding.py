"""A rebuild takes facts in by the portion: what is there after each, what is let go, what a stop leaves."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from builders_store import edit, fact_text, facts_of, place
from hypothesis import given
from hypothesis import strategies as st

from deermem import DeerMem, DuplicateFact, Fact, Settings
from deermem.index import known_rows, schema
from deermem.index.catalogue import Catalogue
from deermem.index.rows import Row, Stored
from deermem.index.tokens import BREAK, index_text, scan, stream
from deermem.service import view as view_module
from deermem.service.snapshot import Snapshot
from deermem.service.view import UserView
from deermem.store.fingerprints import clock_ns

NUMBER = 10
PORTION = 3
ALL = [f"Docker fact number {number}" for number in range(NUMBER)]
INDEXES = ["files_by_content", "files_by_end", "files_by_id", "files_by_rank", "files_by_rev"]
Push = Callable[..., "int | None"]


@pytest.fixture
def index(root: Path) -> Path:
    return root / "users/alice/.retrieval/index.sqlite3"


def settle(folder: Path) -> None:
    """All times in the past: what is looked at within the tick of its change is looked at, and stored, once more."""
    newest = max(path.stat().st_ctime_ns for path in folder.rglob("*.md"))
    while clock_ns(folder.stat().st_dev) <= newest:
        os.sched_yield()


@pytest.fixture
def stored(root: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A closed store of ten facts with its index, taken in by threes from here on; gives the index."""
    with DeerMem(root) as engine:
        for content in ALL:
            engine.memory("alice", "coder").add(content)
        settle(root)
        assert engine.warm()
    monkeypatch.setattr(view_module, "_TAKEN_IN_AT_ONCE", PORTION)
    return index


def indexes_of(index: Path) -> list[str]:
    found = "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY name"
    with contextlib.closing(sqlite3.connect(index)) as connection:
        return [name for (name,) in connection.execute(found)]


def searched(root: Path) -> list[str]:
    """What a new process finds."""
    with DeerMem(root) as engine:
        return sorted(hit.fact.content for hit in engine.memory("alice", "coder").search("docker", 100))


def hook(monkeypatch: pytest.MonkeyPatch, before: Callable[[Sequence[Row]], object]) -> None:
    """Calls `before` ahead of each portion that is written."""
    real = Catalogue.push

    def push(self: Catalogue, rows: Sequence[Row], gone: object = (), **rest: object) -> int | None:
        before(rows)
        return real(self, rows, gone, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Catalogue, "push", push)


def test_a_rebuild_writes_by_the_portion_and_finds_everything(
    root: Path, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    hook(monkeypatch, lambda rows: sizes.append(len(rows)))
    with DeerMem(root) as engine:
        report = engine.reindex("alice")
        assert (report.supported, report.indexed, report.failed) == (True, NUMBER, 0)
        assert [size for size in sizes if size] == [PORTION, PORTION, PORTION, 1]
        hits = engine.memory("alice", "coder").search("docker", 100)
        assert sorted(hit.fact.content for hit in hits) == ALL
        assert {hit.match for hit in hits} == {"fts5"}
    assert indexes_of(stored) == INDEXES


def test_others_read_and_write_between_two_portions(root: Path, stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits until a rebuild ends, and what is written meanwhile is in the index when it does."""
    seen: list[list[str]] = []
    with DeerMem(root) as other, DeerMem(root) as engine:
        memory = other.memory("alice", "coder")
        memory.list()

        def between(rows: Sequence[Row]) -> None:
            if len(rows) == PORTION and len(seen) < 2:
                seen.append([])
                memory.add(f"Docker fact added {len(seen)}")
                seen[-1] = [hit.fact.content for hit in memory.search("docker", 100)]

        hook(monkeypatch, between)
        assert engine.reindex("alice").supported
        expected = sorted([*ALL, "Docker fact added 1", "Docker fact added 2"])
        assert sorted(seen[0]) == sorted([*ALL, "Docker fact added 1"])
        assert sorted(seen[1]) == expected
        found = engine.memory("alice", "coder").search("docker", 100)
        assert sorted(hit.fact.content for hit in found) == expected
    assert searched(root) == expected


@pytest.mark.parametrize("portions", [0, 1, 3])
def test_a_rebuild_that_stops_is_finished_by_the_next_one_who_looks(
    root: Path, stored: Path, monkeypatch: pytest.MonkeyPatch, portions: int
) -> None:
    written: list[int] = []

    def stop(rows: Sequence[Row]) -> None:
        if len(written) == portions:
            raise KeyboardInterrupt
        written.append(len(rows))

    with DeerMem(root) as engine:
        with monkeypatch.context() as patch:
            hook(patch, stop)
            with pytest.raises(KeyboardInterrupt):
                engine.reindex("alice")
        assert indexes_of(stored) == []
        hits = engine.memory("alice", "coder").search("docker", 100)
        assert sorted(hit.fact.content for hit in hits) == ALL
        assert indexes_of(stored) == INDEXES
    assert searched(root) == ALL


def test_without_indexes_every_answer_is_the_same(root: Path, stored: Path) -> None:
    """A process that was open while another's rebuild died decides by tables that have none."""
    with contextlib.closing(sqlite3.connect(stored)) as connection:
        for name in INDEXES:
            connection.execute(f"DROP INDEX {name}")
    with DeerMem(root, Settings(max_facts=NUMBER)) as engine:
        memory = engine.memory("alice", "coder")
        with pytest.raises(DuplicateFact):
            memory.add(ALL[3])
        assert len(memory.list()) == NUMBER
        memory.add("Docker fact of more weight", confidence=0.9)
        assert len(memory.list()) == NUMBER
        assert memory.count("docker") == NUMBER
    assert indexes_of(stored) == INDEXES


def test_indexes_wait_for_whoever_is_writing(root: Path, stored: Path) -> None:
    """A search asks the index all the same, at once."""
    with DeerMem(root) as engine, contextlib.closing(sqlite3.connect(stored, isolation_level=None)) as writer:
        memory = engine.memory("alice", "coder")
        for name in INDEXES:
            writer.execute(f"DROP INDEX {name}")
        writer.execute("BEGIN IMMEDIATE")
        assert {hit.match for hit in memory.search("docker")} == {"fts5"}
        writer.execute("ROLLBACK")
        assert indexes_of(stored) == []
        assert {hit.match for hit in memory.search("docker")} == {"fts5"}
    assert indexes_of(stored) == INDEXES


# --- what is kept in memory


RICH = fact_text(
    "rich",
    "First line here\n\nand a second one",
    topics="[red, blue]",
    sourceError="it was wrong",
    expected_valid_days=30,
    expiresAt="'2999-01-02T03:04:05.000006Z'",
    lastConfirmedAt="'2026-03-04T05:06:07Z'",
    confirmationCount=4,
    consolidatedFrom="[one, two]",
    consolidatedAt="'2026-03-05T05:06:07Z'",
    mood="sunny",
    nested="{a: [1, 2.5, null], b: 天}",
)


def swept(monkeypatch: pytest.MonkeyPatch) -> list[Snapshot]:
    """Every snapshot that a view gives from here on."""
    seen: list[Snapshot] = []
    real = UserView.sweep

    def sweep(self: UserView, agent: str, **rest: object) -> Snapshot:
        found = real(self, agent, **rest)  # type: ignore[arg-type]
        seen.append(found)
        return found

    monkeypatch.setattr(UserView, "sweep", sweep)
    return seen


def test_a_rebuild_lets_facts_go_and_gives_them_back_equal(
    root: Path, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = facts_of(root)
    place(folder / "rich.md", RICH)
    place(folder / "plain note.md", "没有题头的笔记，用数据库 🚀\n")
    place(folder / "titled.md", "# Another title\n\nA text below it\n")
    with DeerMem(root) as engine:
        before = engine.memory("alice", "coder").list()
    seen = swept(monkeypatch)
    with DeerMem(root) as engine:
        assert engine.reindex("alice").indexed == NUMBER + 3
        kept = [row.kept for row in seen[-1].rows.values()]
        assert [type(item._held) for item in kept if isinstance(item, Stored)] == [str] * (NUMBER + 3)
        assert engine.memory("alice", "coder").list() == before
        rich = engine.memory("alice", "coder").get("rich")
    assert (rich.topics, rich.extra["nested"]) == (("red", "blue"), {"a": [1, 2.5, None], "b": "天"})
    with DeerMem(root) as engine:
        assert engine.memory("alice", "coder").list() == before


def test_a_list_keeps_its_facts(root: Path, stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is built twice where everything is wanted."""
    stored.unlink()
    seen = swept(monkeypatch)
    with DeerMem(root) as engine:
        first: list[Fact] = engine.memory("alice", "coder").list()
        assert all(row.fact in first for row in seen[-1].rows.values())
        second = engine.memory("alice", "coder").list()
    assert [id(fact) for fact in first] == [id(fact) for fact in second]


def test_a_fact_that_was_let_go_can_be_written_again(root: Path, stored: Path) -> None:
    """Another process drops the database after a rebuild: the rows go back into a new one, words and all."""
    with DeerMem(root) as engine:
        assert engine.reindex("alice").supported
        for path in (stored, stored.with_name("index.sqlite3-wal"), stored.with_name("index.sqlite3-shm")):
            path.unlink(missing_ok=True)
        hits = engine.memory("alice", "coder").search("docker", 100)
        assert sorted(hit.fact.content for hit in hits) == ALL
        assert {hit.match for hit in hits} == {"fts5"}


# --- the database


def test_rows_that_are_there_already_are_found_in_any_portion(
    root: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known rows are looked up from the first path of a portion to its last; names may be no UTF-8."""
    monkeypatch.setattr(known_rows, "_MANY", 1)
    folder = facts_of(root)
    names = ["aa.md", "é.md", "天.md", "😀.md", os.fsdecode(b"\xff.md"), os.fsdecode(b"z\xfe.md")]
    for number, name in enumerate(names):
        place(folder / name, f"Walnut {number}\n")
    with DeerMem(root) as engine:
        memory = engine.memory("alice", "coder")
        for old, new in (("Walnut", "Walnut and olive"), ("olive", "hazel")):
            assert len(memory.search("walnut", 100)) == len(names)
            for name in names:
                edit(folder / name, old, new)
        assert len(memory.search("hazel", 100)) == len(names)
        assert memory.count("olive") == 0
        assert memory.count("walnut") == len(names)
    with contextlib.closing(sqlite3.connect(index)) as connection:
        assert connection.execute("SELECT count(*) FROM words").fetchone() == (len(names),)


def test_the_log_of_a_long_transaction_does_not_stay(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite3"
    log = path.with_name("index.sqlite3-wal")
    with contextlib.closing(schema.connect(path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO meta VALUES ('long', zeroblob(24000000))")
        connection.execute("COMMIT")
        assert log.stat().st_size > 24_000_000
        connection.execute("INSERT INTO meta VALUES ('short', 1)")
        assert log.stat().st_size <= 16 << 20


# --- the words


PIECES = [
    "Users",
    "getUserName",
    "C++",
    "node.js,",
    "don't",
    "天玩5月",
    "(quoted)",
    "b.",
    "",
    "\u0301x",
    "—",
    "й",
    "42%",
]


@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join)))
def test_the_words_of_the_index_are_those_of_a_query(text: str) -> None:
    """The index takes plain words by a shorter way than a query does."""
    tokens = index_text(text)[0].split()
    parts = scan(text)
    running = stream(parts.words)
    tail = tokens[len(running) :]
    assert tokens[: len(running)] == running
    assert tuple(tail[1 : 1 + len(parts.compounds)]) == parts.compounds
    assert tail[:1] == ([BREAK] if tail else [])
