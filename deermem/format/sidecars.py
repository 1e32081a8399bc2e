"""The sidecars of an agent: `fact-usage.json` (access heat by fact id) and `eviction-audit.json` (capacity decisions).

Both are metadata about facts, never content, and derived: a damaged one is read as empty. Unknown keys stay.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Final

from deermem.clock import parse_timestamp
from deermem.model.values import JsonObject, JsonValue

_MAX_DEPTH: Final = 32
_SOUGHT: Final = 16
"""Up to so many ids are looked for in the bytes first, before a file that may name none is parsed and walked."""
_OPEN: Final = b"[\n  {\n"
_BETWEEN: Final = b"\n  },\n  {\n"
_CLOSE: Final = b"\n  }\n]"
_END_OF_ENTRY: Final = b"\n  }"
_OWN_KEYS: Final = frozenset(
    [
        "occurredAt",
        "reason",
        "maxFacts",
        "policyVersion",
        "reservedCorrectionSlots",
        "evicted",
        "factId",
        "category",
        "score",
        "components",
        "confidence",
        "confirmationFreshness",
        "accessHeat",
        "shadow",
        "wouldEvict",
        "disagrees",
    ]
)
"""Keys of the audit that could also be a fact's id; deleting that fact must not take them out of every decision."""


def decode_usage(data: bytes | None) -> JsonObject:
    """Fact id → {accessHeat, accessCount, lastAccessedAt}; empty where the file is missing or damaged."""
    said = load(data)
    return {key: value for key, value in said.items() if isinstance(value, dict)} if isinstance(said, dict) else {}


def encode(document: JsonValue) -> bytes:
    """The bytes of a sidecar, as DeerFlow lays them out."""
    try:
        return json.dumps(document, ensure_ascii=False, indent=2).encode()
    except UnicodeEncodeError:
        # Half a character, which a foreign file may hold as an escape, has no UTF-8.
        return json.dumps(document, indent=2).encode()


def appended(data: bytes | None, entry: JsonObject, *, most: int) -> bytes | None:
    """The last `most` entries of a list that `encode` wrote, and one more at the end; None for any other layout.

    Those that stay are taken over as bytes: to encode two hundred of them costs more than the commit that they follow.
    """
    before, _, rest = (data or b"").partition(_OPEN)
    if before or not rest.endswith(_CLOSE):
        return None
    entries = rest.removesuffix(_CLOSE).split(_BETWEEN)
    said = load(data)
    if not isinstance(said, list) or len(said) != len(entries):
        return None
    latest = encode([entry]).removeprefix(_OPEN).removesuffix(_CLOSE)
    return _OPEN + _BETWEEN.join([*entries, latest][-most:]) + _CLOSE


def with_entries(data: bytes | None, document: JsonObject, names: Collection[str]) -> bytes:
    """`encode(document)` for what `data` says but for the entries of these names, which are new or say something else.

    Of a file that `encode` wrote only these are encoded: with thousands of facts all of them take longer than a search.
    """
    patched = data or b""
    for name in names:
        entry = encode({name: document[name]}).removeprefix(b"{").removesuffix(b"\n}")
        mark = entry.partition(b": ")[0] + b": {\n"
        start = patched.find(mark)
        end = patched.find(_END_OF_ENTRY, start)
        if start < 0 and patched.endswith(_END_OF_ENTRY + b"\n}"):
            patched = patched[:-2] + b"," + entry + b"\n}"
        elif 0 <= start < end:
            patched = patched[:start] + entry + patched[end + len(_END_OF_ENTRY) :]
    # Of any other layout, or where a mark stands in an odd place, something else comes of it.
    return patched if load(patched) == document else encode(document)


def usage_without(data: bytes | None, ids: Collection[str]) -> bytes | None:
    """The usage file without these facts; None where it names none of them."""
    if not _may_name(data, ids):
        return None
    usage = decode_usage(data)
    kept = {key: value for key, value in usage.items() if key not in ids}
    return encode(kept) if len(kept) != len(usage) else None


