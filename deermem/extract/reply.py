"""A model's answer, read item by item: what can't be read costs itself, not the answer.

The one module that loads pydantic, so whoever needs it imports it late.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from deermem.errors import InvalidInput
from deermem.extract.json_object import find_object
from deermem.extract.shapes import read_message
from deermem.model.fact import DEFAULT_CATEGORY, MAX_ID
from deermem.model.proposals import (
    Extension,
    Labels,
    Merge,
    NewFact,
    NewSummary,
    ProposalKind,
    Proposals,
    Refusal,
    Reinforcement,
    Removal,
    StaleRemoval,
)
from deermem.model.summaries import HISTORY_SECTIONS, USER_SECTIONS
from deermem.policy.gate import named
from deermem.policy.staleness import expected_valid_days

_KEYS: Final = ("user", "history", "newFacts")
_NUMBER: Final = re.compile(r"\+?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,3})?", re.ASCII)
_NOWHERE: Final = -1


def parse_reply(answer: object) -> Proposals | None:
    """What an answer proposes; None where it holds no whole JSON object with `user`, `history` and `newFacts`.

    The answer is text, a message with `content` (text or a list of blocks), such a message as a mapping, or the
    content itself. Prose, code fences and thinking around the object are passed over. Sections of a wrong type count
    as empty; items of a wrong form are in `refused` as malformed. Never raises.
    """
    text = _text_of(answer)
    found = None if text is None else find_object(text, _KEYS)
    return None if found is None else _Reader().read(found)


def _text_of(answer: object) -> str | None:
    content = answer
    if isinstance(answer, Mapping) and "content" in answer:
        content = answer["content"]
    elif not isinstance(answer, str | list | tuple | Mapping):
        content = _attribute(answer, "content")
    if content is None:
        return None
    try:
        return read_message({"role": "assistant", "content": content}, "the answer").text
    except InvalidInput:
        return None


def _attribute(owner: object, name: str) -> object:
    return getattr(owner, name, None)


# --- one value each; what can't be read is a ValueError, which pydantic names by its place


def _content(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("no text")
    return value


def _id(value: object) -> str:
    return _content(value).strip()


def _ids(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("no list")
    return tuple(map(_id, value))


def _words(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _label(value: object) -> str:
    return _words(value).lower()


def _category(value: object) -> str:
    word = _words(value)
    return word if len(word) <= MAX_ID and len(word.splitlines()) == 1 else ""


def _confidence(value: object) -> float | None:
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("no number from 0 to 1")
    return float(value)


def _flag(value: object) -> bool:
    """`"false"` is text, and text is true: a model's no must not become a yes."""
    return value is True or _label(value) == "true"


def _position(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, str) and re.fullmatch(r"\d{1,6}", value.strip(), re.ASCII):
        return int(value)
    is_whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if isinstance(value, int) and is_whole else _NOWHERE


def _days(value: object) -> int:
    days = expected_valid_days(value)
    if days is None:
        raise ValueError("no number of days")
    return days


_Label = Annotated[str, PlainValidator(_label)]
_Words = Annotated[str, PlainValidator(_words)]
_Id = Annotated[str, PlainValidator(_id)]


