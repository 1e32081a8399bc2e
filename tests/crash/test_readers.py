"""Readers beside a commit, without its lock: between any two of its calls, and stretched over several of them."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from faults import FaultyFiles, without_exchange
from operations import OPERATIONS, State, opened
from scenes import Scene, state

from deermem import Amend, ChangeSet, DeerMem

OFTEN = ("create", "update", "delete", "six", "import", "replace", "summaries", "clear", "clear-user", "evict")


def watched(scene: Scene, reader: DeerMem, root: Path) -> list[bool]:
    """What the reader saw before each call: False for the state before, True for the one after."""
    seen: list[bool] = []
    operation = scene.operation

    def hook(_: int) -> None:
        found = state(reader, every_way=False)
        assert found in (operation.before, operation.after), found
        seen.append(found == operation.after)

    with scene.opened(root, FaultyFiles(hook=hook)) as engine:
        operation.act(engine)
    return seen


@pytest.mark.parametrize(("name", "retrieval"), [*((name, "") for name in OFTEN), ("update", "fts5"), ("six", "fts5")])
def test_between_any_two_calls(name: str, retrieval: str, place: Path) -> None:
    scene = Scene(OPERATIONS[name], place)
    root = scene.copy("read")
    with scene.opened(root, retrieval=retrieval) as reader:
        assert state(reader) == scene.operation.before
        seen = watched(scene, reader, root)
        assert state(reader) == scene.operation.after
    assert seen == sorted(seen), "once seen, a commit stays"
    assert seen[0] is False
    assert len(seen) >= 8


@pytest.mark.parametrize("name", ["update", "six"])
def test_between_any_two_calls_without_exchange(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_exchange(monkeypatch)
    scene = Scene(OPERATIONS[name], place)
    root = scene.copy("read")
    with scene.opened(root) as reader:
        seen = watched(scene, reader, root)
    assert seen == sorted(seen)


class Paced:
    """A commit in a thread of its own that goes on only as far as it is told."""

    def __init__(self, scene: Scene, root: Path) -> None:
        self._moved = threading.Condition()
        self._allowed = 0
        self._at = 0
        self._ended = False
        self._engine = scene.opened(root, FaultyFiles(hook=self._wait))
        self._act: Callable[[DeerMem], object] = scene.operation.act
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._act(self._engine)
        finally:
            with self._moved:
                self._ended = True
                self._moved.notify_all()

    def _wait(self, number: int) -> None:
        with self._moved:
            self._at = number
            self._moved.notify_all()
            self._moved.wait_for(lambda: number < self._allowed)

    def go(self, calls: int) -> None:
        """Lets it make as many calls more, and waits until it stands before the next one or has ended."""
        with self._moved:
            self._allowed += calls
            self._moved.notify_all()
            self._moved.wait_for(lambda: self._ended or self._at >= self._allowed)

    def end(self) -> None:
        """Lets it finish."""
        self.go(10_000)
        self._thread.join()
        self._engine.close()


def stretched(scene: Scene, chance: random.Random) -> State:
    """One list whose reads lie between calls of the commit."""
    root = scene.copy("stretched")
    commit = Paced(scene, root)
    commit.go(chance.randrange(len(scene.dry.calls)))
    jumps = {chance.randrange(12): chance.randrange(1, 12) for _ in range(2)}

    def hook(number: int) -> None:
        if number in jumps:
            commit.go(jumps[number])

    try:
        with opened(root, FaultyFiles(read_hook=hook)) as reader:
            facts = reader.memory("ann").list()
    finally:
        commit.end()
    return {f"__default__/{fact.id}": fact.content for fact in facts}


def stretch(name: str, place: Path, rounds: int) -> None:
    """Many such readers; every one sees the bucket before or after."""
    scene = Scene(OPERATIONS[name], place)
    sides = [
        {key: text for key, text in whole.items() if key.startswith("__default__/")}
        for whole in (scene.operation.before, scene.operation.after)
    ]
    chance = random.Random(name)
    for number in range(rounds):
        scene.folder = place / f"round-{number}"
        assert stretched(scene, chance) in sides, number


@pytest.mark.parametrize("name", ["six", "clear"])
def test_readers_stretched_over_a_commit(name: str, place: Path) -> None:
    stretch(name, place, 40)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", OFTEN)
def test_many_stretched_readers(name: str, place: Path) -> None:
    if name not in ("summaries", "evict"):
        stretch(name, place, 1500)


@pytest.mark.parametrize("way", ["context", "document"])
def test_a_summary_and_a_fact_of_one_commit_are_seen_together(way: str, place: Path) -> None:
    """The commit falls before each read of the reader in turn."""
    root = place / "pair"
    with DeerMem(root) as writer:
        memory = writer.memory("u")
        fact = memory.add("Number 0.")
        memory.update_summaries({"workContext": "Number 0."})
        number = 0

        def pair(told: str) -> None:
            memory.apply(ChangeSet([Amend(fact.id, content=told)], summaries={"workContext": told}))

        for stop in range(60):
            reads = 0

            def hook(_: int, stop: int = stop) -> None:
                nonlocal reads, number
                reads += 1
                if reads == stop + 1:
                    number += 1
                    pair(f"Number {number}.")

            with DeerMem(root, files=FaultyFiles(read_hook=hook)) as reader:
                other = reader.memory("u")
                if way == "context":
                    said = set(re.findall(r"Number \d+\.", other.context()))
                else:
                    document = other.document()
                    said = {document["user"]["workContext"]["summary"], document["facts"][0]["content"]}
            assert len(said) == 1, said
            if reads <= stop:
                break
        assert number >= 3