def audit_without(data: bytes | None, ids: Collection[str]) -> bytes | None:
    """The audit file without these facts, wherever it names them; None where it names none of them.

    What then is left of a decision is put right: whether the shadow disagrees, and nothing that is no entry.
    """
    if not _may_name(data, ids):
        return None
    said = load(data)
    kept = _without(said, ids)
    return encode(_settled(kept)) if kept != said else None


def _may_name(data: bytes | None, ids: Collection[str]) -> bool:
    # A foreign file may spell any character as an escape, or be in UTF-16.
    if not data or (len(ids) <= _SOUGHT and b"\\" not in data and b"\0" not in data):
        return any(fact_id.encode() in (data or b"") for fact_id in ids)
    return True


def usage_times(data: bytes | None) -> dict[str, datetime | None]:
    """Fact id → when it was last used, None where the file doesn't tell."""
    usage = decode_usage(data)
    return {key: _moment(value.get("lastAccessedAt")) for key, value in usage.items() if isinstance(value, dict)}


def audit_times(data: bytes | None) -> dict[str, datetime]:
    """Fact id → the last decision that names it; decisions without a time of their own say nothing."""
    found: dict[str, datetime] = {}
    for fact_id, when in _mentions(load(data), None):
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
        named = [item] if key in ("id", "factId") else item if key.lower().endswith(("ids", "evict")) else ()
        if when is not None and isinstance(named, list):
            yield from ((name, when) for name in named if isinstance(name, str))
        yield from _mentions(item, when)


def _moment(value: JsonValue) -> datetime | None:
    return parse_timestamp(value) if isinstance(value, str) else None


def _without(value: JsonValue, ids: Collection[str]) -> JsonValue:
    """Drops ids from lists and mappings, and entries that are about one of them."""
    if isinstance(value, dict):
        return {key: _without(item, ids) for key, item in value.items() if key not in ids or key in _OWN_KEYS}
    if isinstance(value, list):
        return [_without(item, ids) for item in value if not _is_about(item, ids)]
    return value


def _is_about(item: JsonValue, ids: Collection[str]) -> bool:
    if isinstance(item, str):
        return item in ids
    return isinstance(item, dict) and any(name in ids for name in _names(item))


def _names(item: JsonObject) -> list[str]:
    """The ids that an entry is about: the format's key is `factId`."""
    return [name for name in (item.get("factId"), item.get("id")) if isinstance(name, str)]


def _settled(document: JsonValue) -> JsonValue:
    """A list of decisions whose parts agree with each other again; any other document as it is."""
    if not isinstance(document, list):
        return document
    entries = [_settled_entry(entry) if isinstance(entry, dict) else entry for entry in document]
    return [entry for entry in entries if entry is not None]


def _settled_entry(entry: JsonObject) -> JsonObject | None:
    """None where nothing is left that the decision was about."""
    if "evicted" not in entry:
        return entry
    evicted = [item for item in _items(entry["evicted"]) if isinstance(item, dict) and _names(item)]
    settled = {**entry, "evicted": evicted}
    shadow = settled.pop("shadow", None)
    would = shadow.get("wouldEvict") if isinstance(shadow, dict) else None
    chosen = [fact_id for fact_id in _items(would) if isinstance(fact_id, str)]
    if isinstance(shadow, dict) and isinstance(would, list):
        gone = {name for item in evicted for name in _names(item)}
        settled["shadow"] = {**shadow, "wouldEvict": chosen, "disagrees": gone != set(chosen)}
    return settled if evicted or chosen else None


def _items(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def load(data: bytes | None) -> JsonValue:
    """What a sidecar says; None where it is missing or damaged."""
    try:
        said: JsonValue = json.loads(data or b"null")
    except (ValueError, RecursionError):
        return None
    return None if _is_too_deep(said) else said


def _is_too_deep(document: JsonValue) -> bool:
    """Nested deeper than anything that an engine writes, so that walking or writing it could end in RecursionError."""
    level: list[JsonValue] = [[document]]
    for _ in range(_MAX_DEPTH + 1):
        # By type alone: JSON knows no others, and this looks at each value of each sidecar that is read.
        level = [
            value
            for item in level
            for value in (item.values() if type(item) is dict else item)  # type: ignore[union-attr]
            if type(value) is dict or type(value) is list
        ]
        if not level:
            return False
    return True
