"""Searching: the bucket is swept first, the index answers, and what it found is held against the sweep.

Nothing found, or no index to ask: the same query runs over the facts themselves, and the hits say so. Every way of
searching, counting and explaining goes through here, so that all give the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from deermem.errors import InvalidInput
from deermem.index.query import Query, parse_query
from deermem.index.rows import Row
from deermem.index.search import passes, substring_rank, whole_text_rank
from deermem.index.snippets import snippet
from deermem.model.fact import Fact, check_text, check_topics
from deermem.model.records import MatchKind, SearchFilter, SearchHit
from deermem.service.ports import Retrieval, Scored
from deermem.service.read import served, snapshot
from deermem.service.retrieval import Fts5Retrieval, retrieval_of
from deermem.service.snapshot import Snapshot
from deermem.service.user import UserContext


@dataclass(frozen=True, slots=True)
class Question:
    """A query over some agents' facts as they lay on disk at one moment."""

    user: UserContext
    query: Query
    where: SearchFilter
    seen: Mapping[str, Snapshot]
    now: datetime

    @property
    def size(self) -> int:
        """How many facts there are to search."""
        return sum(len(bucket.rows) for bucket in self.seen.values())


@dataclass(frozen=True, slots=True)
class Match:
    """A fact that matches, and the bucket it lies in."""

    agent: str
    fact: Fact
    score: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The best matches, best first, and who found them."""

    matches: tuple[Match, ...]
    kind: MatchKind


def recall(user: UserContext, agents: Sequence[str], text: str, *, where: SearchFilter, top_k: int) -> list[SearchHit]:
    """The best `top_k` facts of these agents for a text, best first; no text raises."""
    check_top_k(top_k)
    question = asked(user, agents, text, where)
    if question.query.is_empty or top_k <= 0:
        return []
    answer = answered(question, retrieval_of(user), top_k)
    if user.rules.capacity.uses_heat:
        from deermem.service.heat import record

        found: dict[str, list[str]] = {}
        for match in answer.matches:
            found.setdefault(match.agent, []).append(match.fact.id)
        record(user, found)
    return [hit(match, answer.kind, question.query) for match in answer.matches]


def total(user: UserContext, agents: Sequence[str], text: str, *, where: SearchFilter) -> int:
    """How many facts `recall` would find without a limit."""
    question = asked(user, agents, text, where)
    return 0 if question.query.is_empty else counted(question)


def filters(
    *,
    category: str | None = None,
    topics: Sequence[str] | None = None,
    source_thread: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> SearchFilter:
    """The filter with its times made aware; raises InvalidInput for topics and times of another type."""
    given: Sequence[str] = topics or ()
    # A lone text would be taken apart into characters.
    wanted: tuple[str, ...] = given if isinstance(given, str) else tuple(given)  # type: ignore[assignment]
    wanted = check_topics(wanted)
    for name, value in (("category", category), ("source_thread", source_thread)):
        if not isinstance(value, str | None):
            raise InvalidInput(f"{name} is {value!r:.60}", hint="give text")
        if value is not None:
            check_text(value, name)
    return SearchFilter(
        category=category,
        topics=wanted,
        source_thread=source_thread,
        since=_aware(since, "since"),
        until=_aware(until, "until"),
    )


def _aware(moment: datetime | None, name: str) -> datetime | None:
    if moment is None or (isinstance(moment, datetime) and moment.utcoffset() is not None):
        return moment
    if not isinstance(moment, datetime):
        raise InvalidInput(f"{name} is {moment!r:.60}", hint="give a datetime")
    return moment.replace(tzinfo=UTC)


# --- what explaining shares


def check_top_k(top_k: int) -> None:
    """Raises InvalidInput for what is no whole number."""
    if isinstance(top_k, bool) or not isinstance(top_k, int):
        raise InvalidInput(f"top_k is {top_k!r:.60}", hint="give a whole number")


def asked(user: UserContext, agents: Sequence[str], text: str, where: SearchFilter) -> Question:
    """The question, with the buckets swept; a text that asks nothing sweeps none."""
    if not isinstance(text, str):
        raise InvalidInput(f"the search text is {text!r:.60}", hint="give text")
    query = parse_query(text)
    names = tuple(dict.fromkeys(agents))
    seen = {} if query.is_empty else {agent: snapshot(user, agent) for agent in names}
    return Question(user, query, replace(where, agents=names), seen, user.clock())


def answered(question: Question, retrieval: Retrieval, top_k: int) -> Answer:
    """The best `top_k` matches; `retrieval` is asked first."""
    # More than there is would be more than SQLite can count.
    top_k = min(top_k, question.size)
    # A file whose id another one speaks for is in the index too, and must not take a hit's place.
    hidden = sum(len(bucket.shadowed) for bucket in question.seen.values())
    found = _found(question, retrieval, top_k + hidden)
    if found:
        kind: MatchKind = "fts5" if isinstance(retrieval, Fts5Retrieval) else "adapter"
        return Answer(tuple(found[:top_k]), kind)
    # The built-in index has said already that no word of the query is anywhere; an adapter may judge otherwise.
    words_too = found is None or not isinstance(retrieval, Fts5Retrieval)
    return Answer(tuple(_scanned(question, top_k, words_too=words_too)), "substring")


def counted(question: Question) -> int:
    """How many matches there are."""
    retrieval = retrieval_of(question.user)
    if isinstance(retrieval, Fts5Retrieval) and _synced(question, retrieval):
        found = retrieval.matching(question.query.text, question.where, question.now.timestamp())
        known = sum(1 for _ in _checked(question, found or ()))
        if known:
            return known
        return len(_scanned(question, question.size, words_too=found is None))
    if isinstance(retrieval, Fts5Retrieval):
        # Asked once more, a busy index would be waited for once more.
        return len(_scanned(question, question.size, words_too=True))
    return len(answered(question, retrieval, question.size).matches)


def hit(match: Match, kind: MatchKind, query: Query) -> SearchHit:
    """What callers see of a match."""
    text = snippet(match.fact.content, query)
    return SearchHit(fact=match.fact, score=match.score, match=kind, snippet=text, agent=match.agent)


def _synced(question: Question, retrieval: Retrieval) -> bool:
    # The view has stored what the built-in index needs: no fact has to be built for it.
    built_in = isinstance(retrieval, Fts5Retrieval)
    return all(retrieval.sync(agent, () if built_in else bucket.facts) for agent, bucket in question.seen.items())


def _found(question: Question, retrieval: Retrieval, top_k: int) -> list[Match] | None:
    """What a retrieval finds; None where it can't be asked."""
    if not question.seen or not _synced(question, retrieval):
        return None
    found = retrieval.search(question.query.text, question.where, top_k, question.now.timestamp())
    return None if found is None else list(_checked(question, found))


