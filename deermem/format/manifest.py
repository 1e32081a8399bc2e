"""memory.json: the six summaries and the shared revision of one user. Never facts, never an index of facts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from deermem.errors import InvalidInput
from deermem.format.conflict_markers import first_marker
from deermem.format.exact_json import dumps, exact_float, exact_int, is_unicode
from deermem.format.problems import FormatError
from deermem.model.summaries import HISTORY_SECTIONS, SECTIONS, USER_SECTIONS, Section, Summaries
from deermem.model.values import JsonObject, JsonValue

VERSION: Final = "2.0"
_VERSION = re.compile(r"(\d{1,6})(?:\.\d+)*")
_CONFLICT: Final = "the file holds an unresolved git merge"
_RESOLVE: Final = "run deermem check --fix, which joins the two sides, or keep one of them in an editor"
_OWN_KEYS: Final = frozenset(("version", "revision", "lastUpdated", "user", "history", "facts"))


@dataclass(frozen=True, slots=True)
class Manifest:
    """A memory.json as read. `raw` is the whole object, unknown keys included; `version` "" where none is written."""

    summaries: Summaries
    version: str
    raw: Mapping[str, JsonValue]


def decode(data: bytes) -> Manifest:
    """The document in a memory.json of any version up to 2.

    Raises FormatError: not UTF-8, not JSON, left in two by a git merge, a key twice, NaN, not an object, a version
    from the future, a revision that is no whole number, a group of sections that is no object, a section that is
    neither object nor text, half a character in a section. A section that is a text alone is its summary; missing
    ones, and null, are empty.
    """
    raw = _object(data)
    version = _version(raw)
    revision = raw.get("revision")
    if isinstance(revision, bool) or not (revision is None or (isinstance(revision, int) and revision >= 0)):
        raise _bad("revision", revision, "a whole number")
    updated = raw.get("lastUpdated")
    if not (updated is None or (isinstance(updated, str) and is_unicode(updated))):
        raise _bad("lastUpdated", updated, "a timestamp in quotes")
    sections = {**_sections(raw, "user", USER_SECTIONS), **_sections(raw, "history", HISTORY_SECTIONS)}
    summaries = Summaries(revision=revision or 0, last_updated=updated or "", **sections)
    return Manifest(summaries, version, raw)


def encode(manifest: Manifest | None, *, summaries: Summaries, revision: int, now: str) -> bytes:
    """The bytes of a version 2 document with these summaries; unknown keys of `manifest` stay, `facts` goes.

    What stays keeps its digits and its escapes, and a version 2.x its text. Raises InvalidInput for a summary that
    can't be encoded and for numbers that JSON has no form for.
    """
    raw = manifest.raw if manifest is not None else {}
    document: dict[str, JsonValue] = {"version": _version_after(raw), "revision": revision, "lastUpdated": now}
    document["user"] = _group(raw.get("user"), summaries, USER_SECTIONS)
    document["history"] = _group(raw.get("history"), summaries, HISTORY_SECTIONS)
    document.update((key, value) for key, value in raw.items() if key not in _OWN_KEYS)
    for key in SECTIONS:
        if not is_unicode(f"{summaries.section(key).summary}{summaries.section(key).updated_at}"):
            raise InvalidInput(f"the summary {key} is not valid Unicode", hint="remove the lone surrogate")
    try:
        return dumps(document).encode()
    except RecursionError:
        raise InvalidInput("memory.json can't hold that: it nests too deep", hint="make it flatter") from None
    except ValueError as error:
        raise InvalidInput(f"memory.json can't hold that: {error}", hint="give finite numbers") from None


def needs_migration(raw: Mapping[str, JsonValue]) -> bool:
    """Whether a decoded document is of version 1: by its version, none at all, or `facts` of either shape in it."""
    version = raw.get("version")
    return version is None or str(version).startswith(("1", "0")) or isinstance(raw.get("facts"), (list, Mapping))


def _object(data: bytes) -> JsonObject:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FormatError("not-utf8", "the file is not UTF-8", line=line, hint="save it as UTF-8") from None
    if "\0" in text:
        hint = "save it as UTF-8, or restore it from a backup"
        raise FormatError("not-utf8", "the file holds NUL bytes: it is UTF-16 or UTF-32, or damaged", hint=hint)
    try:
        raw = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite, parse_int=exact_int
        )
    except json.JSONDecodeError as error:
        if line := first_marker(text):
            raise FormatError("merge-conflict", _CONFLICT, line=line, hint=_RESOLVE) from None
        hint = "mend that line, or restore the file from a backup"
        raise FormatError(
            "not-json", f"the file is not valid JSON: {error.msg}", line=error.lineno, hint=hint
        ) from None
    except RecursionError:
        raise FormatError("not-json", "the values nest too deep", hint="restore the file from a backup") from None
    except ValueError as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError("not-json", f"the file is not valid JSON: {error}", hint="shorten that number") from None
    if not isinstance(raw, dict):
        raise FormatError("not-an-object", "the file is not a JSON object", line=1, hint="restore it from a backup")
    return raw


def _unique(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    found: JsonObject = {}
    for key, value in pairs:
        if key in found:
            raise FormatError("duplicate-key", f"key {key!r:.80} stands there twice", hint="remove one of them")
        found[key] = value
    return found


def _no_constant(word: str) -> JsonValue:
    raise FormatError("not-json", f"the file holds {word}, which JSON has no form for", hint="write a number or null")


def _finite(text: str) -> float:
    number = exact_float(text)
    if not math.isfinite(number):
        raise FormatError("not-json", f"the number {text:.40} is out of range", hint="write a smaller one")
    return number


def _version(raw: JsonObject) -> str:
    version = raw.get("version")
    if version is None:
        return ""
    text = version if isinstance(version, str) else str(version)
    match = _VERSION.fullmatch(text)
    if isinstance(version, bool) or match is None:
        raise _bad("version", version, f'"{VERSION}"')
    if int(match[1]) > 2:
        hint = "upgrade deermem, or open the store with the version that wrote it"
        raise FormatError("newer-version", f"memory.json has version {text}", hint=hint)
    return text


def _version_after(raw: Mapping[str, JsonValue]) -> str:
    """A later 2.x is not called 2.0 by whoever leaves what it added as it is."""
    text = str(raw.get("version", ""))
    return text if text.startswith("2.") and _VERSION.fullmatch(text) else VERSION


def _bad(key: str, value: JsonValue, wanted: str) -> FormatError:
    return FormatError("bad-value", f"{key} is {value!r:.80}", hint=f"give {wanted}")


def _sections(raw: JsonObject, group: str, names: Mapping[str, str]) -> dict[str, Section]:
    found = raw.get(group)
    if found is None:
        found = {}
    if not isinstance(found, Mapping):
        raise _bad(group, found, f"an object with {', '.join(names)}")
    return {attribute: _section(found.get(key), f"{group}.{key}") for key, attribute in names.items()}


def _section(value: JsonValue, name: str) -> Section:
    if value is None or isinstance(value, str):
        value = {"summary": value}
    if not isinstance(value, Mapping):
        raise _bad(name, value, 'the text, or an object with "summary" and "updatedAt"')
    return Section(_text(value, "summary", name), _text(value, "updatedAt", name))


def _text(section: Mapping[str, JsonValue], key: str, name: str) -> str:
    value = section.get(key)
    if value is None:
        return ""
    text = value if isinstance(value, str) else dumps(value)
    if not is_unicode(text):
        raise _bad(f"{name}.{key}", value, "text without half a character (a lone surrogate)")
    return text


def _group(old: JsonValue, summaries: Summaries, names: Mapping[str, str]) -> JsonObject:
    """One group of sections: ours in their order, each with the keys that others added, then what else was there."""
    before = old if isinstance(old, Mapping) else {}
    found: JsonObject = {}
    for key in names:
        section, was = summaries.section(key), before.get(key)
        more = dict(was) if isinstance(was, Mapping) else {}
        found[key] = {**more, "summary": section.summary, "updatedAt": section.updated_at}
    found.update((key, value) for key, value in before.items() if key not in names)
    return found
