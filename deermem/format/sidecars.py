"""The sidecars of an agent: `fact-usage.json` (access heat by fact id) and `eviction-audit.json` (capacity decisions).

Both are metadata about facts, never content, and derived: a damaged one is read as empty. Unknown keys stay.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from datetime import datetime

from deermem.clock import parse_timestamp
from deermem.model.values import JsonObject, JsonValue


def decode_usage(data: bytes | None) -> JsonObject:
    """Fact id → {accessHeat, accessCount, lastAccessedAt}; empty where the file is missing or damaged."""
    said = _load(data)
    return {key: value for key, value in said.items() if isinstance(value, dict)} if isinstance(said, dict) else {}


def encode(document: JsonValue) -> bytes:
    """The bytes of a sidecar, as DeerFlow lays them out."""
    return json.dumps(document, ensure_ascii=False, indent=2).encode()


def usage_without(data: bytes | None, ids: Collection[str]) -> bytes | None:
    """The usage file without these facts; None where it names none of them."""
    usage = decode_usage(data)
    kept = {key: value for key, value in usage.items() if key not in ids}
    return encode(kept) if len(kept) != len(usage) else None


def audit_without(data: bytes | None, ids: Collection[str]) -> bytes | None:
    """The audit file without these facts, wherever it names them; None where it names none of them."""
    said = _load(data)
    kept = _without(said, ids)
    return encode(kept) if kept != said else None


def usage_times(data: bytes | None) -> dict[str, datetime | None]:
    """Fact id → when it was last used, None where the file doesn't tell."""
    usage = decode_usage(data)
    return {key: _moment(value.get("lastAccessedAt")) for key, value in usage.items() if isinstance(value, dict)}


def audit_times(data: bytes | None) -> dict[str, datetime]:
    """Fact id → the last decision that names it; decisions without a time of their own say nothing."""
    found: dict[str, datetime] = {}
    for fact_id, when in _mentions(_load(data), None):
        found[fact_id] = max(when, found.get(fact_id, when))
    return found


def _mentions(value: JsonValue, when: datetime | None) -> Iterator[tuple[str, datetime]]:
    """Ids with the time of the entry that they stand in."""
    if isinstance(value, list):
        for item in value:
            yield from _mentions(item, when)
    if not isinstance(value, dict):
        return
    stamps = [_moment(item) for key, item in value.items() if key.lower().endswith(("at", "time", "timestamp"))]
    when = max((stamp for stamp in stamps if stamp is not None), default=when)
    for key, item in value.items():
        named = [item] if key in ("id", "factId") else item if key.lower().endswith("ids") else ()
        if when is not None and isinstance(named, list):
            yield from ((name, when) for name in named if isinstance(name, str))
        yield from _mentions(item, when)


def _moment(value: JsonValue) -> datetime | None:
    return parse_timestamp(value) if isinstance(value, str) else None


def _without(value: JsonValue, ids: Collection[str]) -> JsonValue:
    """Drops ids from lists and mappings, and entries that are about one of them."""
    if isinstance(value, dict):
        return {key: _without(item, ids) for key, item in value.items() if key not in ids}
    if isinstance(value, list):
        return [_without(item, ids) for item in value if not _is_about(item, ids)]
    return value


def _is_about(item: JsonValue, ids: Collection[str]) -> bool:
    if isinstance(item, str):
        return item in ids
    named = (item.get("id"), item.get("factId")) if isinstance(item, dict) else ()
    return any(isinstance(name, str) and name in ids for name in named)


def _load(data: bytes | None) -> JsonValue:
    try:
        said: JsonValue = json.loads(data or b"null")
    except (ValueError, RecursionError):
        return None
    return said
