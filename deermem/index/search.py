"""A query → the best facts of one user's index; and the same query over facts when there is no index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from deermem.index.expression import holds
from deermem.index.fold import category_key, fold
from deermem.index.query import Query, Term, parse_query
from deermem.index.ranking import Candidate, Counted, Parts, Scorer, Statistics, rank
from deermem.index.rows import path_from_sql
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


@dataclass(frozen=True, slots=True)
class Explained:
    """One hit, and how its score came about. `frequencies`: how many facts of the user have each term."""

    found: Found
    parts: Parts
    terms: tuple[Counted, ...]
    frequencies: Mapping[Term, int]


def search(connection: sqlite3.Connection, query: Query, *, where: SearchFilter, top_k: int, now: float) -> list[Found]:
    """At most `top_k` hits, best first. Facts that expired by `now` (unix seconds) are never found."""
    named, statistics = _candidates(connection, query, where, (top_k, now))
    ranked = rank([item for item, _ in named.values()], query.terms, statistics, now)
    return [_found(score, named[item.row_id]) for score, item in ranked[: max(top_k, 0)]]


def explain(
    connection: sqlite3.Connection, query: Query, *, where: SearchFilter, top_k: int, now: float
) -> list[Explained]:
    """The hits of `search`, each with its score taken apart."""
    named, statistics = _candidates(connection, query, where, (top_k, now))
    ranked = rank([item for item, _ in named.values()], query.terms, statistics, now)
    scorer = Scorer(query.terms, statistics, now)
    return [
        Explained(
            _found(score, named[item.row_id]),
            scorer.parts(item),
            tuple(scorer.counted(item)),
            statistics.frequencies,
        )
        for score, item in ranked[: max(top_k, 0)]
    ]


_Named: TypeAlias = "tuple[Candidate, tuple[str, str | bytes, str]]"


def _candidates(
    connection: sqlite3.Connection, query: Query, where: SearchFilter, wanted: tuple[int, float]
) -> tuple[dict[int, _Named], Statistics]:
    """What FTS5 thinks best, by row, with agent, path and fact id; `wanted` is how many at most, and now."""
    top_k, now = wanted
    if query.is_empty or top_k <= 0:
        return {}, Statistics(0, 0.0, {})
    condition, values = _condition(connection, where, now)
    limit = max(LEAST_CANDIDATES, 2 * top_k)
    rows = connection.execute(_CANDIDATES.format(condition=condition), (query.match, *values, limit)).fetchall()
    # By place, not by row: a rebuild gives the rows other numbers, and would part equals the other way round.
    rows.sort(key=lambda row: (path_from_sql(row[2]), row[1]))
    named: dict[int, _Named] = {row[0]: (Candidate(row[0], *row[4:]), row[1:4]) for row in rows}
    if not named:
        return {}, Statistics(0, 0.0, {})
    return named, _statistics(connection, query.terms, [item for item, _ in named.values()])


def _found(score: float, named: _Named) -> Found:
    item, (agent, path, fact_id) = named
    return Found(item.row_id, agent, path_from_sql(path), fact_id, score)


def count(connection: sqlite3.Connection, query: Query, where: SearchFilter, *, now: float | None = None) -> int:
    """How many facts match; with `now`, those that expired by then are left out, as in `search`."""
    if query.is_empty:
        return 0
    condition, values = _condition(connection, where, now)
    (found,) = connection.execute(_COUNT.format(condition=condition), (query.match, *values)).fetchone()
    return int(found)


def matching(
    connection: sqlite3.Connection, query: Query, where: SearchFilter, *, now: float | None = None
) -> list[tuple[str, str, str]]:
    """Agent, path and fact id of every fact that matches, in no order; what `count` counts."""
    if query.is_empty:
        return []
    condition, values = _condition(connection, where, now)
    found = connection.execute(_MATCHES.format(condition=condition), (query.match, *values))
    return [(agent, path_from_sql(path), fact_id) for agent, path, fact_id in found]


def substring_rank(
    text: str, facts: Sequence[Fact], where: SearchFilter, top_k: int, *, now: float | None = None
) -> list[Fact]:
    """The search without an index: at most `top_k` of the facts.

    First those that hold the folded text, then those that the query matches token by token, so that whatever an
    index finds is found here as well (`phase-2` finds `Phase 2`); in both, confidence descending, equals in the
    given order. The facts are those of the buckets to search, so `where.agents` is not asked; all other filters
    come before the cut, and with `now` facts that expired by then are left out.
    """
    found = whole_text_rank(text, facts, where, len(facts), now=now)
    expression = parse_query(text).expression
    if expression is None or len(found) >= top_k:
        return found[: max(top_k, 0)]
    known = {id(fact) for fact in found}
    others = [fact for fact in facts if id(fact) not in known and passes(fact, where, now)]
    by_token = [fact for fact in others if holds(expression, body_of(fact))]
    return [*found, *_most_confident(by_token, top_k - len(found))]


def whole_text_rank(
    text: str, facts: Sequence[Fact], where: SearchFilter, top_k: int, *, now: float | None = None
) -> list[Fact]:
    """`substring_rank` without its second step: for where an index has said already that no token matches."""
    if parse_query(text).is_empty:
        return []
    needle = " ".join(fold(text).split())
    found = [fact for fact in facts if passes(fact, where, now) and needle in " ".join(fold(fact.content).split())]
    return _most_confident(found, top_k)


def _most_confident(facts: Sequence[Fact], top_k: int) -> list[Fact]:
    return sorted(facts, key=lambda fact: -fact.confidence)[: max(top_k, 0)]


def body_of(fact: Fact) -> str:
    """The words of a fact, as the index holds them."""
    return index_text(fact.title, fact.content, " ".join(fact.topics))[0]


def passes(fact: Fact, where: SearchFilter, now: float | None) -> bool:
    """Whether a fact is live and within every filter but the agents', as the index would say."""
    expired = now is not None and fact.expires_at is not None and fact.expires_at.timestamp() <= now
    return not expired and next(failed_filters(fact, where), None) is None


