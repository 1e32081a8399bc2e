"""What a query finds: by the index, and in the values of which it doesn't know all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from deermem.integrations.langgraph_store.buckets import Bucket
from deermem.integrations.langgraph_store.listings import key_of
from deermem.integrations.langgraph_store.values import Meta, read_value, texts_at
from deermem.model.fact import Fact

_LEAST: Final = 0.01
"""The score of what a query finds in a file and the index doesn't."""


def found_by(query: str, buckets: Mapping[str, Bucket]) -> list[tuple[Bucket, str, Fact, float]]:
    """What a query finds in the namespaces of one user, by agent."""
    known = {agent: bucket.listing() for agent, bucket in buckets.items()}
    items = {agent: dict(bucket.listings.shown(known[agent], bucket.now())) for agent, bucket in buckets.items()}
    hits: dict[tuple[str, str], tuple[Bucket, str, Fact, float]] = {}
    judged: set[tuple[str, str]] = set()
    for match in next(iter(buckets.values())).found(query, list(buckets)):
        key = key_of(match.fact)
        fact = items[match.agent].get(key)
        # Any of its files may have the words; one that another hides has none that count.
        is_of = fact is not None and any(each.id == match.fact.id for each in known[match.agent].files_of(key))
        if fact is None or not is_of or (match.agent, key) in judged:
            continue
        # Once for all of its files: the whole value is looked at, of which each holds a piece.
        judged.add((match.agent, key))
        if _is_found(fact, query):
            hits[match.agent, key] = (buckets[match.agent], key, fact, match.score)
    for agent, bucket in buckets.items():
        for key, fact in bucket.untold():
            if (agent, key) not in judged and _is_found(fact, query):
                hits[agent, key] = (bucket, key, fact, _LEAST)
    return list(hits.values())


def _is_found(fact: Fact, query: str) -> bool:
    """Whether a query may find a fact: one that was put with fields is found by these alone."""
    fields = Meta.of(fact).fields
    if fields is None:
        return True
    from deermem.index.expression import holds
    from deermem.index.query import parse_query
    from deermem.index.tokens import index_text

    expression = parse_query(query).expression
    body = index_text(*texts_at(read_value(fact) or {}, fields))[0]
    return expression is not None and holds(expression, body)
