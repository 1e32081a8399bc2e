"""One row of the catalogue: a fact file as it was looked at, to SQLite and back."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NotRequired, TypeAlias, TypedDict

from deermem.model.fact import Fact, Source, content_key
from deermem.model.records import Problem
from deermem.model.values import JsonObject, JsonValue

Stamp: TypeAlias = tuple[int, int, int, int, int]
"""dev, ino, size, mtime_ns, ctime_ns."""
SqlValue: TypeAlias = str | int | float | bytes | None

_EDITED: Final = 1
_DIGEST: Final = 2
_COMPLETE: Final = 4
_MARKS: Final = 7
_BEYOND: Final = 1 << 63

COLUMNS: Final = (
    "agent, path, dev, ino, size, mtime_ns, ctime_ns, looked_ns, hash, flags, fact_id, content_key, category, "
    "confidence, created, updated, thread, topics, expires, fact, problem"
)
LOAD: Final = "path, dev, ino, size, mtime_ns, ctime_ns, looked_ns, hash, flags, fact_id, fact, problem"


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """What is known of one file. `path` is below the agent's `facts/`.

    One of `fact` and `problem` is there; both while a half-written file still serves what it said before it was
    seen broken, at `broken_at`. A fact that comes from the catalogue is built when it is first asked for: a search
    in a new process needs ten of ten thousand.
    """

    agent: str
    path: str
    stamp: Stamp
    looked_ns: int
    hash: bytes
    kept: Fact | Stored | None
    problem: Problem | None = None
    edited: bool = False
    has_digest: bool = False
    complete: bool = False
    broken_at: datetime | None = None

    @property
    def fact(self) -> Fact | None:
        """What the file says, None where it can't be served."""
        return self.kept.fact if isinstance(self.kept, Stored) else self.kept

    @property
    def fact_id(self) -> str | None:
        """The fact's id, without building the fact."""
        return self.kept.id if self.kept is not None else None


class Stored:
    """A fact as the catalogue has it."""

    __slots__ = ("_fact", "_said", "id")

    def __init__(self, fact_id: str, said: str) -> None:
        self.id = fact_id
        self._said = said
        self._fact: Fact | None = None

    @property
    def fact(self) -> Fact:
        """The fact itself, the same object each time."""
        if self._fact is None:
            self._fact = _load(json.loads(self._said))
            self._said = ""
        return self._fact