def failed_filters(fact: Fact, where: SearchFilter) -> Iterator[str]:
    """The names of the filters that keep a fact out, `agents` aside."""
    if where.category is not None and category_key(fact.category) != category_key(where.category):
        yield "category"
    if where.topics:
        topics = {_topic_key(topic) for topic in fact.topics}
        if not all(_topic_key(topic) in topics for topic in where.topics):
            yield "topics"
    if where.source_thread is not None and fact.source.thread_id != where.source_thread:
        yield "source_thread"
    if where.since is not None and fact.updated_at < where.since:
        yield "since"
    if where.until is not None and fact.updated_at > where.until:
        yield "until"


_FREQUENCY: Final = "SELECT count(*) FROM words WHERE words MATCH ?"
_MATCHING: Final = "FROM words CROSS JOIN files ON files.id = words.rowid WHERE words MATCH ?{condition}"
_COUNT: Final = f"SELECT count(*) {_MATCHING}"
_MATCHES: Final = f"SELECT files.agent, files.path, coalesce(files.fact_id, '') {_MATCHING}"
_CANDIDATES: Final = f"""
    SELECT files.id, files.agent, files.path, coalesce(files.fact_id, ''), words_content.c0, coalesce(files.length, 0),
           coalesce(files.updated, 0.0), coalesce(files.confidence, 0.5)
    FROM (SELECT words.rowid AS id {_MATCHING}
          ORDER BY words.rank, files.updated DESC, files.path, files.agent LIMIT ?) AS best
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
        require("files.category = ?", category_key(where.category))
    if where.source_thread is not None:
        require("files.thread = ?", where.source_thread)
    if where.since is not None:
        require("files.updated >= ?", where.since.timestamp())
    if where.until is not None:
        require("files.updated <= ?", where.until.timestamp())
    if where.topics:
        connection.create_function("deermem_fold", 1, _fold_value, deterministic=True)
    for topic in where.topics:
        require(_HAS_TOPIC, _topic_key(topic))
    return "".join(parts), values


def _fold_value(value: object) -> str:
    return _topic_key(str(value))


def _topic_key(topic: str) -> str:
    return " ".join(fold(topic).split())


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
