"""A query → the best facts of one user's index; and the same query over facts when there is no index."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from deermem.index.expression import holds
from deermem.index.fold import fold
from deermem.index.query import Query, Term, parse_query
from deermem.index.ranking import Candidate, Statistics, rank
from deermem.index.tokens import index_text
from deermem.model.fact import Fact
from deermem.model.records import SearchFilter

LEAST_CANDIDATES: Final = 100


@dataclass(frozen=True, slots=True)
class Found:
    """One hit. `path` is the file's path in its agent's folder; `score` compares within one search only."""

    row_id: int
    agent: str
    path: str
    fact_id: str
    score: float


def search(connection: sqlite3.Connection, query: Query, *, where: SearchFilter, top_k: int, now: float) -> list[Found]:
    """At most `top_k` hits, best first. Facts that expired by `now` (unix seconds) are never found."""
    if query.is_empty or top_k <= 0:
        return []
    condition, values = _condition(connection, where, now)
    rows = connection.execute(
        _CANDIDATES.format(condition=condition), (query.match, *values, max(LEAST_CANDIDATES, 2 * top_k))
    ).fetchall()
    names = {row[0]: row for row in rows}
    candidates = [Candidate(row[0], *row[4:]) for row in rows]
    if not candidates:
        return []
    ranked = rank(candidates, query.terms, _statistics(connection, query.terms, candidates), now)
    best = ((score, names[item.row_id]) for score, item in ranked[:top_k])
    return [Found(row[0], row[1], row[2], row[3], score) for score, row in best]


def count(connection: sqlite3.Connection, query: Query, where: SearchFilter, *, now: float | None = None) -> int:
    """How many facts match; with `now`, those that expired by then are left out, as in `search`."""
    if query.is_empty:
        return 0
    condition, values = _condition(connection, where, now)
    (found,) = connection.execute(_COUNT.format(condition=condition), (query.match, *values)).fetchone()
    return int(found)


def substring_rank(
    text: str, facts: Sequence[Fact], where: SearchFilter, top_k: int, *, now: float | None = None
) -> list[Fact]:
    """The search without an index: at most `top_k` of the facts, confidence descending, equals in the given order.

    A fact matches that holds the folded text; where none does, one that the query matches token by token, so that
    `phase-2` finds `Phase 2` here as well. The facts are those of the buckets to search, so `where.agents` is not
    asked; all other filters come before the cut, and with `now` facts that expired by then are left out.
    """
    found = whole_text_rank(text, facts, where, top_k, now=now)
    expression = parse_query(text).expression
    if found or expression is None:
        return found
    matching = [fact for fact in facts if _passes(fact, where, now) and holds(expression, _body(fact))]
    return _most_confident(matching, top_k)


def whole_text_rank(
    text: str, facts: Sequence[Fact], where: SearchFilter, top_k: int, *, now: float | None = None
) -> list[Fact]:
    """`substring_rank` without its second step: for where an index has said already that no token matches."""
    if parse_query(text).is_empty:
        return []
    needle = " ".join(fold(text).split())
    found = [fact for fact in facts if _passes(fact, where, now) and needle in " ".join(fold(fact.content).split())]
    return _most_confident(found, top_k)


def _most_confident(facts: Sequence[Fact], top_k: int) -> list[Fact]:
    return sorted(facts, key=lambda fact: -fact.confidence)[: max(top_k, 0)]


def _body(fact: Fact) -> str:
    return index_text(fact.title, fact.content, " ".join(fact.topics))[0]


def _passes(fact: Fact, where: SearchFilter, now: float | None) -> bool:
    topics = {fold(topic) for topic in fact.topics}
    return (
        (now is None or fact.expires_at is None or fact.expires_at.timestamp() > now)
        and (where.category is None or fact.category.lower() == where.category.strip().lower())
        and (where.source_thread is None or fact.source.thread_id == where.source_thread)
        and (where.since is None or fact.updated_at >= where.since)
        and (where.until is None or fact.updated_at <= where.until)
        and all(fold(topic) in topics for topic in where.topics)
    )


_FREQUENCY: Final = "SELECT count(*) FROM words WHERE words MATCH ?"
_MATCHING: Final = "FROM words CROSS JOIN files ON files.id = words.rowid WHERE words MATCH ?{condition}"
_COUNT: Final = f"SELECT count(*) {_MATCHING}"
_CANDIDATES: Final = f"""
    SELECT files.id, files.agent, files.path, coalesce(files.fact_id, ''), words_content.c0, coalesce(files.length, 0),
           coalesce(files.updated, 0.0), coalesce(files.confidence, 0.5)
    FROM (SELECT words.rowid AS id {_MATCHING} ORDER BY words.rank, files.updated DESC LIMIT ?) AS best
    CROSS JOIN files ON files.id = best.id CROSS JOIN words_content ON words_content.id = best.id
