"""A fact as a JSON mapping in camelCase: the form of exported documents and of v1 stores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from deermem.clock import format_timestamp, parse_timestamp
from deermem.errors import InvalidInput
from deermem.format.keys import KNOWN
from deermem.model.fact import (
    DEFAULT_CATEGORY,
    DEFAULT_CONFIDENCE,
    MAX_TITLE,
    Fact,
    Source,
    check_category,
    check_confidence,
    check_content,
    check_id,
    check_text,
    check_topics,
    check_valid_days,
    derive_title,
)
from deermem.model.values import JsonObject, JsonValue

ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("id",),
    "content": ("content",),
    "category": ("category",),
    "confidence": ("confidence",),
    "created_at": ("createdAt", "created_at"),
    "updated_at": ("updatedAt", "updated_at"),
    "source": ("source",),
    "topics": ("topics",),
    "revision": ("revision",),
    "title": ("title",),
    "status": ("status",),
    "source_error": ("sourceError", "source_error"),
    "expected_valid_days": ("expected_valid_days", "expectedValidDays"),
    "expires_at": ("expiresAt", "expires_at"),
    "last_confirmed_at": ("lastConfirmedAt", "last_confirmed_at"),
    "confirmation_count": ("confirmationCount", "confirmation_count"),
    "consolidated_from": ("consolidatedFrom", "consolidated_from"),
    "consolidated_at": ("consolidatedAt", "consolidated_at"),
    "user_id": ("user_id", "userId"),
    "agent_name": ("agent_name", "agentName"),
}
"""Fact attribute → the keys it is read from; the first is the one that is written."""

_ATTRIBUTES: Final = {key: name for name, keys in ALIASES.items() for key in keys}
_EXTRA: Final = "extra"
_DROPPED: Final = frozenset(("schemaVersion", "categoryExtension", "digest", "scope"))
_OWN: Final = frozenset(_ATTRIBUTES) | _DROPPED | {_EXTRA}
_NESTED: Final = _OWN - KNOWN
"""The person's own keys that would read as ours in a document: they stand in its `extra`."""
_FILLED_IN: Final = ("id", "created_at", "updated_at")
_MAX_DEPTH: Final = 50
_MAX_COUNT: Final = 999_999_999_999_999
# Each change adds one: what is stated must leave room below what a file may say.
_MAX_STATED_REVISION: Final = 999_999_999_999


def fact_to_mapping(fact: Fact) -> JsonObject:
    """The fact with every field that says something, owner and version token left out. A copy throughout."""
    item: JsonObject = {
        "id": fact.id,
        "content": fact.content,
        "category": fact.category,
        "confidence": fact.confidence,
        "createdAt": format_timestamp(fact.created_at),
        "updatedAt": format_timestamp(fact.updated_at),
        "source": _source_value(fact.source),
        "topics": list(fact.topics),
        "revision": fact.revision,
    }
    if fact.title != derive_title(fact.content):
        item["title"] = fact.title
    item.update(_optional_values(fact))
    own = {key: plain_json(value, key) for key, value in fact.extra.items() if key in _OWN}
    item.update({key: plain_json(value, key) for key, value in fact.extra.items() if key not in own})
    if own:
        item[_EXTRA] = own
    return item


def fact_from_mapping(
    item: Mapping[str, JsonValue], *, now: datetime, new_id: Callable[[str], str], strip: bool = False
) -> Fact:
    """The fact that a mapping states; raises InvalidInput naming field, value and mend.

    Only `content` is needed. A missing or null field takes its default: an id from `new_id(content)`, category
    context, confidence 0.5, `createdAt` `now`, `updatedAt` as `createdAt`. A confidence may be a number in
    quotes. Keys that nothing is known of become `extra`; a `scope` names the owner. `strip` takes blank space off
    both ends of the content, as a v1 store is read; else indentation stays.
    """
    given = _given(item)
    content = _content(given.get("content"), strip)
    created = _moment(given.get("created_at"), "createdAt") or now
    owner = item.get("scope")
    scope = owner if isinstance(owner, Mapping) else {}
    return Fact(
        id=check_id(_text(given.get("id"), "id") or new_id(content)),
        content=content,
        title=_title(given.get("title"), content),
        category=_category(given.get("category"), item.get("categoryExtension")),
        confidence=_confidence(given.get("confidence")),
        topics=_list(given.get("topics"), "topics"),
        source=_source(given.get("source")),
        created_at=created,
        updated_at=_moment(given.get("updated_at"), "updatedAt") or created,
        revision=_count(given.get("revision"), "revision", _MAX_STATED_REVISION) or 1,
        status=_status(given.get("status")),
        user_id=_text(given.get("user_id") or scope.get("userId"), "user_id"),
        agent_name=_text(given.get("agent_name") or scope.get("agentName"), "agent_name"),
        source_error=_text(given.get("source_error"), "sourceError"),
        expected_valid_days=_days(given.get("expected_valid_days")),
        expires_at=_moment(given.get("expires_at"), "expiresAt"),
        last_confirmed_at=_moment(given.get("last_confirmed_at"), "lastConfirmedAt"),
        confirmation_count=_count(given.get("confirmation_count"), "confirmationCount"),
        consolidated_from=_list(given.get("consolidated_from"), "consolidatedFrom"),
        consolidated_at=_moment(given.get("consolidated_at"), "consolidatedAt"),
        extra=_extra(item),
    )


def stated_fields(item: Mapping[str, JsonValue]) -> frozenset[str]:
    """The Fact attributes that a mapping itself states; the others took their defaults."""
    own = {"extra"} if item.get(_EXTRA) is not None or not _OWN.issuperset(item) else frozenset()
    # A blank time is filled in with the time of the call, a blank id from the content: neither is the document's own.
    named = {name for name, value in _given(item).items() if name not in _FILLED_IN or str(value).strip()}
    return frozenset(named) | own


