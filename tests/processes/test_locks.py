"""The user lock: bounded waiting, holders that die, threads, forks, and a lock file that is replaced."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from process_tools import PATIENCE, Worker, alarming, contents, engine

from deermem import LockTimeout, StoreUnavailable
from deermem.store import lock
from deermem.store.layout import Layout, UserPaths
from deermem.store.lock import user_lock

Start = Callable[..., Worker]
SHORT = 0.3


@pytest.fixture
def ann(root: Path) -> UserPaths:
    """Ann's places, with one fact."""
    with engine(root) as opened:
        opened.memory("ann").add("the first fact")
    return Layout(root).user("ann")


@contextmanager
def held_by_a_thread(paths: UserPaths) -> Iterator[None]:
    """Another thread of this process holds the lock."""
    holding, go = threading.Event(), threading.Event()

    def hold() -> None:
        with user_lock(paths, SHORT):
            holding.set()
            go.wait(PATIENCE)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert holding.wait(PATIENCE)
        yield
    finally:
        go.set()
        thread.join(PATIENCE)


def holder(start: Start, root: Path) -> Worker:
    worker = start("hold", root=str(root))
    assert worker.read() == {"pid": worker.process.pid}
    assert worker.read() == {"ready": True}
    return worker


# --- waiting


def test_waiting_ends_in_time_and_names_file_and_holder(start: Start, root: Path, ann: UserPaths) -> None:
    worker = holder(start, root)
    with engine(root, lock_timeout=SHORT) as opened:
        began = time.monotonic()
        with pytest.raises(LockTimeout) as caught:
            opened.memory("ann").add("too early")
        waited = time.monotonic() - began
        assert SHORT <= waited < SHORT + 5
        assert str(ann.lock) in str(caught.value)
        assert f"process {worker.process.pid}" in str(caught.value)
        assert "\n" not in str(caught.value)
        worker.tell()
        worker.finish()
        assert set(contents(opened.memory("ann")).values()) == {"the first fact"}
        opened.memory("ann").add("now")


def test_no_patience_at_all_is_one_try(start: Start, root: Path, ann: UserPaths) -> None:
    with engine(root, lock_timeout=0.0) as opened:
        opened.memory("ann").add("nobody holds it")
        holder(start, root)
        with pytest.raises(LockTimeout):
            opened.memory("ann").add("somebody does")


def test_the_second_who_waits_is_told_what_the_first_is_told(start: Start, root: Path, ann: UserPaths) -> None:
    worker = holder(start, root)
    with engine(root, lock_timeout=20.0) as patient, engine(root, lock_timeout=SHORT) as hasty:
        first = threading.Thread(target=lambda: patient.memory("ann").add("after a while"))
        first.start()
        with pytest.raises(LockTimeout):
            hasty.memory("ann").add("at once")
        worker.tell()
        first.join(PATIENCE)
        assert set(contents(hasty.memory("ann")).values()) == {"the first fact", "after a while"}


def test_a_write_waits_for_a_holder_that_lets_go(start: Start, root: Path, ann: UserPaths) -> None:
    worker = holder(start, root)
    with engine(root) as opened:
        added: list[str] = []
        writer = threading.Thread(target=lambda: added.append(opened.memory("ann").add("in turn").id))
        writer.start()
        time.sleep(0.05)
        assert added == []
        worker.tell()
        writer.join(PATIENCE)
        assert len(added) == 1
        assert added[0] in contents(opened.memory("ann"))


# --- holders that die, files that lie


def test_a_killed_holder_is_in_nobodys_way(start: Start, root: Path, ann: UserPaths) -> None:
    holder(start, root).kill()
    with engine(root, lock_timeout=SHORT) as opened:
        fact = opened.memory("ann").add("the next write")
        assert fact.id in contents(opened.memory("ann"))
        assert ann.lock.exists()


@pytest.mark.parametrize("said", [b"", b"1\n", str(os.getppid()).encode(), b"\xff\x00garbage"])
def test_what_a_lock_file_says_is_in_nobodys_way(root: Path, ann: UserPaths, said: bytes) -> None:
    for file in (ann.lock, ann.turnstile):
        file.write_bytes(said)
    with engine(root, lock_timeout=SHORT) as opened:
        opened.memory("ann").add("written all the same")
        assert len(contents(opened.memory("ann"))) == 2
        assert alarming(opened) == []


def test_a_lock_file_that_went_away_is_made_again(root: Path, ann: UserPaths) -> None:
    ann.lock.unlink()
    ann.turnstile.unlink(missing_ok=True)
    with engine(root) as opened:
        opened.memory("ann").add("written all the same")
    assert ann.lock.stat().st_mode & 0o777 == 0o600


def test_a_folder_at_the_lock_file_is_named(root: Path, ann: UserPaths) -> None:
    ann.lock.unlink()
    ann.lock.mkdir()
    with engine(root, lock_timeout=SHORT) as opened:
        with pytest.raises(StoreUnavailable, match=r"\.memory\.lock"):
            opened.memory("ann").add("it can't be locked")
        assert set(contents(opened.memory("ann")).values()) == {"the first fact"}


