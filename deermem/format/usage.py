"""`fact-usage.json` as values: access heat by fact id."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from deermem.clock import format_timestamp, parse_timestamp
from deermem.format.sidecars import decode_usage, with_entries
from deermem.model.usage import Usage
from deermem.model.values import JsonObject, JsonValue

_HEAT: Final = "accessHeat"
_COUNT: Final = "accessCount"
_LAST: Final = "lastAccessedAt"
_MOST: Final = 1e15
"""Above it a foreign number is no count of anything."""


def read_usage(data: bytes | None) -> dict[str, Usage]:
    """Fact id → its usage; empty for a missing or damaged file.

    An entry that is no object is left out. A heat or count that is no number from 0 up is 0, a time that is none
    is None: the rest of the entry counts. Never raises.
    """
    return {fact_id: _usage(entry) for fact_id, entry in decode_usage(data).items() if isinstance(entry, dict)}


def write_usage(data: bytes | None, changed: Mapping[str, Usage]) -> bytes:
    """The bytes of the file with these entries, the others as they stand in `data`.

    Entries keep their places and further keys; new ones follow in the order given.
    """
    document = decode_usage(data)
    for fact_id, usage in changed.items():
        before = document.get(fact_id)
        document[fact_id] = {**(before if isinstance(before, dict) else {}), **_entry(usage)}
    return with_entries(data, document, changed)


def _entry(usage: Usage) -> JsonObject:
    last = format_timestamp(usage.last_access) if usage.last_access is not None else None
    return {_HEAT: usage.heat, _COUNT: usage.count, _LAST: last}


def _usage(entry: JsonObject) -> Usage:
    last = entry.get(_LAST)
    moment = parse_timestamp(last) if isinstance(last, str) else None
    return Usage(_number(entry.get(_HEAT)), int(_number(entry.get(_COUNT))), moment)


def _number(value: JsonValue) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        return 0.0
    return float(min(value, _MOST))
