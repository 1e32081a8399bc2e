"""One row of the catalogue: a fact file as it was looked at, to SQLite and back."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias, TypedDict

from deermem.index.fold import category_key
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


class Row(NamedTuple):
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
    """A fact and the text that the catalogue has of it; one of the two may be left out, and is made when asked for."""

    __slots__ = ("_held", "id")

    def __init__(self, fact_id: str, held: Fact | str) -> None:
        self.id = fact_id
        # Replaced as a whole: readers ask for the fact, without a lock, while it is being stored.
        self._held: Fact | str | tuple[Fact, str] = held

    @classmethod
    def of(cls, fact: Fact) -> Stored:
        """A fact that was just read."""
        return cls(fact.id, fact)

    @property
    def fact(self) -> Fact:
        """The fact itself, the same object each time until it is let go."""
        held = self._held
        if isinstance(held, str):
            held = self._held = _load(json.loads(held))
        return held[0] if isinstance(held, tuple) else held

    @property
    def said(self) -> str:
        """The fact as the catalogue keeps it."""
        held = self._held
        if isinstance(held, Fact):
            held = self._held = (held, _dump(held))
        return held if isinstance(held, str) else held[1]

    def settle(self, *, lean: bool) -> None:
        """Keeps one of the two, once the text is stored: `lean` the text, which is a quarter of the fact's size."""
        held = self._held
        if isinstance(held, tuple):
            self._held = held[1] if lean else held[0]


def sql_path(path: str) -> str | bytes:
    """A path as the database keeps it: text, or its bytes where a name is no UTF-8 (SQLite would refuse it)."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return path.encode(errors="surrogateescape")
    return path


def path_from_sql(value: str | bytes) -> str:
    """The path again; raises TypeError for what `sql_path` never made."""
    return value if isinstance(value, str) else str(value, errors="surrogateescape")


def sql_stamp(row: Row) -> tuple[int, ...]:
    """The signature as SQLite can hold it; a number beyond 64 bits is lost, and the file is read again for it."""
    if max(row.stamp) < _BEYOND and min(row.stamp) >= -_BEYOND:
        return row.stamp
    return tuple(number if -_BEYOND <= number < _BEYOND else 0 for number in row.stamp)


def to_sql(row: Row) -> tuple[SqlValue, ...]:
    """The values of COLUMNS."""
    fact = row.fact
    said = row.kept.said if isinstance(row.kept, Stored) else _dump(fact) if fact is not None else ""
    flags = _EDITED * row.edited | _DIGEST * row.has_digest | _COMPLETE * row.complete | _checksum(said)
    head = (row.agent, sql_path(row.path), *sql_stamp(row), row.looked_ns, row.hash, flags)
    if fact is None:
        return (*head, None, None, None, None, None, None, None, None, None, None, _dump_problem(row))
    created = fact.created_at.timestamp()
    return (
        *head,
        fact.id,
        content_key(fact.content),
        category_key(fact.category),
        fact.confidence,
        created,
        created if fact.updated_at == fact.created_at else fact.updated_at.timestamp(),
        fact.source.thread_id,
        _json(list(fact.topics)) if fact.topics else "[]",
        fact.expires_at.timestamp() if fact.expires_at else None,
        said,
        _dump_problem(row) if row.problem is not None else None,
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
    if fact is None and problem is None:
        raise ValueError("a file was neither read nor found broken")
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


_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class _Rare(TypedDict, total=False):
    """What few facts have; times are microseconds since 1970."""

    topics: list[str]
    source: dict[str, JsonValue]
    error: str
    days: int
    expires: int
    confirmed: int
    confirmations: int
    origins: list[str]
    consolidated: int
    extra: dict[str, JsonValue]


_Said: TypeAlias = tuple[
    str, str, str | int, str, float, int, int, int, str, str, str | None, str | None, str | None, _Rare
]
"""id, content, title (its length where the content begins with it), category, confidence, created, updated, revision,
version, the source's type and thread, user, agent, then what few facts have; times are microseconds since 1970."""


def _dump(fact: Fact) -> str:
    content, title, source = fact.content, fact.title, fact.source
    created = _micros(fact.created_at)
    said: list[JsonValue] = [
        fact.id,
        content,
        len(title) if content.startswith(title) else title,
        fact.category,
        fact.confidence,
        created,
        created if fact.updated_at == fact.created_at else _micros(fact.updated_at),
        fact.revision,
        fact.version,
        source.type,
        source.thread_id,
        fact.user_id,
        fact.agent_name,
        _dump_rare(fact) if any(_RARE(fact)) or source.extra else {},
    ]
    return _json(said)


_RARE: Final = attrgetter(
    "topics",
    "source_error",
    "expected_valid_days",
    "expires_at",
    "last_confirmed_at",
    "confirmation_count",
    "consolidated_from",
    "consolidated_at",
    "extra",
)


def _dump_rare(fact: Fact) -> JsonObject:
    rare: Mapping[str, JsonValue] = {
        "topics": list(fact.topics),
        "source": dict(fact.source.extra),
        "error": fact.source_error,
        "days": fact.expected_valid_days,
        "expires": _micros(fact.expires_at) if fact.expires_at else None,
        "confirmed": _micros(fact.last_confirmed_at) if fact.last_confirmed_at else None,
        "confirmations": fact.confirmation_count,
        "origins": list(fact.consolidated_from),
        "consolidated": _micros(fact.consolidated_at) if fact.consolidated_at else None,
        "extra": dict(fact.extra),
    }
    # Left out, the first moment of 1970 would be no end at all: the fact would be served again.
    return {key: value for key, value in rare.items() if value is not None and value not in ([], {})}


def _load(said: _Said) -> Fact:
    fact_id, content, title, category, confidence, created, updated, revision, version = said[:9]
    kind, thread, user, agent, rare = said[9:]
    created_at = _moment(created)
    return Fact(
        id=fact_id,
        content=content,
        title=content[:title] if isinstance(title, int) else title,
        category=category,
        confidence=confidence,
        topics=tuple(rare.get("topics", ())),
        source=Source(kind, thread, rare.get("source", {})),
        created_at=created_at,
        updated_at=created_at if updated == created else _moment(updated),
        revision=revision,
        version=version,
        user_id=user,
        agent_name=agent,
        source_error=rare.get("error"),
        expected_valid_days=rare.get("days"),
        expires_at=_moment(rare["expires"]) if "expires" in rare else None,
        last_confirmed_at=_moment(rare["confirmed"]) if "confirmed" in rare else None,
        confirmation_count=rare.get("confirmations"),
        consolidated_from=tuple(rare.get("origins", ())),
        consolidated_at=_moment(rare["consolidated"]) if "consolidated" in rare else None,
        extra=rare.get("extra", {}),
    )


_ZERO: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _micros(moment: datetime) -> int:
    elapsed = moment - _ZERO
    return (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds


def _moment(micros: int) -> datetime:
    seconds, rest = divmod(micros, 1_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.replace(microsecond=rest) if rest else moment
