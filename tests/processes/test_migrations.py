"""Migrating an old store: two at once come to one result, and a migration killed anywhere resumes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from builders_v1 import as_json, v1_document, v1_fact
from process_tools import Worker, alarming, contents, engine, start_together

from deermem.format import markdown

Start = Callable[..., Worker]
FACTS = 300


def old_store(root: Path, *, facts: int = FACTS, user: str = "ann") -> tuple[bytes, dict[str, str]]:
    """A v1 document at ann's; gives its bytes, and what must be there in the end."""
    wanted = {
        f"fact_old{number:04}": f"Old fact number {number}: the cello stands in room {number}."
        for number in range(facts)
    }
    source = as_json(
        v1_document(*(v1_fact(fact_id, text) for fact_id, text in wanted.items()), work="Ann tunes cellos.")
    )
    folder = root / "users" / user
    folder.mkdir(parents=True)
    (folder / "memory.json").write_bytes(source)
    return source, wanted


def fact_files(root: Path, user: str = "ann") -> list[Path]:
    return sorted((root / "users" / user / "agents").rglob("*.md"))


def look_after_a_kill(root: Path, source: bytes, wanted: dict[str, str], user: str = "ann") -> None:
    """What must hold at every instant: the source or its copy, byte for byte, and nothing that is half a fact."""
    folder = root / "users" / user
    backup = folder / "memory.json.v1.bak"
    if (folder / "memory.json").read_bytes() != source:
        assert backup.read_bytes() == source
    assert not backup.exists() or backup.read_bytes() == source
    for path in fact_files(root, user):
        parsed = markdown.decode(path.read_bytes(), stem=path.stem, when=datetime.now(UTC))
        assert (parsed.fact.content, parsed.edited) == (wanted[path.stem], False)


def check_result(root: Path, source: bytes, wanted: dict[str, str]) -> None:
    with engine(root) as opened:
        memory = opened.memory("ann")
        assert contents(memory) == wanted
        assert len(fact_files(root)) == len(wanted)
        assert memory.summaries().section("workContext").summary == "Ann tunes cellos."
        assert (root / "users" / "ann" / "memory.json.v1.bak").read_bytes() == source
        fact = memory.add("written after the migration")
        assert contents(memory) == {**wanted, fact.id: fact.content}
        assert alarming(opened) == []
        assert [user.outcome for user in opened.migrate().users] == ["current"]


@pytest.mark.parametrize("doors", [("open", "open"), ("migrate", "open"), ("migrate", "migrate")])
def test_two_migrations_at_once_come_to_one_result(start: Start, root: Path, doors: tuple[str, str]) -> None:
    source, wanted = old_store(root, facts=80)
    workers = [start("migrate", root=str(root), by=door) for door in doors]
    start_together(workers)
    said = [line for worker in workers for line in worker.finish()]
    assert [line["facts"] for line in said] == [80, 80]
    if doors == ("migrate", "migrate"):
        assert sorted(str(line["outcome"]) for line in said) in (["current", "migrated"], ["migrated", "migrated"])
    check_result(root, source, wanted)


# --- killed at a moment


def kill_at_moments(start: Start, root: Path, seed: int, kills: int, *, facts: int = FACTS, most: float = 0.4) -> None:
    """Kills some migrations at random moments, one after the other; the next who opens the store ends it."""
    source, wanted = old_store(root, facts=facts)
    chance = random.Random(seed)
    for attempt in range(kills):
        worker = start("migrate", root=str(root), by="open" if attempt % 2 else "migrate")
        start_together([worker])
        time.sleep(chance.uniform(0.0, most))
        if worker.kill():
            break
        look_after_a_kill(root, source, wanted)
    check_result(root, source, wanted)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_migration_killed_anywhere_resumes(start: Start, root: Path, seed: int) -> None:
    kill_at_moments(start, root, seed, kills=4)


# --- killed at a call

PLACES = [
    ("create", 60),
    ("write", 90),
    ("flush all", 0),
    ("unlink", 0),
    ("flush record", 0),
    ("rename new", 120),
    ("exchange", 0),
    ("flush record", 1),
]
"""Before the seal; in the sweep after that; at the seal; in the recoveries' swaps, at memory.json, at the end."""


def kill_at_calls(start: Start, root: Path, places: list[tuple[str, int]], facts: int) -> int:
    """Kills one migration after the other, each at its call; gives how many came so far as to be killed."""
    source, wanted = old_store(root, facts=facts)
    killed = 0
    for attempt, (name, number) in enumerate(places):
        door = "open" if attempt % 2 else "migrate"
        worker = start("migrate", root=str(root), by=door, name=name, number=number)
        start_together([worker])
        said = worker.finish_or_die()
        if not said:
            killed += 1
            look_after_a_kill(root, source, wanted)
    check_result(root, source, wanted)
    return killed


