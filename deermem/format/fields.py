"""Front matter values to a fact's values: what each key may hold, and what a missing one means."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, TypedDict, TypeVar

from deermem.clock import parse_timestamp
from deermem.errors import InvalidInput
from deermem.format.keys import KNOWN, OPTIONAL, Fields, float_text
from deermem.model.fact import (
    CATEGORIES,
    DEFAULT_CATEGORY,
    DEFAULT_CONFIDENCE,
    SCHEMA_VERSION,
    Source,
    check_category,
    check_confidence,
    check_id,
    check_text,
    check_topics,
    check_valid_days,
)
from deermem.model.values import JsonObject, JsonValue

_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_WHOLE = re.compile(r"[0-9]{1,15}")
MAX_REVISION: Final = 100_000_000_000_000
"""Above it a file is refused: a hand edit and an update each add one, and 15 digits are all that a digest has."""
T = TypeVar("T")
R = TypeVar("R")


class FieldError(ValueError):
    """A value of a known key that no rule can read."""

    def __init__(self, key: str, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.key = key
        self.code = code
        self.message = message
        self.hint = hint


def text(fields: Fields, key: str) -> str | None:
    """A text value; None where it is missing or null."""
    value = fields.get(key)
    if value is None or isinstance(value, str):
        return value
    raise FieldError(key, "bad-type", f"{key} is a {_kind(value)}", "give one line of text")


def _kind(value: JsonValue) -> str:
    return "mapping" if isinstance(value, Mapping) else "list" if isinstance(value, list) else type(value).__name__


def whole(fields: Fields, key: str) -> int | None:
    """A whole number of at least 1; None where it is missing or null."""
    value = text(fields, key)
    if not value:
        return None
    if not _WHOLE.fullmatch(value) or int(value) < 1:
        raise FieldError(key, "bad-number", f"{key} is {value!r:.80}", "give a whole number, at least 1")
    return int(value)


def check_revision(number: int) -> None:
    """Refuse a revision that leaves no room to grow."""
    if number > MAX_REVISION:
        hint = "write a smaller one and remove the digest line"
        raise FieldError("revision", "bad-number", f"revision is {number}, at most {MAX_REVISION} counts", hint)


def moment(fields: Fields, key: str) -> datetime | None:
    """A timestamp as aware UTC; None where it is missing, null or empty."""
    value = text(fields, key)
    if not value:
        return None
    found = fast_moment(value) or parse_timestamp(value)
    if found is None:
        raise FieldError(key, "bad-timestamp", f"{key} is {value!r:.80}", "write it like '2026-11-30T10:00:00Z'")
    return found


def fast_moment(value: str) -> datetime | None:
    """A timestamp just as this engine writes it; None for any other text."""
    if value[-1] != "Z" or len(value) not in (20, 27):
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found if found.tzinfo is UTC else None


def _checked(key: str, code: str, check: Callable[[T], R], value: T) -> R:
    try:
        return check(value)
    except InvalidInput as error:
        raise FieldError(key, code, error.message, error.hint) from None


def fact_id(fields: Fields) -> str:
    """The id, "" where there is none."""
    found = text(fields, "id")
    return _checked("id", "bad-id", check_id, found) if found else ""


def check_constants(fields: Fields) -> None:
    """Refuse what this version can't serve: a newer schema, a status other than active."""
    if fields.get("schemaVersion") == "2" and fields.get("status") == "active":
        return
    version = whole(fields, "schemaVersion")
    if version is not None and version > SCHEMA_VERSION:
        hint = "open the store with the version that wrote it"
        raise FieldError("schemaVersion", "newer-version", f"schemaVersion is {version}", hint)
    status = text(fields, "status")
    if status and status.lower() != "active":
        hint = "delete the file to delete the fact"
        raise FieldError("status", "bad-status", f"status is {status!r:.80}", hint)


def category(fields: Fields) -> str:
    """The word as the person or model wrote it: `other` stands for its extension."""
    word = text(fields, "category")
    if not word:
        return DEFAULT_CATEGORY
    if word in CATEGORIES and word != "other":
        return word
    word = _checked("category", "bad-category", check_category, word)
    extension = text(fields, "categoryExtension") if word == "other" else None
    return _checked("categoryExtension", "bad-category", check_category, extension) if extension else word