def sql_path(path: str) -> str | bytes:
    """A path as the database keeps it: text, or its bytes where a name is no UTF-8 (SQLite would refuse it)."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return path.encode(errors="surrogateescape")
    return path


def path_from_sql(value: str | bytes) -> str:
    """The path again."""
    return value if isinstance(value, str) else value.decode(errors="surrogateescape")


def sql_stamp(row: Row) -> tuple[int, ...]:
    """The signature as SQLite can hold it; a number beyond 64 bits is lost, and the file is read again for it."""
    return tuple(number if -_BEYOND <= number < _BEYOND else 0 for number in row.stamp)


def to_sql(row: Row) -> tuple[SqlValue, ...]:
    """The values of COLUMNS."""
    fact = row.fact
    said = json.dumps(_dump(fact), ensure_ascii=False) if fact is not None else ""
    flags = _EDITED * row.edited | _DIGEST * row.has_digest | _COMPLETE * row.complete | _checksum(said)
    head = (row.agent, sql_path(row.path), *sql_stamp(row), row.looked_ns, row.hash, flags)
    if fact is None:
        return (*head, None, None, None, None, None, None, None, None, None, None, _dump_problem(row))
    return (
        *head,
        fact.id,
        content_key(fact.content),
        fact.category.casefold(),
        fact.confidence,
        fact.created_at.timestamp(),
        fact.updated_at.timestamp(),
        fact.source.thread_id,
        json.dumps(fact.topics, ensure_ascii=False) if fact.topics else "[]",
        fact.expires_at.timestamp() if fact.expires_at else None,
        said,
        _dump_problem(row),
    )


def _dump_problem(row: Row) -> str | None:
    problem = row.problem
    if problem is None:
        return None
    broken_at = _micros(row.broken_at) if row.broken_at else None
    return json.dumps([problem.code, problem.message, problem.line, problem.hint, broken_at])


def from_sql(agent: str, values: tuple[Any, ...]) -> Row:
    """From the values of LOAD; raises ValueError, KeyError or TypeError for a row that nobody here wrote."""
    path, dev, ino, size, mtime, ctime, looked, digest, flags, fact_id, fact, problem = values
    if fact is not None and (flags & ~_MARKS) != _checksum(fact):
        raise ValueError("a fact was damaged")
    said = json.loads(problem) if problem is not None else None
    return Row(
        agent,
        path_from_sql(path),
        (dev, ino, size, mtime, ctime),
        looked,
        digest,
        Stored(fact_id, fact) if fact is not None else None,
        Problem(code=said[0], message=said[1], line=said[2], hint=said[3]) if said else None,
        bool(flags & _EDITED),
        bool(flags & _DIGEST),
        bool(flags & _COMPLETE),
        _moment(said[4]) if said and said[4] is not None else None,
    )


def _checksum(said: str) -> int:
    """Above the marks in `flags`: a damaged text is noticed when it is loaded, not when it is built."""
    return zlib.crc32(said.encode(errors="surrogatepass")) << 3 if said else 0


class _Said(TypedDict):
    """A fact in the catalogue; times are microseconds since 1970."""

    id: str
    content: str
    title: str
    category: str
    confidence: float
    created: int
    updated: int
    revision: int
    version: str
    source: tuple[str, str | None, dict[str, JsonValue]]
    owner: tuple[str | None, str | None]
    topics: NotRequired[list[str]]
    error: NotRequired[str]
    days: NotRequired[int]
    expires: NotRequired[int]
    confirmed: NotRequired[int]
    confirmations: NotRequired[int]
    origins: NotRequired[list[str]]
    consolidated: NotRequired[int]
    extra: NotRequired[dict[str, JsonValue]]


def _dump(fact: Fact) -> JsonObject:
    said: JsonObject = {
        "id": fact.id,
        "content": fact.content,
        "title": fact.title,
        "category": fact.category,
        "confidence": fact.confidence,
        "created": _micros(fact.created_at),
        "updated": _micros(fact.updated_at),
        "revision": fact.revision,
        "version": fact.version,
        "source": [fact.source.type, fact.source.thread_id, dict(fact.source.extra)],
        "owner": [fact.user_id, fact.agent_name],
    }
    optional: Mapping[str, JsonValue] = {
        "topics": list(fact.topics),
        "error": fact.source_error,
        "days": fact.expected_valid_days,
        "expires": _micros(fact.expires_at) if fact.expires_at else None,
        "confirmed": _micros(fact.last_confirmed_at) if fact.last_confirmed_at else None,
        "confirmations": fact.confirmation_count,
        "origins": list(fact.consolidated_from),
        "consolidated": _micros(fact.consolidated_at) if fact.consolidated_at else None,
        "extra": dict(fact.extra),
    }
    said.update({key: value for key, value in optional.items() if value})
    return said


def _load(said: _Said) -> Fact:
    kind, thread, extra = said["source"]
    user, agent = said["owner"]
    return Fact(
        id=said["id"],
        content=said["content"],
        title=said["title"],
        category=said["category"],
        confidence=said["confidence"],
        topics=tuple(said.get("topics", ())),
        source=Source(kind, thread, extra),
        created_at=_moment(said["created"]),
        updated_at=_moment(said["updated"]),
        revision=said["revision"],
        version=said["version"],
        user_id=user,
        agent_name=agent,
        source_error=said.get("error"),
        expected_valid_days=said.get("days"),
        expires_at=_moment(said["expires"]) if "expires" in said else None,
        last_confirmed_at=_moment(said["confirmed"]) if "confirmed" in said else None,
        confirmation_count=said.get("confirmations"),
        consolidated_from=tuple(said.get("origins", ())),
        consolidated_at=_moment(said["consolidated"]) if "consolidated" in said else None,
        extra=said.get("extra", {}),
    )


_ZERO: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _micros(moment: datetime) -> int:
    elapsed = moment - _ZERO
    return (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds


def _moment(micros: int) -> datetime:
    seconds, rest = divmod(micros, 1_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.replace(microsecond=rest) if rest else moment
