"""JSON that gives back what it was read from: numbers in their own digits, half characters as their escapes.

Written for memory.json, where other programs and people keep keys of their own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Final

from deermem.model.values import JsonValue

_INDENT: Final = "  "
_PLAIN: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_ESCAPED: Final = json.JSONEncoder()


class ExactNumber(float):
    """A number whose digits a float would change (`1.10`, 30 decimal places, `-0`); `str` gives them back."""

    text: str

    def __new__(cls, text: str) -> ExactNumber:
        """The number of a JSON literal."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __repr__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type[ExactNumber], tuple[str]]:
        return ExactNumber, (self.text,)


def exact_float(text: str) -> float:
    """For `parse_float`: a float, which keeps its text where it would be written otherwise. May be infinite."""
    number = float(text)
    return number if repr(number) == text or not math.isfinite(number) else ExactNumber(text)


def exact_int(text: str) -> int | float:
    """For `parse_int`; raises ValueError for more digits than Python reads."""
    return ExactNumber(text) if text == "-0" else int(text)


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded: JSON's escapes can also say half a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def dumps(value: JsonValue) -> str:
    """The value with an indent of two; a text that can't be encoded is written in escapes.

    Raises ValueError for NaN and the infinities, RecursionError for values that nest too deep.
    """
    return _written(value, "\n")


def _written(value: JsonValue, line: str) -> str:
    if isinstance(value, str):
        return _PLAIN.encode(value) if is_unicode(value) else _ESCAPED.encode(value)
    if isinstance(value, ExactNumber):
        return value.text
    inner = line + _INDENT
    if isinstance(value, Mapping):
        pairs = [f"{_written(key, inner)}: {_written(item, inner)}" for key, item in value.items()]
        return _enclosed("{}", pairs, line)
    if isinstance(value, Iterable):
        return _enclosed("[]", [_written(item, inner) for item in value], line)
    return _PLAIN.encode(value)


def _enclosed(brackets: str, items: list[str], line: str) -> str:
    if not items:
        return brackets
    inner = line + _INDENT
    return f"{brackets[0]}{inner}{f',{inner}'.join(items)}{line}{brackets[1]}"
