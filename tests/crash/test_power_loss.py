"""Power fails at any moment of one commit, of two in a row, and of one that follows a killed process."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pytest
from faults import Fault, FaultyFiles, Killed, without_exchange
from operations import BASE, IMPORTED, OPERATIONS, Operation, State, create, migrate, nothing, opened, six
from power import Disk, Done, Kind, RecordingFiles, laid_out
from scenes import Scene, state, tree

from deermem import DeerMem
from deermem.model.changes import ChangeSet
from deermem.model.fact import Draft

KINDS: tuple[Kind, ...] = get_args(Kind)
SHORT = ("first", "create", "update", "delete", "six", "summaries", "migrate", "migrate-many", "sealed")


@dataclass(frozen=True)
class History:
    """What was done, and after how many entries of the log each commit had returned."""

    log: list[Done]
    returned: list[int]


def recorded(root: Path, acts: Sequence[Callable[[DeerMem], object]], cap: int = 100) -> History:
    """Does these one after the other."""
    files = RecordingFiles(root)
    returned = []
    with opened(root, files, cap=cap) as engine:
        for act in acts:
            act(engine)
            returned.append(len(files.log))
    return History(files.log, returned)


def cuts(history: History, start: Path, kind: Kind, seeds: int) -> list[tuple[int, dict[str, bytes | None]]]:
    """Every tree that may be left, once, with the number of commits that had returned by then."""
    seen: dict[tuple[int, frozenset[tuple[str, bytes | None]]], dict[str, bytes | None]] = {}
    for at in range(len(history.log) + 1):
        sure = sum(done <= at for done in history.returned)
        for seed in range(seeds):
            disk = Disk(kind, start)
            for done in history.log[:at]:
                disk.play(done)
            found = disk.cut(random.Random(f"{at} {seed}"))
            shape = frozenset((_shape(path), data) for path, data in found.items())
            seen.setdefault((sure, shape), found)
    return [(sure, found) for (sure, _), found in seen.items()]


def _shape(path: str) -> str:
    # Random names below the journal make no difference, their first part does.
    folder, _, name = path.rpartition("/")
    return f"{folder}/{name[:2]}" if folder.endswith(".journal") else path


def lose_power(scene: Scene, history: History, states: Sequence[State], seeds: int) -> None:
    """Every cut, judged: `states` are those before the first commit, after it, and so on."""
    for kind in KINDS:
        for number, (sure, found) in enumerate(cuts(history, scene.template, kind, seeds)):
            root = laid_out(found, scene.folder / f"{kind}-{number}")
            allowed = list(states[sure : sure + 2])
            scene.judge(root, allowed, conflicts=True, counted=False)
            shutil.rmtree(root)


def one(scene: Scene, seeds: int) -> None:
    """One commit."""
    operation = scene.operation
    history = recorded(scene.copy("recorded"), [operation.act], operation.cap)
    assert len(history.log) > 5
    lose_power(
        scene, history, [operation.after if operation.act is migrate else operation.before, operation.after], seeds
    )


def back(engine: DeerMem) -> object:
    """Takes back what `six` did to two facts: one deleted, one changed again."""
    memory = engine.memory("ann")
    memory.delete("g_1")
    return memory.update("f_a", "Drinks water.")


def twice(place: Path, seeds: int) -> None:
    """What the second and the third commit left must stand, whatever the first one's record says."""
    last = {key: text for key, text in OPERATIONS["six"].after.items() if key != "__default__/g_1"}
    scene = Scene(Operation("twice", lambda e: (six(e), back(e)), {**last, "__default__/f_a": "Drinks water."}), place)
    steps = [six, lambda e: e.memory("ann").delete("g_1"), lambda e: e.memory("ann").update("f_a", "Drinks water.")]
    for number in (1, 2):
        between = scene.copy(f"between-{number}")
        recorded(between, steps[:number])
        scene.trees.append(tree(between))
    history = recorded(scene.copy("recorded"), steps)
    lose_power(scene, history, [BASE, OPERATIONS["six"].after, last, scene.operation.after], seeds)


@pytest.mark.parametrize("name", SHORT)
def test_one_commit(name: str, place: Path) -> None:
    one(Scene(OPERATIONS[name], place), 1)


def test_commits_in_a_row(place: Path) -> None:
    twice(place, 1)


