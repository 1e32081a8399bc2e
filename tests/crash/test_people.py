"""A person acts between any two calls of a commit, and between a kill and what follows: no hand edit is lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from faults import Fault, FaultyFiles, Killed
from operations import OPERATIONS, opened
from scenes import Scene, journal, state, tree

from deermem import DeerMem
from deermem.errors import DeerMemError
from deermem.format.paths import fact_path
from deermem.model.changes import ChangeSet, Commit
from deermem.model.fact import Draft

Act = Literal["edit", "save", "delete", "make", "revert"]
ACTS: tuple[Act, ...] = ("edit", "save", "delete", "make", "revert")
WORDS = b"A person wrote this.\n"
TARGETS = {
    "create": ("g_1",),
    "update": ("f_a",),
    "delete": ("f_d",),
    "six": ("g_1", "f_a", "f_c"),
    "clear": ("f_a",),
}
PAIRS = [(name, fact_id) for name, ids in TARGETS.items() for fact_id in ids]


@dataclass
class Person:
    """Somebody with an editor, and what stood in the file before the commit and when they acted."""

    path: Path
    act: Act
    before: bytes | None
    found: bytes | None = None
    acted: bool = False

    def __call__(self) -> None:
        """Acts, where there is something to act on."""
        self.found = self.path.read_bytes() if self.path.exists() else None
        words = self.before if self.act == "revert" else WORDS
        if self.found == words or (self.found is None and self.act in ("edit", "save", "delete")):
            return
        if self.found is not None and self.act == "make":
            return
        if self.act == "delete" or words is None:
            self.path.unlink()
        elif self.act in ("save", "revert"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            saved = self.path.with_name(".saved~")
            saved.write_bytes(words)
            os.replace(saved, self.path)
        else:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_bytes(words)
        self.acted = True

    def judge(self, root: Path, after: bytes | None, named: set[str]) -> None:
        """Their word stands in its place, or in a conflict copy that is named; nothing comes back."""
        now = self.path.read_bytes() if self.path.exists() else None
        if self.act in ("edit", "save", "make"):
            kept = [name for name in named if (root / "users/ann" / name).read_bytes() == WORDS]
            assert now == WORDS or kept, f"a hand edit is lost, there is {now!r}"
        elif self.act == "delete":
            assert now is None, f"what a person deleted is back: {now!r}"
        elif self.found == after:
            assert now == self.before, f"a person's revert was undone: {now!r}"


def bystanders(scene: Scene, root: Path, person: Person) -> None:
    """The facts of others are whole: all as before, or all as after (or in a conflict copy)."""
    found = tree(root)
    for name in set(scene.trees[0]) | set(scene.trees[1]):
        if root / name != person.path and not name.endswith("memory.json"):
            assert found.get(name) in (scene.trees[0].get(name), scene.trees[1].get(name)), name


def where(root: Path, fact_id: str) -> Path:
    """The canonical file of a fact in the default bucket."""
    return root / "users/ann" / fact_path("__default__", fact_id)


def bytes_at(scene: Scene, number: int, fact_id: str) -> bytes | None:
    """What a fact's file holds before (0) or after (1) the operation."""
    return scene.trees[number].get(f"users/ann/{fact_path('__default__', fact_id)}")


def live(scene: Scene, fact_id: str, act: Act, at: int, kill: int | None) -> bool:
    """A person acts before call `at`, the process is killed at call `kill`; false where there was nothing to do."""
    root = scene.copy("live")
    person = Person(where(root, fact_id), act, bytes_at(scene, 0, fact_id))

    def hook(number: int) -> None:
        if number == at:
            person()

    files = FaultyFiles(None if kill is None else Fault(kill, "kill"), hook=hook)
    commit = None
    with suppress(Killed, DeerMemError):
        commit = scene.operation.act(opened(root, files))
    if person.acted:
        named = settle(root)
        if isinstance(commit, Commit):
            assert named >= set(commit.conflict_copies)
            assert not kill or kill >= len(files.calls)
            if person.act in ("edit", "save", "make") and not person.path.exists():
                assert commit.conflict_copies, "the commit itself names the copy"
        person.judge(root, bytes_at(scene, 1, fact_id), named)
        bystanders(scene, root, person)
    shutil.rmtree(root)
    return person.acted


def settle(root: Path) -> set[str]:
    """The next holder of the lock; returns the conflict copies that `check` names, below the user's folder."""
    with opened(root) as engine:
        seen = state(engine, every_way=False)
        engine.memory("ann", "writer").apply(ChangeSet([Draft(content="The next write.", id="w_1")]))
        assert state(engine, every_way=False) == {**seen, "writer/w_1": "The next write."}
        engine.memory("ann", "writer").apply(ChangeSet([Draft(content="One more.", id="w_2")]))
        named = {finding.path for finding in engine.check("ann") if finding.code == "conflict-copy"}
    ann = root / "users/ann"
    copies = {name for name in journal(root) if name.startswith("conflict.")}
    assert {str(ann / ".journal" / name) for name in copies} == named
    # A record that a kill tore is set aside; nothing else stays.
    assert copies == {name for name in journal(root) if not name.startswith("set-aside.record.")}
    return {os.path.relpath(path, ann) for path in named}


