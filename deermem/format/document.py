"""The v1-shaped document: what export writes, what import and a v1 store are read from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from deermem.errors import InvalidInput
from deermem.format.fact_mapping import fact_from_mapping, fact_to_mapping, stated_fields
from deermem.format.markdown import check_storable
from deermem.model.fact import Fact, check_text, content_key
from deermem.model.summaries import HISTORY_SECTIONS, SECTIONS, USER_SECTIONS, Section, Summaries
from deermem.model.values import JsonObject, JsonValue

__all__ = ["ParsedDocument", "fact_from_mapping", "parse_document", "parse_facts", "parse_sections", "to_document"]

_SHOWN: Final = 5
_NEWEST: Final = 2
_MAJOR = re.compile(r"\s*([0-9]{1,9})")
_NOT_IN_AN_ID = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedDocument:
    """What a document states. `facts` has its order.

    `stated` names, fact by fact, the attributes that the document itself gave: the others hold defaults, which
    need not replace what is stored. `summaries` maps attribute names to the sections that say something;
    `named_sections` are those that the document mentions at all, the empty ones too.
    """

    facts: tuple[Fact, ...] = ()
    stated: tuple[frozenset[str], ...] = ()
    summaries: Mapping[str, Section]
    named_sections: frozenset[str] = frozenset()


def to_document(facts: Sequence[Fact], summaries: Summaries, *, version: str = "2.0") -> JsonObject:
    """The document of one bucket, every field in it; nothing is shared with the values given."""
    return {
        "version": version,
        "revision": summaries.revision,
        "lastUpdated": summaries.last_updated,
        "user": {key: _section_value(section) for key, section in summaries.user.items()},
        "history": {key: _section_value(section) for key, section in summaries.history.items()},
        "facts": [fact_to_mapping(fact) for fact in facts],
    }


def parse_document(doc: object, *, now: datetime, new_id: Callable[[str], str], strict: bool = True) -> ParsedDocument:
    """A document as an import gets it; raises one InvalidInput that names the first bad facts and fields.

    Only `facts` is needed, and in a fact only `content`. An id with characters that no file name may have gets
    them replaced, with a hash behind, so that the same document always means the same facts; one that looks like
    a path is refused, and so is an id that stands twice. Of facts without an id that say the same the first counts.
    With `strict` off, for v1 stores, `facts` may be missing, contents lose blank space on both ends, ids are taken as
    they are, and a repeated one is the caller's to judge.
    """
    if not isinstance(doc, Mapping):
        raise InvalidInput(f"the document is {type(doc).__name__}", hint='give an object with a "facts" list')
    if strict:
        _refuse_newer(doc.get("version"))
    items = doc.get("facts")
    if items is None and not strict:
        items = []
    if isinstance(items, (str, bytes)) or not isinstance(items, Sequence):
        raise InvalidInput('the document has no "facts" list', hint="give one, it may be empty")
    problems: list[str] = []
    read = _read(items, _Reading(now, new_id, strict), problems)
    _refuse(problems)
    sections = parse_sections(doc)
    return ParsedDocument(
        facts=tuple(fact for fact, _ in read),
        stated=tuple(stated_fields(item) for _, item in read),
        summaries={name: section for name, section in sections.items() if section.summary},
        named_sections=frozenset(sections),
    )


def _refuse_newer(version: JsonValue) -> None:
    """What a later format means by its keys is not known here; a document without a version is fine."""
    match = _MAJOR.match(version if isinstance(version, str) else str(version))
    if match is not None and int(match[1]) > _NEWEST:
        raise InvalidInput(f"the document has version {version!r:.40}", hint="use a newer deermem to take it in")


def parse_facts(
    items: Sequence[object],
    *,
    now: datetime,
    new_id: Callable[[str], str],
    strict: bool = True,
    refused: list[str] | None = None,
) -> tuple[Fact, ...]:
    """All facts, or one InvalidInput whose single line names up to five bad ones by position and id.

    With `refused`, a list that is to be filled, nothing is raised: it gets a text for each bad one, and the good ones
    are given.
    """
    problems: list[str] = [] if refused is None else refused
    read = _read(items, _Reading(now, new_id, strict), problems)
    if refused is None:
        _refuse(problems)
    return tuple(fact for fact, _ in read)


@dataclass(frozen=True, slots=True)
class _Reading:
    """How the facts of a document are read: as `parse_document` says of its arguments."""

    now: datetime
    new_id: Callable[[str], str]
    strict: bool


def _read(items: Sequence[object], how: _Reading, problems: list[str]) -> list[tuple[Fact, Mapping[str, JsonValue]]]:
    """The good facts, each with what it was read from; `problems` gets a text for each bad one."""
    found: list[tuple[Fact, Mapping[str, JsonValue]]] = []
    firsts: dict[str, tuple[int, Fact]] = {}
    for position, item in enumerate(items):
        try:
            given = _object(item)
            fact = _fact(given, how)
            place, first = firsts.setdefault(fact.id.lower(), (position, fact)) if how.strict else (position, fact)
            if place != position:
                _check_same(fact, first, place, given)
                continue
        except InvalidInput as error:
            problems.append(f"{_named(position, item)}: {error}")
        else:
            found.append((fact, given))
    return found


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        more = len(problems) - _SHOWN
        raise InvalidInput(" | ".join(problems[:_SHOWN]) + (f" | and {more} more" if more > 0 else ""))


def parse_sections(doc: Mapping[str, JsonValue]) -> dict[str, Section]:
    """Attribute name → section, for each that the document mentions; raises InvalidInput naming the section.

    A section is {summary, updatedAt}, or the text alone; null counts as empty. Unknown names are left alone.
    """
    sections: dict[str, Section] = {}
    for group, names in (("user", USER_SECTIONS), ("history", HISTORY_SECTIONS)):
        value = doc.get(group)
        if value is None:
            continue
        if not isinstance(value, Mapping):
            raise InvalidInput(f"{group} is {value!r:.60}", hint=f"give an object with {', '.join(names)}")
        sections.update({SECTIONS[key]: _section(value[key], f"{group}.{key}") for key in names if key in value})
    return sections


def _section(value: JsonValue, name: str) -> Section:
    if not isinstance(value, Mapping):
        value = {"summary": value}
    texts = [value.get("summary"), value.get("updatedAt")]
    for text, field in zip(texts, ("summary", "updatedAt"), strict=True):
        if text is not None and not isinstance(text, str):
            raise InvalidInput(f"{name}.{field} is {text!r:.60}", hint="give text")
    summary, updated = (check_text(str(text or ""), name) for text in texts)
    return Section(summary.strip(), updated)


def _section_value(section: Section) -> JsonObject:
    return {"summary": section.summary, "updatedAt": section.updated_at}


def _object(item: object) -> Mapping[str, JsonValue]:
    if not isinstance(item, Mapping):
        raise InvalidInput(f"a fact is {item!r:.60}", hint='give an object with at least "content"')
    return item


def _fact(item: Mapping[str, JsonValue], how: _Reading) -> Fact:
    given = item.get("id")
    if how.strict and isinstance(given, str):
        item = {**item, "id": _importable_id(given)}
    fact = fact_from_mapping(item, now=how.now, new_id=how.new_id, strip=not how.strict)
    check_storable(fact)
    return fact


def _importable_id(fact_id: str) -> str:
    segments = re.split(r"[/\\]", fact_id)
    looks_like_a_path = not segments[0] or "." in segments or ".." in segments
    if not _NOT_IN_AN_ID.search(fact_id) or looks_like_a_path:
        return fact_id
    digest = hashlib.sha256(check_text(fact_id, "fact id").encode()).hexdigest()[:16]
    return f"{_NOT_IN_AN_ID.sub('-', fact_id)}-{digest}"


def _check_same(fact: Fact, first: Fact, place: int, given: Mapping[str, JsonValue]) -> None:
    """Raises InvalidInput for an id that stands twice; one that only the content gave says nothing against the fact."""
    if "id" in stated_fields(given) or content_key(fact.content) != content_key(first.content):
        raise InvalidInput(f"id {fact.id!r} stands in facts[{place}] already", hint="give one of them another id")


def _named(position: int, item: object) -> str:
    given = item.get("id") if isinstance(item, Mapping) else None
    return f"facts[{position}]" + (f" (id {given!r:.60})" if isinstance(given, str) else "")