def _checked(question: Question, found: Iterable[Scored]) -> Iterator[Match]:
    """The facts as the sweep saw them; what is gone, filtered out, told twice or spoken for by another file is not."""
    now = question.now.timestamp()
    known: set[tuple[str, str]] = set()
    paths: dict[str, Mapping[str, Row]] = {}
    for item in found:
        row = _row(question.seen.get(item.agent), item, paths)
        if row is None or row.fact is None or (item.agent, row.path) in known:
            continue
        if passes(row.fact, question.where, now):
            known.add((item.agent, row.path))
            yield Match(item.agent, row.fact, item.score)


def _row(bucket: Snapshot | None, item: Scored, paths: dict[str, Mapping[str, Row]]) -> Row | None:
    """The file that a hit means; `paths` keeps what was worked out for an adapter that answers in paths."""
    row = bucket.row(item.key) if bucket is not None else None
    if row is None and bucket is not None and item.key.endswith(".md"):
        if item.agent not in paths:
            paths[item.agent] = {row.path: row for row in bucket.rows.values()}
        row = paths[item.agent].get(item.key)
    return row if row is not None and item.path in ("", row.path) else None


def _scanned(question: Question, top_k: int, *, words_too: bool) -> list[Match]:
    """The facts themselves; without `words_too` only those that hold the whole text."""
    owners: dict[int, str] = {}
    facts: list[Fact] = []
    for agent, bucket in question.seen.items():
        for fact in served(bucket.facts, question.now):
            owners[id(fact)] = agent
            facts.append(fact)
    rank = substring_rank if words_too else whole_text_rank
    ranked = rank(question.query.text, facts, question.where, top_k)
    return [Match(owners[id(fact)], fact, fact.confidence) for fact in ranked]
