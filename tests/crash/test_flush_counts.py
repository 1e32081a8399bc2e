"""What a commit costs: how often it waits for the disk, whatever the size of the store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from operations import opened, put
from power import RecordingFiles

from deermem import DeerMem
from deermem.format.paths import fact_path
from deermem.model.changes import ChangeSet
from deermem.model.fact import Draft


def same_folder(fact_id: str, count: int) -> list[str]:
    """Ids whose files lie in the folder of this one's, so that no folder must be made."""
    folder = fact_path("__default__", fact_id).rpartition("/")[0]
    ids = (f"n_{number}" for number in range(10_000))
    found = [other for other in ids if fact_path("__default__", other).rpartition("/")[0] == folder]
    return found[:count]


ONE, TWO, THREE = same_folder("f_a", 3)


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
        (5, lambda e: e.memory("ann").update_summaries({"work_context": "Surveys bridges."})),
        (0, lambda e: e.memory("ann").list()),
    ],
    ids=["create", "update", "delete", "two in a folder", "three in a folder", "two updates", "summary", "read"],
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
