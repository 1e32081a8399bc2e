"""The keys of a fact's front matter, and what a plain scalar means."""

from __future__ import annotations

import math
import re
from typing import Final, TypeAlias

from deermem.model.values import JsonObject, JsonScalar

Fields: TypeAlias = JsonObject
"""Front matter as read: scalars of known keys as typed (text, or None for null), all others as JSON values."""

REQUIRED: Final = (
    "id",
    "schemaVersion",
    "category",
    "confidence",
    "source",
    "revision",
    "createdAt",
    "updatedAt",
    "user_id",
    "agent_name",
)
OPTIONAL: Final = (
    "categoryExtension",
    "status",
    "topics",
    "sourceError",
    "expected_valid_days",
    "expiresAt",
    "lastConfirmedAt",
    "confirmationCount",
    "consolidatedFrom",
    "consolidatedAt",
    "digest",
)
KNOWN: Final = frozenset(REQUIRED + OPTIONAL)
NULLABLE: Final = frozenset(("source", "user_id", "agent_name"))
LISTS: Final = frozenset(("topics", "consolidatedFrom"))
TEXT_PARTS: Final = frozenset(("type", "threadId"))
NULLS: Final = frozenset(("", "~", "null", "Null", "NULL"))
_WORDS: Final[dict[str, bool]] = {"true": True, "false": False}
MAX_DIGITS: Final = 40
"""Of a number that is read as one; a longer one is text."""
_INTEGER = re.compile(rf"-?(?:0|[1-9][0-9]{{0,{MAX_DIGITS - 1}}})")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]{0,39})\.[0-9]{1,40}(?:e[+-][0-9]{1,3})?")


def plain_value(text: str) -> JsonScalar:
    """An unquoted scalar of a key that is not ours: true, false, null, a number written as we would, else text.

    `1.10`, `0123`, `no` and dates stay text, because the number, boolean or date would not give them back.
    """
    if text in NULLS:
        return None
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text) and text != "-0":
        return int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) and float_text(number) == text else text
    return text


def float_text(number: float) -> str:
    """The shortest text that every YAML reader takes for this number: an exponent needs a point before it."""
    text = repr(number)
    return text.replace("e", ".0e") if "e" in text and "." not in text else text
