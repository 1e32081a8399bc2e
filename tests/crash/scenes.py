"""What must be there after a stop: the store as its readers see it, its files, and the judge of both."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from faults import FaultyFiles
from operations import Operation, State, agent_of, migrate, opened

from deermem import DeerMem, Memory
from deermem.model.changes import ChangeSet
from deermem.model.fact import Draft
from deermem.store.files import Files

AGENTS = ("__default__", "coder", "writer")
KEPT = {"record", "epoch", "turnstile"}


def state(engine: DeerMem, agents: Iterable[str] = AGENTS, *, every_way: bool = True) -> State:
    """The store as its readers see it; `every_way`: lists, single facts, searches and documents must agree."""
    seen: State = {}
    for agent in agents:
        memory = engine.memory("ann", agent_of(agent))
        listed = {fact.id: fact.content for fact in memory.list()}
        if every_way and agent == "__default__":
            _agrees(memory, listed)
        seen |= {f"{agent}/{fact_id}": content for fact_id, content in listed.items()}
    summaries = engine.memory("ann").summaries()
    for name in ("work_context", "top_of_mind"):
        if summaries.section(name).summary:
            seen[f"summary/{name}"] = summaries.section(name).summary
    return seen


def _agrees(memory: Memory, listed: State) -> None:
    facts = memory.document()["facts"]
    assert isinstance(facts, list)
    assert {item["id"]: item["content"] for item in facts} == listed
    assert {fact_id: memory.get(fact_id).content for fact_id in listed} == listed
    hits = memory.search("oboe paper Cycles", top_k=20)
    wanted = [key for key, text in listed.items() if any(word in text for word in ("oboe", "paper", "Cycles"))]
    assert sorted(hit.fact.id for hit in hits) == sorted(wanted)


def tree(root: Path) -> dict[str, bytes]:
    """Every file that is memory or a host's, by path: nothing operational or derived, no sidecars."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        hidden = any(part in name for part in ("/.journal/", "/.retrieval/", "/.metadata/", ".lock", "/.recovery/"))
        if path.is_file() and not hidden and path.name != ".memory.journal.json":
            found[name] = path.read_bytes()
    return found


def revision(root: Path) -> int:
    """The shared revision that memory.json says; 0 where there is none, or an old one without."""
    path = root / "users/ann/memory.json"
    document = json.loads(path.read_bytes()) if path.exists() else {}
    return int(document.get("revision", 0))


def journal(root: Path) -> set[str]:
    """The names below ann's journal that are none of the three that stay."""
    folder = root / "users/ann/.journal"
    return {path.name for path in folder.iterdir()} - KEPT if folder.is_dir() else set()


class Scene:
    """One operation with its store before and after; makes fresh copies of the one before."""

    def __init__(self, operation: Operation, folder: Path) -> None:
        self.operation = operation
        self.folder = folder
        self.template = folder / "template"
        self.template.mkdir(parents=True)
        operation.prepare(self.template)
        self.trees = [tree(self.template)]
        self.revision = revision(self.template)
        done = self.copy("done")
        self.dry = FaultyFiles()
        with self.opened(done, self.dry) as engine:
            operation.act(engine)
        with self.opened(done) as engine:
            assert state(engine) == operation.after
        self.trees.append(tree(done))

    def copy(self, name: str) -> Path:
        """A fresh copy of the store before."""
        target = self.folder / name
        shutil.copytree(self.template, target, symlinks=True)
        return target

    def opened(self, root: Path, files: Files | None = None, *, retrieval: str = "") -> DeerMem:
        """An engine as this operation needs it."""
        return opened(root, files, cap=self.operation.cap, retrieval=retrieval)

    @property
    def allowed(self) -> list[State]:
        """What a reader may see after a stop."""
        return (
            [self.operation.after] if self.operation.act is migrate else [self.operation.before, self.operation.after]
        )

    def judge(
        self, root: Path, allowed: list[State] | None = None, *, conflicts: bool = False, counted: bool = True
    ) -> State:
        """Opens the store, reads, writes twice; fails where a promise is broken. Returns what was read.

        `conflicts`: whether conflict copies and files set aside may lie there. `counted`: whether the shared
        revision must not have gone back.
        """
        stopped_at = revision(root)
        with self.opened(root) as reader:
            seen = state(reader)
            assert seen in (self.allowed if allowed is None else allowed), seen
            writer = reader.memory("ann", "writer")
            writer.apply(ChangeSet([Draft(content="The next write.", id="w_1")]))
            assert state(reader, every_way=False) == {**seen, "writer/w_1": "The next write."}
            self.compare_files(root)
            if counted and self.operation.name != "undo":  # a roll-back takes DeerFlow's own number back
                assert revision(root) > max(self.revision, stopped_at)
            writer.apply(ChangeSet([Draft(content="One more.", id="w_2")]))
            left = journal(root)
            assert {name for name in left if not name.startswith(("conflict.", "set-aside."))} == set()
            assert conflicts or self.operation.name == "undo" or not left, left
            assert [finding for finding in reader.check("ann") if finding.severity == "error"] == []
        return seen

    def compare_files(self, root: Path) -> None:
        """Every file is what it was before or what it is after, byte for byte; memory.json has moved on."""
        found = {name: data for name, data in tree(root).items() if "/agents/writer/" not in name}
        for name in found.keys() | {name for one in self.trees for name in one}:
            if name != "users/ann/memory.json":
                assert found.get(name) in [one.get(name) for one in self.trees], name
