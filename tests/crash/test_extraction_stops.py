"""The queue stopped at any call of the file layer: nothing captured is lost, nothing is stored twice."""

from __future__ import annotations

import errno
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from builders_extraction import Scripted, marks_of, names_of, silence, spool_names, talk
from faults import Fault, FaultyFiles, Killed, Kind, QuickFiles

from deermem import DeerMem, DeerMemError, Settings
from deermem.store.files import Files

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
SETTINGS = Settings(close_timeout_seconds=0, retrieval_adapter="", max_facts=0)
MARKS = ("1", "2", "3", "4", "5", "6", "u")


@pytest.fixture(autouse=True)
def quiet_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    silence(monkeypatch, Killed, KeyboardInterrupt)


def opened(root: Path, model: Scripted, files: Files) -> DeerMem:
    return DeerMem(root, SETTINGS, model, clock=lambda: NOON, files=files)


class Session:
    """One process: captures that coalesce, an emergency, an answer that fails and goes into what came meanwhile.

    `sure` are the marks of which a capture returned. With `files` dead, nothing that follows has an effect.
    """

    def __init__(self, root: Path, files: FaultyFiles) -> None:
        self.files = files
        self.sure: set[str] = set()
        self.model = Scripted(act=self.act, distinct="first-")
        self.engine = opened(root, self.model, files)
        self.memory = self.engine.memory("alice", "coder")

    def capture(self, thread: str, *marks: str, urgent: bool = False) -> None:
        with suppress(DeerMemError):
            (self.memory.capture_now if urgent else self.memory.capture)(talk(*marks), thread)
            self.sure.update(marks)

    def act(self, number: int) -> None:
        if "gadget-4" in self.model.seen[number] and "4" in self.sure and "5" not in self.sure:
            self.capture("b", "4", "5")
            raise TimeoutError

    def run(self) -> None:
        self.capture("a", "1")
        self.capture("a", "1", "2")
        self.engine.flush(30)
        self.capture("a", "1", "2", "3")
        self.capture("b", "4")
        self.engine.flush(30)
        self.capture("a", "u", urgent=True)
        self.capture("b", "4", "5", "6")
        self.engine.flush(30)


def calls_of(place: Path) -> list[str]:
    """What a whole session does, which ends well."""
    session = Session(place / "dry", files := FaultyFiles())
    session.run()
    assert marks_of(session.memory) == sorted(MARKS)
    session.engine.close()
    return files.calls


def stop(place: Path, fault: Fault) -> None:
    """A session that is stopped at a call, and the next engine, which must find everything."""
    root = place / f"{fault.kind}-{fault.at}-{fault.code}"
    session = Session(root, FaultyFiles(fault))
    with suppress(Killed, KeyboardInterrupt):
        session.run()
    session.engine.close()
    if not session.files.fired:
        # The threads came through in another order, with fewer calls.
        return
    model = Scripted(distinct="second-")
    with opened(root, model, QuickFiles()) as engine:
        assert engine.flush(30)
        memory = engine.memory("alice", "coder")
        stored = marks_of(memory)
        where = f"{fault}: {session.files.calls[fault.at]}"
        assert names_of(*session.sure) <= session.model.names() | model.names(), where
        assert session.sure <= set(stored) <= set(MARKS), where
        assert len(stored) == len(set(stored)), f"{where}: {[fact.content for fact in memory.list()]}"
        assert not root.exists() or not session.sure or spool_names(root) <= {"watermarks.json"}, where
        memory.add("One more.")
        found = {finding.code for finding in engine.check()} - {"leftovers"}
        # Beside a record that was torn within one write, what had been staged is kept for a person.
        assert found <= ({"set-aside", "conflict-copy"} if "set-aside" in found else set()), where
    shutil.rmtree(root, ignore_errors=True)


@pytest.mark.parametrize(("kind", "step"), [("kill", 5), ("error", 29), ("late", 31)])
def test_a_session_is_stopped(place: Path, kind: Kind, step: int) -> None:
    calls = calls_of(place)
    assert len(calls) > 60
    for at in range(0, len(calls), step):
        stop(place, Fault(at, kind))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["kill", "error", "late", "interrupt"])
def test_a_session_is_stopped_at_every_call(place: Path, kind: Kind) -> None:
    for at in range(len(calls_of(place))):
        for code in (errno.EIO, errno.ENOSPC) if kind in ("error", "late") else (errno.EIO,):
            stop(place, Fault(at, kind, code))


def stopped_twice(place: Path, first: int, second: int) -> None:
    """The next process is killed as well, while it takes up what is left."""
    root = place / f"twice-{first}-{second}"
    session = Session(root, FaultyFiles(Fault(first, "kill")))
    with suppress(Killed):
        session.run()
    session.engine.close()
    between = Scripted(distinct="between-")
    with suppress(Killed), opened(root, between, FaultyFiles(Fault(second, "kill"))) as engine:
        engine.flush(30)
    model = Scripted(distinct="last-")
    with opened(root, model, QuickFiles()) as engine:
        assert engine.flush(30)
        stored = marks_of(engine.memory("alice", "coder"))
        assert session.sure <= set(stored)
        assert len(stored) == len(set(stored)), (first, second)
        assert names_of(*session.sure) <= session.model.names() | between.names() | model.names()
    shutil.rmtree(root, ignore_errors=True)


def pairs(calls: int, steps: tuple[int, int], length: int) -> list[tuple[int, int]]:
    return [(first, second) for first in range(0, calls, steps[0]) for second in range(0, length, steps[1])]


def test_two_processes_are_killed_one_after_the_other(place: Path) -> None:
    for first, second in pairs(len(calls_of(place)), (31, 13), 40):
        stopped_twice(place, first, second)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_processes_are_killed_at_any_two_calls(place: Path) -> None:
    for first, second in pairs(len(calls_of(place)), (2, 2), 60):
        stopped_twice(place, first, second)


def clears(engine: DeerMem) -> object:
    return engine.memory("alice", "coder").clear()


@pytest.mark.parametrize("step", [2])
def test_a_clear_that_is_killed_loses_and_revives_nothing_by_halves(place: Path, step: int) -> None:
    """Whatever is left of what waits is extracted after the kill only where the memory was not cleared either."""
    template = place / "template"
    with opened(template, Scripted(), QuickFiles()) as engine:
        engine.memory("alice", "coder").add("From before")
        engine.memory("alice", "coder").capture(talk("1"), "t")
        engine.memory("alice", "writer").capture(talk("2"), "t")
    dry = FaultyFiles()
    shutil.copytree(template, place / "dry")
    with opened(place / "dry", Scripted(), dry) as engine:
        clears(engine)
    for at in range(0, len(dry.calls), step):
        root = place / f"clear-{at}"
        shutil.copytree(template, root)
        with opened(root, Scripted(), FaultyFiles(Fault(at, "kill"))) as engine, suppress(Killed):
            clears(engine)
        with opened(root, Scripted(), QuickFiles()) as engine:
            assert engine.flush(30)
            contents = {fact.content for fact in engine.memory("alice", "coder").list()}
            assert "From before" in contents or contents == set(), dry.calls[at]
            assert marks_of(engine.memory("alice", "writer")) == ["2"]
        shutil.rmtree(root)
