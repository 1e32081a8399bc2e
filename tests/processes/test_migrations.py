"""Migrating an old store: two at once come to one result, and a migration killed anywhere resumes."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from builders_v1 import as_json, v1_document, v1_fact
from process_tools import Worker, alarming, contents, engine, start_together

Start = Callable[..., Worker]
FACTS = 300


def old_store(root: Path, *, facts: int = FACTS) -> tuple[bytes, dict[str, str]]:
    """A v1 document at ann's; gives its bytes, and what must be there in the end."""
    wanted = {
        f"fact_{number:03}": f"Old fact number {number}: the cello stands in room {number}." for number in range(facts)
    }
    source = as_json(
        v1_document(*(v1_fact(fact_id, text) for fact_id, text in wanted.items()), work="Ann tunes cellos.")
    )
    folder = root / "users" / "ann"
    folder.mkdir(parents=True)
    (folder / "memory.json").write_bytes(source)
    return source, wanted


def fact_files(root: Path) -> list[Path]:
    return sorted((root / "users" / "ann" / "agents").rglob("*.md"))


def source_or_backup(root: Path, source: bytes) -> bool:
    """Whether the old document is still there, whole: in its place, or as the backup beside it."""
    folder = root / "users" / "ann"
    copies = [folder / "memory.json", folder / "memory.json.v1.bak"]
    return any(copy.exists() and copy.read_bytes() == source for copy in copies)


def is_migrated(root: Path) -> bool:
    return "facts" not in json.loads((root / "users" / "ann" / "memory.json").read_bytes())


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


def kill_and_resume(start: Start, root: Path, seed: int, kills: int) -> None:
    """Kills some migrations at random moments, one after the other; the next who opens the store ends it."""
    source, wanted = old_store(root)
    chance = random.Random(seed)
    for attempt in range(kills):
        worker = start("migrate", root=str(root), by="open" if attempt % 2 else "migrate")
        start_together([worker])
        time.sleep(chance.uniform(0.0, 0.4))
        if worker.kill():
            break
        assert source_or_backup(root, source)
        if is_migrated(root):
            assert (root / "users" / "ann" / "memory.json.v1.bak").read_bytes() == source
        assert all(path.read_bytes().startswith(b"---\n") for path in fact_files(root))
    assert source_or_backup(root, source)
    check_result(root, source, wanted)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_migration_killed_anywhere_resumes(start: Start, root: Path, seed: int) -> None:
    kill_and_resume(start, root, seed, kills=4)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_many_migrations_killed_anywhere_resume(start: Start, tmp_path: Path) -> None:
    for seed in range(100, 140):
        kill_and_resume(start, tmp_path / str(seed), seed, kills=1 + seed % 6)
