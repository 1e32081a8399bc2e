"""Markdown notes, as basic-memory and Obsidian keep them in a folder.

Each observation (`- [category] text #tag (context)`) is a fact; what else a note says is one fact more, under the
note's title. A note is known by its permalink, else by its path: so an edited note changes its fact.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from deermem.errors import InvalidInput
from deermem.format import frontmatter
from deermem.format.foreign import note_text
from deermem.format.foreign.collecting import Collector, Foreign, about, is_blank, one_line, stable_id
from deermem.format.keys import Fields, float_text
from deermem.format.problems import FormatError
from deermem.format.split import split
from deermem.model.values import JsonObject, JsonValue

_CREATED: Final = ("created",)
_CHANGED: Final = ("modified", "updated")
_TAGS: Final = ("tags", "tag")
_READ: Final = frozenset(("title", "permalink", *_CREATED, *_CHANGED, *_TAGS))
_BETWEEN_TAGS = re.compile(r"[,\s]+")


@dataclass(frozen=True, slots=True)
class NoteFile:
    """A note as it lies in its folder. `path` is relative to it, with slashes; `modified` is the file's own time."""

    path: str
    data: bytes
    modified: datetime


@dataclass(frozen=True, slots=True)
class _Note:
    path: str
    fields: Fields
    title: str
    body: str
    first_line: int

    @property
    def identity(self) -> tuple[str, str]:
        permalink = _word(self.fields.get("permalink"))
        return ("permalink", permalink) if permalink else ("path", self.path)

    @property
    def source(self) -> JsonObject:
        return {"type": "import", "threadId": None, "uri": self.path}


def read_notes(files: Iterable[NoteFile], *, skip_bad: bool = False) -> Foreign:
    """The facts of all notes; raises one InvalidInput that names all bad notes, unless they are skipped."""
    collector = Collector(skip_bad)
    permalinks: dict[str, str] = {}
    for file in files:
        shown = shown_path(file.path)
        try:
            note = _note(file)
            kind, name = note.identity
            first = permalinks.setdefault(name, shown) if kind == "permalink" else shown
            if first != shown:
                raise InvalidInput(f"its permalink {name!r:.60} is that of {first}", hint="give it another one")
            times = _times(note.fields)
            tags = _front_tags(note.fields)
        except FormatError as error:
            line = f":{error.problem.line}" if error.problem.line else ""
            collector.refuse(f"{shown}{line}", InvalidInput(error.problem.message, hint=error.problem.hint))
        except InvalidInput as error:
            collector.refuse(shown, error)
        else:
            _add(collector, note, {**times, "source": note.source}, tags, file.modified)
    return collector.done()


def shown_path(path: str) -> str:
    """A path as it can be printed: what is not Unicode in it is spelled out."""
    return path.encode(errors="backslashreplace").decode()


def _note(file: NoteFile) -> _Note:
    try:
        path = unicodedata.normalize("NFC", file.path)
        path.encode()
        text = file.data.decode("utf-8-sig")
    except UnicodeEncodeError:
        raise InvalidInput("its name is not valid Unicode", hint="rename it") from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"it is not valid UTF-8 at byte {error.start}", hint="save it as UTF-8") from None
    text = text.replace("\r\n", "\n")
    divided = split(text)
    fields = frontmatter.parse(divided.block).fields if divided.opening else {}
    heading, rest = note_text.leading_heading(divided.body)
    title = one_line(_word(fields.get("title"))) or heading or path.rpartition("/")[2].rpartition(".")[0]
    # A heading that isn't the title says something, and a note that is a heading alone says that.
    keeps = heading and (one_line(heading) != one_line(title) or is_blank(rest))
    body = divided.body if keeps else rest
    return _Note(path, fields, title, body, text[: len(text) - len(body)].count("\n") + 1)


def _add(collector: Collector, note: _Note, shared: JsonObject, tags: list[str], when: datetime) -> None:
    found, prose = note_text.observations(note.body)
    for observation in found:
        fact_id = stable_id("note", *note.identity, "observation", observation.category, one_line(observation.said))
        item: JsonObject = {
            **shared,
            "id": fact_id,
            "content": about(note.title, observation.text),
            "category": observation.category,
            "topics": _topics(tags, observation.tags),
        }
        collector.add(f"{note.path}:{note.first_line + observation.line}", item, when)
    if is_blank(prose) or (found and not note_text.says_something(prose)):
        if not found:
            collector.skip(note.path, "it is empty")
        return
    own = {key: value for key, value in note.fields.items() if key not in _READ and value is not None}
    seen: dict[str, int] = {}
    for number, part in enumerate(note_text.parts(prose)):
        again = seen[part.heading] = seen.get(part.heading, 0) + 1
        place = note.path + (f", section {part.heading!r:.60}" if part.heading else "")
        name = () if number == 0 else ("part", part.heading, str(again))
        item = {
            **shared,
            "id": stable_id("note", *note.identity, *name),
            "title": f"{note.title}: {part.heading}" if number else note.title,
            "content": part.text,
            "topics": _topics(tags, note_text.tags(part.text)),
        }
        collector.add(place, {**item, "frontMatter": own} if own and not number else item, when)


def _topics(*lists: Iterable[str]) -> list[JsonValue]:
    return list(dict.fromkeys(tag for tags in lists for tag in tags))


def _times(fields: Fields) -> JsonObject:
    return {"createdAt": _first(fields, _CREATED), "updatedAt": _first(fields, _CHANGED)}


def _first(fields: Fields, keys: Iterable[str]) -> str | None:
    """The first of some times that is given; raises InvalidInput naming the key for a list or mapping."""
    for key in keys:
        value = fields.get(key)
        if isinstance(value, (list, Mapping)):
            raise InvalidInput(f"{key} is {value!r:.60}", hint="write it like 2026-11-30T10:00:00Z")
        if word := _word(value):
            return word
    return None


def _front_tags(fields: Fields) -> list[str]:
    found: list[str] = []
    for key in _TAGS:
        value = fields.get(key)
        if isinstance(value, Mapping):
            raise InvalidInput(f"{key} is {value!r:.60}", hint="give a list of words")
        items = value if isinstance(value, list) else _BETWEEN_TAGS.split(_word(value))
        found += [one_line(_word(item)).lstrip("#").strip() for item in items]
    return [tag for tag in dict.fromkeys(found) if tag]


def _word(value: JsonValue) -> str:
    """A scalar of the front matter as text, "" for none."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return float_text(value)
    return str(value) if isinstance(value, int) else ""
