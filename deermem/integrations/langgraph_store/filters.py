"""The `filter` of a search: what a value must hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from deermem.errors import InvalidInput

Test = Callable[[object], bool]

_KEY = re.compile(r"[\w. /:@+-]+")
_OPERATORS: Final = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
_MAX_DEPTH: Final = 100


def parse_filter(given: object, depth: int = 0) -> Test:
    """The test that a filter stands for; raises InvalidInput, a ValueError, for what it can't mean.

    `{"key": value}` and `{"key": {"$gt": 3}}`, all of which must hold; a mapping without operators looks into a
    nested object, a list into a list of that length, and a key that no object has may be a path with full stops.
    What is missing equals None. Numbers compare with numbers and text with text; anything else is neither more nor
    less.
    """
    if given is None:
        return lambda _: True
    if not isinstance(given, Mapping):
        raise InvalidInput(f"the filter is {given!r:.60}", hint="give a mapping of keys to values")
    tests = [(_checked_key(key), _parsed(wanted, depth)) for key, wanted in given.items()]
    return lambda value: all(test(_at(value, key)) for key, test in tests)


def _checked_key(key: object) -> str:
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        hint = "use letters, digits, blanks and . _ - / : @ +; an operator goes inside: {key: {operator: value}}"
        raise InvalidInput(f"Invalid filter key: {key!r:.80}", hint=hint)
    return key


def _parsed(wanted: object, depth: int) -> Test:
    if depth > _MAX_DEPTH:
        raise InvalidInput(f"the filter nests deeper than {_MAX_DEPTH} levels", hint="flatten it")
    if isinstance(wanted, Mapping):
        if any(isinstance(key, str) and key.startswith("$") for key in wanted):
            return _compared(wanted)
        inner = parse_filter(wanted, depth + 1)
        return lambda value: isinstance(value, Mapping) and inner(value)
    if isinstance(wanted, (list, tuple)):
        tests = [_parsed(each, depth + 1) for each in wanted]
        return lambda value: _fits_each(value, tests)
    return lambda value: _equal(value, wanted)


def _fits_each(value: object, tests: Sequence[Test]) -> bool:
    return (
        isinstance(value, list)
        and len(value) == len(tests)
        and all(test(each) for test, each in zip(tests, value, strict=True))
    )


def _compared(operators: Mapping[object, object]) -> Test:
    unknown = [name for name in operators if name not in _OPERATORS]
    if unknown:
        hint = f"use {', '.join(_OPERATORS)}, and no other key beside them"
        raise InvalidInput(f"Unsupported operator: {unknown[0]!r:.60}", hint=hint)
    return lambda value: all(_holds(str(name), value, operand) for name, operand in operators.items())


def _holds(name: str, value: object, operand: object) -> bool:
    if name in ("$eq", "$ne"):
        return _equal(value, operand) == (name == "$eq")
    if isinstance(value, str) and isinstance(operand, str):
        less, more = value < operand, value > operand
    elif _is_number(value) and _is_number(operand):
        less, more = value < operand, value > operand  # type: ignore[operator]
    else:
        return False
    if name in ("$gt", "$lt"):
        return more if name == "$gt" else less
    return _equal(value, operand) or (more if name == "$gte" else less)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _equal(value: object, wanted: object) -> bool:
    """Equality of JSON: 1 is 1.0 and not true; a list holds what is wanted at each place."""
    if isinstance(wanted, Mapping):
        return (
            isinstance(value, Mapping)
            and value.keys() == wanted.keys()
            and all(_equal(value[key], wanted[key]) for key in wanted)
        )
    if isinstance(wanted, Sequence) and not isinstance(wanted, (str, bytes)):
        return (
            isinstance(value, list)
            and len(value) == len(wanted)
            and all(_equal(one, other) for one, other in zip(value, wanted, strict=True))
        )
    return isinstance(value, bool) == isinstance(wanted, bool) and value == wanted


def _at(value: object, key: str) -> object:
    """What stands at a key, else at the path that it spells; None for nothing."""
    if isinstance(value, Mapping) and key in value:
        return value[key]
    head, dot, rest = key.partition(".")
    while dot:
        if isinstance(value, Mapping) and head in value:
            return _at(value[head], rest)
        more, dot, rest = rest.partition(".")
        head = f"{head}.{more}"
    return None
