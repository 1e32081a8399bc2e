"""Documents and facts in the shape that DeerFlow's HTTP interface and its settings page read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from deermem.clock import format_timestamp, utc_now
from deermem.format.fact_mapping import fact_to_mapping
from deermem.model.fact import Fact, Source
from deermem.model.values import JsonObject, JsonValue

_CARRIED: Final = frozenset(
    (
        *("id", "content", "category", "categoryExtension", "topics", "confidence", "createdAt", "updatedAt"),
        *("source", "sourceError", "schemaVersion", "status", "scope", "revision", "consolidatedAt"),
        "consolidatedFrom",
    )
)
"""What DeerFlow's own type for facts has a place for; on its way through the host a document loses everything else."""


def host_document(document: JsonObject) -> dict[str, Any]:
    """A document as `Memory.document` gives it, each source a text, nothing null, `lastUpdated` never empty."""
    facts = document["facts"]
    assert isinstance(facts, list)
    shown = [_host_item(item) for item in facts]
    # The page can't show a date that is "".
    updated = document["lastUpdated"] or max((fact["updatedAt"] for fact in shown), default="")
    return {**document, "lastUpdated": updated or format_timestamp(utc_now()), "facts": shown}


def host_fact(fact: Fact) -> dict[str, Any]:
    """One fact as it stands in such a document."""
    return _host_item(fact_to_mapping(fact))


def completed(document: Mapping[str, Any], stored: Iterable[Fact]) -> Mapping[str, Any]:
    """A document with what the host can't carry put back: a person's own keys and headings, and details of a source.

    What it states itself counts, and one that is no document is left for the import to refuse.
    """
    given = document.get("facts") if isinstance(document, Mapping) else None
    if not isinstance(given, list):
        return document
    known = {fact.id: fact for fact in stored}
    return {**document, "facts": [_completed(item, known) for item in given]}


def _completed(item: object, known: Mapping[str, Fact]) -> object:
    fact = known.get(str(item.get("id"))) if isinstance(item, Mapping) else None
    if fact is None or not isinstance(item, Mapping):
        return item
    stored = fact_to_mapping(fact)
    own = {name: value for name, value in stored.items() if name not in _CARRIED}
    if item.get("content") != fact.content:
        # A heading is that of its content.
        own.pop("title", None)
    shown = _host_item(stored)
    # What comes back as it was shown is what is stored: a document has neither nulls nor the details of a source.
    unchanged = {name: stored[name] for name in (*own, "source") if name in item and item[name] == shown.get(name)}
    return {**own, **item, **unchanged}


def _host_item(item: JsonValue) -> dict[str, Any]:
    assert isinstance(item, dict)
    source = item["source"]
    assert isinstance(source, str | dict)
    return {**_without_nulls(item), "source": Source.of(source).label}


def _without_nulls(item: Mapping[str, JsonValue]) -> dict[str, Any]:
    return {
        key: _without_nulls(value) if isinstance(value, Mapping) else value
        for key, value in item.items()
        if value is not None
    }
