"""The catalogue: what is known of each fact file, and the words in it, one SQLite database a user.

It never has the last word. A row says what a file held under a signature; whoever serves from it has compared
that signature with the file's. Methods raise sqlite3.Error; the caller decides whether to skip, rebuild or do
without.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from deermem.index import schema
from deermem.index.known_rows import known_rows
from deermem.index.rows import (
    COLUMNS,
    LOAD,
    Row,
    SqlValue,
    from_sql,
    path_from_sql,
    sql_path,
    sql_stamp,
    to_sql,
)
from deermem.index.tokens import index_text
from deermem.model.fact import Fact
from deermem.policy.capacity import Ranked

_NAMES: Final = ("id", *COLUMNS.split(", "), "rev", "length")
_PUT: Final = f"INSERT OR REPLACE INTO files ({', '.join(_NAMES)}) VALUES ({', '.join('?' * len(_NAMES))})"
_RESTAMP: Final = (
    "UPDATE files SET dev = ?, ino = ?, size = ?, mtime_ns = ?, ctime_ns = ?, looked_ns = ?, rev = ? WHERE id = ?"
)


@dataclass(frozen=True, slots=True)
class Currency:
    """The memory.json that the catalogue has taken in: in which boot, and which file it was."""

    boot: str
    revision: int
    ino: int
    ctime_ns: int

    def __str__(self) -> str:
        return f"{self.boot} {self.revision} {self.ino} {self.ctime_ns}"


@dataclass(frozen=True, slots=True)
class Pulled:
    """What changed in the catalogue since a revision of it: `count` rows are there in all for that agent.

    None where nothing was written since: counting costs as much as there are rows.
    """

    identity: str
    rev: int
    rows: tuple[Row, ...]
    count: int | None


class Basis(NamedTuple):
    """What of the catalogue a writer of rows has taken in; a revision of -1: nothing."""

    identity: str
    rev: int


_NOTHING: Final = Basis("", -1)


@dataclass(frozen=True, slots=True)
class Pushed:
    """The catalogue's new revision; `left` are paths left alone, as somebody wrote them from no earlier look."""

    rev: int
    left: frozenset[str] = frozenset()


