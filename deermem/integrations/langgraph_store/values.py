"""An item as a fact and back: the text of a value is the file's text, the rest of it front matter, else it is JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from langgraph.store.base import get_text_at_path

from deermem.clock import format_timestamp, parse_timestamp
from deermem.errors import InvalidInput
from deermem.format.exact_json import dumps
from deermem.model.fact import MAX_CONTENT_BYTES, MAX_TITLE, Fact, derive_title, normalize_content
from deermem.model.values import JsonObject, JsonValue

OWN_KEYS: Final = ("namespace", "item", "value")
"""The front matter keys of an item; all others are a person's, and stay."""

MAX_VALUE_BYTES: Final = 4 * 1024 * 1024
"""The longest text, or JSON, of one item."""

_WHOLE: Final = "$"
_FENCES: Final = "```json\n\n```"
_MAX_TOPICS: Final = 32_768
_TEXT_NAMES: Final = ("content", "text", "memory")
_MAX_DEPTH: Final = 100
_NUMBER_END: Final = 10**4000
_FENCED = re.compile(r"^```json\n(.*?)\n```[^\S\n]*$", re.DOTALL | re.MULTILINE)
_BLANK_TOPIC = re.compile(r"[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Meta:
    """What an item's file says beside its value. `fields` None: all of it is searched; (): nothing of it is.

    `ttl` is in minutes. `updated_at` is there where the file was rewritten since without a new value.
    """

    key: str | None = None
    ttl: float | None = None
    updated_at: datetime | None = None
    fields: tuple[str, ...] | None = None

    @classmethod
    def of(cls, fact: Fact) -> Meta:
        """As a file says, whoever wrote it: what makes no sense says nothing."""
        item = mapping(fact.extra.get("item"))
        key, ttl, updated, fields = item.get("key"), item.get("ttl"), item.get("updated"), item.get("search")
        timed = isinstance(ttl, (int, float)) and not isinstance(ttl, bool) and 0 < ttl < math.inf
        named = tuple(str(name) for name in fields) if isinstance(fields, list) else ()
        return cls(
            key=str(key) if isinstance(key, (str, int)) else None,
            ttl=float(ttl) if timed and isinstance(ttl, (int, float)) else None,
            updated_at=parse_timestamp(updated) if isinstance(updated, str) else None,
            fields=() if fields is False else named or None,
        )


def checked_value(value: object, name: str = "value", depth: int = 0) -> JsonValue:
    """A deep copy in JSON's own types; raises InvalidInput naming the place of what JSON has no form for."""
    if depth > _MAX_DEPTH:
        raise InvalidInput(f"{name:.80} nests deeper than {_MAX_DEPTH} levels", hint="flatten it")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        # A member of an enumeration is text, but YAML has no form for it.
        return str.__str__(value)
    if isinstance(value, int):
        if abs(value) >= _NUMBER_END:
            raise InvalidInput(f"{name:.80} is a number of more than 4000 digits", hint="give it as text")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"{name:.80} is {value!r}, which JSON has no form for", hint="give null or text")
        return float(value)
    if isinstance(value, Mapping):
        return {_checked_key(key, name): checked_value(part, f"{name}.{key}", depth + 1) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [checked_value(part, f"{name}[{at}]", depth + 1) for at, part in enumerate(value)]
    raise InvalidInput(f"{name:.80} is of type {type(value).__name__}", hint="use JSON's types")


def _checked_key(key: object, name: str) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    raise InvalidInput(f"{name:.80} has the key {key!r:.40}, which is not text", hint="quote it")


@dataclass(frozen=True, slots=True)
class Put:
    """What a put asks for, checked. `value` is a copy of the caller's; `topics` None leaves a file's own.

    `fields` and `ttl` are those of `Meta`.
    """

    namespace: tuple[str, ...]
    key: str
    value: JsonObject
    ttl: float | None = None
    fields: tuple[str, ...] | None = None
    topics: tuple[str, ...] | None = None


def as_text(put: Put, base: Fact) -> Fact | None:
    """The fact that holds a value as text, over `base`, whose title counts where it has one; None without a text.

    It may be longer than a file can be.
    """
    named = next((name for name in _TEXT_NAMES if isinstance(put.value.get(name), str)), None)
    name = next(iter(put.value)) if named is None and len(put.value) == 1 else named
    text = put.value.get(name) if name is not None else None
    if name is None or not isinstance(text, str):
        return None
    content, around = trimmed(text)
    if not content:
        return None
    further = {key: part for key, part in put.value.items() if key != name}
    return _with(put, base, content, base.title or derive_title(content), ({"text": name, **around}, further))


def as_json(put: Put, base: Fact) -> Fact:
    """The fact that holds a value as JSON, of any length: without blanks where it only fits so."""
    body = dumps(put.value)
    size = len(body.encode()) + len(_FENCES)
    if size > MAX_CONTENT_BYTES:
        compact = json.dumps(put.value, separators=(",", ":"), allow_nan=False)
        if len(compact) + len(_FENCES) <= MAX_CONTENT_BYTES or size > MAX_VALUE_BYTES:
            body = compact
    return _with(put, base, fenced(body)[0], base.title or title_of_key(put.key), ({"json": True}, {}))


def trimmed(text: str) -> tuple[str, JsonObject]:
    """A text as a file can hold it, and what an item says of the blank space around it."""
    content = normalize_content(text)
    start = text.index(content)
    around: JsonObject = {}
    for side, blank in (("before", text[:start]), ("after", text[start + len(content) :])):
        if blank:
            around[side] = len(blank) if not blank.strip("\n") else blank
    return content, around


def fenced(text: str) -> tuple[str, JsonObject]:
    """A piece of JSON as a code block, and what an item says of the line ends behind it."""
    inner = text.rstrip("\n")
    ends = len(text) - len(inner)
    return f"```json\n{inner}\n```", {"after": ends} if ends else {}


def text_of(fact: Fact) -> str:
    """The text of a file with the blank space around it; of a code block of JSON, what is in it."""
    item = mapping(fact.extra.get("item"))
    found = _FENCED.search(fact.content) if is_json(fact) and "text" not in item else None
    return _blank(item.get("before")) + (found[1] if found else fact.content) + _blank(item.get("after"))


def _with(put: Put, base: Fact, content: str, title: str, parts: tuple[JsonObject, JsonObject]) -> Fact:
    form, further = parts
    item: JsonObject = {} if put.key == base.id else {"key": put.key}
    item |= form
    if put.ttl is not None:
        item["ttl"] = int(put.ttl) if put.ttl.is_integer() else put.ttl
    if put.fields is not None:
        item["search"] = list(put.fields) or False
    extra: JsonObject = {"namespace": list(put.namespace), "item": item, "value": further}
    extra |= {key: part for key, part in base.extra.items() if key not in OWN_KEYS}
    if not further:
        del extra["value"]
    # Those of a put with fields were made of its value.
    kept = base.topics if not Meta.of(base).fields else ()
    topics = kept if put.topics is None else put.topics
    if put.topics is not None and sum(map(len, topics)) > _MAX_TOPICS:
        # The front matter that they stand in has a limit; a query then looks at the value itself.
        topics = ()
    return replace(base, content=content, title=title, topics=topics, extra=extra)


def title_of_key(key: str) -> str:
    """The heading of an item whose value is JSON."""
    line = " ".join("".join(each if each.isprintable() else " " for each in key).split())
    return line[:MAX_TITLE].strip() or "Item"


def read_value(fact: Fact) -> JsonObject | None:
    """The value that a file holds, made anew each time; None where its JSON can't be read.

    A file that no store wrote is a `json` block that says it all, or `content`, with what stands below `value` in
    its front matter.
    """
    item = mapping(fact.extra.get("item"))
    name = item.get("text")
    if not isinstance(name, str):
        found = _FENCED.search(fact.content)
        whole = found is not None and found.group() == fact.content
        parsed = _parsed(found[1]) if found is not None and (whole or item.get("json") is True) else None
        if parsed is not None or item.get("json") is True:
            return parsed
        name = "content"
    value: JsonObject = {name: text_of(fact)}
    for key, part in mapping(fact.extra.get("value")).items():
        value.setdefault(key, _copy(part))
    return value


def is_json(fact: Fact) -> bool:
    """Whether a store wrote a fact's value as JSON, so that looking at it is worth remembering."""
    return mapping(fact.extra.get("item")).get("json") is True


def refreshed(fact: Fact, expires_at: datetime) -> Fact:
    """The fact with another end; it still says when its value was put."""
    item = {**mapping(fact.extra.get("item"))}
    item.setdefault("updated", format_timestamp(fact.updated_at))
    return replace(fact, expires_at=expires_at, extra={**fact.extra, "item": item})


def texts_at(value: JsonObject, fields: Sequence[str]) -> list[str]:
    """What stands in the fields of a value."""
    found: list[str] = []
    for path in fields:
        found += leaves(value) if path == _WHOLE else get_text_at_path(dict(value), path)
    return found


def topics_of(value: JsonObject, fields: Sequence[str] | None) -> tuple[str, ...] | None:
    """What the index must know besides the text of a file; None where it is the text alone."""
    if fields is None:
        return None
    return tuple(dict.fromkeys(topic for text in texts_at(value, fields) if (topic := topic_of(text))))


def is_untold(fact: Fact) -> bool:
    """Whether the index doesn't know all that a query looks at: a person changed a field, and not the topics."""
    fields = Meta.of(fact).fields
    if not fields or is_json(fact):
        return False
    return not set(topics_of(read_value(fact) or {}, fields) or ()) <= set(fact.topics)


def topic_of(text: str) -> str:
    """A text as one line that a topic can hold, "" for nothing visible."""
    return " ".join(_BLANK_TOPIC.sub(" ", text).split())


def leaves(value: JsonValue) -> list[str]:
    """Every text and number in a value, however deep a person nested it."""
    found: list[str] = []
    waiting: list[JsonValue] = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            waiting += reversed(list(part.values()))
        elif isinstance(part, list):
            waiting += reversed(part)
        elif part is not None:
            found.append(str(part))
    return found


def _parsed(text: str) -> JsonObject | None:
    try:
        found = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


def _blank(value: JsonValue) -> str:
    """The blank space around a text: as it is, or a number of line ends."""
    if isinstance(value, int):
        return "\n" * min(value, MAX_CONTENT_BYTES)
    return value if isinstance(value, str) else ""


def mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    """A value where it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _copy(value: JsonValue) -> JsonValue:
    if isinstance(value, Mapping):
        return {key: _copy(part) for key, part in value.items()}
    return [_copy(part) for part in value] if isinstance(value, list) else value
