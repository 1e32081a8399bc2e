"""Many users at once: told in their order from the calling thread, stopped cleanly, bounded in number and size."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders_v1 import as_json, v1_document, v1_fact, write_store

from deermem import DeerMem
from deermem.migrate import crew, store
from deermem.migrate.users import migrate_user

NAMES = [f"user{number:02}" for number in range(20)]
PATIENCE = 30.0


class Begun:
    """The migration of one user, noting who is in work; `held` wait until so many others have ended."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.held: set[str] = set()
        self.others = len(NAMES)
        self.fails: dict[str, BaseException] = {}
        self.names: list[str] = []
        self.ended: list[str] = []
        self.threads: set[str] = set()
        self.together: list[list[str]] = []
        self._lock = threading.Lock()
        self._in_work: list[str] = []

    def __call__(self, step, name, how):
        with self._lock:
            self.names.append(name)
            self.threads.add(threading.current_thread().name)
            self._in_work.append(name)
            self.together.append(list(self._in_work))
        try:
            if name in self.held:
                assert self.release.wait(PATIENCE)
            if name in self.fails:
                raise self.fails[name]
            return migrate_user(step, name, how)
        finally:
            with self._lock:
                self._in_work.remove(name)
                self.ended.append(name)
                if len(self.ended) == self.others:
                    self.release.set()


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[Begun]:
    standing_in = Begun()
    monkeypatch.setattr(store, "migrate_user", standing_in)
    yield standing_in
    standing_in.release.set()
    for thread in at_work():
        thread.join(PATIENCE)


@pytest.fixture
def engine(root: Path, clock) -> Iterator[DeerMem]:
    for name in NAMES:
        write_store(root / "users" / name, {"memory.json": as_json(v1_document(v1_fact("f1", f"Of {name}.")))})
    with DeerMem(root, clock=clock) as opened:
        yield opened


def at_work() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "deermem-migrate"]


def migrated(root: Path) -> set[str]:
    return {path.parent.name for path in root.glob("users/*/memory.json.v1.bak")}


def raising(error: BaseException) -> Callable[[object], None]:
    def progress(_: object) -> None:
        raise error

    return progress


def test_results_come_in_the_order_of_the_users_and_from_the_calling_thread(engine, begun):
    # The third is the last to end: all others wait to be told.
    begun.held, begun.others = {NAMES[2]}, 19
    told: list[tuple[str, str]] = []
    report = engine.migrate(progress=lambda result: told.append((result.user, threading.current_thread().name)))
    assert begun.ended[-1] == NAMES[2]
    assert told == [(name, threading.current_thread().name) for name in NAMES]
    assert [user.user for user in report.users] == NAMES
    assert str(report) == "migrated=20 planned=0 current=0 failed=0"
    assert begun.threads == {"deermem-migrate"}
    assert max(map(len, begun.together)) <= 8
    assert at_work() == []


@pytest.mark.parametrize("options", [{"dry_run": True}, {"user_ids": NAMES[:7]}, {"user_ids": NAMES[:1]}])
def test_a_few_users_and_dry_runs_stay_in_the_calling_thread(engine, begun, options):
    assert engine.migrate(**options).ok
    assert begun.threads == {threading.current_thread().name}


def test_users_that_fail_leave_all_others_going_on(engine, root):
    bad = {NAMES[0], NAMES[7], NAMES[19]}
    for name in bad:
        (root / "users" / name / "memory.json").write_bytes(as_json(v1_document(v1_fact("f1", 17))))
    report = engine.migrate(verify=True)
    assert {user.user for user in report.users if user.outcome == "failed"} == bad
    assert str(report) == "migrated=17 planned=0 current=0 failed=3"
    assert migrated(root) == set(NAMES) - bad
    assert all(user.verified is not None and user.verified.facts == 1 for user in report.users if user.user not in bad)
    assert [user.user for user in report.users] == NAMES


def test_nobody_begins_after_a_stop_and_those_in_work_are_told_of(engine, begun, root):
    asked: list[int] = []
    report = engine.migrate(stop=lambda: asked.append(len(begun.names)) or len(asked) > 11)
    assert report.interrupted
    assert [user.user for user in report.users] == sorted(begun.names) == NAMES[:11]
    assert migrated(root) == set(NAMES[:11])
    again = engine.migrate()
    assert (again.interrupted, str(again)) == (False, "migrated=9 planned=0 current=11 failed=0")