def plain_json(value: object, name: str, depth: int = 0) -> JsonValue:
    """A deep copy in JSON's own types; raises InvalidInput for other types, NaN, unencodable text and cycles."""
    if depth > _MAX_DEPTH:
        raise InvalidInput(f"{name} is nested more than {_MAX_DEPTH} deep", hint="flatten it")
    if isinstance(value, str):
        return check_text(value, name)
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"{name} holds {value!r}, which JSON has no form for", hint="give a finite number")
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {_key(key, name): plain_json(inner, name, depth + 1) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [plain_json(inner, name, depth + 1) for inner in value]
    raise InvalidInput(f"{name} holds a value of type {type(value).__name__}", hint="use JSON's types")


def _key(key: object, name: str) -> str:
    if not isinstance(key, str):
        raise InvalidInput(f"{name} holds the key {key!r:.40}, which is not text", hint="quote it")
    return check_text(key, f"a key of {name}")


def _source_value(source: Source) -> JsonValue:
    if Source.of(source.label) == source:
        return source.label
    extra = {key: plain_json(value, f"source.{key}") for key, value in source.extra.items()}
    return {"type": source.type, "threadId": source.thread_id, **extra}


def _optional_values(fact: Fact) -> JsonObject:
    moments = {
        "expiresAt": fact.expires_at,
        "lastConfirmedAt": fact.last_confirmed_at,
        "consolidatedAt": fact.consolidated_at,
    }
    values: JsonObject = {
        "sourceError": fact.source_error,
        "expected_valid_days": fact.expected_valid_days,
        "confirmationCount": fact.confirmation_count,
        "consolidatedFrom": list(fact.consolidated_from) or None,
    }
    values.update({key: None if moment is None else format_timestamp(moment) for key, moment in moments.items()})
    return {key: value for key, value in values.items() if value is not None}


def _given(item: Mapping[str, JsonValue]) -> JsonObject:
    """Attribute → value, for those that the mapping states; of two spellings the documents' own counts."""
    given: JsonObject = {}
    for key, value in item.items():
        name = _ATTRIBUTES.get(key)
        if name is not None and value is not None and (name not in given or key == ALIASES[name][0]):
            given[name] = value
    return given


def _content(value: JsonValue, strip: bool) -> str:
    if value is None:
        raise InvalidInput("content is missing", hint="say the fact in `content`")
    text = check_text(value, "content") if isinstance(value, str) else value
    if not isinstance(text, str):
        raise InvalidInput(f"content is {value!r:.60}", hint="give text")
    return check_content(text.strip() if strip else text)


def _text(value: JsonValue, name: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is {value!r:.60}, which is not text", hint="quote it")
    return check_text(value, name) if value.strip() else None


def _title(value: JsonValue, content: str) -> str:
    text = _text(value, "title")
    return " ".join(text.split())[:MAX_TITLE].rstrip() if text else derive_title(content)


def _category(value: JsonValue, extension: JsonValue) -> str:
    word = _text(value, "category")
    if word is None:
        return DEFAULT_CATEGORY
    checked = check_category(word)
    original = _text(extension, "categoryExtension") if checked == "other" else None
    return check_category(original) if original else checked


def _confidence(value: JsonValue) -> float:
    if value is None:
        return DEFAULT_CONFIDENCE
    if isinstance(value, str):
        return check_confidence(_number(value))
    if isinstance(value, (int, float)):
        return check_confidence(value)
    raise InvalidInput(f"confidence is {value!r:.60}", hint="give a number from 0 to 1")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"confidence {text!r:.60} is not a number", hint="give a number from 0 to 1") from None


def _moment(value: JsonValue, name: str) -> datetime | None:
    text = _text(value, name)
    moment = None if text is None else parse_timestamp(text)
    if text is not None and moment is None:
        raise InvalidInput(f"{name} {text!r:.60} is not a timestamp", hint="write it like 2026-11-30T10:00:00Z")
    return moment


def _count(value: JsonValue, name: str, most: int = _MAX_COUNT) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidInput(f"{name} is {value!r:.60}", hint=f"give a whole number from 1 to {most}")
    return value


def _days(value: JsonValue) -> int | None:
    if isinstance(value, float) and value.is_integer():
        return check_valid_days(int(value))
    if value is None or isinstance(value, int):
        return check_valid_days(value)
    raise InvalidInput(f"expected_valid_days is {value!r:.60}", hint="give a whole number of days, at least 1")


def _status(value: JsonValue) -> str:
    if value not in (None, "active"):
        raise InvalidInput(f"status is {value!r:.60}", hint='only "active" exists; leave out what is deleted')
    return "active"


def _list(value: JsonValue, name: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(each, str) for each in value):
        raise InvalidInput(f"{name} is {value!r:.60}", hint="give a list of strings")
    texts = [each for each in value if isinstance(each, str)]
    return check_topics(texts) if name == "topics" else tuple(check_text(text, name) for text in texts if text)


def _source(value: JsonValue) -> Source:
    if not isinstance(value, (str, Mapping)) and value is not None:
        raise InvalidInput(f"source is {value!r:.60}", hint="give a string or a mapping with type and threadId")
    copy = plain_json(value, "source")
    return Source.of(copy if isinstance(copy, (str, Mapping)) else None)


def _extra(item: Mapping[str, JsonValue]) -> JsonObject:
    extra = {_key(key, "the fact"): plain_json(value, key) for key, value in item.items() if key not in _OWN}
    own = plain_json(item.get(_EXTRA), _EXTRA)
    if isinstance(own, Mapping) and own and _NESTED.issuperset(own):
        return {**extra, **own}
    return extra if own is None else {**extra, _EXTRA: own}
