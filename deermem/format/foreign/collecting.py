"""Gathering the facts of a foreign memory: each is checked at once, and all that is wrong goes into one error."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from deermem.errors import InvalidInput
from deermem.format.document import ParsedDocument
from deermem.format.fact_mapping import fact_from_mapping, stated_fields
from deermem.format.markdown import check_storable
from deermem.model.fact import Fact, content_key
from deermem.model.values import JsonObject, JsonValue

_SHOWN: Final = 20
_HEX: Final = 24


@dataclass(frozen=True, slots=True)
class Foreign:
    """A foreign memory as facts; `skipped` says what of it was passed over, each with its place and the reason.

    `bad` is what was left out because no fact can be made of it, where that was asked for.
    """

    document: ParsedDocument
    skipped: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()


@dataclass(slots=True)
class Collector:
    """Takes items with the place that each stands at (`line 3`, `results[4]`, `ideas/tea.md:12`).

    `skip_bad`: a bad item doesn't refuse the others. What is wrong with the whole refuses it all the same, and so does
    a memory of which nothing can be taken in.
    """

    skip_bad: bool = False
    facts: list[Fact] = field(default_factory=list)
    stated: list[frozenset[str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    faults: list[InvalidInput] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    places: dict[str, tuple[str, bytes]] = field(default_factory=dict)

    def add(self, place: str, item: JsonObject, when: datetime) -> None:
        """One fact as a mapping with an `id`; `when` is its time where it states none.

        What stands there twice, word for word, is one fact.
        """
        try:
            fact = fact_from_mapping(item, now=when, new_id=lambda content: stable_id("fact", content))
            check_storable(fact)
        except InvalidInput as error:
            self.refuse(place, error)
            return
        said = content_key(fact.content)
        first, before = self.places.get(fact.id.lower(), ("", said))
        if not first:
            self.places[fact.id.lower()] = (place, said)
            self.facts.append(fact)
            self.stated.append(stated_fields(item))
        elif before != said:
            hint = "keep one of the two, or give it another id"
            self.refuse(place, InvalidInput(f"it has the id {fact.id!r}, which stands at {first} already", hint=hint))

    def refuse(self, place: str, error: InvalidInput) -> None:
        """Something that can't be taken in, and refuses the whole; `place` "" is the whole itself."""
        if place:
            self.problems.append(f"{place}: {error}")
        else:
            self.faults.append(error)

    def skip(self, place: str, why: str) -> None:
        """Something that says nothing a fact could hold."""
        self.skipped.append(f"{place}: {why}")

    def done(self) -> Foreign:
        """All facts, or one InvalidInput that names up to twenty bad items; its hint is for what is wrong with all."""
        if self.faults or (self.problems and not (self.skip_bad and self.facts)):
            raise self._refusal()
        document = ParsedDocument(
            facts=tuple(self.facts), stated=tuple(self.stated), summaries={}, named_sections=frozenset()
        )
        return Foreign(document, tuple(self.skipped), tuple(self.problems))

    def _refusal(self) -> InvalidInput:
        more = len(self.problems) - _SHOWN
        wrong = [*self.problems[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]
        if not self.faults:
            return InvalidInput(" | ".join(wrong))
        *others, last = self.faults
        return InvalidInput(" | ".join([*wrong, *map(str, others), last.message]), hint=last.hint)


def stable_id(kind: str, *parts: str) -> str:
    """An id that the same parts always have, so that what is imported twice is there once."""
    named = "\0".join(unicodedata.normalize("NFC", part) for part in parts)
    return f"{kind}_{hashlib.sha256(named.encode(errors='surrogatepass')).hexdigest()[:_HEX]}"


def one_line(text: str) -> str:
    """The text with all blank space folded: what may stand as a topic or in front of a colon."""
    return " ".join(text.split())


def about(subject: str, text: str) -> str:
    """A statement that stands alone: with its subject in front, unless it names it anyway."""
    name = one_line(subject)
    spoken = re.escape(name.replace("_", " ").casefold())
    # As a whole word: Al is not meant by "also". Scripts that write without blanks have no such border.
    names_it = re.search(rf"(?<![a-z0-9]){spoken}(?![a-z0-9])", text.replace("_", " ").casefold())
    return text if names_it else f"{name}: {text}"


def is_blank(text: str) -> bool:
    """Whether no character of it can be seen."""
    return not any(unicodedata.category(character)[0] not in "ZC" for character in text)


def required_text(item: Mapping[str, JsonValue], key: str) -> str:
    """A text that must be there; raises InvalidInput naming the key."""
    value = item.get(key)
    if value is None:
        raise InvalidInput(f"{key} is missing", hint=f"give {key!r} as text")
    if not isinstance(value, str):
        raise InvalidInput(f"{key} is {value!r:.60}", hint="give text")
    if is_blank(value):
        raise InvalidInput(f"{key} is blank", hint="give at least one visible character")
    return value


def optional_text(item: Mapping[str, JsonValue], key: str) -> str | None:
    """A text, None where it is missing, null or blank; raises InvalidInput naming the key."""
    value = item.get(key)
    if value is None or isinstance(value, str):
        return value if value and not is_blank(value) else None
    raise InvalidInput(f"{key} is {value!r:.60}", hint="give text or null")
