"""What one process knows of one agent's files, and what that knowledge is worth."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from deermem.index.rows import Row
from deermem.model.records import Problem
from deermem.service.snapshot import Snapshot
from deermem.store.inotify import FolderWatch

LAST_GOOD_SECONDS: Final = 60


@dataclass(slots=True)
class Bucket:
    """What this process knows of one agent's files.

    `unstored` are the paths whose row the catalogue lacks, `gone` those whose row it still has; `doubtful` are
    rows from the catalogue that this process has not compared with the disk; `broken` may serve their last good
    version; `watch` is set once the kernel tells; `hidden` are folders that can't be listed.
    """

    rows: dict[str, Row] = field(default_factory=dict)
    unstored: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    identity: str = ""
    rev: int = -1
    snapshot: Snapshot | None = None
    sweeps: int = 0
    swept_at: float = 0.0
    watch: FolderWatch | None = None
    hidden: tuple[str, ...] = ()
    has_links: bool = False


def hidden_row(agent: str, folder: str) -> Row:
    """Stands for a folder that can't be listed, so that it is named; never stored."""
    problem = Problem(code="unreadable", message="the folder can't be listed", hint="check its permissions")
    return Row(agent, folder, (0, 0, 0, 0, 0), 0, b"", None, problem)


def is_settled(row: Row) -> bool:
    """Whether an equal signature proves an equal file; a refused read (permission, descriptors) proves nothing."""
    return row.stamp[4] < row.looked_ns and row.hash != b""


def is_still_good(row: Row, now: datetime) -> bool:
    """Whether a broken file may still serve its last good version."""
    return row.broken_at is not None and abs((now - row.broken_at).total_seconds()) < LAST_GOOD_SECONDS
