"""Front matter as we write it: one entry a key, in the canonical order."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from deermem.clock import format_timestamp
from deermem.errors import InvalidInput
from deermem.format.frontmatter import MAX_DEPTH
from deermem.format.keys import NULLS, float_text
from deermem.model.fact import CATEGORIES, SCHEMA_VERSION, Fact, Source
from deermem.model.values import JsonScalar, JsonValue

_PLAIN = re.compile(r"\w[\w./@+=,'()&%!?;-]*(?:[ :][\w./@+=,'()&%!?;-]+)*")
_FLOW_PLAIN = re.compile(r"[A-Za-z_][\w./-]*")
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NUMBER_LIKE = re.compile(
    r"0[xX][0-9a-fA-F_]*|0[bB][01_]*|0[oO]?[0-7_]*|[\d_,]+\.?[\d_]*(?:[eE][-+]?[\d_]+)?"
    r"|[\d_]+(?::[\d_]+)+(?:\.[\d_]*)?|\d{4}-\d\d?-\d\d?.*"
)
_WORDS: Final = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"]) | NULLS
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def scalar(text: str) -> str:
    """A string such that every YAML reader, 1.1 or 1.2, reads this string: plain, else quoted."""
    if _BARE.fullmatch(text) and text.lower() not in _WORDS:
        return text
    if _PLAIN.fullmatch(text) and _safe_plain(text):
        return text
    return quoted(text)


def _safe_plain(text: str) -> bool:
    first = text[0]
    if first == "_" or first.isdigit() or first.isnumeric():
        return first.isascii() and not _NUMBER_LIKE.fullmatch(text)
    return text.lower() not in _WORDS


def quoted(text: str) -> str:
    """A string in single quotes, in double ones where it holds what must be escaped."""
    if not _UNPRINTABLE.search(text):
        return "'" + text.replace("'", "''") + "'"
    if "\0" in text:
        raise InvalidInput("a value holds a NUL character", hint="remove it")
    inner = json.dumps(text, ensure_ascii=False)[1:-1]
    return '"' + _UNPRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", inner) + '"'


def _flow(value: JsonValue, depth: int) -> str:
    """A value inside brackets, or a scalar anywhere."""
    if depth > MAX_DEPTH:
        raise InvalidInput(f"values nest deeper than {MAX_DEPTH} levels", hint="flatten them")
    if isinstance(value, str):
        bare = _FLOW_PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return value if bare else quoted(value)
    if value is None or isinstance(value, (bool, int, float)):
        return _atom(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(str(key), 0)}: {_flow(item, depth + 1)}" for key, item in value.items()) + "}"
    return "[" + ", ".join(_flow(item, depth + 1) for item in value) + "]"


def _atom(value: JsonScalar) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"the number {value} can't be stored", hint="give a finite number")
        return float_text(value)
    return str(value)


def inline(value: JsonValue) -> str:
    """A value that stands on the line of its key or list mark."""
    return scalar(value) if isinstance(value, str) else _flow(value, 1)


def in_brackets(value: JsonValue) -> str:
    """A value on one line, lists and mappings in brackets."""
    return _flow(value, 1)


def entry(key: str, value: JsonValue) -> str:
    """The lines of one key: lists and mappings in block form, what lies inside them in brackets."""
    name = scalar(key)
    if isinstance(value, str) or not value or not isinstance(value, (Mapping, Sequence)):
        return f"{name}: {inline(value)}\n"
    if isinstance(value, Mapping):
        return f"{name}:\n" + "".join(f"  {scalar(str(part))}: {inline(item)}\n" for part, item in value.items())
    return f"{name}:\n" + "".join(f"- {inline(item)}\n" for item in value)


def timestamp(moment: datetime) -> str:
    """A timestamp, quoted so that no YAML reader turns it into another type."""
    if moment.tzinfo is UTC and not moment.microsecond:
        return f"'{moment.isoformat()[:-6]}Z'"
    return f"'{format_timestamp(moment)}'"


def source_value(source: Source) -> dict[str, JsonValue]:
    """The mapping form of a source."""
    return {"type": source.type, "threadId": source.thread_id, **source.extra}


def _source(source: Source) -> str:
    if source.extra:
        return entry("source", source_value(source))
    thread = "null" if source.thread_id is None else scalar(source.thread_id)
    return f"source:\n  type: {scalar(source.type)}\n  threadId: {thread}\n"


def entries(fact: Fact) -> dict[str, str]:
    """All keys of a fact but the digest with their lines, in the canonical order."""
    known = fact.category in CATEGORIES
    found = {
        "id": f"id: {scalar(fact.id)}\n",
        "schemaVersion": f"schemaVersion: {SCHEMA_VERSION}\n",
        "category": f"category: {fact.category if known else 'other'}\n",
    }
    if not known:
        found["categoryExtension"] = f"categoryExtension: {scalar(fact.category)}\n"
    found["confidence"] = f"confidence: {float_text(fact.confidence)}\n"
    found["status"] = "status: active\n"
    found["topics"] = entry("topics", list(fact.topics)) if fact.topics else "topics: []\n"
    found["source"] = _source(fact.source)
    _add_optional(found, fact)
    found["revision"] = f"revision: {fact.revision}\n"
    found["createdAt"] = f"createdAt: {timestamp(fact.created_at)}\n"
    found["updatedAt"] = f"updatedAt: {timestamp(fact.updated_at)}\n"
    found["user_id"] = "user_id: null\n" if fact.user_id is None else f"user_id: {scalar(fact.user_id)}\n"
    found["agent_name"] = (
        "agent_name: null\n" if fact.agent_name is None else f"agent_name: {scalar(fact.agent_name)}\n"
    )
    for key, value in fact.extra.items():
        found[key] = entry(key, value)
    return found


def _add_optional(found: dict[str, str], fact: Fact) -> None:
    if fact.source_error is not None:
        found["sourceError"] = entry("sourceError", fact.source_error)
    if fact.expected_valid_days is not None:
        found["expected_valid_days"] = f"expected_valid_days: {fact.expected_valid_days}\n"
    if fact.expires_at is not None:
        found["expiresAt"] = f"expiresAt: {timestamp(fact.expires_at)}\n"
    if fact.last_confirmed_at is not None:
        found["lastConfirmedAt"] = f"lastConfirmedAt: {timestamp(fact.last_confirmed_at)}\n"
    if fact.confirmation_count is not None:
        found["confirmationCount"] = f"confirmationCount: {fact.confirmation_count}\n"
    if fact.consolidated_from:
        found["consolidatedFrom"] = entry("consolidatedFrom", list(fact.consolidated_from))
    if fact.consolidated_at is not None:
        found["consolidatedAt"] = f"consolidatedAt: {timestamp(fact.consolidated_at)}\n"
