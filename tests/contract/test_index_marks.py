"""What the catalogue is marked to know, it knows: a writer that trusted a mark too much would store a fact twice."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from deermem import DeerMem, DuplicateFact, Settings
from deermem.index import schema
from deermem.index.catalogue import Catalogue


@pytest.fixture
def index(root):
    """Where the index of user alice lies."""
    return root / "users/alice/.retrieval/index.sqlite3"


def lose_marks(index) -> None:
    """As after a power cut: the rows are there, and which memory.json they have taken in isn't known."""
    with contextlib.closing(sqlite3.connect(index, isolation_level=None)) as connection:
        connection.execute("DELETE FROM meta WHERE key LIKE 'current %'")


def dropped_before_the_mark(monkeypatch, index) -> list[str]:
    """Another process drops all rows just before a sweep writes its mark, and the sweeper dies just after it."""
    push, done = Catalogue.push, []

    def late(self, rows, gone=(), *, taken_in=None, **others):
        if taken_in is None or done:
            return push(self, rows, gone, taken_in=taken_in, **others)
        with contextlib.closing(sqlite3.connect(index, isolation_level=None)) as connection:
            schema.start_over(connection)
        done.append(taken_in[0])
        push(self, rows, gone, taken_in=taken_in, **others)
        raise KeyboardInterrupt

    monkeypatch.setattr(Catalogue, "push", late)
    return done


def test_no_mark_is_set_on_rows_that_somebody_dropped(memory, engine, root, index, monkeypatch, clock):
    memory.import_document({"facts": [{"content": f"Docker fact {number}"} for number in range(9)]})
    memory.search("docker")
    engine.close()
    lose_marks(index)
    done = dropped_before_the_mark(monkeypatch, index)
    with DeerMem(root, clock=clock) as doomed, pytest.raises(KeyboardInterrupt):
        doomed.memory("alice", "coder").add("Podman is the tenth")
    assert done == ["coder"]
    with DeerMem(root, Settings(max_facts=10), clock=clock) as other:
        memory = other.memory("alice", "coder")
        with pytest.raises(DuplicateFact):
            memory.add("Docker fact 3")
        memory.add("Podman is one more")
        memory.add("Podman is the last", confidence=0.9)
        assert other.stats().buckets[0].facts == 10


def test_a_fact_that_another_process_stored_and_this_one_deleted_takes_no_place(memory, engine, root, clock):
    """A process of its own for each command, as the command line has it: none of them sweeps."""
    ids = [memory.add(f"Docker fact {number}", confidence=0.3 + number / 100).id for number in range(10)]
    engine.close()
    with DeerMem(root, Settings(max_facts=10), clock=clock) as other:
        other.memory("alice", "coder").delete(ids[9])
    with DeerMem(root, Settings(max_facts=10), clock=clock) as other:
        memory = other.memory("alice", "coder")
        memory.add("Podman is the tenth again")
        assert other.stats().buckets[0].facts == 10


def between_look_and_push(monkeypatch, act) -> None:
    """Something that happens while another process's sweep has read the files, and not yet told the catalogue."""
    push, waiting = Catalogue.push, [act]

    def late(self, *given, **named):
        if waiting:
            waiting.pop()()
        return push(self, *given, **named)

    monkeypatch.setattr(Catalogue, "push", late)


def test_a_slow_sweep_does_not_undo_what_a_commit_told_the_catalogue(memory, engine, root, index, monkeypatch, clock):
    """Else the next writer, to whom the rows are marked current, would not find the new text and store it twice."""
    facts = [memory.add(f"Docker fact {number}") for number in range(5)]
    memory.search("docker")
    with contextlib.closing(sqlite3.connect(index, isolation_level=None)) as connection:
        connection.execute(
            "DELETE FROM words WHERE rowid IN (SELECT id FROM files WHERE path LIKE ?)", (f"%{facts[2].id}%",)
        )
        connection.execute("DELETE FROM files WHERE path LIKE ?", (f"%{facts[2].id}%",))
    with DeerMem(root, clock=clock) as slow:
        between_look_and_push(monkeypatch, lambda: memory.update(facts[2].id, content="Podman instead"))
        assert len(slow.memory("alice", "coder").search("docker")) >= 4
    with DeerMem(root, clock=clock) as other, pytest.raises(DuplicateFact):
        other.memory("alice", "coder").add("Podman instead")
