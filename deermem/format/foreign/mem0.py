"""The memories of mem0, as its client and its platform give them in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from deermem.clock import format_timestamp, parse_timestamp
from deermem.errors import InvalidInput
from deermem.format.foreign.collecting import Collector, Foreign, is_blank, one_line, optional_text, stable_id
from deermem.format.foreign.json_text import load_json
from deermem.format.markdown import note_id
from deermem.model.values import JsonObject, JsonValue

_LISTS: Final = ("results", "memories")
_TEXTS: Final = ("memory", "content")
_THREADS: Final = ("run_id", "session_id")
_STATES: Final = ("paused", "archived", "deleted")
"""In which OpenMemory shows a memory to nobody; its backup has them all."""
_KEPT: Final = {"user_id": "userId", "agent_id": "agentId", "app_id": "appId", "actor_id": "actorId"}


def read_mem0(text: str, *, when: datetime, now: datetime, skip_bad: bool = False) -> Foreign:
    """The facts of a list of memories, or of an object with `results` or `memories`.

    `when` is the time of memories without one; what is over by `now`, or was replaced there, is passed over. Raises
    one InvalidInput that names all bad memories, unless they are skipped, and where they are of several users.
    """
    name, items, whole = _items(load_json(text))
    collector = Collector(skip_bad)
    owners: dict[str, str] = {}
    for position, item in enumerate(items):
        place = f"{name}[{position}]"
        try:
            memory = _mapping(item)
            place += f" (id {memory['id']!r:.60})" if memory.get("id") is not None else ""
            owner = optional_text(memory, "user_id")
            over = _over(memory, now)
            fact = {} if over else _fact(memory)
        except InvalidInput as error:
            collector.refuse(place, error)
            continue
        if owner is not None:
            owners.setdefault(owner, place)
        if over:
            collector.skip(place, over)
        else:
            collector.add(place, fact, when)
    if len(owners) > 1:
        named = ", ".join(f"{owner!r:.40}" for owner in list(owners)[:3])
        hint = "export those of one user at a time, so that none gets to read another's"
        collector.refuse("", InvalidInput(f"the memories are of {len(owners)} users ({named})", hint=hint))
    if not whole:
        collector.skip(name, "it is one page of several; the others are not in it")
    return collector.done()


def _items(value: JsonValue) -> tuple[str, Sequence[JsonValue], bool]:
    """The name of the list, the list, and whether it is all of it."""
    if isinstance(value, list):
        return "memories", value, True
    if isinstance(value, Mapping):
        for name in _LISTS:
            found = value.get(name)
            if isinstance(found, list):
                return name, found, value.get("next") is None
    raise InvalidInput(
        f"it holds no list of memories but {type(value).__name__}",
        hint='give what get_all answers: a list, or an object with a list "results" or "memories"',
    )


def _mapping(item: JsonValue) -> Mapping[str, JsonValue]:
    if not isinstance(item, Mapping):
        raise InvalidInput(f"it is {item!r:.60}", hint='give an object like {"id": …, "memory": …}')
    return item


def _over(memory: Mapping[str, JsonValue], now: datetime) -> str:
    """Why it counts no more there, "" where it does."""
    end = _end(memory)
    if end is not None and end <= now:
        return "its expiration_date is over"
    if (state := memory.get("state")) in _STATES:
        return f"it is {state} there"
    return "another memory replaced it" if memory.get("replaced_by") is not None else ""


def _end(memory: Mapping[str, JsonValue]) -> datetime | None:
    """The day after the last one on which it counts."""
    word = optional_text(memory, "expiration_date")
    moment = None if word is None else parse_timestamp(word)
    try:
        end = None if moment is None else moment + timedelta(days=1)
    except OverflowError:
        end = moment
    if word is not None and end is None:
        raise InvalidInput(f"expiration_date {word!r:.60} is no date", hint="write it like 2026-11-30")
    return end


def _fact(memory: Mapping[str, JsonValue]) -> JsonObject:
    content = _content(memory)
    fact_id = _id(memory.get("id")) or stable_id("mem0", content)
    end = _end(memory)
    categories = _categories(memory.get("categories"))
    item: JsonObject = {
        "id": fact_id,
        "content": content,
        "category": categories[0] if categories else None,
        "topics": categories or None,
        "source": _source(memory, fact_id),
        "createdAt": memory.get("created_at"),
        "updatedAt": memory.get("updated_at"),
        "expiresAt": None if end is None else format_timestamp(end),
    }
    metadata = memory.get("metadata")
    if not isinstance(metadata, Mapping | None):
        raise InvalidInput(f"metadata is {metadata!r:.60}", hint="give an object or null")
    return {**item, "metadata": metadata} if metadata else item


def _content(memory: Mapping[str, JsonValue]) -> str:
    for key in _TEXTS:
        value = memory.get(key)
        if isinstance(value, str) and not is_blank(value):
            return value
        if value is not None:
            raise InvalidInput(f"{key} is {value!r:.60}", hint="give text with at least one visible character")
    raise InvalidInput("memory is missing", hint="give the text of each memory in `memory`")


def _id(value: JsonValue) -> str:
    """The id as a file name can have it; "" for none."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value) if abs(value) < 10**40 else None
    if value is None or value == "":
        return ""
    if not isinstance(value, str):
        raise InvalidInput(f"id is {value!r:.60}", hint="give text")
    return note_id(value)


def _categories(value: JsonValue) -> list[str]:
    words = [] if value is None else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InvalidInput(f"categories is {value!r:.60}", hint="give a list of texts or null")
    return [one_line(word) for word in words if isinstance(word, str) and not is_blank(word)]


def _source(memory: Mapping[str, JsonValue], fact_id: str) -> JsonObject:
    threads = [optional_text(memory, key) for key in _THREADS]
    kept = {name: optional_text(memory, key) for key, name in _KEPT.items()}
    return {
        "type": "import",
        "threadId": next((thread for thread in threads if thread is not None), None),
        "uri": f"mem0:{fact_id}",
        **{name: word for name, word in kept.items() if word is not None},
    }
