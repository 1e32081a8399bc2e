"""Threads, engines and handles at once: nothing is lost, nothing is served half."""

from __future__ import annotations

import gc
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from builders_store import edit, place, tree

from deermem import Amend, ChangeSet, DeerMem, DuplicateFact, FactConflict, LockTimeout, Settings, StoreUnavailable
from deermem.store import lock
from deermem.store.files import Files


def test_parallel_adds_are_all_kept(memory, root):
    """C1, C2: 5 adds in one turn, from one handle and from engines of their own."""
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(lambda number: memory.add(f"One handle {number}"), range(5)))
        list(pool.map(lambda number: DeerMem(root).memory("alice", "coder").add(f"Own engine {number}"), range(5)))
    assert len(memory.list()) == 10
    assert memory.document()["revision"] == 10


def test_one_content_from_many_threads_is_stored_once(memory):
    """171: the duplicate is found under the lock."""

    def adding(_):
        try:
            return memory.add("The same content").id
        except DuplicateFact as error:
            return error.existing.id

    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(adding, range(16)))
    assert [fact.id for fact in memory.list()] == list(ids)


def test_updates_with_expectations_lose_nothing(memory, root):
    """C5: counting by compare-and-set from four engines ends at the sum."""
    fact = memory.add("Count 0")

    def counting(_):
        handle = DeerMem(root).memory("alice", "coder")
        for _ in range(5):
            while True:
                seen = handle.get(fact.id)
                try:
                    handle.update(fact.id, f"Count {int(seen.content[6:]) + 1}", expected=seen.version)
                    break
                except FactConflict:
                    continue

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(counting, range(4)))
    final = memory.get(fact.id)
    assert (final.content, final.revision) == ("Count 20", 21)


def test_readers_see_whole_commits_only(memory, root):
    """A commit of several files is there whole or not at all, for a lock-free reader."""
    facts = [{"id": f"fact_{number}", "content": f"Version 0 of {number}"} for number in range(6)]
    memory.import_document({"facts": facts})
    stop = threading.Event()
    seen: list[set[str]] = []

    def reading():
        handle = DeerMem(root).memory("alice", "coder")
        while not stop.is_set():
            seen.append({fact.content.split()[1] for fact in handle.list()})

    reader = threading.Thread(target=reading)
    reader.start()
    try:
        for version in range(1, 15):
            facts = [{"id": f"fact_{number}", "content": f"Version {version} of {number}"} for number in range(6)]
            memory.import_document({"facts": facts})
    finally:
        stop.set()
        reader.join()
    assert seen
    assert {len(versions) for versions in seen} == {1}


def test_users_do_not_wait_for_each_other(engine, root):
    """Locks are per user."""
    engine.memory("bob").add("Bob's")
    with engine.context("bob").locked(None):
        assert engine.memory("alice").add("Not blocked").revision == 1


def test_a_lock_that_is_held_ends_in_a_timeout_that_names_it(root, memory):
    """C6: bounded; the file is named; afterwards the next write works."""
    memory.add("First")
    impatient = DeerMem(root, Settings(file_lock_timeout_seconds=0.05)).memory("alice", "coder")
    held, done = threading.Event(), threading.Event()

    def holding():
        with DeerMem(root).context("alice").locked("coder"):
            held.set()
            done.wait(20)

    holder = threading.Thread(target=holding)
    holder.start()
    held.wait(20)
    try:
        with pytest.raises(LockTimeout, match=r"\.memory\.lock") as caught:
            impatient.add("Second")
        assert isinstance(caught.value, TimeoutError)
        assert len(impatient.list()) == 1
    finally:
        done.set()
        holder.join()
    assert impatient.add("Second").revision == 1


def test_a_lock_file_left_behind_blocks_nobody(memory, root):
    """C6, C7: empty, or with what another program wrote in it."""
    for text in (b"", b"12345\n", b"\xff" * 100):
        place(root / "users/alice/.memory.lock", text)
        memory.add(f"After {len(text)} bytes")
    assert len(memory.list()) == 3


def test_locks_of_idle_users_are_collected(engine):
    """40."""
    for number in range(6):
        engine.memory(f"user{number}").add("A fact.")
    gc.collect()
    assert len(lock._thread_locks) <= 1


def test_short_writes_are_completed(memory, monkeypatch):
    """C12: the system takes a few bytes at a time."""
    import os

    real = os.write
    monkeypatch.setattr("os.write", lambda descriptor, data: real(descriptor, bytes(data)[:7]))
    fact = memory.add("Written in small pieces, all of them")
    monkeypatch.undo()
    assert memory.get(fact.id).content == "Written in small pieces, all of them"


@pytest.mark.parametrize("nth", range(1, 12))
def test_a_refused_step_leaves_all_or_nothing(root, nth):
    """38: the disk fills at any call; the engine tells, and the next write works."""

    class Failing(Files):
        count = itertools.count(1)
        armed = False

        def flush(self, descriptor, path):
            if self.armed and next(self.count) == nth:
                raise OSError(28, "No space left on device", path)
            super().flush(descriptor, path)

    files = Failing()
    memory = DeerMem(root, files=files).memory("alice", "coder")
    memory.add("Before")
    before = tree(root)
    files.armed = True
    try:
        memory.import_document({"facts": [{"id": f"f{number}", "content": f"Fact {number}"} for number in range(4)]})
        failed = False
    except StoreUnavailable as error:
        failed = not error.outcome_unknown
    files.armed = False
    seen = sorted(fact.content for fact in DeerMem(root).memory("alice", "coder").list())
    assert seen in (["Before"], ["Before", *(f"Fact {number}" for number in range(4))])
    if failed:
        assert (seen, tree(root)) == (["Before"], before)
    assert memory.add("Afterwards").revision == 1
    assert len(memory.list()) == len(seen) + 1


def test_a_person_who_saves_in_the_same_instant_loses_nothing(memory, root):
    """A text whose place was taken is kept; the Commit and check say where."""
    fact = memory.add("First")
    path = memory.path(fact.id)

    class Racing(Files):
        raced = False

        def exchange(self, staged, target, displaced):
            if not self.raced and target == str(path):
                self.raced = True
                edit(path, "First", "A person's save")
            super().exchange(staged, target, displaced)

    racing = DeerMem(root, files=Racing())
    commit = racing.memory("alice", "coder").apply(ChangeSet([Amend(fact.id, "By agent", expected=fact.version)]))
    (copy,) = commit.conflict_copies
    assert "A person's save" in (root / "users/alice" / copy).read_text()
    assert memory.get(fact.id) == commit.facts[0]
    assert [finding.path for finding in racing.check("alice")] == [str(root / "users/alice" / copy)]
