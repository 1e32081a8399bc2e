"""What tests of full buckets share: a bucket of ten, its sidecars, and a file layer that says what was touched."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

from deermem import DeerMem, Memory, Settings
from deermem.clock import format_timestamp
from deermem.store.files import Files, Seen

CAP = 10


def opened(root: Path, clock, *, files: Files | None = None, **settings: object) -> DeerMem:
    """An engine with room for ten facts a bucket."""
    return DeerMem(root, Settings(**{"max_facts": CAP, **settings}), clock=clock, files=files)  # type: ignore[arg-type]


def item(fact_id: str, confidence: float, now: datetime, *, age: float = 0, confirmed: float | None = None, **keys):
    """A fact as a document has it, created and last confirmed so many days ago."""
    said = {"id": fact_id, "content": f"Content of {fact_id}", "confidence": confidence, **keys}
    said["createdAt"] = format_timestamp(now - timedelta(days=age))
    if confirmed is not None:
        said |= {"lastConfirmedAt": format_timestamp(now - timedelta(days=confirmed)), "confirmationCount": 1}
    return said


def fill(memory: Memory, items: Iterable[dict[str, object]]) -> None:
    """Stores them in one commit, which evicts nobody."""
    assert memory.import_document({"facts": list(items)}).evicted == ()


def ten(now: datetime, **keys) -> list[dict[str, object]]:
    """fact_0 to fact_9, confidence 0.50 to 0.59."""
    return [item(f"fact_{number}", 0.5 + number / 100, now, **keys) for number in range(CAP)]


def ids(memory: Memory) -> list[str]:
    """All facts of a bucket."""
    return [fact.id for fact in memory.list()]


def metadata(root: Path, agent: str = "coder") -> Path:
    """The folder of alice's sidecars."""
    return root / "users/alice/agents" / agent / ".metadata"


def usage(root: Path, agent: str = "coder") -> dict[str, dict[str, object]]:
    """What the usage sidecar says, {} where there is none."""
    path = metadata(root, agent) / "fact-usage.json"
    return json.loads(path.read_bytes()) if path.exists() else {}


def audit(root: Path, agent: str = "coder") -> list[dict[str, object]]:
    """What the audit says, [] where there is none."""
    path = metadata(root, agent) / "eviction-audit.json"
    return json.loads(path.read_bytes()) if path.exists() else []


class TracedFiles(Files):
    """The real file system, which keeps what was read and what was put in place."""

    def __init__(self) -> None:
        self.read_paths: list[str] = []
        self.written: list[str] = []

    def look(self, path: str) -> Seen | None:
        self.read_paths.append(path)
        return super().look(path)

    def rename(self, source: str, target: str) -> None:
        self.written.append(target)
        super().rename(source, target)

    def touched(self, name: str) -> list[str]:
        """Every call about a file of this name."""
        return [path for path in (*self.read_paths, *self.written) if path.endswith(name)]
