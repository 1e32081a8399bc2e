"""Searching: the bucket is swept first, the index answers, and what it found is held against the sweep.

Nothing found, or no index to ask: the same query runs over the facts themselves, and the hits say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from deermem.errors import InvalidInput
from deermem.index.query import Query, parse_query
from deermem.index.search import Found, search, substring_rank, whole_text_rank
from deermem.index.snippets import snippet
from deermem.model.fact import Fact, check_topics
from deermem.model.records import MatchKind, SearchFilter, SearchHit
from deermem.service.read import is_sealed, served, snapshot
from deermem.service.snapshot import Snapshot
from deermem.service.user import UserContext


def recall(user: UserContext, agents: Sequence[str], text: str, *, where: SearchFilter, top_k: int) -> list[SearchHit]:
    """The best `top_k` facts of these agents for a text, best first; no text raises."""
    query = parse_query(text)
    if query.is_empty or top_k <= 0 or not agents:
        return []
    where = replace(where, agents=tuple(agents))
    seen = {agent: snapshot(user, agent) for agent in agents}
    hits = _indexed(user, seen, query, where, top_k)
    return hits or _scanned(user, seen, query, where, top_k, whole_text=hits is not None)


def narrowed(where: SearchFilter) -> SearchFilter:
    """The filter with its times made aware; raises InvalidInput for topics and times of another type."""
    check_topics(where.topics)
    return replace(where, since=_aware(where.since, "since"), until=_aware(where.until, "until"))


def _aware(moment: datetime | None, name: str) -> datetime | None:
    if moment is None or (isinstance(moment, datetime) and moment.tzinfo is not None):
        return moment
    if not isinstance(moment, datetime):
        raise InvalidInput(f"{name} is {moment!r:.60}", hint="give a datetime")
    return moment.replace(tzinfo=UTC)


def _indexed(
    user: UserContext, seen: Mapping[str, Snapshot], query: Query, where: SearchFilter, top_k: int
) -> list[SearchHit] | None:
    """What the index finds; None where there is none to ask, or a commit is under way that it can't know of."""
    if is_sealed(user) or not all(user.view.is_stored(agent) for agent in seen):
        return None
    hidden = sum(len(snapshot.shadowed) for snapshot in seen.values())
    now = user.clock().timestamp()
    found = user.view.ask(
        lambda catalogue: search(catalogue.connection, query, where=where, top_k=top_k + hidden, now=now)
    )
    if found is None:
        return None
    return [hit for item in found if (hit := _hit(seen, item, query))][:top_k]


def _hit(seen: Mapping[str, Snapshot], found: Found, query: Query) -> SearchHit | None:
    """The fact as the sweep saw it; None where the index is behind, or another file speaks for the id."""
    row = seen[found.agent].row(found.fact_id)
    if row is None or row.path != found.path or row.fact is None:
        return None
    return _made(row.fact, found.score, "fts5", query, found.agent)


def _scanned(  # noqa: PLR0913 - one of them is keyword-only
    user: UserContext, seen: Mapping[str, Snapshot], query: Query, where: SearchFilter, top_k: int, *, whole_text: bool
) -> list[SearchHit]:
    """The facts themselves; `whole_text` where an index has said already that no word of the query matches."""
    now = user.clock()
    owners: dict[int, str] = {}
    facts: list[Fact] = []
    for agent, bucket in seen.items():
        for fact in served(bucket.facts, now):
            owners[id(fact)] = agent
            facts.append(fact)
    rank = whole_text_rank if whole_text else substring_rank
    ranked = rank(query.text, facts, where, top_k)
    return [_made(fact, fact.confidence, "substring", query, owners[id(fact)]) for fact in ranked]


def _made(fact: Fact, score: float, match: MatchKind, query: Query, agent: str) -> SearchHit:
    return SearchHit(fact=fact, score=score, match=match, snippet=snippet(fact.content, query), agent=agent)
