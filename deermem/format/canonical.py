"""The fast reader: front matter as engines write it, without a YAML library.

It accepts a small subset on which every YAML reader agrees, and says None to everything else.
"""

from __future__ import annotations

import re
from typing import Final

from deermem.format.keys import KNOWN, LISTS, NULLS, TEXT_PARTS, Fields, plain_value
from deermem.model.values import JsonValue

# Without #, ", tabs, other control characters and brackets with something in them, a line has one meaning.
_SAFE = re.compile(r"[\w./@+=,'()&%!?;: \n-]*(?:\[\]\n[\w./@+=,'()&%!?;: \n-]*)*")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,127}")
_INDENTS: Final = ("- ", "  ")
_NESTED: Final = LISTS | {"source"}


class _UnsureError(Exception):
    """This needs the general reader."""


def parse(block: str) -> Fields | None:
    """The fields of a block whose every line is understood beyond doubt, else None. `block` ends in a newline."""
    if not _SAFE.fullmatch(block):
        return None
    try:
        return _parse(block)
    except _UnsureError:
        return None


def _parse(block: str) -> Fields:
    fields: Fields = {}
    opened = ""
    for line in block[:-1].split("\n"):
        key, colon, value = line.partition(": ")
        if key in KNOWN and value and key not in fields:
            opened = ""
            fields[key] = _value(value, True)
        elif line[:2] in _INDENTS:
            _add_child(fields, opened, line)
        elif colon:
            opened = ""
            _check_new(fields, key)
            fields[key] = _value(value, False)
        else:
            opened = line[:-1]
            if line[-1:] != ":":
                raise _UnsureError
            _check_new(fields, opened)
            fields[opened] = None
    return fields


def _check_new(fields: Fields, key: str) -> None:
    if key in fields or (key not in KNOWN and not _KEY.fullmatch(key)):
        raise _UnsureError


def _value(text: str, raw: bool) -> JsonValue:
    first = text[:1]
    if first.isalnum() or first == "_":
        if text[-1] in " :" or ": " in text:
            raise _UnsureError
        if raw:
            return None if text in NULLS else text
        return plain_value(text)
    if first == "'":
        inner = text[1:-1]
        if len(text) < 2 or text[-1] != "'" or "'" in inner:
            raise _UnsureError
        return inner
    if text != "[]":
        raise _UnsureError
    return []


def _add_child(fields: Fields, parent: str, line: str) -> None:
    """An item or a pair below the key that was opened last."""
    known = parent in KNOWN
    if not parent or (known and parent not in _NESTED):
        raise _UnsureError
    holder = fields[parent]
    if line[0] == "-":
        if holder is None:
            holder = fields[parent] = []
        if not isinstance(holder, list):
            raise _UnsureError
        holder.append(_value(line[2:], known))
        return
    if holder is None:
        holder = fields[parent] = {}
    key, colon, text = line[2:].partition(": ")
    if not colon or not isinstance(holder, dict) or key in holder or not _KEY.fullmatch(key):
        raise _UnsureError
    holder[key] = _value(text, known and key in TEXT_PARTS)