@pytest.mark.parametrize("where", ["swap", "stage"])
def test_a_lock_file_replaced_under_the_writer_ends_the_write(
    start: Start, root: Path, ann: UserPaths, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replaced before the last check, nothing is changed; after it, the commit is through and nothing is lost."""
    monkeypatch.setenv("DEERMEM_TEST_WAIT_AT", where)
    worker = start("write_slowly", root=str(root))
    assert worker.read() == {"ready": True}
    ann.lock.rename(ann.lock.with_name("moved"))
    ann.lock.write_bytes(b"")
    with engine(root, lock_timeout=SHORT) as opened:
        before = contents(opened.memory("ann"))
        assert set(before.values()) == {"the first fact"}
        worker.tell()
        said = worker.finish()[-1]
        after = contents(opened.memory("ann"))
        if where == "stage":
            assert "was replaced while it was held" in str(said["refused"])
            assert said["outcome_unknown"] is False
            assert after == before
        else:
            assert after == {**before, str(said["added"]): "written slowly"}
        fact = opened.memory("ann").add("the next write")
        assert contents(opened.memory("ann")) == {**after, fact.id: fact.content}
        assert alarming(opened) == []


def test_taking_the_lock_of_nobody_makes_nobody(root: Path) -> None:
    with pytest.raises(StoreUnavailable), user_lock(Layout(root).user("nobody"), SHORT):
        pytest.fail("a user that does not exist was locked")
    assert not root.exists()


# --- threads


def test_two_engines_of_one_process_share_the_lock_of_threads(root: Path, ann: UserPaths) -> None:
    with engine(root, lock_timeout=SHORT) as opened, held_by_a_thread(ann):
        with pytest.raises(LockTimeout, match="another thread of this process"):
            opened.memory("ann").add("too early")
        linked = root.with_name("by-another-name")
        linked.symlink_to(root, target_is_directory=True)
        with engine(linked, lock_timeout=SHORT) as other, pytest.raises(LockTimeout, match="another thread"):
            other.memory("ann").add("too early by another name")
    with engine(root, lock_timeout=SHORT) as opened:
        opened.memory("ann").add("now")
        assert len(contents(opened.memory("ann"))) == 2


def test_a_thread_that_holds_the_lock_may_take_it_again(start: Start, root: Path, ann: UserPaths) -> None:
    with user_lock(ann, SHORT) as outer:
        with user_lock(ann, SHORT) as inner:
            assert inner is outer
        with engine(root, lock_timeout=SHORT) as opened:
            opened.memory("ann").add("within")
        outer.check()
        # The inner release must not have let others in.
        worker = start("add", root=str(root), prefix="outside", count=1)
        assert worker.read() == {"ready": True}
        worker.tell()
        time.sleep(0.1)
        assert len(list(ann.facts("__default__").rglob("*.md"))) == 2
    worker.finish()
    assert len(list(ann.facts("__default__").rglob("*.md"))) == 3
    with pytest.raises(StoreUnavailable):
        outer.check()


def test_idle_users_keep_no_lock(root: Path) -> None:
    with engine(root) as opened:
        for number in range(20):
            opened.memory(f"user{number}").add("one fact")
    gc.collect()
    assert dict(lock._thread_locks) == {}


def test_a_failure_under_the_lock_lets_it_go(root: Path, ann: UserPaths) -> None:
    with pytest.raises(ZeroDivisionError), user_lock(ann, SHORT):
        1 / 0  # noqa: B018
    with engine(root, lock_timeout=SHORT) as opened:
        opened.memory("ann").add("nobody holds it")


# --- whom nobody waits for


def test_reads_never_wait_for_a_writer(start: Start, root: Path, ann: UserPaths) -> None:
    with engine(root) as before:
        before.memory("ann").update_summaries({"workContext": "keeps boats"})
        fact = before.memory("ann").add("the harbour keeps boats")
    worker = holder(start, root)
    with engine(root, lock_timeout=0.0) as opened, engine(root, lock_timeout=0.0) as new:
        for reader in (opened, new):
            for agent, count in ((None, 2), ("coder", 0)):
                memory = reader.memory("ann", agent)
                assert len(memory.list()) == count
                assert len(memory.search("harbour")) == (1 if count else 0)
                assert len(memory.document()["facts"]) == count  # type: ignore[arg-type]
                assert "keeps boats" in memory.context()
                assert memory.summaries().section("workContext").summary == "keeps boats"
            assert reader.memory("ann").get(fact.id) == fact
            assert reader.stats("ann").facts == 2
            assert reader.check("ann") == []
        with pytest.raises(LockTimeout):
            opened.memory("ann", "coder").add("writes do wait")
    worker.tell()
    worker.finish()


def test_users_never_wait_for_each_other(start: Start, root: Path, ann: UserPaths) -> None:
    holder(start, root)
    with engine(root, lock_timeout=0.0) as opened:
        for user in ("bob", None):
            fact = opened.memory(user).add("not ann's")
            assert contents(opened.memory(user)) == {fact.id: "not ann's"}
