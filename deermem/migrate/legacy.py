"""Old stores, read only: v1 documents, the mapping variant, and the buckets that must move."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

from deermem.errors import Corruption, DeerMemError, InvalidInput, MigrationError
from deermem.format import markdown
from deermem.format.conflict_markers import first_marker
from deermem.format.exact_json import exact_float, exact_int
from deermem.format.paths import facts_folder
from deermem.format.problems import FormatError
from deermem.migrate.place import LEAD_AGENT, LEGACY_NAME, UserPlace, printable
from deermem.model.fact import Fact
from deermem.model.scope import DEFAULT_AGENT, Scope, normalize_agent
from deermem.model.values import JsonObject, JsonValue

NEWEST: Final = 2
_VERSION = re.compile(r"(\d{1,6})(?:\.\d{1,6}){0,3}")
_FACTS_KEY: Final = b'"facts"'
_UNQUOTED = re.compile(rb"\bfacts'?\s*:")
_VERSION_2 = re.compile(rb'"version"\s*:\s*"?2\b')
_LIST_OF_OBJECTS = re.compile(rb"[\xef\xbb\xbf\xfe\xff\s]*\[\s*\{")
_ESCAPE = re.compile(rb"\\u00([0-7][0-9a-fA-F])")
_DOCUMENT_KEYS: Final = ("facts", "user", "history")
_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)


class UserFiles(Protocol):
    """One user's folder; paths are posix and relative to it."""

    def read(self, path: str) -> bytes | None:
        """The file's content, None where there is none. A symbolic link is not followed."""

    def listdir(self, path: str) -> list[tuple[str, bool]]:
        """(name, is a folder) of each entry; [] where the folder is absent."""


@dataclass(frozen=True, slots=True)
class LegacyDocument:
    """A JSON document that must be migrated, with its exact bytes."""

    path: str
    data: bytes
    doc: JsonObject


@dataclass(frozen=True, slots=True)
class StoredFact:
    """A fact file that lies in a bucket. `fact` is None, and `problem` says why, where it can't be read."""

    path: str
    data: bytes
    fact: Fact | None
    has_digest: bool = False
    problem: str = ""


def needs_migration(files: UserFiles, place: UserPlace, *, only_agent: str | None = None) -> bool:
    """Whether `plan_user` with the same arguments would have something to do, or would stop.

    Cheap for a store that is current: it reads memory.json, lists `agents/`, and looks once into each agent's folder. A
    document that isn't valid JSON raises Corruption where it seems to hold facts; else it counts as current, so that
    the fact files stay readable. Raises MigrationError for a version that is not known.
    """
    paths = [place.manifest_name, *(agent_document(agent) for agent in legacy_agents(files, only_agent))]
    if any(_is_due(files, place, path) for path in paths):
        return True
    return adopts_default(only_agent) and bool(old_default_facts(files, _ANY_TIME))


def waiting_facts(files: UserFiles, place: UserPlace) -> dict[str, int]:
    """How many facts wait in each agent's old document; a damaged one that seems to hold facts counts as one.

    What a map of paths names lies in files of its own already, and is not counted.
    """
    found: dict[str, int] = {}
    places = [(DEFAULT_AGENT, place.manifest_name)]
    places += [(agent, agent_document(agent)) for agent in legacy_agents(files, None)]
    for agent, path in places:
        if count := _count_facts(files, place, path):
            found[agent] = found.get(agent, 0) + count
    return found


def waiting_agents(files: UserFiles, place: UserPlace) -> set[str]:
    """The agents that a migration would give facts of old documents, or of the previous default bucket."""
    found = set(waiting_facts(files, place))
    return found | {DEFAULT_AGENT} if old_default_facts(files, _ANY_TIME) else found


def _count_facts(files: UserFiles, place: UserPlace, path: str) -> int:
    try:
        document = _load_legacy(files, place, path)
    except DeerMemError:
        return int(may_hold_facts(files.read(path) or b"", is_list_ours=path == place.manifest_name))
    facts = document.doc.get("facts") if document is not None else None
    return len(facts) if isinstance(facts, list) else 0


def adopts_default(only_agent: str | None) -> bool:
    """Whether opening this bucket (None: all) looks at the previous default bucket too."""
    return only_agent in (None, DEFAULT_AGENT, LEAD_AGENT)


def load_global(files: UserFiles, place: UserPlace) -> LegacyDocument | None:
    """The user's memory.json if it must be migrated, None if it is absent or current."""
    return _load_legacy(files, place, place.manifest_name)


def load_agent(files: UserFiles, place: UserPlace, agent: str) -> LegacyDocument | None:
    """An agent's own legacy document, None where there is none; a host's file of another shape is not ours."""
    return _load_legacy(files, place, agent_document(agent))