def test_an_unforeseen_error_is_raised_where_it_was_called_and_nobody_is_left_at_work(engine, begun, root, caplog):
    begun.fails = {NAMES[3]: ZeroDivisionError("a fault in the program")}
    told: list[str] = []
    with pytest.raises(ZeroDivisionError):
        engine.migrate(progress=lambda result: told.append(result.user))
    assert told == NAMES[:3]
    assert at_work() == []
    assert migrated(root) == set(begun.names) - {NAMES[3]}
    assert NAMES[3] in caplog.text


def test_an_error_of_the_caller_waits_for_those_in_work_and_begins_nobody(engine, begun, root):
    with pytest.raises(LookupError):
        engine.migrate(progress=raising(LookupError()))
    assert at_work() == []
    assert set(begun.ended) == set(begun.names) == migrated(root)
    assert len(begun.names) < len(NAMES)
    assert engine.migrate().ok
    assert migrated(root) == set(NAMES)


def test_an_interrupt_waits_for_nobody(engine, begun, root):
    begun.held = set(NAMES[1:])
    with pytest.raises(KeyboardInterrupt):
        engine.migrate(progress=raising(KeyboardInterrupt()))
    assert begun.ended == NAMES[:1]
    begun.release.set()
    for thread in at_work():
        thread.join(PATIENCE)
    # Whoever had begun is whole, and no other was begun behind the caller's back.
    assert set(begun.ended) == set(begun.names) == migrated(root)
    assert len(begun.names) <= 9


@pytest.mark.parametrize("verify", [False, True])
def test_a_large_document_is_taken_alone_and_small_ones_up_to_a_sum(engine, begun, root, monkeypatch, verify):
    size = (root / "users" / NAMES[0] / "memory.json").stat().st_size
    monkeypatch.setattr(crew, "_BYTES", 3 * size)
    large = root / "users" / NAMES[6] / "agents/coder/memory.json"
    large.parent.mkdir(parents=True)
    large.write_bytes(as_json(v1_document(v1_fact("f1", "x" * 3 * size))))
    assert engine.migrate(verify=verify).ok
    assert [names for names in begun.together if NAMES[6] in names] == [[NAMES[6]]]
    assert max(map(len, begun.together)) <= 3


def test_many_files_of_an_old_default_bucket_count_as_a_large_document(engine, begun, root, monkeypatch):
    monkeypatch.setattr(crew, "_BYTES", 40_000)
    folder = root / "users" / NAMES[4] / "agents/lead-agent/facts"
    folder.mkdir(parents=True)
    for number in range(50):
        (folder / f"l{number}.md").write_text(f"---\nid: l{number}\nagent_name: lead-agent\n---\nFact {number}.\n")
    assert engine.migrate().ok
    assert [names for names in begun.together if NAMES[4] in names] == [[NAMES[4]]]


def test_a_user_who_is_named_twice_is_never_in_work_twice(engine, begun):
    report = engine.migrate([NAMES[0]] * 5 + NAMES[:5])
    assert [user.outcome for user in report.users] == ["migrated"] + ["current"] * 5 + ["migrated"] * 4
    assert all(names.count(NAMES[0]) <= 1 for names in begun.together)


def test_where_the_system_gives_no_thread_the_caller_does_the_work(engine, begun, root, monkeypatch):
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert str(engine.migrate()) == "migrated=20 planned=0 current=0 failed=0"
    assert begun.threads == {threading.current_thread().name}


def test_a_few_threads_do_where_the_system_gives_no_more(engine, begun, monkeypatch):
    start, started = threading.Thread.start, []

    def begrudge(thread: threading.Thread) -> None:
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", begrudge)
    assert str(engine.migrate()) == "migrated=20 planned=0 current=0 failed=0"
    assert max(map(len, begun.together)) <= 2


def test_two_engines_at_once_come_to_one_result(engine, root, clock):
    reports = []
    with DeerMem(root, clock=clock) as second:
        threads = [threading.Thread(target=lambda one=one: reports.append(one.migrate())) for one in (engine, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    assert [report.ok for report in reports] == [True, True]
    assert all(
        {one.outcome, other.outcome} <= {"migrated", "current"}
        for one, other in zip(*[r.users for r in reports], strict=True)
    )
    assert [[fact.content for fact in engine.memory(name).list()] for name in NAMES] == [[f"Of {n}."] for n in NAMES]
    assert [finding for finding in engine.check() if finding.code != "leftovers"] == []
