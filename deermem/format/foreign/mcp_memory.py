"""The knowledge graph of the MCP reference memory server: one JSON object a line, entities and relations.

Each observation and each relation is a fact. The server names them by what they say, and so do their ids: an
observation that was edited there is a new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from deermem.errors import InvalidInput
from deermem.format.foreign.collecting import (
    Collector,
    Foreign,
    about,
    is_blank,
    one_line,
    optional_text,
    required_text,
    stable_id,
)
from deermem.format.foreign.json_text import load_json
from deermem.model.values import JsonObject, JsonValue

_CATEGORY = "knowledge"


def read_mcp_memory(text: str, *, when: datetime, skip_bad: bool = False) -> Foreign:
    """The facts of a memory.jsonl, or of the one object that the server's `read_graph` answers with.

    `when` is their time: the graph has none. Raises one InvalidInput that names all bad lines, unless they are skipped.
    """
    reader = _Reader(Collector(skip_bad), when)
    graph = _graph(text)
    if graph is None:
        reader.lines(text)
    else:
        reader.graph(graph)
    return reader.collector.done()


def _graph(text: str) -> Mapping[str, JsonValue] | None:
    """The whole as one object; None for lines. Raises InvalidInput for one that spreads over lines and is broken."""
    try:
        value = load_json(text)
    except InvalidInput:
        if text.lstrip().partition("\n")[0].strip() in ("{", "["):
            raise
        return None
    return value if isinstance(value, Mapping) and "type" not in value else None


@dataclass(frozen=True, slots=True)
class _Reader:
    collector: Collector
    when: datetime

    def lines(self, text: str) -> None:
        # Only a line feed ends a line: JSON texts may hold every other line break as it is.
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                self.line(f"line {number}", line)

    def line(self, place: str, line: str) -> None:
        try:
            item = load_json(line)
            kind = required_text(_mapping(item), "type")
        except InvalidInput as error:
            self.collector.refuse(place, error)
            return
        if kind == "entity":
            self.entity(place, item)
        elif kind == "relation":
            self.relation(place, item)
        else:
            self.collector.skip(place, f"it is of type {kind!r:.40}, not an entity or a relation")

    def graph(self, graph: Mapping[str, JsonValue]) -> None:
        for key, take in (("entities", self.entity), ("relations", self.relation)):
            items = graph.get(key)
            if isinstance(items, (str, bytes)) or not isinstance(items, Sequence):
                hint = "give the lines of memory.jsonl, or an object with entities and relations"
                self.collector.refuse("", InvalidInput(f"the object has no list {key!r}", hint=hint))
                continue
            for position, item in enumerate(items):
                take(f"{key}[{position}]", item)

    def entity(self, place: str, item: JsonValue) -> None:
        try:
            entity = _mapping(item)
            name, kind = required_text(entity, "name"), optional_text(entity, "entityType")
            observations = _observations(entity)
        except InvalidInput as error:
            self.collector.refuse(place, error)
            return
        if not observations:
            self.collector.skip(place, f"entity {name!r:.60} has no observations")
        topics = [one_line(word) for word in (name, kind) if word is not None]
        for position, observation in enumerate(observations):
            where = f"{place}, observations[{position}] of {name!r:.60}"
            if not isinstance(observation, str):
                self.collector.refuse(where, InvalidInput(f"it is {observation!r:.60}", hint="give text"))
            elif is_blank(observation):
                self.collector.skip(where, "it is blank")
            else:
                fact_id = stable_id("mcp", "entity", name, observation)
                self.add(where, {"id": fact_id, "content": about(name, observation), "topics": topics}, name)

    def relation(self, place: str, item: JsonValue) -> None:
        try:
            relation = _mapping(item)
            ends = required_text(relation, "from"), required_text(relation, "to")
            word = required_text(relation, "relationType")
        except InvalidInput as error:
            self.collector.refuse(place, error)
            return
        fact_id = stable_id("mcp", "relation", ends[0], word, ends[1])
        start, end = (one_line(name) for name in ends)
        content = f"{start} {one_line(word.replace('_', ' '))} {end}"
        self.add(place, {"id": fact_id, "content": content, "topics": [start, end]}, start)

    def add(self, place: str, item: JsonObject, name: str) -> None:
        source = {"type": "import", "threadId": None, "uri": f"mcp-memory:{one_line(name)}"}
        self.collector.add(place, {**item, "category": _CATEGORY, "source": source}, self.when)


def _mapping(item: JsonValue) -> Mapping[str, JsonValue]:
    if not isinstance(item, Mapping):
        raise InvalidInput(f"it is {item!r:.60}", hint='give an object like {"type": "entity", …}')
    return item


def _observations(entity: Mapping[str, JsonValue]) -> Sequence[JsonValue]:
    found = entity.get("observations")
    if isinstance(found, str) or not isinstance(found, Sequence):
        raise InvalidInput(f"observations is {found!r:.60}", hint="give a list of texts, it may be empty")
    return found
