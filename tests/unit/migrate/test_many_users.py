"""A run over many users: known in number, stopped in between, no more in memory than one user's plan."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders_v1 import as_json, v1_document, v1_fact, write_store

from deermem import DeerMem, InvalidInput
from deermem.migrate.plan import UserPlan
from deermem.migrate.run import MigrationStep

NAMES = [f"user{number}" for number in range(5)]


@pytest.fixture
def engine(root: Path, clock) -> Iterator[DeerMem]:
    for name in NAMES:
        write_store(root / "users" / name, {"memory.json": as_json(v1_document(v1_fact("f1", f"Of {name}.")))})
    with DeerMem(root, clock=clock) as opened:
        yield opened


def test_the_number_of_users_is_known_before_any_is_read(engine, root, monkeypatch):
    told: list[object] = []
    monkeypatch.setattr(engine._files, "read", told.append)
    with pytest.raises(InterruptedError):
        engine.migrate(begin=told.append, stop=interrupt)
    assert told == [5]


def interrupt() -> bool:
    raise InterruptedError


def test_a_run_is_stopped_between_users_and_the_next_one_goes_on(engine):
    seen: list[str] = []
    report = engine.migrate(progress=lambda result: seen.append(result.user), stop=lambda: len(seen) == 2)
    assert (report.interrupted, str(report)) == (True, "migrated=2 planned=0 current=0 failed=0")
    assert seen == NAMES[:2]
    again = engine.migrate(stop=lambda: False)
    assert (again.interrupted, str(again)) == (False, "migrated=3 planned=0 current=2 failed=0")


def test_nothing_of_a_user_stays_in_memory_but_the_result(engine):
    alive: list[int] = []

    def count(_: object) -> None:
        alive.append(sum(isinstance(item, UserPlan) for item in gc.get_objects()))

    engine.migrate(progress=count, verify=True)
    engine.migrate(dry_run=True, progress=count)
    assert alive == [0] * 10


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_nests_too_deep_stops_its_user_alone(engine, monkeypatch, dry_run):
    planned = MigrationStep.plan

    def plan(step, *rest):
        if step.place.folder == NAMES[1]:
            raise RecursionError
        return planned(step, *rest)

    monkeypatch.setattr(MigrationStep, "plan", plan)
    report = engine.migrate(dry_run=dry_run)
    assert [user.user for user in report.users if user.outcome == "failed"] == [NAMES[1]]
    assert "nests too deep" in report.users[1].problems[0]


def test_a_user_who_can_not_be_is_refused_before_anybody_is_migrated(engine, root):
    with pytest.raises(InvalidInput):
        engine.migrate([*NAMES, ""])
    assert not list(root.rglob("*.v1.bak"))