def confidence(fields: Fields) -> float:
    """A number from 0 to 1, quoted or not."""
    value = text(fields, "confidence")
    if not value:
        return DEFAULT_CONFIDENCE
    if not _NUMBER.fullmatch(value):
        raise FieldError("confidence", "bad-number", f"confidence is {value!r:.80}", "give a number from 0 to 1")
    return _checked("confidence", "bad-number", check_confidence, float(value))


def _strings(key: str, value: JsonValue) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    if not isinstance(value, list):
        raise FieldError(key, "bad-type", f"{key} is a {_kind(value)}", "give a list of strings")
    found: list[str] = []
    for item in value:
        if isinstance(item, (list, dict)):
            raise FieldError(key, "bad-type", f"{key} holds a {_kind(item)}", "give a list of strings")
        if item is not None and item != "":
            found.append(item if isinstance(item, str) else _scalar_text(item))
    return tuple(found)


def _scalar_text(item: JsonValue) -> str:
    return str(item).lower() if isinstance(item, bool) else float_text(item) if isinstance(item, float) else str(item)


def topics(fields: Fields) -> tuple[str, ...]:
    """The topics; where there are none, `tags` as other note-taking programs write them."""
    key = "topics" if "topics" in fields or "tags" not in fields else "tags"
    value = fields.get(key)
    if not value:
        return ()
    if key == "tags" and not isinstance(value, (str, list)):
        value = None if isinstance(value, Mapping) else [value]
    found = tuple(item for item in _strings(key, value) if item.strip()) if value else ()
    return _checked(key, "bad-topics", check_topics, found)


class Rare(TypedDict, total=False):
    """The values of optional keys, by the names that a fact has for them."""

    source_error: str | None
    expected_valid_days: int | None
    expires_at: datetime | None
    last_confirmed_at: datetime | None
    confirmation_count: int | None
    consolidated_from: tuple[str, ...]
    consolidated_at: datetime | None


RARE: Final = frozenset(OPTIONAL) - {"categoryExtension", "status", "topics", "digest"}


def rare(fields: Fields) -> Rare:
    """The optional values; most files have none of them."""
    merged = fields.get("consolidatedFrom")
    return Rare(
        source_error=text(fields, "sourceError"),
        expected_valid_days=check_valid_days(whole(fields, "expected_valid_days")),
        expires_at=moment(fields, "expiresAt"),
        last_confirmed_at=moment(fields, "lastConfirmedAt"),
        confirmation_count=whole(fields, "confirmationCount"),
        consolidated_from=_strings("consolidatedFrom", merged) if merged else (),
        consolidated_at=moment(fields, "consolidatedAt"),
    )


def source(fields: Fields) -> Source:
    """Where it comes from; unstated, it is manual in a file that no engine wrote."""
    value = fields.get("source")
    if type(value) is dict and len(value) == 2 and "type" in value and "threadId" in value:
        kind, thread = value["type"], value["threadId"]
        if kind and isinstance(kind, str) and (thread is None or isinstance(thread, str)):
            return Source(kind, thread)
    engine_made = "id" in fields or "digest" in fields or "schemaVersion" in fields
    if not (value is None or isinstance(value, (str, Mapping))):
        raise FieldError("source", "bad-type", f"source is a {_kind(value)}", "give a mapping with type and threadId")
    try:
        return Source.of(value, missing="unknown" if engine_made else "manual")
    except InvalidInput as error:
        raise FieldError("source", "bad-type", error.message, error.hint) from None


def owner(fields: Fields, key: str) -> str | None:
    """user_id or agent_name as written."""
    value = text(fields, key)
    return _checked(key, "bad-owner", lambda given: check_text(given, key), value) if value else value


def title_key(fields: Fields) -> str:
    """A `title:` of the front matter, for a body without a heading; "" for none, null and the word None."""
    value = fields.get("title")
    found = value.strip() if isinstance(value, str) else ""
    return "" if found == "None" else " ".join(found.split())


def extra(fields: Fields) -> JsonObject:
    """A person's own keys."""
    if fields.keys() <= KNOWN:
        return {}
    return {key: value for key, value in fields.items() if key not in KNOWN}