def listed_facts(document: LegacyDocument, shown: str) -> Sequence[JsonValue]:
    """The list of facts in a document, () where it has none or a map of paths; raises MigrationError."""
    items = document.doc.get("facts")
    if items is None or isinstance(items, Mapping):
        return ()
    if isinstance(items, str) or not isinstance(items, Sequence):
        raise MigrationError(f"{shown}: facts is {items!r:.60}", hint="give a list of facts")
    return items


def mapped_facts(document: LegacyDocument) -> Mapping[str, JsonValue]:
    """The map of paths in a document, id → entry; empty where it has none."""
    entries = document.doc.get("facts")
    return entries if isinstance(entries, Mapping) else {}


def agent_document(agent: str) -> str:
    """Where an agent's own legacy document lies."""
    return f"agents/{agent}/{LEGACY_NAME}"


def legacy_agents(files: UserFiles, only_agent: str | None) -> list[str]:
    """The agent folders to look into for legacy documents, sorted."""
    if only_agent is not None:
        return [only_agent]
    return sorted(name for name, is_folder in files.listdir("agents") if is_folder and is_agent_folder(name))


def is_agent_folder(name: str) -> bool:
    """Whether a folder below `agents/` is a bucket: a normalised agent name."""
    try:
        return normalize_agent(name) == name
    except InvalidInput:
        return False


def may_hold_facts(data: bytes, *, is_list_ours: bool) -> bool:
    """Whether a document that can't be read seems to hold facts, so that its user must not look empty.

    In UTF-16 or UTF-32, with the key in escapes or without its quotes too; a damaged document of version 2 only
    where the key itself is there. `is_list_ours`: whether a bare list of objects is taken for facts.
    """
    narrow = _ESCAPE.sub(lambda escape: bytes.fromhex(escape[1].decode()), data.replace(b"\0", b""))
    if _FACTS_KEY in narrow or (is_list_ours and _LIST_OF_OBJECTS.match(narrow)):
        return True
    return _VERSION_2.search(narrow) is None and _UNQUOTED.search(narrow) is not None