@pytest.mark.parametrize("name", ["update", "six"])
def test_without_exchange(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_exchange(monkeypatch)
    one(Scene(OPERATIONS[name], place), 1)


def after_a_kill(place: Path, operation: Operation, step: int, seeds: int, first: str = "") -> None:
    """A process is killed before its flushes; the next commit returns, then power fails: it must be there.

    `first`: the call at which another process was killed before that one.
    """
    scene = Scene(operation, place)
    for at in range(0, len(scene.dry.calls), step):
        root = scene.copy(f"killed-{at}")
        earlier = Dying(root, scene.dry.calls.index(first) if first else 0)
        with suppress(Killed):
            operation.act(scene.opened(root, earlier))
        files = Dying(root, at)
        with suppress(Killed):
            operation.act(scene.opened(root, files))
        with opened(root, survivor := RecordingFiles(root)) as engine:
            seen = state(engine)
            other = engine.memory("ann")
            other.apply(ChangeSet([Draft(content="The survivor's word.", id="g_3")]))
        log = [*earlier.recorder.log, *files.recorder.log, *survivor.log]
        for kind in KINDS:
            for seed in range(seeds):
                disk = Disk(kind, scene.template)
                for done in log:
                    disk.play(done)
                left = laid_out(disk.cut(random.Random(f"{at} {seed}")), scene.folder / f"{kind}-{at}-{seed}")
                with scene.opened(left) as engine:
                    found = state(engine)
                    assert found.pop("__default__/g_3") == "The survivor's word.", (kind, at, scene.dry.calls[at])
                    assert found == seen, (kind, at, scene.dry.calls[at])
                shutil.rmtree(left)
        shutil.rmtree(root)


def seen_but_not_flushed(place: Path, seeds: int) -> None:
    """Killed between the write of a seal and its flush; power fails anywhere while the next holder finishes it."""
    scene = Scene(OPERATIONS["six"], place)
    root = scene.copy("killed")
    dying = Dying(root, scene.dry.calls.index("flush record"))
    with suppress(Killed):
        six(scene.opened(root, dying))
    with scene.opened(root, survivor := RecordingFiles(root)) as engine, engine.context("ann").locked(None):
        assert state(engine) == scene.operation.after
    log = [*dying.recorder.log, *survivor.log]
    lose_power(scene, History(log, [len(log)]), [BASE, scene.operation.after], seeds)


def test_a_seal_that_was_seen_but_not_flushed(place: Path) -> None:
    seen_but_not_flushed(place, 1)


class Dying(FaultyFiles):
    """Killed at a call, with a log of what it did before."""

    def __init__(self, root: Path, at: int) -> None:
        super().__init__(Fault(at, "kill"))
        self.recorder = RecordingFiles(root)

    def write(self, descriptor: int, data: bytes) -> None:
        with self._call("write", "it"):
            pass
        with self._call("write on", "it"):
            self.recorder.write(descriptor, data)

    def create(self, path: str, data: bytes, *, flush: bool = True) -> None:
        with self._call("open", path):
            self.recorder._note("create", path)
        super(FaultyFiles, self).create(path, data, flush=flush)

    def truncate(self, descriptor: int, size: int) -> None:
        with self._call("truncate", "it"):
            self.recorder.truncate(descriptor, size)

    def flush(self, descriptor: int, path: str) -> None:
        with self._call("flush", path):
            self.recorder.flush(descriptor, path)

    def flush_folder(self, path: str) -> None:
        with self._call("flush folder", path):
            self.recorder.flush_folder(path)

    def flush_all(self, descriptor: int, folder: str) -> None:
        with self._call("flush all", folder):
            self.recorder.flush_all(descriptor, folder)

    def mkdir(self, path: str) -> bool:
        with self._call("mkdir", path):
            return self.recorder.mkdir(path)

    def rename_new(self, source: str, target: str) -> None:
        with self._call("rename new", target):
            self.recorder.rename_new(source, target)

    def exchange(self, staged: str, target: str, displaced: str) -> None:
        with self._call("exchange", target):
            self.recorder.exchange(staged, target, displaced)

    def rename(self, source: str, target: str) -> None:
        with self._call("rename", target):
            self.recorder.rename(source, target)

    def unlink(self, path: str) -> None:
        with self._call("unlink", path):
            self.recorder.unlink(path)

    def rmdir(self, path: str) -> bool:
        with self._call("rmdir", path):
            return self.recorder.rmdir(path)


FOLDERS = Operation("folders", create, {"__default__/g_1": "Plays the oboe."}, {}, nothing)
MANY_FOLDERS = Operation("folders-many", OPERATIONS["import"].act, IMPORTED, {}, nothing)


@pytest.mark.parametrize("operation", [FOLDERS, OPERATIONS["create"], OPERATIONS["six"]], ids=lambda o: o.name)
def test_a_killed_process_and_then_power(operation: Operation, place: Path) -> None:
    after_a_kill(place, operation, 1 if operation is FOLDERS else 3, 2)


def test_two_killed_processes_and_then_power(place: Path) -> None:
    after_a_kill(place, MANY_FOLDERS, 5, 3, first="flush folder users")


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "undo"])
def test_many_cuts(name: str, exchange: bool, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not exchange:
        without_exchange(monkeypatch)
    one(Scene(OPERATIONS[name], place), 12)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_many_cuts_of_commits_in_a_row(place: Path) -> None:
    twice(place, 20)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("operation", [FOLDERS, MANY_FOLDERS, *OPERATIONS.values()], ids=lambda o: o.name)
def test_many_killed_processes_and_then_power(operation: Operation, place: Path) -> None:
    if not operation.due:
        after_a_kill(place, operation, 1, 10)
