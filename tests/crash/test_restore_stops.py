"""Going back to version 1, stopped at every call: version 2 whole, or the old documents whole, never in between."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from faults import ERRNOS, Fault, FaultyFiles, Killed, Kind, QuickFiles
from operations import OLD, Operation, migrate, old_store, opened
from scenes import Scene, state, tree

from deermem import DeerMem
from deermem.errors import DeerMemError
from deermem.store.layout import Layout
from deermem.store.lock import user_lock
from deermem.store.recovery import recover


def migrated(root: Path) -> None:
    """The old store in version 2."""
    old_store(root)
    with opened(root) as engine:
        migrate(engine)


def restore(engine: DeerMem) -> object:
    """Back to version 1."""
    result = engine.restore("ann")
    if result.outcome != "restored":
        assert result.outcome == "failed", result
        raise DeerMemError(result.problems[0])
    return result


def shared_is_new(root: Path) -> None:
    """One agent's document was migrated into a store of version 2."""
    migrated(root)
    (root / "users/ann/memory.json.v1.bak").unlink()


OPERATIONS = {
    "user": Operation("restore", restore, OLD, OLD, migrated, due=True),
    "agent": Operation("restore", restore, OLD, OLD, shared_is_new, due=True),
}


def is_old(root: Path, shared: bool) -> bool:
    """Whether the documents are back, whole; AssertionError where something is in between."""
    ann = root / "users/ann"
    source, backup = ann / "agents/coder/memory.json", ann / "agents/coder/memory.json.v1.bak"
    facts = sorted(path.stem for path in (ann / "agents").rglob("*.md"))
    back = source.exists()
    assert not back or source.read_bytes() == backup.read_bytes()
    if shared:
        assert ("facts" in json.loads((ann / "memory.json").read_bytes())) == back
        assert facts == ([] if back else ["fact_1", "fact_2"])
    else:
        assert facts == (["fact_1"] if back else ["fact_1", "fact_2"])
    return back


def recovered(root: Path) -> None:
    """What the next holder of the lock does first, and nothing more."""
    paths = Layout(root).user("ann")
    with user_lock(paths, 10.0) as held:
        recover(QuickFiles(), held)


def run(scene: Scene, fault: Fault, shared: bool) -> bool:
    """Stops it once; whether the old documents are there, whole, once the next holder of the lock has looked."""
    root = scene.copy("run")
    files = FaultyFiles(fault)
    with scene.opened(root, files) as engine, suppress(Killed, DeerMemError):
        scene.operation.act(engine)
        assert is_old(root, shared), "who is told that it is done finds it done"
    assert files.fired
    read = Path(shutil.copytree(root, scene.folder / "read"))
    with scene.opened(read) as reader:
        # Nobody ever sees an empty memory: what is found old, or sealed on its way there, is migrated first.
        assert state(reader) == OLD
        assert reader.restore("ann").outcome == "restored"
    assert is_old(read, shared)
    recovered(root)
    back = is_old(root, shared)
    kept = {name: data for name, data in tree(root).items() if name.endswith(".v1.bak")}
    assert kept == {name: data for name, data in scene.trees[0].items() if name.endswith(".v1.bak")}
    for folder in (root, read):
        shutil.rmtree(folder)
    return back


@pytest.mark.parametrize("kind", ["kill", "error"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_stopped_restore_is_whole_or_not_at_all(name: str, kind: Kind, place: Path) -> None:
    scene = Scene(OPERATIONS[name], place)
    seen = set()
    for at, call in enumerate(scene.dry.calls):
        if kind == "error" and call.startswith("rmdir"):
            # The file layer itself passes over a folder that stays.
            continue
        fault = Fault(at, kind, ERRNOS[at % len(ERRNOS)])
        try:
            seen.add(run(scene, fault, name == "user"))
        except BaseException as error:
            error.add_note(f"{fault} at {call!r}")
            raise
    assert seen == {True, False}
