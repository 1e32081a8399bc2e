"""What the catalogue has already of files that are about to be written to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from deermem.index.rows import Row, path_from_sql, sql_path

_KNOWN: Final = (
    "SELECT path, id, hash, fact IS NOT NULL, problem IS NOT NULL, looked_ns, rev "
    "FROM files WHERE agent = ? AND path BETWEEN ? AND ?"
)
_MANY: Final = 100


class KnownRow(NamedTuple):
    """A row of the catalogue, as far as a write to it has to know."""

    id: int
    hash: bytes
    has_words: int
    has_problem: int
    looked_ns: int
    rev: int

    def says_the_same(self, row: Row) -> bool:
        """Whether only the signature may differ."""
        # What a hand-made file leaves unsaid comes from its times, which may differ where its text does not.
        sound = row.problem is None and row.complete and not self.has_problem
        return sound and self.hash == row.hash and bool(self.has_words) == (row.kept is not None)


def known_rows(connection: sqlite3.Connection, rows: Sequence[Row]) -> dict[tuple[str, str], KnownRow]:
    """What is stored for these rows: asked one by one for a few, all from the first path to the last for many."""
    if len(rows) < _MANY:
        spans = [_Span(row.agent, path := sql_path(row.path), path) for row in rows]
    else:
        spans = [span for agent in {row.agent for row in rows} for span in _spans(agent, rows)]
    found: dict[tuple[str, str], KnownRow] = {}
    for span in spans:
        for path, *said in connection.execute(_KNOWN, span):
            found[span.agent, path_from_sql(path)] = KnownRow(*said)
    return found


class _Span(NamedTuple):
    """Paths of one agent, both ends included, as the database keeps them."""

    agent: str
    first: str | bytes
    last: str | bytes


def _spans(agent: str, rows: Sequence[Row]) -> Iterator[_Span]:
    paths = [sql_path(row.path) for row in rows if row.agent == agent]
    # SQLite sorts text by its UTF-8, which is the order of its characters; bytes come after all text.
    texts, raw = [path for path in paths if isinstance(path, str)], [path for path in paths if isinstance(path, bytes)]
    if texts:
        yield _Span(agent, min(texts), max(texts))
    if raw:
        yield _Span(agent, min(raw), max(raw))
