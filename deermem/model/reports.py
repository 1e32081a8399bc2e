"""What the engine reports to operators and to people with an editor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["error", "warning", "info"]
UserOutcome = Literal["migrated", "planned", "current", "failed"]


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
    """One agent bucket of one user."""

    user_id: str | None
    agent: str
    facts: int
    unreadable: int
    bytes: int


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


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """A rebuild's result: `indexed` facts, `failed` files that can't be read, over `users` users."""

    supported: bool
    indexed: int
    failed: int
    users: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMigration:
    """One user's result.

    `problems` says why a user stops, `steps` what a dry run would do, one line each; `backups` are absolute paths.
    """

    user: str
    outcome: UserOutcome
    facts: int = 0
    backups: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationReport:
    """All users' results, in the order they were taken."""

    users: tuple[UserMigration, ...] = field(default=())
    dry_run: bool = False

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
