"""Every call of the file layer in turn: killed there, interrupted there, refused there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from faults import ERRNOS, Fault, FaultyFiles, Killed, Kind, without_exchange
from scenes import OPERATIONS, Scene, State, state

from deermem.errors import DeerMemError, StoreUnavailable


def stops(scene: Scene, kind: Kind, step: int = 1) -> list[Fault]:
    """A fault at every call that the operation makes undisturbed, or at every `step`-th."""
    return [Fault(at, kind, ERRNOS[at % len(ERRNOS)]) for at in range(0, len(scene.dry.calls), step)]


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
    files.dead = False
    engine.close()
    torn_seal = files.calls[fault.at].endswith(" record") and fault.kind in ("kill", "interrupt")
    scene.judge(root, allowed, conflicts=torn_seal)
    shutil.rmtree(root)


def after_refusal(scene: Scene, error: DeerMemError) -> list[State]:
    """What may be there, by what the error says."""
    assert "\n" not in str(error)
    if scene.operation.name == "migrate":
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
@pytest.mark.parametrize("kind", ["kill", "error"])
def test_stopped_at_every_call(name: str, kind: Kind, tmp_path: Path) -> None:
    scene = Scene(OPERATIONS[name], tmp_path)
    run_all(scene, stops(scene, kind))


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("kind", ["interrupt", "late"])
def test_interrupted_or_refused_late(name: str, kind: Kind, tmp_path: Path) -> None:
    scene = Scene(OPERATIONS[name], tmp_path)
    run_all(scene, stops(scene, kind, 1))


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("kind", ["kill", "error"])
def test_the_second_way_of_renaming(name: str, kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_exchange(monkeypatch)
    scene = Scene(OPERATIONS[name], tmp_path)
    run_all(scene, stops(scene, kind, 1))
