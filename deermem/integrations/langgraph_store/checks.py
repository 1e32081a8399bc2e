"""What a caller of the store gave, checked: InvalidInput says what is wrong and what would do."""

from __future__ import annotations

import math
from typing import Final

from langgraph.store.base import TTLConfig

from deermem.errors import InvalidInput
from deermem.model.fact import check_text

_TTL_KEYS: Final = frozenset(("refresh_on_read", "omit_expired", "default_ttl", "sweep_interval_minutes"))


def checked_key(key: object) -> str:
    """A key that a file can say."""
    if not isinstance(key, str):
        raise InvalidInput(f"the key {key!r:.60} is not text", hint="give text")
    return check_text(key, "a key")


def checked_index(index: object) -> tuple[str, ...] | None:
    """The fields to search: None for all there is, () for nothing."""
    if index is None or index is False:
        return None if index is None else ()
    if not isinstance(index, (list, tuple)) or not all(isinstance(path, str) and path for path in index):
        raise InvalidInput(f"index is {index!r:.60}", hint="give a list of paths, False, or None")
    return tuple(check_text(path, "a path of index") for path in index)


def whole(value: object, name: str) -> int:
    """A whole number, not negative."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInput(f"{name} is {value!r:.60}", hint="give a whole number, not negative")
    return value


def minutes(value: object, name: str) -> float:
    """A finite number of minutes, more than none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise InvalidInput(f"{name} is {value!r:.60}", hint="give minutes, more than 0")
    return float(value)


def checked_ttl_config(given: TTLConfig | None) -> TTLConfig | None:
    """A copy of a ttl configuration that the store can keep."""
    if given is None:
        return None
    unknown = sorted(set(given) - _TTL_KEYS)
    if unknown:
        raise InvalidInput(f"ttl has the key {unknown[0]!r:.40}", hint=f"use {', '.join(sorted(_TTL_KEYS))}")
    for name in ("default_ttl", "sweep_interval_minutes"):
        if given.get(name) is not None:
            minutes(given.get(name), name)
    if given.get("omit_expired") is False:
        raise InvalidInput("ttl has omit_expired False", hint="leave it out: items whose time is over are never served")
    return given.copy()