def thinned(scene: Scene) -> list[tuple[Act, int]]:
    """Each act at some eight calls, every act at others; the soak tests do them all."""
    calls = len(scene.dry.calls)
    step = -(-calls // 8)
    return [(act, at) for first, act in enumerate(ACTS) for at in range(first % step, calls, step)]


@pytest.mark.parametrize(("name", "fact_id"), PAIRS)
def test_during_a_commit(name: str, fact_id: str, place: Path) -> None:
    scene = Scene(OPERATIONS[name], place)
    acted = [live(scene, fact_id, act, at, None) for act, at in thinned(scene)]
    assert sum(acted) > 3


@pytest.mark.parametrize(("name", "fact_id"), [("update", "f_a"), ("delete", "f_d")])
def test_just_before_a_kill(name: str, fact_id: str, place: Path) -> None:
    scene = Scene(OPERATIONS[name], place)
    moments = [(act, at) for act in ACTS for at in range(len(scene.dry.calls) - 1)]
    assert sum(live(scene, fact_id, act, at, at + 1) for act, at in moments) > 3


def after_a_kill(scene: Scene, fact_id: str, act: Act, kill: int, again: int | None = None) -> bool:
    """Killed at a call; then a person acts; then the next holder comes, who may be killed too."""
    root = scene.copy("killed")
    files = FaultyFiles(Fault(kill, "kill"))
    with suppress(Killed):
        scene.operation.act(opened(root, files))
    person = Person(where(root, fact_id), act, bytes_at(scene, 0, fact_id))
    person()
    if person.acted:
        if again is not None:
            with suppress(Killed):
                recover(opened(root, FaultyFiles(Fault(again, "kill"))))
        person.judge(root, bytes_at(scene, 1, fact_id), settle(root))
        bystanders(scene, root, person)
    shutil.rmtree(root)
    return person.acted


def recover(engine: DeerMem) -> None:
    """Takes the lock and nothing else."""
    with engine.context("ann").locked(None):
        pass


@pytest.mark.parametrize(("name", "fact_id"), PAIRS)
def test_between_a_kill_and_the_next_holder(name: str, fact_id: str, place: Path) -> None:
    scene = Scene(OPERATIONS[name], place)
    acted = [after_a_kill(scene, fact_id, act, kill) for act, kill in thinned(scene)]
    assert sum(acted) > 3


def moments(scene: Scene) -> Iterator[tuple[int, int]]:
    """A call before which a person acts, and a later one at which the process is killed."""
    calls = len(scene.dry.calls)
    yield from ((at, kill) for at in range(calls) for kill in range(at, calls))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "fact_id"), PAIRS)
@pytest.mark.parametrize("act", ACTS)
def test_during_a_commit_that_is_killed(act: Act, name: str, fact_id: str, place: Path) -> None:
    scene = Scene(OPERATIONS[name], place)
    thin = 1 if len(scene.dry.calls) < 30 else 7
    acted = [live(scene, fact_id, act, at, kill) for at, kill in list(moments(scene))[::thin]]
    assert len(acted) > 20


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "fact_id"), PAIRS)
@pytest.mark.parametrize("act", ACTS)
def test_a_recovery_that_is_killed_too(act: Act, name: str, fact_id: str, place: Path) -> None:
    scene = Scene(OPERATIONS[name], place)
    kills = range(0, len(scene.dry.calls), 1 if len(scene.dry.calls) < 30 else 3)
    for kill in kills:
        for again in range(0, 30, 2):
            after_a_kill(scene, fact_id, act, kill, again)


def edited_summaries(root: Path) -> Callable[[], None]:
    """A person who corrects a summary in memory.json, with an editor that saves by renaming."""

    def act() -> None:
        path = root / "users/ann/memory.json"
        saved = path.with_name(".memory.json~")
        text = path.read_bytes().replace(b"Surveys bridges.", b"Surveys by hand.")
        saved.write_bytes(text.replace(b"Surveys tunnels.", b"Surveys by hand."))
        os.replace(saved, path)

    return act


@pytest.mark.parametrize("name", ["update", "summaries"])
def test_summaries_edited_during_a_commit(name: str, place: Path) -> None:
    scene = Scene(OPERATIONS[name], place)
    for at in range(len(scene.dry.calls)):
        root = scene.copy("edited")
        person = edited_summaries(root)
        files = FaultyFiles(hook=lambda number, at=at, person=person: person() if number == at else None)
        with suppress(DeerMemError):
            scene.operation.act(opened(root, files))
        named = settle(root)
        texts = [(root / "users/ann" / copy).read_bytes() for copy in named]
        texts.append((root / "users/ann/memory.json").read_bytes())
        assert any(b"Surveys by hand." in text for text in texts), scene.dry.calls[at]
        shutil.rmtree(root)
