"""What tests of whole stores share: files placed by hand, and what lies on disk."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OPERATIONAL = frozenset([".retrieval", ".journal", ".memory.lock"])


def tree(folder: Path, *, operational: bool = False) -> dict[str, bytes]:
    """Posix path → content of every file; the index, the journal and the lock only with `operational`."""
    found = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and (operational or OPERATIONAL.isdisjoint(parts)):
            found["/".join(parts)] = path.read_bytes()
    return found


def facts_of(root: Path, user: str | None = "alice", agent: str = "coder") -> Path:
    """The facts folder of a bucket."""
    home = root if user is None else root / "users" / user
    return home / "agents" / agent / "facts"


def shard(fact_id: str) -> str:
    """The folder of a fact below `facts/`."""
    return hashlib.sha256(fact_id.encode()).hexdigest()[:2]


def place(path: Path, text: str | bytes) -> Path:
    """A file as a person's editor leaves it: written whole, folders made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def edit(path: Path, old: str, new: str) -> None:
    """A person's edit in place; the old text must stand in the file."""
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def replace_by_rename(path: Path, old: str, new: str) -> None:
    """An edit as most editors save it: a new file renamed over the old one."""
    text = path.read_text("utf-8")
    assert old in text
    beside = path.with_name(f".{path.name}.swp")
    beside.write_text(text.replace(old, new), "utf-8")
    os.replace(beside, path)


def fact_text(fact_id: str, content: str = "A fact.", **keys: object) -> str:
    """A fact file as an engine of this layout writes it, without digest; `keys` are further lines."""
    lines = {
        "id": fact_id,
        "schemaVersion": 2,
        "category": "context",
        "confidence": 0.8,
        "status": "active",
        "createdAt": "'2026-02-01T09:00:00Z'",
        "updatedAt": "'2026-02-01T09:00:00Z'",
        "revision": 1,
        **keys,
    }
    front = "".join(f"{key}: {value}\n" for key, value in lines.items())
    return f"---\n{front}---\n\n# {content}\n\n{content}\n"


@contextmanager
def ordinary_user() -> Iterator[None]:
    """As a user to whom file modes apply: the superuser becomes nobody for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
