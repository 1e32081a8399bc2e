"""The move from the no-user root to a user stops at each of its calls: every file is in one of the two places."""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import get_args

import pytest
from builders_isolation import STORE, TABS, V1, below, moved, problem
from builders_store import fact_text, tree
from builders_v1 import write_store
from faults import Fault, FaultyFiles, Killed, QuickFiles, without_exchange
from power import Disk, Kind, RecordingFiles, laid_out

from deermem.errors import DeerMemError
from deermem.migrate.isolation import Isolation
from deermem.store.files import Files

SOURCE = STORE | {
    "memory.json.v1.bak": V1,
    ".journal/conflict.f_a.0a1b2c3d.md": b"Mine.\n",
    "agents/coder/facts/zz/new.md": fact_text("new").encode(),
    "agents/writer/config.yaml": b"w",
    "agents/writer/facts/w.md": fact_text("w").encode(),
}
THERE = {
    "agents/coder/facts/zz/old.md": fact_text("old").encode(),
    "agents/coder/SOUL.md": STORE["agents/coder/SOUL.md"],
}
LOCKS = (".memory.lock", "turnstile")
KINDS: tuple[Kind, ...] = get_args(Kind)


def store(root: Path) -> Path:
    """A root whose memory meets some of the user's: one thing equal, none different."""
    return write_store(root, SOURCE | below("users/ann", THERE))


def assert_complete(root: Path) -> None:
    """Everything is where it belongs, and nowhere else."""
    found = {path: data for path, data in tree(root, operational=True).items() if not path.endswith(LOCKS)}
    assert found == below("users/ann", SOURCE | THERE)
    assert not (root / "agents").exists()


def nothing_lost(root: Path) -> None:
    """Every file of either side stands in its old place or in its new one, byte for byte; none was overwritten."""
    found = tree(root, operational=True)
    for path, data in SOURCE.items():
        places = [found[place] for place in (path, f"users/ann/{path}") if place in found]
        assert places, path
        assert set(places) == {data}, path
    for path, data in THERE.items():
        assert found[f"users/ann/{path}"] == data, path


def attempt(root: Path, files: Files) -> Isolation | None:
    """One run, None where it did not come to its end."""
    with suppress(Killed, KeyboardInterrupt, DeerMemError):
        return moved(root, files=files)
    return None


def stops(place: Path, step: int = 1) -> Iterator[tuple[int, Path]]:
    """A fresh store for each call of a run, or for each third one, say."""
    whole = FaultyFiles()
    assert moved(store(place / "whole"), files=whole).ok
    assert_complete(place / "whole")
    assert len(whole.calls) > 30
    for at in range(0, len(whole.calls), step):
        yield at, store(place / f"stop-{at}")


@pytest.mark.parametrize(
    ("kind", "way"),
    [("kill", "rename"), ("kill", "link"), ("interrupt", "rename"), ("error", "rename"), ("late", "link")],
)
def test_a_run_that_stops_anywhere_is_finished_by_the_next(
    place: Path, monkeypatch: pytest.MonkeyPatch, kind: str, way: str
) -> None:
    if way == "link":
        without_exchange(monkeypatch)
    for at, root in stops(place, 1 if kind == "kill" else 3):
        attempt(root, FaultyFiles(Fault(at, kind, errno.ENOSPC)))  # type: ignore[arg-type]
        nothing_lost(root)
        assert moved(root, files=QuickFiles()).ok, at
        assert_complete(root)
        assert str(moved(root, files=QuickFiles())) == "already current"
        shutil.rmtree(root)


