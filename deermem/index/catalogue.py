"""The catalogue: what is known of each fact file, and the words in it, one SQLite database a user.

It never has the last word. A row says what a file held under a signature; whoever serves from it has compared
that signature with the file's. Methods raise sqlite3.Error; the caller decides whether to skip, rebuild or do
without.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deermem.index import schema
from deermem.index.rows import COLUMNS, LOAD, Row, from_sql, to_sql
from deermem.index.tokens import index_text
from deermem.policy.capacity import Ranked

_PUT: Final = (
    f"INSERT INTO files ({COLUMNS}, rev, length) VALUES ({', '.join('?' * (COLUMNS.count(',') + 3))}) "
    "ON CONFLICT (agent, path) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in (*COLUMNS.split(", ")[2:], "rev", "length"))
    + " RETURNING id"
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
    """What changed in the catalogue since a revision of it: `count` rows are there in all for that agent."""

    identity: str
    rev: int
    rows: tuple[Row, ...]
    count: int


class Catalogue:
    """One open database. Not for two threads at once; whoever holds it brings the lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection = schema.connect(path)
        status = os.stat(path)
        self._file = (status.st_dev, status.st_ino)
        self._process = os.getpid()

    def is_usable(self) -> bool:
        """Whether it is still the database at its path, opened by this process."""
        try:
            status = os.stat(self.path)
        except OSError:
            return False
        return self._process == os.getpid() and (status.st_dev, status.st_ino) == self._file

    def close(self) -> None:
        """Closes the connection; a forked child leaves its parent's alone."""
        if self._process == os.getpid():
            self.connection.close()

    # --- rows

    def identity(self) -> str:
        """The random mark of this database; another one means that everything was dropped meanwhile."""
        return str(self._one("SELECT value FROM meta WHERE key = 'identity'"))

    def pull(self, agent: str, since: int) -> Pulled:
        """The rows of an agent that were written after the catalogue's revision `since`."""
        connection = self.connection
        connection.execute("BEGIN")
        try:
            identity, rev = self.identity(), self._rev()
            rows: list[Row] = []
            if rev > since:
                found = connection.execute(f"SELECT {LOAD} FROM files WHERE agent = ? AND rev > ?", (agent, since))
                rows = [from_sql(agent, values) for values in found]
            count = int(self._one("SELECT count(*) FROM files WHERE agent = ?", (agent,)))
        except (ValueError, KeyError, TypeError) as error:
            raise sqlite3.DatabaseError(f"a row can't be read: {error}") from error
        finally:
            connection.execute("COMMIT")
        return Pulled(identity, rev, tuple(rows), count)

    def paths(self, agent: str) -> set[str]:
        """The paths of all rows of an agent."""
        return {path for (path,) in self.connection.execute("SELECT path FROM files WHERE agent = ?", (agent,))}

    def push(
        self,
        rows: Sequence[Row],
        gone: Iterable[tuple[str, str]] = (),
        *,
        taken_in: tuple[str, Currency] | None = None,
        moved: tuple[Currency, Currency] | None = None,
        wait: bool = True,
    ) -> int | None:
        """Writes rows and removes others (agent, path) with their words, in one transaction.

        `taken_in` stamps an agent with the memory.json that its sweep began at; `moved` is a commit's: every
        agent stamped with the memory.json that it replaced is stamped with its own, no other. Returns the new
        revision of the catalogue; None where somebody else was writing and `wait` is false.
        """
        if not self._begin(wait=wait):
            return None
        connection = self.connection
        try:
            rev = self._rev() + 1
            for agent, path in gone:
                self._remove(agent, path)
            for row in rows:
                self._put(row, rev)
            if taken_in is not None:
                values = (f"current {taken_in[0]}", str(taken_in[1]))
                connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", values)
            if moved is not None:
                old, new = str(moved[0]), str(moved[1])
                connection.execute("UPDATE meta SET value = ? WHERE key LIKE 'current %' AND value = ?", (new, old))
            connection.execute("UPDATE meta SET value = ? WHERE key = 'rev'", (rev,))
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        return rev

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

    def _put(self, row: Row, rev: int) -> None:
        connection = self.connection
        found = connection.execute(
            "SELECT id, hash, fact IS NOT NULL FROM files WHERE agent = ? AND path = ?", (row.agent, row.path)
        ).fetchone()
        unchanged = found is not None and found[1] == row.hash and bool(found[2]) == (row.fact is not None)
        if unchanged and row.problem is None:
            connection.execute(
                "UPDATE files SET dev = ?, ino = ?, size = ?, mtime_ns = ?, ctime_ns = ?, looked_ns = ?, rev = ? "
                "WHERE id = ?",
                (*row.stamp, row.looked_ns, rev, found[0]),
            )
            return
        if found is not None and found[2]:
            connection.execute("DELETE FROM words WHERE rowid = ?", (found[0],))
        body, length = "", 0
        if row.fact is not None:
            body, length = index_text(row.fact.title, row.fact.content, " ".join(row.fact.topics))
        (row_id,) = connection.execute(_PUT, (*to_sql(row), rev, length)).fetchone()
        if row.fact is not None:
            connection.execute("INSERT INTO words (rowid, body) VALUES (?, ?)", (row_id, body))

    def _remove(self, agent: str, path: str) -> None:
        for row_id, has_words in self.connection.execute(
            "SELECT id, fact IS NOT NULL FROM files WHERE agent = ? AND path = ?", (agent, path)
        ).fetchall():
            if has_words:
                self.connection.execute("DELETE FROM words WHERE rowid = ?", (row_id,))
            self.connection.execute("DELETE FROM files WHERE id = ?", (row_id,))

    # --- what a commit decides by

    def is_current(self, agent: str, manifest: Currency) -> bool:
        """Whether the rows of an agent have taken in everything up to this memory.json."""
        return self._one("SELECT value FROM meta WHERE key = ?", (f"current {agent}",)) == str(manifest)

    def by_content(self, agent: str, key: bytes) -> list[str]:
        """Paths of the facts with this content key."""
        return self._paths("SELECT path FROM files WHERE agent = ? AND content_key = ?", (agent, key))

    def by_id(self, agent: str, fact_id: str) -> list[str]:
        """Paths of the files that carry this id, compared without regard to case."""
        return self._paths(
            "SELECT path FROM files WHERE agent = ? AND fact_id = ? COLLATE NOCASE ORDER BY path", (agent, fact_id)
        )

    def count(self, agent: str) -> int:
        """How many readable facts there are."""
        return int(self._one("SELECT count(*) FROM files WHERE agent = ? AND fact_id IS NOT NULL", (agent,)))

    def lowest(self, agent: str, limit: int) -> list[tuple[str, Ranked]]:
        """Path and rank of the facts that the capacity policy would let go first."""
        found = self.connection.execute(
            "SELECT path, fact_id, confidence, created FROM files WHERE agent = ? AND fact_id IS NOT NULL "
            "ORDER BY confidence, created, fact_id LIMIT ?",
            (agent, limit),
        )
        return [(path, Ranked(fact_id, confidence, created)) for path, fact_id, confidence, created in found]

    # --- small things

    def _paths(self, sql: str, values: tuple[object, ...]) -> list[str]:
        return [path for (path,) in self.connection.execute(sql, values)]

    def _rev(self) -> int:
        return int(self._one("SELECT value FROM meta WHERE key = 'rev'"))

    def _one(self, sql: str, values: tuple[object, ...] = ()) -> int | str | bytes:
        row = self.connection.execute(sql, values).fetchone()
        found: int | str | bytes = row[0] if row else 0
        return found
