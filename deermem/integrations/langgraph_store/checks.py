"""What a caller of the store gave, checked: InvalidInput says what is wrong and what would do."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, TypeVar

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    Op,
    PutOp,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from deermem.errors import DeerMemError, InvalidInput
from deermem.integrations.langgraph_store.names import Namespace
from deermem.model.fact import check_text

_TTL_KEYS: Final = frozenset(("refresh_on_read", "omit_expired", "default_ttl", "sweep_interval_minutes"))
T = TypeVar("T")


def says_closed(error: BaseException) -> bool:
    """Whether an error says that the engine is closed: of all errors, only that one is of no class of its own."""
    return type(error) is DeerMemError


def check_op(op: Op) -> None:
    """Raises InvalidNamespaceError for an operation whose namespace, or path of a condition, is none."""
    if isinstance(op, (GetOp, PutOp)):
        labels_of(op.namespace)
    elif isinstance(op, SearchOp):
        labels_of(op.namespace_prefix)
    elif isinstance(op, ListNamespacesOp):
        for condition in op.match_conditions or ():
            labels_of(condition.path)
    validate_op_namespace(op)


def labels_of(namespace: object) -> Namespace:
    """The labels of a namespace, as plain text.

    Raises InvalidNamespaceError for anything but a tuple or list: in `("memories")` each letter would be a label.
    """
    if isinstance(namespace, (tuple, list)):
        return tuple(_plain(label) for label in namespace)
    raise InvalidNamespaceError(f"The namespace is {namespace!r:.60}; give a tuple of labels, as in ('memories',)")


def _plain(label: str) -> str:
    # YAML has no form for a member of an enumeration; what is no text is refused with the others.
    return str.__str__(label) if isinstance(label, str) else label


def checked_key(key: object) -> str:
    """A key that a file can say."""
    if not isinstance(key, str):
        raise InvalidInput(f"the key {key!r:.60} is not text", hint="give text")
    return check_text(_plain(key), "a key")


def checked_index(index: object) -> tuple[str, ...] | None:
    """The fields to search: None for all there is, () for nothing."""
    if index is None or index is False:
        return None if index is None else ()
    if not isinstance(index, (list, tuple)) or not all(isinstance(path, str) and path for path in index):
        raise InvalidInput(f"index is {index!r:.60}", hint="give a list of paths, False, or None")
    return tuple(check_text(_plain(path), "a path of index") for path in index)


def whole(value: object, name: str) -> int:
    """A whole number, not negative."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInput(f"{name} is {value!r:.60}", hint="give a whole number, not negative")
    return value


def page(found: Iterable[T], offset: int, limit: int) -> Iterator[T]:
    """A page of what was found; numbers beyond what a sequence can hold mean all the rest."""
    return islice(found, min(offset, sys.maxsize), min(offset + limit, sys.maxsize))


def minutes(value: object, name: str) -> float:
    """A finite number of minutes, more than none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= sys.float_info.max:
        raise InvalidInput(f"{name} is {value!r:.60}", hint="give minutes, more than 0")
    return float(value)


def checked_ttl_config(given: TTLConfig | None) -> TTLConfig | None:
    """A copy of a ttl configuration that the store can keep."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise InvalidInput(f"ttl is {given!r:.60}", hint='give {"default_ttl": minutes}')
    unknown = [key for key in given if key not in _TTL_KEYS]
    if unknown:
        raise InvalidInput(f"ttl has the key {unknown[0]!r:.40}", hint=f"use {', '.join(sorted(_TTL_KEYS))}")
    for name in ("default_ttl", "sweep_interval_minutes"):
        if given.get(name) is not None:
            minutes(given.get(name), name)
    if not isinstance(given.get("refresh_on_read", True), bool):
        raise InvalidInput(f"refresh_on_read is {given.get('refresh_on_read')!r:.40}", hint="give True or False")
    if given.get("omit_expired") is False:
        raise InvalidInput("ttl has omit_expired False", hint="leave it out: items whose time is over are never served")
    return given.copy()