def test_a_run_that_stops_twice_is_finished_by_the_third(place: Path) -> None:
    for at, root in stops(place, 4):
        attempt(root, FaultyFiles(Fault(at, "kill")))
        attempt(root, FaultyFiles(Fault(at // 2, "kill")))
        nothing_lost(root)
        assert moved(root, files=QuickFiles()).ok, at
        assert_complete(root)
        shutil.rmtree(root)


# --- somebody acts in the middle of a run


def test_a_file_that_appears_in_the_last_instant_is_not_replaced(place: Path) -> None:
    root = write_store(place / "store", STORE)
    target = root / "users/ann/memory.json"

    class Late(QuickFiles):
        def rename_new(self, source: str, goal: str) -> None:
            target.write_bytes(b"theirs")
            super().rename_new(source, goal)

    problem(moved(root, files=Late()), "memory.json stays", "came to be meanwhile")
    assert target.read_bytes() == b"theirs"
    assert (root / "memory.json").read_bytes() == STORE["memory.json"]
    assert (root / "users/ann" / TABS).exists()


def test_a_folder_that_appears_in_the_last_instant_keeps_what_is_in_it(place: Path) -> None:
    root = write_store(place / "store", STORE)
    target = root / "users/ann/agents/coder/config.yaml"

    class Late(QuickFiles):
        def rename(self, source: str, goal: str) -> None:
            write_store(target.parent, {"config.yaml": b"theirs"})
            super().rename(source, goal)

    problem(moved(root, files=Late()), "agents/coder stays", "came to be meanwhile")
    assert target.read_bytes() == b"theirs"
    assert (root / TABS).exists()


def test_an_equal_file_that_is_edited_in_the_last_instant_stays(place: Path) -> None:
    root = store(place / "store")
    edited = root / "agents/coder/SOUL.md"

    def hook(number: int) -> None:
        edited.write_bytes(b"edited")

    problem(moved(root, files=FaultyFiles(hook=hook)), "agents/coder/SOUL.md stays", "was changed")
    assert edited.read_bytes() == b"edited"


def test_a_mount_between_the_two_places_is_named_and_the_rest_moves(place: Path) -> None:
    root = write_store(place / "store", STORE)

    class Mounted(QuickFiles):
        def rename(self, source: str, goal: str) -> None:
            raise OSError(errno.EXDEV, "Invalid cross-device link", source)

    problem(moved(root, files=Mounted()), "agents/coder stays", "another file system", "cp -a")
    assert tree(root / "agents") == {
        path.removeprefix("agents/"): data for path, data in STORE.items() if path.startswith("agents/")
    }
    assert (root / "users/ann/memory.json").exists()


# --- power


class Dying(RecordingFiles):
    """Keeps the log, and is killed before a call."""

    def __init__(self, root: Path, at: int) -> None:
        super().__init__(root)
        self.left = at


def _mortal(name: str) -> Callable[..., object]:
    method = vars(RecordingFiles)[name]

    def call(self: Dying, *arguments: object) -> object:
        if self.left == 0:
            raise Killed
        self.left -= 1
        return method(self, *arguments)

    return call


for _name in ("mkdir", "rename", "rename_new", "link", "unlink", "rmdir", "flush", "flush_folder"):
    setattr(Dying, _name, _mortal(_name))


def judge_cut(disk: Disk, folder: Path, chance: random.Random, *, finished: bool = False) -> None:
    """What a power cut leaves: nothing is lost, and a run after it comes to the same end."""
    root = laid_out(disk.cut(chance), folder)
    nothing_lost(root)
    if finished:
        assert [path for path in SOURCE if (root / path).exists()] == []
    assert moved(root, files=QuickFiles()).ok
    assert_complete(root)
    shutil.rmtree(root)


@pytest.mark.parametrize("way", ["rename", "link"])
def test_power_fails_at_any_moment(place: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    if way == "link":
        without_exchange(monkeypatch)
    start = store(place / "start")
    root = store(place / "store")
    files = RecordingFiles(root)
    assert moved(root, files=files).ok
    for kind in KINDS:
        for at in range(len(files.log)):
            disk = Disk(kind, start)
            for done in files.log[:at]:
                disk.play(done)
            judge_cut(disk, place / f"{kind}-{at}", random.Random(at), finished=at == len(files.log))


def test_power_fails_after_a_killed_run_and_one_that_finished_it(place: Path) -> None:
    start = store(place / "start")
    for at in range(0, 60, 2):
        root = store(place / f"killed-{at}")
        first, second = Dying(root, at), RecordingFiles(root)
        if attempt(root, first) is not None:
            break
        assert moved(root, files=second).ok
        log = [*first.log, *second.log]
        for kind in KINDS:
            for end in (len(first.log) + len(second.log) // 2, len(log)):
                disk = Disk(kind, start)
                for done in log[:end]:
                    disk.play(done)
                judge_cut(disk, place / f"{kind}-{at}-{end}", random.Random(at), finished=end == len(log))
        shutil.rmtree(root)
    assert at > 30


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_that_never_reached_the_disk_is_flushed_before_the_original_goes(place: Path, kind: Kind) -> None:
    start = write_store(place / "start", STORE)
    (start / "users/ann").mkdir(parents=True)
    root = shutil.copytree(start, place / "store")
    files = RecordingFiles(root)
    files.create(str(root / "users/ann/memory.json"), STORE["memory.json"], flush=False)
    assert moved(root, files=files).ok
    for seed in range(8):
        disk = Disk(kind, start)
        for done in files.log:
            disk.play(done)
        left = laid_out(disk.cut(random.Random(seed)), place / f"left-{seed}")
        assert tree(left) == below("users/ann", STORE)