class Catalogue:
    """One open database. Not for two threads at once; whoever holds it brings the lock."""

    def __init__(self, path: Path, *, wal: bool = True, read_only: bool = False) -> None:
        """`read_only`: as it is on disk, nothing is made or mended, and `push` writes nothing."""
        self.path = path
        self.read_only = read_only
        self.connection = schema.connect_to_read(path) if read_only else schema.connect(path, wal=wal)
        self._end = schema.ended_with(self, self.connection)
        status = os.stat(path)
        self._file = (status.st_dev, status.st_ino)
        self._process = os.getpid()
        self._finished = ""
        self._written_by_others = schema.data_version(self.connection)
        self._counted: dict[str, int] = {}

    def is_usable(self) -> bool:
        """Whether it is still the database at its path, opened by this process."""
        try:
            status = os.stat(self.path)
        except OSError:
            return False
        return self._process == os.getpid() and (status.st_dev, status.st_ino) == self._file

    def close(self) -> None:
        """Closes the connection; a forked child leaves its parent's alone."""
        self._end()

    # --- rows

    def identity(self) -> str:
        """The random mark of this database; another one means that everything was dropped meanwhile."""
        return str(self._one("SELECT value FROM meta WHERE key = 'identity'"))

    def finished(self) -> str:
        """The identity; the indexes that a fill goes without are made, unless somebody is writing this instant."""
        identity = self.identity()
        if self.read_only or identity == self._finished:
            return identity
        if schema.lacks_indexes(self.connection):
            if not self._begin(wait=False):
                return identity
            with self._transaction():
                schema.make_indexes(self.connection)
        self._finished = identity
        return identity

    def start_over(self) -> bool:
        """Drops every row, in one transaction; true, for a result that tells it was done."""
        schema.start_over(self.connection)
        return True

    def pull(self, agent: str, since: int) -> Pulled:
        """The rows of an agent that were written after the catalogue's revision `since`."""
        self._mend()
        connection = self.connection
        connection.execute("BEGIN")
        try:
            identity, rev = self.identity(), self._rev()
            rows: list[Row] = []
            count = None
            if rev > since:
                found = connection.execute(f"SELECT {LOAD} FROM files WHERE agent = ? AND rev > ?", (agent, since))
                rows = [from_sql(agent, values) for values in found]
            # Rows that somebody removed by hand leave no later revision.
            if rev > since or self._counted.get(agent) != self._written_by_others:
                count = int(self._one("SELECT count(*) FROM files WHERE agent = ?", (agent,)))
                self._counted[agent] = self._written_by_others
        except (ValueError, KeyError, TypeError) as error:
            raise sqlite3.DatabaseError(f"a row can't be read: {error}") from error
        finally:
            schema.roll_back(connection)
        return Pulled(identity, rev, tuple(rows), count)

    def _mend(self) -> None:
        version = schema.data_version(self.connection)
        if version != self._written_by_others:
            schema.mend(self.connection, read_only=self.read_only)
            self._written_by_others = version

    def paths(self, agent: str) -> set[str]:
        """The paths of all rows of an agent."""
        return set(self._paths("SELECT path FROM files WHERE agent = ?", (agent,)))

    def push(  # noqa: PLR0913 - four are keyword-only
        self,
        rows: Sequence[Row],
        gone: Iterable[tuple[str, str]] = (),
        *,
        basis: Basis = _NOTHING,
        taken_in: tuple[str, Currency] | None = None,
        moved: tuple[Currency, Currency] | None = None,
        wait: bool = True,
    ) -> Pushed | None:
        """Writes rows and removes others (agent, path) with their words, in one transaction.

        `taken_in` stamps an agent with the memory.json that its sweep began at, unless the rows that the sweep knew
        of (`basis`) were dropped since; `moved` is a commit's: every agent stamped with the memory.json that it
        replaced is stamped with its own, no other. Neither where a row was left alone. None where it is read-only,
        or somebody else was writing and `wait` is false.
        """
        if self.read_only or not self._begin(wait=wait):
            return None
        connection = self.connection
        with self._transaction():
            rev = self._rev() + 1
            same = basis.identity == self.identity()
            left = {path for agent, path in gone if not self._remove(agent, path, basis.rev if same else rev)}
            left |= self._put(rows, rev, basis.rev if same else -1)
            if taken_in is not None and same and not left:
                values = (f"current {taken_in[0]}", str(taken_in[1]))
                connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", values)
            if moved is not None and not left:
                old, new = str(moved[0]), str(moved[1])
                connection.execute("UPDATE meta SET value = ? WHERE key LIKE 'current %' AND value = ?", (new, old))
            connection.execute("UPDATE meta SET value = ? WHERE key = 'rev'", (rev,))
        return Pushed(rev, frozenset(left))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Ends what `_begin` began."""
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            schema.roll_back(self.connection)
            raise

    def _begin(self, *, wait: bool) -> bool:
        connection = self.connection
        if not wait:
            connection.execute("PRAGMA busy_timeout = 0")
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                return False
            raise
        finally:
            if not wait:
                connection.execute(f"PRAGMA busy_timeout = {int(schema.BUSY_SECONDS * 1000)}")
        return True

    def _put(self, rows: Sequence[Row], rev: int, since: int) -> set[str]:
        """Rows and their words, new and changed alike; only the signature where the text is the same.

        Gives the paths that it left alone: written after `since`, from a look at the file that was no earlier.
        """
        known = known_rows(self.connection, rows)
        left: set[str] = set()
        next_id = int(self._one("SELECT coalesce(max(id), 0) FROM files")) + 1
        put: list[tuple[SqlValue, ...]] = []
        words: list[tuple[int, str]] = []
        restamped: list[tuple[int, ...]] = []
        replaced: list[tuple[int]] = []
        for row in rows:
            old = known.get((row.agent, row.path))
            if old is not None and old.rev > since and old.looked_ns >= row.looked_ns:
                if not old.says_the_same(row):
                    left.add(row.path)
                continue
            if old is not None and old.says_the_same(row):
                restamped.append((*sql_stamp(row), row.looked_ns, rev, old.id))
                continue
            if old is not None and old.has_words:
                replaced.append((old.id,))
            row_id = old.id if old is not None else next_id
            next_id += old is None
            body, length = _words_of(row.fact)
            put.append((row_id, *to_sql(row), rev, length))
            if row.fact is not None:
                words.append((row_id, body))
        self.connection.executemany(_RESTAMP, restamped)
        self.connection.executemany("DELETE FROM words WHERE rowid = ?", replaced)
        self.connection.executemany(_PUT, put)
        self.connection.executemany("INSERT INTO words (rowid, body) VALUES (?, ?)", words)
        return left

    def _remove(self, agent: str, path: str, since: int) -> bool:
        """False where the row was written after `since`: the file may have come back."""
        for row_id, has_words, rev in self.connection.execute(
            "SELECT id, fact IS NOT NULL, rev FROM files WHERE agent = ? AND path = ?", (agent, sql_path(path))
        ).fetchall():
            if rev > since >= 0:
                return False
            if has_words:
                self.connection.execute("DELETE FROM words WHERE rowid = ?", (row_id,))
            self.connection.execute("DELETE FROM files WHERE id = ?", (row_id,))
        return True

    # --- what a commit decides by

    def is_current(self, agent: str, manifest: Currency) -> bool:
        """Whether the rows of an agent have taken in everything up to this memory.json."""
        return self._one("SELECT value FROM meta WHERE key = ?", (f"current {agent}",)) == str(manifest)

    def by_content(self, agent: str, key: bytes) -> list[str]:
        """Paths of the facts with this content key."""
        return self._paths("SELECT path FROM files WHERE agent = ? AND content_key = ?", (agent, key))

    def contents(self, agent: str) -> dict[bytes, list[str]]:
        """All content keys, with the paths of the facts that have them."""
        found: dict[bytes, list[str]] = {}
        for key, path in self.connection.execute(
            "SELECT content_key, path FROM files WHERE agent = ? AND content_key IS NOT NULL", (agent,)
        ):
            found.setdefault(key, []).append(path_from_sql(path))
        return found

    def by_id(self, agent: str, fact_id: str) -> list[str]:
        """Paths of the files that carry this id, compared without regard to case."""
        # Ordered by SQLite, this would walk all of the agent's rows in path order.
        return sorted(
            self._paths("SELECT path FROM files WHERE agent = ? AND fact_id = ? COLLATE NOCASE", (agent, fact_id))
        )

    def ids(self, agent: str) -> set[str]:
        """All ids, in lower case."""
        found = self.connection.execute(
            "SELECT lower(fact_id) FROM files WHERE agent = ? AND fact_id IS NOT NULL", (agent,)
        )
        return {fact_id for (fact_id,) in found}

    def count(self, agent: str) -> int:
        """How many readable facts there are; files that share an id are one."""
        # A plain count(DISTINCT …) would sort them all.
        by_id = "SELECT 1 FROM files WHERE agent = ? AND fact_id IS NOT NULL GROUP BY fact_id COLLATE NOCASE"
        return int(self._one(f"SELECT count(*) FROM ({by_id})", (agent,)))

    def lowest(self, agent: str, limit: int) -> list[tuple[str, Ranked]]:
        """Path and rank of the facts that the capacity policy would let go first."""
        found = self.connection.execute(
            "SELECT path, fact_id, confidence, created FROM files WHERE agent = ? AND fact_id IS NOT NULL "
            "ORDER BY confidence, created, fact_id LIMIT ?",
            (agent, limit),
        )
        return [
            (path_from_sql(path), Ranked(str(fact_id), float(confidence), float(created)))
            for path, fact_id, confidence, created in found
        ]

    def expired(self, agent: str, now: float) -> list[str]:
        """Paths of the facts that expired by `now` (unix seconds)."""
        due = "SELECT path FROM files WHERE agent = ? AND expires IS NOT NULL AND expires <= ?"
        return sorted(self._paths(due, (agent, now)))

    # --- small things

    def _paths(self, sql: str, values: tuple[object, ...]) -> list[str]:
        return [path_from_sql(path) for (path,) in self.connection.execute(sql, values)]

    def _rev(self) -> int:
        return int(self._one("SELECT value FROM meta WHERE key = 'rev'"))

    def _one(self, sql: str, values: tuple[object, ...] = ()) -> int | str | bytes:
        row = self.connection.execute(sql, values).fetchone()
        found: int | str | bytes = row[0] if row else 0
        return found


def _words_of(fact: Fact | None) -> tuple[str, int]:
    return index_text(fact.title, fact.content, " ".join(fact.topics)) if fact is not None else ("", 0)
