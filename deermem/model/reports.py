"""What the engine reports to operators and to people with an editor."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from deermem.model.evictions import CONFIDENCE

Severity = Literal["error", "warning", "info"]
UserOutcome = Literal["migrated", "planned", "current", "failed"]
RestoreOutcome = Literal["restored", "planned", "current", "failed"]
WaitingState = Literal["waiting", "urgent", "running", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that `check` saw. `path` is absolute; `fixed` tells whether `--fix` mended it."""

    severity: Severity
    code: str
    path: str
    message: str
    line: int = 0
    hint: str = ""
    fixed: bool = False

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else self.path
        tail = f"; {self.hint}" if self.hint else ""
        return f"{self.severity}: {where}: {self.message}{tail}{' (fixed)' if self.fixed else ''}"


@dataclass(frozen=True, slots=True)
class FactText:
    """A fact's file as it lies on disk, to be edited, and the version token of the fact that it says."""

    data: bytes
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A root made ready for git or a sync client.

    `created` tells whether the folder is new, `written` are absolute paths of files that were made or extended;
    `exclude` are the names that must not travel, at any depth, a folder's with a slash behind.
    """

    root: str
    created: bool
    written: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether there was anything to do."""
        return self.created or bool(self.written)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketStats:
    """One agent bucket of one user, and what the settings at hand make of it.

    `facts` are all that can be read, of which `stale` are past their review window and `expired` wait for the next
    write to delete them. `max_facts` is the cap (0: none), kept by `policy`; `evictions` counts the decisions of the
    cap that the audit has, the last one at `evicted_at`. `bytes` are those of the fact files. `waiting` conversations
    are not extracted yet, `set_aside` ones are not tried any more.
    """

    user_id: str | None
    agent: str
    facts: int
    unreadable: int
    bytes: int
    max_facts: int = 0
    policy: str = CONFIDENCE
    stale: int = 0
    expired: int = 0
    evictions: int = 0
    evicted_at: datetime | None = None
    waiting: int = 0
    set_aside: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """How much there is. `user_id` in a bucket is the raw id where a file tells it, else the folder's name."""

    root: str
    users: int
    buckets: tuple[BucketStats, ...] = ()
    index_bytes: int = 0

    @property
    def facts(self) -> int:
        """All facts of all buckets."""
        return sum(bucket.facts for bucket in self.buckets)

    @property
    def unreadable(self) -> int:
        """All fact files that are not served, and all facts of old documents that can't be migrated."""
        return sum(bucket.unreadable for bucket in self.buckets)

    @property
    def waiting(self) -> int:
        """All conversations that are not extracted yet."""
        return sum(bucket.waiting for bucket in self.buckets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One conversation that is not extracted yet.

    `since` is when its first turn was captured, `due` when it is extracted next, `attempts` how often that failed.
    `state` "failed": it was set aside after the last of them. `turns` counts what was said; the words stay in the file.
    """

    user_id: str | None
    agent: str
    thread_id: str
    state: WaitingState
    since: datetime
    due: datetime
    attempts: int
    turns: int
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """A rebuild's result: `indexed` facts, `failed` files that can't be read, over `users` users."""

    supported: bool
    indexed: int
    failed: int
    users: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was proved from the files of one user, backup by backup.

    `facts` and `summaries` of version 1 stand in version 2 as they were; `changed` names, one line each, those that
    somebody changed or deleted since. `backups` counts the copies that there were to hold against.
    """

    facts: int = 0
    summaries: int = 0
    changed: tuple[str, ...] = ()
    backups: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMigration:
    """One user's result.

    `problems` says why a user stops, and what `verify` found missing; `steps` what a dry run would do, one line each;
    `backups` are absolute paths. `verified` is None where nothing was asked or nothing could be looked at.
    """

    user: str
    outcome: UserOutcome
    facts: int = 0
    backups: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    verified: Verification | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRestore:
    """What became of one user who was to go back to version 1.

    `facts` counts the fact files that went, `documents` are the absolute paths of the documents that came back;
    `problems` says what would be lost, or what else stops it, one line each, `steps` what a dry run would do.
    """

    user: str
    outcome: RestoreOutcome
    facts: int = 0
    documents: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationReport:
    """All users' results, in the order they were taken; `interrupted` where it was stopped before the last one."""

    users: tuple[UserMigration, ...] = field(default=())
    dry_run: bool = False
    interrupted: bool = False

    def count(self, outcome: UserOutcome) -> int:
        """How many users ended so."""
        return sum(1 for user in self.users if user.outcome == outcome)

    @property
    def ok(self) -> bool:
        """Whether no user failed."""
        return self.count("failed") == 0

    def __str__(self) -> str:
        kinds: tuple[UserOutcome, ...] = ("migrated", "planned", "current", "failed")
        return " ".join(f"{kind}={self.count(kind)}" for kind in kinds)
