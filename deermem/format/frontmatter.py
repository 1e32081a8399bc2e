"""The general reader: any YAML that a person may have typed, read as events, so that no tag is ever executed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from deermem.format.keys import KNOWN, NULLS, TEXT_PARTS, Fields, plain_value
from deermem.format.problems import FormatError
from deermem.model.values import JsonObject, JsonValue

if TYPE_CHECKING:
    import yaml

MAX_DEPTH: Final = 32
MAX_BLOCK: Final = 131_072
_COMMENT = re.compile(r"(?:^|(?<=[\s,\[\]{}]))#[^\r\n]*", re.MULTILINE)
_BLOCK_MARK = re.compile(r"[|>][+0-9-]*")


@dataclass(slots=True)
class Entry:
    """One top-level key: its value and where both stand in the block, as character offsets.

    `start` to `end` covers key and value, `pieces` are the spans of the keys and scalars in between. `single`
    tells whether the value is one scalar, `flow` whether it stands in brackets.
    """

    key: str
    start: int
    key_end: int
    value: JsonValue = None
    value_start: int = 0
    end: int = 0
    single: bool = True
    flow: bool = False
    pieces: list[tuple[int, int]] = field(default_factory=list)

    def comments(self, block: str, end: int) -> list[str]:
        """The comments between the pieces and up to `end`."""
        found: list[str] = []
        at = self.start
        for start, stop in [*self.pieces, (end, end)]:
            found += (text for _, text in comments_between(block, at, start))
            at = max(at, stop)
        return found


@dataclass(slots=True)
class FrontMatter:
    """A mapping as read, in order. `inline` is true for one in braces, which can't be edited line by line."""

    entries: dict[str, Entry] = field(default_factory=dict)
    inline: bool = False

    @property
    def fields(self) -> Fields:
        """The values by key."""
        return {key: entry.value for key, entry in self.entries.items()}


def comments_between(block: str, start: int, end: int) -> list[tuple[int, str]]:
    """Place and text of each comment in a stretch that holds neither keys nor scalars."""
    return [(match.start(), match.group().rstrip()) for match in _COMMENT.finditer(block, start, max(start, end))]


def parse(block: str) -> FrontMatter:
    """The front matter between the fences; lines in errors count from the opening fence as line 1.

    Raises FormatError for YAML that doesn't parse, duplicate keys, aliases and anything but a mapping.
    """
    import yaml

    if len(block) > MAX_BLOCK:
        raise FormatError("too-large", f"the front matter has {len(block)} characters", line=1, hint="shorten it")
    loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
    try:
        return _Reader(block, yaml.parse(block, Loader=loader)).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = error.problem or error.context or "it can't be read"
        raise _error("yaml", f"the front matter is not valid YAML: {what}", (mark.line if mark else 0) + 2) from None
    except yaml.YAMLError as error:
        what = str(error).partition("\n")[0]
        raise _error("yaml", f"the front matter is not valid YAML: {what}", 1) from None


def _error(code: str, message: str, line: int) -> FormatError:
    return FormatError(code, message, line=line, hint="mend that line; text with a colon or a # needs quotes")