def parse_json(data: bytes, shown: str, *, exact: bool = False) -> JsonObject:
    """A JSON object; raises Corruption that names file, position and reason. A repeated key is refused.

    `exact`: numbers keep their digits, for keys that are written again as they were.
    """
    if b"\0" in data:
        raise _corruption(shown, "it holds NUL bytes: it is UTF-16 or UTF-32, not UTF-8, or damaged")
    numbers = (exact_float, exact_int) if exact else (float, int)
    try:
        doc = json.loads(
            data.decode("utf-8-sig"), object_pairs_hook=_object, parse_float=numbers[0], parse_int=numbers[1]
        )
    except UnicodeDecodeError as error:
        raise _corruption(shown, f"it is not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise _corruption(shown, "it is nested too deep") from None
    except ValueError as error:
        if line := first_marker(data.decode("utf-8-sig")):
            raise _corruption(shown, f"it holds an unresolved git merge, line {line}") from None
        raise _corruption(shown, f"it is not valid JSON: {error}") from None
    if not isinstance(doc, dict):
        raise _corruption(shown, f"it holds a JSON {type(doc).__name__}, not an object")
    return doc


def stored_facts(files: UserFiles, agent: str, when: datetime) -> list[StoredFact]:
    """Every fact file of a bucket, sorted by path, the unreadable ones too. `when` stands for missing dates."""
    return [_stored(path, data, when) for path, data in _fact_files(files, agent)]


def walk(files: UserFiles, folder: str) -> Iterator[str]:
    """Every file below a folder, in no particular order."""
    waiting = [folder]
    while waiting:
        above = waiting.pop()
        for name, is_folder in files.listdir(above):
            if is_folder:
                waiting.append(f"{above}/{name}")
            else:
                yield f"{above}/{name}"


def is_fact_file(path: str) -> bool:
    """Whether a file below `facts/` is a fact; editors' and file systems' dot files are not."""
    name = path.rpartition("/")[2]
    return name.endswith(".md") and not name.startswith(".")


def mapped_fact(files: UserFiles, where: str, fact_id: str, entry: JsonValue) -> StoredFact:
    """The file that a v1 fact-path map names for an id, checked: path, hash, and that it holds this id.

    Raises MigrationError, beginning with `where`, that names id, value and mend. The path is judged segment by
    segment before anything is read.
    """
    where = f"{where}: fact {fact_id!r:.80}"
    path = entry.get("path") if isinstance(entry, Mapping) else None
    if not isinstance(entry, Mapping) or not isinstance(path, str):
        raise MigrationError(f"{where} is {entry!r:.60}", hint='give an object with "path" and "contentHash"')
    if not _is_bucket_path(path):
        raise MigrationError(
            f"{where} has the path {path!r:.120}, which escapes the user's fact folders",
            hint="name a file as agents/NAME/facts/….md",
        )
    data, shown = files.read(path), printable(path)
    if data is None:
        raise MigrationError(
            f"{where} names {shown}, which does not exist", hint="restore the file, or remove the entry"
        )
    _check_hash(entry.get("contentHash"), data, where, shown)
    stored = _stored(path, data, _ANY_TIME)
    if stored.fact is None:
        raise MigrationError(f"{where} names {shown}, which can't be read: {stored.problem}", hint="mend the file")
    if stored.fact.id != fact_id:
        raise MigrationError(f"{where} names {shown}, which holds {stored.fact.id!r}", hint="make the two ids equal")
    if not Scope(None, path.split("/")[1]).owns(None, stored.fact.agent_name):
        raise MigrationError(
            f"{where} names {shown}, whose agent_name is {stored.fact.agent_name!r:.60}", hint="mend one of the two"
        )
    return stored


def old_default_facts(files: UserFiles, when: datetime) -> list[StoredFact]:
    """All fact files of `lead-agent` where that is the default bucket of an older release, else [].

    It is where no agent configuration exists and some fact names lead-agent as its agent. A fact that this engine
    wrote there (it carries a digest) shows that somebody uses an agent of that name now: its memory is not taken
    away.
    """
    names = {name for name, _ in files.listdir(f"agents/{LEAD_AGENT}")}
    if "config.yaml" in names or "facts" not in names:
        return []
    found: list[StoredFact] = []
    for path, data in _fact_files(files, LEAD_AGENT):
        found.append(_stored(path, data, when))
        if found[-1].has_digest:
            return []
    named = any(item.fact is not None and item.fact.agent_name == LEAD_AGENT for item in found)
    return found if named else []


def _fact_files(files: UserFiles, agent: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted(path for path in walk(files, facts_folder(agent)) if is_fact_file(path)):
        yield path, files.read(path) or b""


def _is_due(files: UserFiles, place: UserPlace, path: str) -> bool:
    try:
        return _load_legacy(files, place, path) is not None
    except Corruption:
        if may_hold_facts(files.read(path) or b"", is_list_ours=path == place.manifest_name):
            raise
        return False


def _load_legacy(files: UserFiles, place: UserPlace, path: str) -> LegacyDocument | None:
    data = files.read(path)
    if data is None:
        return None
    doc = parse_json(data, place.shown(path))
    if path != place.manifest_name and not any(key in doc for key in _DOCUMENT_KEYS):
        return None
    legacy = _major(doc.get("version"), place.shown(path)) < NEWEST or "facts" in doc
    return LegacyDocument(path, data, doc) if legacy else None


def _major(version: JsonValue, shown: str) -> int:
    if version is None or version == "":
        return 1
    text = str(version) if isinstance(version, (str, int, float)) and not isinstance(version, bool) else ""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise MigrationError(f"{shown} has version {version!r:.40}, which is none", hint='write "1.0" or "2.0" there')
    if int(match[1]) > NEWEST:
        raise MigrationError(
            f"{shown} has version {version!r:.40}, newer than the {NEWEST}.x that this deermem knows",
            hint="it was left as it is; upgrade deermem",
        )
    return int(match[1])


def _object(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r:.60} stands twice in one object")
    return found


def _corruption(shown: str, reason: str) -> Corruption:
    return Corruption(f"{shown}: {reason}", path=shown, reason=reason, hint="mend the file, or restore a backup of it")


def _stored(path: str, data: bytes, when: datetime) -> StoredFact:
    stem = path.rpartition("/")[2].removesuffix(".md")
    try:
        parsed = markdown.decode(data, stem=stem, when=when)
    except FormatError as error:
        return StoredFact(path, data, None, problem=error.problem.message)
    return StoredFact(path, data, parsed.fact, parsed.has_digest)


def _is_bucket_path(path: str) -> bool:
    parts = path.split("/")
    if "\\" in path or "\0" in path or len(parts) < 4 or any(part in ("", ".", "..") for part in parts):
        return False
    return parts[0] == "agents" and parts[2] == "facts" and is_agent_folder(parts[1]) and is_fact_file(path)


def _check_hash(stated: JsonValue, data: bytes, where: str, shown: str) -> None:
    actual = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if stated is not None and stated != actual:
        raise MigrationError(
            f"{where}: contentHash {stated!r:.90} does not match {shown}, which has {actual}",
            hint="restore the file, or put its own hash into the map",
        )