def test_a_migration_killed_at_one_call_after_the_other_resumes(start: Start, root: Path) -> None:
    assert kill_at_calls(start, root, PLACES, FACTS) == len(PLACES)


# --- killed with many users in work

MANY = [f"user{number:02}" for number in range(28)]
AMONG_MANY = [("flush all", 5), ("exchange", 2), ("create", 60)]
"""While some are staged, some sealed and some done; each run first recovers what those before it left."""


def kill_among_many(start: Start, root: Path, places: list[tuple[str, int]], facts: int) -> int:
    """Kills one run over many users after the other, each at its call; gives how many came so far as to be killed."""
    sources = {user: old_store(root, facts=facts, user=user) for user in MANY}
    killed = 0
    for name, number in places:
        worker = start("migrate_all", root=str(root), name=name, number=number)
        start_together([worker])
        killed += not worker.finish_or_die()
        for user in MANY:
            look_after_a_kill(root, *sources[user], user)
    last = start("migrate_all", root=str(root))
    start_together([last])
    said = last.finish()[0]
    assert (said["ok"], len(said["outcomes"])) == (True, len(MANY))  # type: ignore[arg-type]
    with engine(root) as opened:
        assert {user: contents(opened.memory(user)) for user in MANY} == {user: sources[user][1] for user in MANY}
        # Writes go in halves there: what another thread was sealing is torn, and set aside with its texts.
        found = {finding.code for finding in opened.check()}
        assert found <= {"leftovers", "set-aside", "conflict-copy"}
        assert {user.outcome for user in opened.migrate(verify=True).users} == {"current"}
    return killed


def test_a_run_over_many_users_killed_at_one_call_after_the_other_resumes(start: Start, root: Path) -> None:
    assert kill_among_many(start, root, AMONG_MANY, facts=9) == len(AMONG_MANY)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_runs_over_many_users_killed_at_many_calls_resume(start: Start, tmp_path: Path) -> None:
    chance = random.Random(11)
    killed = 0
    for run in range(30):
        places = [("all", chance.randrange(1000)) for _ in range(1 + run % 4)]
        killed += kill_among_many(start, tmp_path / str(run), places, facts=20)
    assert killed >= 30


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_large_migration_killed_at_many_calls_resumes(start: Start, tmp_path: Path) -> None:
    facts = 3000
    old_store(tmp_path / "whole", facts=facts)
    whole = start("migrate", root=str(tmp_path / "whole"), by="migrate")
    start_together([whole])
    calls = int(str(whole.finish()[0]["calls"]))
    chance = random.Random(7)
    killed = 0
    for run in range(40):
        places = [("all", chance.randrange(calls)) for _ in range(1 + run % 4)]
        killed += kill_at_calls(start, tmp_path / str(run), places, facts)
    assert killed >= 40


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_migrations_killed_anywhere_resume(start: Start, tmp_path: Path) -> None:
    for seed in range(100, 140):
        kill_at_moments(start, tmp_path / str(seed), seed, kills=1 + seed % 6)
    for seed in range(140, 160):
        kill_at_moments(start, tmp_path / str(seed), seed, kills=1 + seed % 4, facts=3000, most=2.5)


# --- beside others


def beside_others(start: Start, root: Path, facts: int, writes: int) -> None:
    """Two migrate, one writes and one reads, all from the same moment on."""
    source, wanted = old_store(root, facts=facts)
    migrating = [start("migrate", root=str(root), by="migrate") for _ in range(2)]
    writer = start("add", root=str(root), prefix="beside", count=writes)
    reader = start("survey", root=str(root), count=facts)
    start_together([*migrating, writer, reader])
    added = {str(line["id"]): str(line["content"]) for line in writer.finish()}
    assert len(added) == writes
    outcomes = [str(worker.finish()[0]["outcome"]) for worker in migrating]
    assert set(outcomes) <= {"migrated", "current"}
    reader.tell()
    assert reader.finish()[0]["looks"]
    check_result(root, source, wanted | added)


def test_a_reader_and_a_writer_beside_a_migration_see_all_or_wait(start: Start, root: Path) -> None:
    beside_others(start, root, facts=FACTS, writes=15)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_readers_and_writers_beside_large_migrations(start: Start, tmp_path: Path) -> None:
    for run in range(5):
        beside_others(start, tmp_path / str(run), facts=3000, writes=40)