class _Reader:
    """Turns events into values. `pieces` collects the spans of what was read since the last top-level key."""

    def __init__(self, block: str, events: Iterator[yaml.Event]) -> None:
        import yaml

        self.yaml = yaml
        self.block = block
        self.events = events
        self.pieces: list[tuple[int, int]] = []

    def document(self) -> FrontMatter:
        next(self.events)
        if isinstance(next(self.events), self.yaml.StreamEndEvent):
            return FrontMatter()
        root = next(self.events)
        if isinstance(root, self.yaml.ScalarEvent) and self.scalar(root, raw=False) is None:
            front = FrontMatter()
        elif isinstance(root, self.yaml.MappingStartEvent):
            front = self.top(root)
        else:
            raise FormatError(
                "not-a-mapping",
                "the front matter is not a mapping",
                line=self.line(root),
                hint="write `key: value` lines between the --- lines",
            )
        next(self.events)
        extra = next(self.events)
        if not isinstance(extra, self.yaml.StreamEndEvent):
            raise _error("yaml", "the front matter holds a second YAML document", self.line(extra))
        return front

    def top(self, root: yaml.MappingStartEvent) -> FrontMatter:
        front = FrontMatter(inline=bool(root.flow_style))
        while not isinstance(event := next(self.events), self.yaml.MappingEndEvent):
            key = self.key(event, front.entries)
            start, key_end = _span(event)
            self.pieces = [(start, key_end)]
            first = next(self.events)
            at = _span(first)[0]
            value = self.value(first, raw=key in KNOWN, depth=1, source=key == "source")
            single = isinstance(first, self.yaml.ScalarEvent)
            front.entries[key] = Entry(
                key,
                start,
                key_end,
                value,
                value_start=at,
                end=self.pieces[-1][1],
                single=single,
                flow=not single and self.block[at : at + 1] in ("[", "{"),
                pieces=self.pieces,
            )
        return front

    def key(self, event: yaml.Event, seen: dict[str, Entry] | JsonObject) -> str:
        if not isinstance(event, self.yaml.ScalarEvent):
            raise _error("bad-key", "a key in the front matter is not a word", self.line(event))
        key = self.text(event)
        if key in seen:
            raise FormatError(
                "duplicate-key", f"key {key!r:.80} stands there twice", line=self.line(event), hint="remove one of them"
            )
        return str(key)

    def value(self, event: yaml.Event, *, raw: bool, depth: int, source: bool = False) -> JsonValue:
        if depth > MAX_DEPTH:
            raise _error("too-deep", f"values nest deeper than {MAX_DEPTH} levels", self.line(event))
        if isinstance(event, self.yaml.ScalarEvent):
            self.add(event)
            self.text(event)
            return self.scalar(event, raw=raw)
        if isinstance(event, self.yaml.SequenceStartEvent):
            return self.items(raw=raw, depth=depth)
        if isinstance(event, self.yaml.MappingStartEvent):
            return self.pairs(depth=depth, source=source)
        raise _error("alias", "the front matter uses a YAML alias", self.line(event))

    def items(self, *, raw: bool, depth: int) -> list[JsonValue]:
        found: list[JsonValue] = []
        while not isinstance(event := next(self.events), self.yaml.SequenceEndEvent):
            found.append(self.value(event, raw=raw, depth=depth + 1))
        self.close(event)
        return found

    def pairs(self, *, depth: int, source: bool) -> JsonObject:
        found: JsonObject = {}
        while not isinstance(event := next(self.events), self.yaml.MappingEndEvent):
            key = self.key(event, found)
            self.pieces.append(_span(event))
            found[key] = self.value(next(self.events), raw=source and key in TEXT_PARTS, depth=depth + 1)
        self.close(event)
        return found

    def add(self, event: yaml.ScalarEvent) -> None:
        """The span of a scalar; of a block scalar without what follows its mark on the line, where a comment may be."""
        start, end = _span(event)
        mark = _BLOCK_MARK.search(self.block, start, end) if event.style in ("|", ">") else None
        if mark is not None:
            text = self.block.find("\n", mark.end(), end)
            self.pieces.append((start, mark.end()))
            start = end if text < 0 else text
        self.pieces.append((start, end))

    def close(self, event: yaml.Event) -> None:
        """A closing bracket belongs to the value; the end of a block collection is only the start of what follows."""
        start, end = _span(event)
        if end > start and self.block[start:end] in ("]", "}"):
            self.pieces.append((start, end))

    def text(self, event: yaml.ScalarEvent) -> str:
        """What a scalar says; a NUL, which an escape can bring in, could be neither stored nor written back."""
        if "\0" in event.value:
            raise FormatError("nul", "the front matter holds a NUL character", line=self.line(event), hint="remove it")
        return str(event.value)

    @staticmethod
    def scalar(event: yaml.ScalarEvent, *, raw: bool) -> JsonValue:
        text = str(event.value)
        if event.style or event.tag is not None:
            return text
        if text in NULLS:
            return None
        return text if raw else plain_value(text)

    def line(self, event: yaml.Event) -> int:
        return self.block.count("\n", 0, _span(event)[0]) + 2


def _span(event: yaml.Event) -> tuple[int, int]:
    """The characters that an event covers; events made from text always have marks."""
    start, end = event.start_mark, event.end_mark
    return (start.index, end.index) if start is not None and end is not None else (0, 0)
