"""The sidecars of an agent: `fact-usage.json` (access heat by fact id) and `eviction-audit.json` (capacity decisions).

Both are metadata about facts, never content, and derived: a damaged one is read as empty. Unknown keys stay.
"""

from __future__ import annotations

import json
from collections.abc import Collection

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
