"""Power fails at any moment: what `capture` returned for is on the disk, also after a process that was killed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest
from builders_extraction import Scripted, names_of, silence, talk
from faults import FaultyFiles, Killed
from power import Disk, Done, Kind, RecordingFiles, laid_out
from test_power_loss import Dying

from deermem import DeerMem, Settings
from deermem.extract import items
from deermem.store.files import Files
from deermem.store.layout import Layout
from deermem.store.spool import Spool

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
KINDS: tuple[Kind, ...] = get_args(Kind)
CAPTURES = (("a", ("1",)), ("a", ("1", "2")), ("b", ("3",)), ("a", ("4",)))


@pytest.fixture(autouse=True)
def quiet_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    silence(monkeypatch, Killed)


def opened(root: Path, files: Files) -> DeerMem:
    settings = Settings(close_timeout_seconds=0, retrieval_adapter="")
    return DeerMem(root, settings, Scripted(), clock=lambda: NOON, files=files)


def capture(engine: DeerMem, user: str | None) -> Iterable[set[str]]:
    """Captures one after the other; yields what must be there after each."""
    sure: set[str] = set()
    for thread, marks in CAPTURES:
        engine.memory(user, "coder").capture(talk(*marks), thread)
        sure.update(marks)
        yield set(sure)


def left(found: dict[str, bytes | None], folder: Path, user: str | None) -> set[str]:
    """What was said in the conversations that lie on a disk after a cut."""
    root = laid_out(found, folder)
    spool = Spool(Files(), Layout(root).user(user))
    kept = [items.decode(spool.read(entry) or b"") for entry in spool.entries()]
    shutil.rmtree(root)
    assert None not in kept, "an entry is whole or not there"
    return {turn.text for item in kept for turn in item.turns}


def is_there(marks: set[str], texts: set[str]) -> bool:
    return all(any(name in text for text in texts) for name in names_of(*marks))


def played(kind: Kind, start: Path, log: Iterable[Done]) -> Disk:
    disk = Disk(kind, start)
    for done in log:
        disk.play(done)
    return disk


@pytest.mark.parametrize("user", ["alice", None])
def test_what_capture_returned_for_outlives_a_power_cut(place: Path, user: str | None) -> None:
    start = place / "start"
    start.mkdir()
    shutil.copytree(start, place / "run")
    files = RecordingFiles(place / "run")
    returned: list[tuple[int, set[str]]] = [(0, set())]
    with opened(place / "run", files) as engine:
        returned += [(len(files.log), sure) for sure in capture(engine, user)]
    for kind in KINDS:
        for at in range(len(files.log) + 1):
            sure = [marks for count, marks in returned if count <= at][-1]
            for seed in range(2):
                cut = played(kind, start, files.log[:at]).cut(random.Random(f"{at} {seed}"))
                assert is_there(sure, left(cut, place / "cut", user)), (kind, at)


def test_also_where_a_killed_process_made_the_folders(place: Path) -> None:
    """It flushed no name of what it made: whoever finds a folder must not take it for safe."""
    start = place / "start"
    start.mkdir()
    shutil.copytree(start, place / "dry")
    dry = FaultyFiles()
    with opened(place / "dry", dry) as engine:
        list(capture(engine, "alice"))
    for at in range(len(dry.calls)):
        root = place / f"killed-{at}"
        root.mkdir()
        dying = Dying(root, at)
        with opened(root, dying) as engine, suppress(Killed):
            list(capture(engine, "alice"))
        files = RecordingFiles(root)
        with opened(root, files) as engine:
            engine.memory("alice", "coder").capture(talk("9"), "a")
        log = [*dying.recorder.log, *files.log]
        for kind in KINDS:
            for seed in range(2):
                cut = played(kind, start, log).cut(random.Random(f"{at} {seed}"))
                assert is_there({"9"}, left(cut, place / "cut", "alice")), (kind, at, dry.calls[at])
        shutil.rmtree(root)
