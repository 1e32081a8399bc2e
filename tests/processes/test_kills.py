"""A writer killed at any moment: what it acknowledged is there, what was under way is there whole or not at all."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from process_tools import Worker, alarming, contents, engine, revision

Start = Callable[..., Worker]


def untouched(root: Path) -> dict[str, bytes]:
    """The files that the writer has no business with."""
    folders = [root / "users" / "ann" / "agents" / "coder", root / "users" / "bob" / "agents"]
    return {str(path): path.read_bytes() for folder in folders for path in folder.rglob("*.md")}


def prepare(root: Path) -> dict[str, bytes]:
    with engine(root) as opened:
        for number in range(20):
            opened.memory("ann", "coder").add(f"coder's own fact {number}")
            opened.memory("bob").add(f"bob's own fact {number}")
            opened.memory("ann").add(f"a fact from before {number}")
    return untouched(root)


def kill_one(start: Start, root: Path, seed: int) -> tuple[dict[str, str], dict[str, str], int]:
    """Lets a writer run for a random while, kills it; gives the two states that may be, and the last revision."""
    with engine(root) as opened:
        memory = opened.memory("ann")
        before = {**contents(memory), "": memory.summaries().section("workContext").summary}
    last = revision(root)
    worker = start("mix", root=str(root), seed=seed)
    assert worker.read() == {"ready": True}
    time.sleep(random.Random(seed).uniform(0.0, 0.12))
    said = worker.kill()
    acknowledged = under_way = before
    for line in said:
        if "op" in line:
            under_way = line["after"]  # type: ignore[assignment]
        else:
            acknowledged = under_way
            last = int(line["revision"])  # type: ignore[call-overload]
    return acknowledged, under_way, last


def look_after(root: Path, acknowledged: dict[str, str], under_way: dict[str, str], last: int, text: str) -> None:
    """A new process opens the store, and needs no help."""
    with engine(root) as opened:
        memory = opened.memory("ann")
        now = {**contents(memory), "": memory.summaries().section("workContext").summary}
        assert now in (acknowledged, under_way), difference(now, acknowledged, under_way)
        assert [finding for finding in opened.check() if finding.severity == "error"] == []
        added = memory.add(text)
        assert contents(memory) == {**{key: text for key, text in now.items() if key}, added.id: added.content}
        assert revision(root) > last
        assert alarming(opened) == []
        hits = memory.search(text, top_k=3)
        assert added.id in {hit.fact.id for hit in hits}
        assert {hit.match for hit in hits} == {"fts5"}


def difference(now: dict[str, str], *allowed: dict[str, str]) -> str:
    return " / ".join(
        f"lost {sorted(state.items() - now.items())[:3]}, too much {sorted(now.items() - state.items())[:3]}"
        for state in allowed
    )


def run_kills(start: Start, root: Path, seeds: range) -> None:
    others = prepare(root)
    for seed in seeds:
        acknowledged, under_way, last = kill_one(start, root, seed)
        look_after(root, acknowledged, under_way, last, f"written after kill{seed}")
        assert untouched(root) == others


def test_a_killed_writer_leaves_whole_operations(start: Start, root: Path) -> None:
    run_kills(start, root, range(25))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("hundred", [1, 2, 3, 4, 5])
def test_hundreds_of_killed_writers_leave_whole_operations(start: Start, root: Path, hundred: int) -> None:
    run_kills(start, root, range(100 * hundred, 100 * hundred + 100))


def test_two_killed_writers_of_one_bucket_leave_whole_facts(start: Start, root: Path) -> None:
    """Both add; whatever either acknowledged is there."""
    prepare(root)
    for turn in range(3):
        pair = [start("add", root=str(root), prefix=f"t{turn}w{number}", count=10_000) for number in range(2)]
        for worker in pair:
            assert worker.read() == {"ready": True}
            worker.tell()
        time.sleep(0.15)
        said = [line for worker in pair for line in worker.kill()]
        with engine(root) as opened:
            memory = opened.memory("ann")
            seen = contents(memory)
            assert {str(line["id"]): line["content"] for line in said}.items() <= seen.items()
            assert {f"a fact from before {number}" for number in range(20)} <= set(seen.values())
            fact = memory.add(f"after turn {turn}")
            assert contents(memory) == {**seen, fact.id: fact.content}
            assert alarming(opened) == []
