"""What a commit costs: how often it waits for the disk, whatever the size of the store."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from operations import opened, put
from power import RecordingFiles

from deermem import DeerMem
from deermem.format.paths import fact_path
from deermem.model.changes import ChangeSet
from deermem.model.fact import Draft
from deermem.store.together import flushed_together


def same_folder(fact_id: str, count: int) -> list[str]:
    """Ids whose files lie in the folder of this one's, so that no folder must be made."""
    folder = fact_path("__default__", fact_id).rpartition("/")[0]
    ids = (f"n_{number}" for number in range(10_000))
    found = [other for other in ids if fact_path("__default__", other).rpartition("/")[0] == folder]
    return found[:count]


*SEVEN, EIGHTH = same_folder("f_a", 8)
ONE, TWO, THREE = SEVEN[:3]


def drafts(*ids: str) -> ChangeSet:
    """New facts with these ids."""
    return ChangeSet([Draft(content=f"Known as {fact_id}.", id=fact_id) for fact_id in ids])


@pytest.mark.parametrize(
    ("flushes", "act"),
    [
        (3, lambda e: e.memory("ann").apply(drafts(ONE))),
        (3, lambda e: e.memory("ann").update("f_a", "Now drinks tea.")),
        (2, lambda e: e.memory("ann").delete("f_a")),
        (7, lambda e: e.memory("ann").apply(drafts(ONE, TWO))),
        (8, lambda e: e.memory("ann").apply(drafts(ONE, TWO, THREE))),
        (8, lambda e: [*map(len, [e.memory("ann").apply(both(e)).facts])]),
        (12, lambda e: e.memory("ann").apply(drafts(*SEVEN))),
        (4, lambda e: e.memory("ann").apply(drafts(*SEVEN, EIGHTH))),
        (4, lambda e: e.memory("ann").apply(drafts(*(f"f_{number}" for number in range(50))))),
        (5, lambda e: e.memory("ann").update_summaries({"work_context": "Surveys bridges."})),
        (0, lambda e: e.memory("ann").list()),
    ],
    ids=[
        "create",
        "update",
        "delete",
        "two in a folder",
        "three in a folder",
        "two updates",
        "seven",
        "eight",
        "fifty in many new folders",
        "summary",
        "read",
    ],
)
@pytest.mark.parametrize("others", [0, 60])
def test_flushes(flushes: int, act: Callable[[DeerMem], object], others: int, place: Path) -> None:
    with opened(place) as engine:
        put(engine, {"__default__/f_a": "Drinks coffee.", "__default__/f_b": "Lives in Bergen."})
        if others:
            engine.memory("ann", "other").apply(drafts(*(f"o_{number}" for number in range(others))))
    files = RecordingFiles(place)
    with opened(place, files) as engine:
        act(engine)
    assert sum(done.what.startswith("flush") for done in files.log) == flushes


def both(engine: DeerMem) -> ChangeSet:
    """Two facts in folders of their own, changed together."""
    from deermem.model.changes import Amend

    return ChangeSet([Amend("f_a", content="Now drinks tea."), Amend("f_b", content="Moved to Porto.")])


class FilesWithoutOneFlush(RecordingFiles):
    """A system that can't flush everything at once."""

    def open_for_all(self, folder: str) -> int | None:
        return None


def test_without_one_flush_for_all_each_is_flushed(place: Path) -> None:
    with opened(place) as engine:
        put(engine, {"__default__/f_a": "Drinks coffee."})
    files = FilesWithoutOneFlush(place)
    with opened(place, files) as engine:
        engine.memory("ann").apply(drafts(*SEVEN, EIGHTH))
    flushed = [done.what for done in files.log if done.what.startswith("flush")]
    assert (flushed.count("flush"), flushed.count("flush folder")) == (8 + 3, 2)


def test_what_lies_on_two_file_systems_is_not_flushed_as_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(place) as engine:
        put(engine, {"__default__/f_a": "Drinks coffee."})
        paths = engine.context("ann").paths
    files = RecordingFiles(place)
    real = os.stat

    def stat(path: str | Path, **options: bool) -> os.stat_result:
        found = real(path, **options)
        return os.stat_result((*found[:2], found.st_dev + 1, *found[3:10])) if path == paths.folder else found

    monkeypatch.setattr(os, "stat", stat)
    with flushed_together(files, paths, 100) as together:
        assert not together.on
    monkeypatch.undo()
    with flushed_together(files, paths, 100) as together:
        assert together.on
