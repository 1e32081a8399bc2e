"""What one process knows of one agent's files, and what that knowledge is worth."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from deermem.clock import Clock
from deermem.format.markdown import Parsed
from deermem.index.rows import Row, Stamp, Stored
from deermem.model.records import Problem
from deermem.model.scope import Scope
from deermem.service.snapshot import Snapshot
from deermem.store.repository import FileState, parse

if TYPE_CHECKING:
    from deermem.store.inotify import FolderWatch

LAST_GOOD_SECONDS: Final = 60
_log: Final = logging.getLogger("deermem.unserved")
_NEVER_LAST_GOOD: Final = ("empty-file", "empty", "wrong-owner")


@dataclass(slots=True)
class Bucket:
    """What this process knows of one agent's files.

    `unstored` are the paths whose row the catalogue lacks, `gone` those whose row it still has; `doubtful` are
    rows from the catalogue that this process has not compared with the disk; `broken` may serve their last good
    version; `watch` is set once the kernel tells; `hidden` are folders that can't be listed; `warned` holds the
    state of each unserved file that the log has named; `lean` lets facts go once they are stored.
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
    sweep_cost: float = 0.0
    watch: FolderWatch | None = None
    hidden: tuple[str, ...] = ()
    has_links: bool = False
    warned: dict[str, bytes] = field(default_factory=dict)
    lean: bool = False

    def warn(self, facts: str) -> None:
        """Names every file that isn't served in the log, once for each state that it is in."""
        if self.snapshot is None:
            return
        states = {row.path: row.hash for row in self.snapshot.unreadable}
        for row in self.snapshot.unreadable:
            if row.problem is not None and self.warned.get(row.path) != row.hash:
                where = f"{facts}/{row.path}" + (f":{row.problem.line}" if row.problem.line else "")
                hint = f"; {row.problem.hint}" if row.problem.hint else ""
                meanwhile = "; what it said before is, for a minute at most" if row.broken_at is not None else ""
                _log.warning("%s is not served: %s%s%s", where, row.problem.message, hint, meanwhile)
        self.warned = states


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


def row_of(state: FileState, old: Row | None, scope: Scope, clock: Clock, hints: Mapping[bytes, Parsed]) -> Row:
    """The row of a file as it was just read; `hints` says what bytes with this SHA-256 read as."""
    stamp: Stamp = (*state.signature,)
    if state.data is None:
        return Row(scope.agent, state.path, stamp, state.looked_ns, b"", None, state.problem)
    digest = hashlib.sha256(state.data).digest()
    # What a hand-made file leaves unsaid comes from its times, which may differ where its text does not.
    if old is not None and old.hash == digest and (old.kept is None or old.complete or old.stamp[3] == stamp[3]):
        return old._replace(stamp=stamp, looked_ns=state.looked_ns)
    parsed, problem = hints.get(digest), None
    if parsed is None:
        parsed, problem = parse(state.data, state.path, scope, modified_ns=state.signature.mtime_ns)
    if parsed is None:
        broken = Row(scope.agent, state.path, stamp, state.looked_ns, digest, None, problem)
        return _with_last_good(broken, old, clock())
    return Row(
        scope.agent,
        state.path,
        stamp,
        state.looked_ns,
        digest,
        Stored.of(parsed.fact),
        edited=parsed.edited,
        has_digest=parsed.has_digest,
        complete=parsed.complete,
    )


def _with_last_good(broken: Row, old: Row | None, now: datetime) -> Row:
    """A half-written file keeps serving what it said before, for a minute at most; an emptied one never."""
    if old is None or old.kept is None or broken.problem is None or broken.problem.code in _NEVER_LAST_GOOD:
        return broken
    # Broken while nobody looked: a file that has lain so for longer is no save under way.
    if old.broken_at is None and broken.looked_ns - broken.stamp[4] > LAST_GOOD_SECONDS * 1_000_000_000:
        return broken
    row = broken._replace(kept=old.kept, broken_at=old.broken_at or now)
    return row if is_still_good(row, now) else broken


def changed_silently(facts: str, bucket: Bucket) -> set[str]:
    """The paths whose files are others than those that their rows were made from; costs a stat each."""
    found = set()
    for path, row in bucket.rows.items():
        try:
            status = os.lstat(f"{facts}/{path}")
        except OSError:
            found.add(path)
            continue
        if row.stamp != (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns):
            found.add(path)
    return found
