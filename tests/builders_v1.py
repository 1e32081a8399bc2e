"""Small v1 stores for tests, with made-up data, in memory and in real folders; and plans of them."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deermem.errors import DeerMemError
from deermem.format import markdown
from deermem.migrate.place import UserPlace
from deermem.migrate.plan import UserPlan, plan_user
from deermem.model.fact import Fact

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
ANN = UserPlace(folder="ann", user_id="ann")
V2 = b'{"version": "2.0", "revision": 3, "lastUpdated": "", "user": {}, "history": {}}'
LEAD_USAGE = "agents/lead-agent/.metadata/fact-usage.json"
LEAD = "agents/lead-agent/facts/2b/fact_u1.md"


class MemoryFiles:
    """One user's folder as a mapping from posix path to content."""

    def __init__(self, files: Mapping[str, bytes | str] | None = None) -> None:
        given = (files or {}).items()
        self.files = {path: data.encode() if isinstance(data, str) else data for path, data in given}
        self.reads: list[str] = []

    def read(self, path: str) -> bytes | None:
        self.reads.append(path)
        return self.files.get(path)

    def listdir(self, path: str) -> list[tuple[str, bool]]:
        prefix = f"{path}/" if path else ""
        inner = [name.removeprefix(prefix) for name in self.files if name.startswith(prefix)]
        return sorted({(name.split("/")[0], "/" in name) for name in inner})


class FolderFiles:
    """One user's folder on disk; symbolic links are not followed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, path: str) -> bytes | None:
        file = self.folder / path
        is_file = file.exists() and stat.S_ISREG(file.lstat().st_mode)
        return file.read_bytes() if is_file else None

    def listdir(self, path: str) -> list[tuple[str, bool]]:
        folder = self.folder / path
        if not folder.is_dir():
            return []
        return [(entry.name, entry.is_dir() and not entry.is_symlink()) for entry in folder.iterdir()]


def v1_fact(fact_id: str = "fact_1", content: str = "Ann plays the cello.", **fields: object) -> dict[str, object]:
    """A v1 fact with everything that v1 wrote; None as a value leaves a field out."""
    item: dict[str, object] = {
        "id": fact_id,
        "content": content,
        "category": "context",
        "confidence": 0.8,
        "createdAt": "2026-02-01T09:00:00Z",
        "source": "thread-1",
        **fields,
    }
    return {key: value for key, value in item.items() if value is not None}


def v1_document(*facts: object, version: object = "1.0", work: str = "", **fields: object) -> dict[str, object]:
    """A v1 document with these facts; `work` is the workContext summary."""
    return {
        "version": version,
        "lastUpdated": "2026-03-28T10:30:00Z",
        "user": {"workContext": {"summary": work, "updatedAt": "2026-01-05T00:00:00Z" if work else ""}},
        "history": {},
        "facts": list(facts),
        **fields,
    }


def as_json(document: object) -> bytes:
    """A document as v1 wrote it."""
    return json.dumps(document, ensure_ascii=False, indent=2).encode()


def old_fact_file(fact_id: str, content: str, *, user: str = "ann", agent: str = "lead-agent") -> bytes:
    """A fact file of an older release: no digest."""
    head = f"id: {fact_id}\nschemaVersion: 2\ncategory: context\nconfidence: 0.8\nstatus: active\ntopics: []\n"
    origin = "source:\n  type: conversation\n  threadId: t-1\nrevision: 2\n"
    times = "createdAt: '2026-02-01T09:00:00Z'\nupdatedAt: '2026-02-02T09:00:00Z'\n"
    return f"---\n{head}{origin}{times}user_id: {user}\nagent_name: {agent}\n---\n\n# {content}\n\n{content}\n".encode()


def write_store(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Puts files into a real folder; returns it."""
    for path, data in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return folder


def plan(files: dict[str, bytes], place: UserPlace = ANN, only_agent: str | None = None) -> UserPlan:
    """The plan of one user's folder, ann's unless said otherwise."""
    return plan_user(MemoryFiles(files), place, now=NOW, only_agent=only_agent)


def one(*facts: object, **fields: object) -> dict[str, bytes]:
    """A folder with nothing but a v1 memory.json of these facts."""
    return {"memory.json": as_json(v1_document(*facts, **fields))}


def created(done: UserPlan) -> dict[str, Fact]:
    """Path → fact of every fact file that the plan creates."""
    changes = [change for change in done.changes if change.after is not None and change.path.endswith(".md")]
    assert all(change.before is None for change in changes)
    return {
        change.path: markdown.decode(change.after or b"", stem=change.path.split("/")[-1][:-3], when=NOW).fact
        for change in changes
    }


def stop(error: type[DeerMemError], files: dict[str, bytes], *words: str, only_agent: str | None = None) -> str:
    """Asserts that planning stops so, in one line that holds the words, with nothing touched; gives the message."""
    memory = MemoryFiles(files)
    with pytest.raises(error) as caught:
        plan_user(memory, ANN, now=NOW, only_agent=only_agent)
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in words), message
    assert memory.files == files
    return message
