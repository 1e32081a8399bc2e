"""What a fact may hold so that every reader takes its file: refused by field and key before anything is written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from deermem.errors import InvalidInput
from deermem.format.frontmatter import MAX_BLOCK, MAX_DEPTH
from deermem.format.keys import KNOWN, MAX_DIGITS
from deermem.model.fact import Fact, check_text
from deermem.model.values import JsonValue

# YAML readers give up on a key whose colon doesn't follow within 1,024 characters, quotes and escapes counted.
_MAX_KEY: Final = 1023
_ESCAPED: Final = 6
_NUMBER_END: Final = 10**MAX_DIGITS
# The digest line, its key and what may be added by a reader of another owner.
_RESERVE: Final = 64


def check_own_values(fact: Fact) -> None:
    """Raises InvalidInput naming the key for one of a person's own keys, or of the source, that can't be stored."""
    for key, value in fact.extra.items():
        if key in KNOWN:
            raise InvalidInput(f"extra key {key!r} is one of the format's own", hint="use another name")
        _check_key(key, "extra")
        _check_value(value, key, 1)
    for key, value in fact.source.extra.items():
        _check_key(key, "source")
        _check_value(value, f"source.{key}", 2)


def check_size(fact_id: str, lines: Mapping[str, str]) -> None:
    """Raises InvalidInput naming the longest key of a front matter that is longer than readers take."""
    size = sum(map(len, lines.values()))
    if size > MAX_BLOCK - _RESERVE:
        key = max(lines, key=lambda name: len(lines[name]))
        raise InvalidInput(
            f"{key} of {fact_id} takes {len(lines[key])} characters, and the front matter {size}",
            hint=f"shorten it: at most {MAX_BLOCK - _RESERVE} fit",
        )


def _check_key(key: str, name: str) -> None:
    size = len(check_text(key, f"a key of {name}"))
    if size * _ESCAPED + 2 <= _MAX_KEY:
        return
    from deermem.format.emit import scalar

    if len(scalar(key)) > _MAX_KEY:
        raise InvalidInput(f"{name} holds the key {key[:40]!r}… of {size} characters", hint="shorten it")


def _check_value(value: JsonValue, name: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise InvalidInput(f"{name} nests deeper than {MAX_DEPTH} levels", hint="flatten it")
    if isinstance(value, str):
        check_text(value, name)
    elif isinstance(value, int) and abs(value) >= _NUMBER_END:
        raise InvalidInput(f"{name} holds a number of more than {MAX_DIGITS} digits", hint="give it as text")
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            _check_key(str(key), name)
            _check_value(inner, name, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check_value(inner, name, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"{name} holds {value!r}", hint="give a finite number")
    elif value is not None and not isinstance(value, (int, float)):
        raise InvalidInput(f"{name} holds a value of type {type(value).__name__}", hint="use JSON's types")