"""


def _condition(connection: sqlite3.Connection, where: SearchFilter, now: float | None) -> tuple[str, list[str | float]]:
    """The filter as SQL after MATCH: only fixed text; every value is a parameter."""
    parts: list[str] = []
    values: list[str | float] = []

    def require(part: str, *given: str | float) -> None:
        parts.append(f" AND {part}")
        values.extend(given)

    if now is not None:
        require("(files.expires IS NULL OR files.expires > ?)", now)
    if where.agents is not None:
        require(f"files.agent IN ({', '.join('?' * len(where.agents))})", *where.agents)
    if where.category is not None:
        require("files.category = ?", where.category.strip().lower())
    if where.source_thread is not None:
        require("files.thread = ?", where.source_thread)
    if where.since is not None:
        require("files.updated >= ?", where.since.timestamp())
    if where.until is not None:
        require("files.updated <= ?", where.until.timestamp())
    if where.topics:
        connection.create_function("deermem_fold", 1, _fold_value, deterministic=True)
    for topic in where.topics:
        require(_HAS_TOPIC, fold(topic))
    return "".join(parts), values


def _fold_value(value: object) -> str:
    return fold(str(value))


_HAS_TOPIC: Final = (
    "EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(files.topics) THEN files.topics ELSE '[]' END) AS topic"
    " WHERE deermem_fold(topic.value) = ?)"
)


def _statistics(connection: sqlite3.Connection, terms: Sequence[Term], candidates: Sequence[Candidate]) -> Statistics:
    facts, tokens = _totals(connection)
    if not facts:
        facts, tokens = len(candidates), sum(item.length for item in candidates)
    return Statistics(max(facts, len(candidates)), tokens / facts, _frequencies(connection, terms))


def _frequencies(connection: sqlite3.Connection, terms: Sequence[Term]) -> dict[Term, int]:
    """How many facts have each term. Counting a Han character's facts costs as much as the whole search, so it is

    taken to stand in three times as many facts as the query's pairs around it: measured, that ranks the same.
    """
    counted = {term: _frequency(connection, term) for term in terms if term.kind != "character"}
    frequencies = dict(counted)
    for term in terms:
        if term.kind == "character":
            around = sum(found for other, found in counted.items() if term.text in other.text)
            frequencies[term] = 3 * around + 1 if around else _frequency(connection, term)
    return frequencies


def _frequency(connection: sqlite3.Connection, term: Term) -> int:
    star = "*" if term.kind in ("character", "prefix") else ""
    (found,) = connection.execute(_FREQUENCY, (f'"{term.text}"{star}',)).fetchone()
    return int(found)


def _totals(connection: sqlite3.Connection) -> tuple[int, int]:
    """Number of rows and of tokens, from the averages record that FTS5 keeps: two variable-length integers."""
    row = connection.execute("SELECT block FROM words_data WHERE id = 1").fetchone()
    numbers: list[int] = []
    value = 0
    for byte in (row[0] if row else b"")[:18]:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(value)
            value = 0
    return (numbers[0], numbers[1]) if len(numbers) > 1 else (0, 0)
