"""Every call of the file layer in turn: killed there, interrupted there, refused there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from faults import ERRNOS, Fault, FaultyFiles, Killed, Kind, without_exchange
from operations import OPERATIONS, State, migrate
from scenes import Scene, state

from deermem.errors import DeerMemError, StoreUnavailable

CORE = ("create", "update", "delete", "six", "summaries", "migrate")


def stops(scene: Scene, kind: Kind, most: int) -> list[Fault]:
    """A fault at every call that the operation makes undisturbed, or at every other one and so on up to `most`."""
    calls = len(scene.dry.calls)
    return [Fault(at, kind, ERRNOS[at % len(ERRNOS)]) for at in range(0, calls, -(-calls // most))]


def run(scene: Scene, fault: Fault) -> None:
    """Stops the operation once and judges what is left."""
    root = scene.copy("run")
    files = FaultyFiles(fault)
    engine = scene.opened(root, files)
    allowed = scene.allowed
    try:
        scene.operation.act(engine)
        allowed = [scene.operation.after]
    except (Killed, KeyboardInterrupt):
        pass
    except DeerMemError as error:
        allowed = after_refusal(scene, error)
        assert state(engine) in allowed, "the same engine goes on"
    assert files.fired
    assert fault.kind != "kill" or files.dead
    files.dead = False
    engine.close()
    torn_record = files.calls[fault.at] in ("write record", "write on record")
    scene.judge(root, allowed, conflicts=torn_record)
    shutil.rmtree(root)


def after_refusal(scene: Scene, error: DeerMemError) -> list[State]:
    """What may be there, by what the error says."""
    assert "\n" not in str(error)
    if scene.operation.act is migrate:
        return scene.allowed
    assert isinstance(error, StoreUnavailable), repr(error)
    return scene.allowed if error.outcome_unknown else [scene.operation.before]


def run_all(scene: Scene, faults: list[Fault]) -> None:
    """All of them; a failure names the call it was stopped at."""
    assert len(scene.dry.calls) > 5
    for fault in faults:
        try:
            run(scene, fault)
        except BaseException as error:
            error.add_note(f"{scene.operation.name}: {fault} at {scene.dry.calls[fault.at]!r}")
            raise


@pytest.mark.parametrize("name", OPERATIONS)
def test_killed_at_every_call(name: str, place: Path) -> None:
    scene = Scene(OPERATIONS[name], place)
    run_all(scene, stops(scene, "kill", 40 if name in CORE else 20))


@pytest.mark.parametrize("name", OPERATIONS)
def test_refused_at_every_call(name: str, place: Path) -> None:
    scene = Scene(OPERATIONS[name], place)
    run_all(scene, stops(scene, "error", 10))


@pytest.mark.parametrize("name", ["update", "six"])
@pytest.mark.parametrize("kind", ["interrupt", "late"])
def test_interrupted_or_refused_late(name: str, kind: Kind, place: Path) -> None:
    scene = Scene(OPERATIONS[name], place)
    run_all(scene, stops(scene, kind, 18))


@pytest.mark.parametrize("name", ["update", "six", "unswapped"])
def test_killed_without_exchange(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_exchange(monkeypatch)
    scene = Scene(OPERATIONS[name], place)
    run_all(scene, stops(scene, "kill", 18))


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("kind", ["kill", "error", "late", "interrupt"])
def test_every_way_of_stopping(
    name: str, kind: Kind, exchange: bool, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchange:
        without_exchange(monkeypatch)
    scene = Scene(OPERATIONS[name], place)
    codes = ERRNOS if kind in ("error", "late") else ERRNOS[:1]
    run_all(scene, [Fault(at, kind, code) for at in range(len(scene.dry.calls)) for code in codes])
