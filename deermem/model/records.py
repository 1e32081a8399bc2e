"""What the engine reports: search hits, findings, statistics, index and migration results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypedDict

from deermem.model.fact import Fact

Severity = Literal["error", "warning", "info"]
MatchKind = Literal["fts5", "adapter", "substring"]
QueryForm = Literal["words", "phrases", "operators", "nothing"]
TermWord = Literal["word", "character", "prefix", "phrase"]
AbsenceReason = Literal[
    "found",
    "no-shared-term",
    "filtered",
    "below-limit",
    "not-indexed",
    "expired",
    "unreadable",
    "shadowed",
    "unknown",
]
UserOutcome = Literal["migrated", "planned", "current", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """One fact that a search found; hits come best first. `agent` is the bucket it lies in.

    `match` is who found it: the built-in index, the `adapter` of the settings, or a look through the facts.
    """

    fact: Fact
    score: float
    match: MatchKind
    snippet: str
    agent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a file is not served: said once where it is found, shown by `check`. `line` is 1-based, 0 for none."""

    code: str
    message: str
    line: int = 0
    hint: str = ""


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
        """All fact files that are not served."""
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
    """One user's result. `problems` says why a user stops, one line each; `backups` are absolute paths."""

    user: str
    outcome: UserOutcome
    facts: int = 0
    backups: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFilter:
    """What narrows a search before its limit. Agents None: all of the user; times compare with `updated_at`."""

    agents: tuple[str, ...] | None = None
    category: str | None = None
    topics: tuple[str, ...] = ()
    source_thread: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class Filters(TypedDict, total=False):
    """What every way of searching takes to narrow it; left out or None is no filter.

    `topics` must all be there; `since` and `until` compare with the last change, a naive time is UTC.
    """

    category: str | None
    topics: Sequence[str] | None
    source_thread: str | None
    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryReading:
    """A query as it was understood.

    `words` are looked for, `dropped` are stop words, `operators` are AND, OR and NOT as they stand; `expression` is
    what the index is asked.
    """

    text: str
    form: QueryForm
    words: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    expression: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TermMatch:
    """A term of the query that a hit has: how often, in how many facts of the user, and its BM25 part of the score.

    `facts` is 0 where nobody counted, as for single characters, whose weight is an estimate; `score` is 0 where the
    built-in index did not answer.
    """

    term: str
    kind: TermWord
    times: int
    facts: int = 0
    score: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedHit:
    """A hit and the parts of its score, which add up to it (but for its six decimals).

    `place` counts from 1. `coverage` is what the covered share of the query adds, `recency` what the age adds;
    `confidence` orders the hits of a substring search, else it only parts equals and adds nothing; `adapter` is
    the score that an adapter gave.
    """

    hit: SearchHit
    place: int
    terms: tuple[TermMatch, ...] = ()
    coverage: float = 0.0
    recency: float = 0.0
    confidence: float = 0.0
    adapter: float = 0.0

    @property
    def bm25(self) -> float:
        """The terms' part of the score."""
        return sum(term.score for term in self.terms)

    @property
    def sum(self) -> float:
        """All parts."""
        return self.bm25 + self.coverage + self.recency + self.confidence + self.adapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """Why a fact is not among the hits, in one word and in one sentence; "found" where it is.

    `path` is the file that the sentence is about, absolute; `place` and `score` are set for "found" and
    "below-limit", `filters` names the filters that keep it out.
    """

    fact_id: str
    reason: AbsenceReason
    message: str
    path: str = ""
    place: int = 0
    score: float = 0.0
    filters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A search laid open. `total` is how many facts match before the limit; `why` answers for the fact asked about."""

    query: QueryReading
    hits: tuple[ExplainedHit, ...] = ()
    total: int = 0
    why: Absence | None = None
