"""memory.json on its way from version 1 to 2: facts out, sections kept with their times, the revision raised."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from deermem.clock import format_timestamp
from deermem.errors import Corruption, InvalidInput, MigrationError
from deermem.format import manifest
from deermem.format.document import parse_sections
from deermem.format.manifest import Manifest
from deermem.format.problems import FormatError
from deermem.migrate.legacy import LegacyDocument, parse_json
from deermem.model.summaries import HISTORY_SECTIONS, USER_SECTIONS, Section, Summaries
from deermem.model.values import JsonObject, JsonValue

_GROUPS: Final = {"user": USER_SECTIONS, "history": HISTORY_SECTIONS}
_COUNTED: Final = ("revision", "lastUpdated", "version", "facts")


def sections_of(document: LegacyDocument, shown: str) -> dict[str, Section]:
    """The sections that a legacy document mentions; raises MigrationError naming file and section."""
    try:
        return parse_sections(document.doc)
    except InvalidInput as error:
        raise MigrationError(f"{shown}: {error}") from error


def legacy_manifest(document: LegacyDocument, shown: str) -> Manifest:
    """A legacy memory.json as the base of the new one, its facts left out."""
    exact = parse_json(document.data, shown, exact=True)
    raw = {key: value for key, value in exact.items() if key != "facts"}
    revision = raw.get("revision")
    counted = isinstance(revision, int) and not isinstance(revision, bool) and revision > 0
    summaries = Summaries(revision=int(str(revision)) if counted else 0)
    for name, section in sections_of(document, shown).items():
        summaries = summaries.with_section(name, section)
    return Manifest(summaries, "", raw)


def current_manifest(data: bytes, shown: str) -> Manifest:
    """A memory.json of version 2; raises Corruption that names file and reason."""
    try:
        return manifest.decode(data)
    except FormatError as error:
        problem = error.problem
        raise Corruption(f"{shown}: {problem.message}", path=shown, reason=problem.message, hint=problem.hint) from None


def migrated_manifest(base: Manifest | None, summaries: Summaries, now: datetime, shown: str) -> bytes:
    """The new memory.json, one revision on; raises MigrationError for what it can't hold."""
    revision = 1 if base is None else base.summaries.revision + 1
    try:
        return manifest.encode(base, summaries=summaries, revision=revision, now=format_timestamp(now))
    except InvalidInput as error:
        raise MigrationError(f"{shown}: {error}") from error


def normalised(base: Manifest | None, summaries: Summaries) -> Manifest:
    """A document as version 2 has it, with these summaries and no count, so that two can be compared."""
    return manifest.decode(manifest.encode(base, summaries=summaries, revision=1, now=""))


def own_keys(document: Manifest) -> JsonObject:
    """What a normalised document says besides its counts and the texts of its six sections, by key."""
    return {key: _others(key, value) for key, value in document.raw.items() if key not in _COUNTED}


def _others(key: str, value: JsonValue) -> JsonValue:
    """A value of memory.json without what the six sections say."""
    if key not in _GROUPS or not isinstance(value, Mapping):
        return value
    return {name: _bare(item) if name in _GROUPS[key] else item for name, item in value.items()}


def _bare(section: JsonValue) -> JsonValue:
    if not isinstance(section, Mapping):
        return section
    return {name: item for name, item in section.items() if name not in ("summary", "updatedAt")}