class _Item(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Labelled(_Item):
    scope: _Label = ""
    durability: _Label = ""
    authority: _Label = ""

    def labels(self) -> Labels:
        return Labels(self.scope, self.durability, self.authority)


class _Fact(_Labelled):
    content: Annotated[str, PlainValidator(_content)]
    category: Annotated[str, PlainValidator(_category)] = ""
    confidence: Annotated[float | None, PlainValidator(_confidence)] = None
    source_error: _Words = Field(default="", alias="sourceError")
    valid_days: Annotated[int | None, PlainValidator(expected_valid_days)] = Field(
        default=None, alias="expected_valid_days"
    )

    def value(self, position: int, category: str = DEFAULT_CATEGORY) -> NewFact:
        return NewFact(
            position=position,
            content=self.content,
            category=self.category or category,
            confidence=self.confidence,
            labels=self.labels(),
            source_error=self.source_error or None,
            expected_valid_days=self.valid_days,
        )


class _Summary(_Labelled):
    summary: _Words = ""
    should_update: Annotated[bool, PlainValidator(_flag)] = Field(default=False, alias="shouldUpdate")


class _Named(_Item):
    id: _Id
    scope: _Label = ""
    reason: _Words = ""


class _Removal(_Named):
    replacement: Annotated[int | None, PlainValidator(_position)] = Field(default=None, alias="replacementFactIndex")


class _Extension(_Named):
    days: Annotated[int, PlainValidator(_days)] = Field(alias="extend_by_days")


class _Merge(_Item):
    source_ids: Annotated[tuple[str, ...], PlainValidator(_ids)] = Field(alias="sourceIds")
    consolidated: _Fact


T = TypeVar("T", bound=_Item)
R = TypeVar("R")


class _Reader:
    """Reads one answer, and collects what can't be read."""

    def __init__(self) -> None:
        self._refused: list[Refusal] = []

    def read(self, answer: Mapping[str, object]) -> Proposals:
        summaries = (
            *self._summaries(answer.get("user"), USER_SECTIONS),
            *self._summaries(answer.get("history"), HISTORY_SECTIONS),
        )
        return Proposals(
            summaries=summaries,
            facts=self._items("fact", answer.get("newFacts"), _Fact, _Fact.value),
            reinforcements=self._items("reinforcement", answer.get("factsToReinforce"), _Named, _reinforcement),
            removals=self._items("removal", answer.get("factsToRemove"), _Removal, _removal),
            stale_removals=self._items("stale_removal", answer.get("staleFactsToRemove"), _Named, _stale_removal),
            extensions=self._items("extension", answer.get("staleFactsToExtend"), _Extension, _extension),
            merges=self._items("merge", answer.get("factsToConsolidate"), _Merge, _merge),
            refused=tuple(self._refused),
        )

    def _summaries(self, sections: object, names: Mapping[str, str]) -> Iterator[NewSummary]:
        if not isinstance(sections, Mapping):
            return
        for key, name in names.items():
            given = sections.get(key)
            item = None if given is None else self._checked("summary", given, _Summary, key)
            if item is not None and item.should_update:
                yield NewSummary(section=name, text=item.summary, labels=item.labels())

    def _items(self, kind: ProposalKind, given: object, form: type[T], value: Callable[[T, int], R]) -> tuple[R, ...]:
        """The readable items of a list; a fact keeps its place in it, which a removal may name."""
        read: list[R] = []
        if not isinstance(given, list):
            # A fact that stands there without its list may be the replacement of one that is to be removed.
            if kind == "fact" and given:
                self._refuse(kind, "malformed", "newFacts", "it is no list")
            return ()
        for position, raw in enumerate(given):
            # Nothing that stands here has an id: what is in its place may be the text, and that a credential.
            subject = str(position) if kind in ("fact", "merge") else _subject(raw, position)
            item = self._checked(kind, raw, form, subject)
            if item is not None:
                read.append(value(item, position))
        return tuple(read)

    def _checked(self, kind: ProposalKind, raw: object, form: type[T], subject: str) -> T | None:
        if kind == "removal" and isinstance(raw, str):
            self._refuse(kind, "missing", subject, "it has neither scope nor reason")
            return None
        try:
            return form.model_validate(raw if isinstance(raw, dict) else None)
        except ValidationError as error:
            self._refuse(kind, "malformed", subject, _first_fault(error))
            return None

    def _refuse(self, kind: ProposalKind, reason: str, subject: str, detail: str) -> None:
        self._refused.append(Refusal(kind=kind, reason=reason, subject=subject, detail=detail))


def _reinforcement(item: _Named, _position: int) -> Reinforcement:
    return Reinforcement(id=item.id, scope=item.scope, reason=item.reason)


def _removal(item: _Removal, _position: int) -> Removal:
    return Removal(id=item.id, scope=item.scope, reason=item.reason, replacement=item.replacement)


def _stale_removal(item: _Named, _position: int) -> StaleRemoval:
    return StaleRemoval(id=item.id, reason=item.reason)


def _extension(item: _Extension, _position: int) -> Extension:
    return Extension(id=item.id, days=item.days, reason=item.reason)


def _merge(item: _Merge, position: int) -> Merge:
    return Merge(source_ids=item.source_ids, fact=item.consolidated.value(position, ""))


def _subject(raw: object, position: int) -> str:
    """What a report names an item by: its id, else its place in the list."""
    given = raw.get("id") if isinstance(raw, dict) else raw
    return named(given.strip()) if isinstance(given, str) and given.strip() else str(position)


def _first_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return ".".join(map(str, fault["loc"])) or "it is no object"
