"""Judging DeerFlow's undo journal: what a roll-back would do, found out before it touches anything.

Whoever can place a file in the user's folder can write such a journal, so every name in it is checked against what
DeerFlow itself writes. One that fails is refused as a whole: half a roll-back would mix two states.
"""

from __future__ import annotations

import json
import logging
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Final

from deermem.format import manifest, markdown
from deermem.format.paths import fact_path
from deermem.format.problems import FormatError
from deermem.model.fact import check_id
from deermem.model.scope import normalize_agent
from deermem.model.summaries import HISTORY_SECTIONS, USER_SECTIONS
from deermem.store.files import Files
from deermem.store.layout import AGENTS, FACTS, UserPaths

_log: Final = logging.getLogger("deermem")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OPERATION: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_. -]{0,254}")
_MAX_PATH: Final = 1024
_MANIFEST_KEYS: Final = frozenset(("version", "revision", "lastUpdated", "user", "history"))


@dataclass(frozen=True, slots=True)
class UndoStep:
    """One path below the user's folder, and what stood there before the write: None where nothing did."""

    path: str
    wanted: bytes | None


@dataclass(slots=True)
class UndoPlan:
    """All that a roll-back does. `used` are the backups that are in order: they may go once they are restored."""

    folder: str
    committed: bool
    steps: list[UndoStep] = field(default_factory=list)
    used: set[str] = field(default_factory=set)


def judge(files: Files, paths: UserPaths, data: bytes | None) -> UndoPlan:
    """The plan of a journal's bytes, with all backups read; raises ValueError for what can't be trusted."""
    try:
        said = json.loads(data or b"", object_pairs_hook=_unique)
        return _judge(files, paths, said)
    except RecursionError:
        raise ValueError("the values nest too deep") from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _judge(files: Files, paths: UserPaths, said: object) -> UndoPlan:
    if not isinstance(said, dict) or said.get("state") not in ("prepared", "committed"):
        raise ValueError("unknown state")
    operation = said.get("operationId")
    if not isinstance(operation, str) or not _OPERATION.fullmatch(operation):
        raise ValueError("operationId is no plain name")
    where = [paths.undo_backups.name, operation]
    _check_way(files, paths, where, is_file=False)
    plan = UndoPlan(os.path.join(paths.folder, *where), said["state"] == "committed")
    if plan.committed:
        return plan
    first = _is_first_write(said)
    places = _places(said)
    for path in (paths.manifest_name, *places):
        _check_way(files, paths, path.split("/"), is_file=True)
    for name in ("memory.json", *(f"{key}.md" for key in places.values() if key is not None)):
        _check_way(files, paths, [*where, name], is_file=True)
    _plan_manifest(files, paths, plan, first=first)
    for path, fact_id in places.items():
        _plan_fact(files, plan, path, fact_id)
    return plan


def _check_way(files: Files, paths: UserPaths, parts: Sequence[str], *, is_file: bool) -> None:
    """Raises ValueError where a link, or another kind of thing than is to be there, stands at or above a path."""
    path = str(paths.folder)
    for number, part in enumerate(parts, start=1):
        path = os.path.join(path, part)
        status = files.stat(path)
        if status is None:
            return
        wants_file = is_file and number == len(parts)
        if not (stat.S_ISREG if wants_file else stat.S_ISDIR)(status.st_mode):
            raise ValueError(f"{path} is no {'file' if wants_file else 'folder'}")


# --- what the journal says


def _is_first_write(said: Mapping[str, object]) -> bool:
    """Whether there was no memory.json before; a key that is missing says nothing of the kind."""
    revision = said.get("expectedRevision")
    if isinstance(revision, bool) or not isinstance(revision, int) or revision < 0:
        raise ValueError("expectedRevision is no whole number")
    return revision == 0


def _places(said: Mapping[str, object]) -> dict[str, str | None]:
    """Relative path → the id of the fact that stood there, None where the write made it."""
    old, ids, agent = said.get("oldEntries"), said.get("factIds"), said.get("agentName")
    if not isinstance(old, dict) or not isinstance(ids, list) or not isinstance(agent, str | None):
        raise ValueError("oldEntries, factIds or agentName is missing or has another type")
    bucket = normalize_agent(agent)
    made = [fact_id for fact_id in dict.fromkeys(check_id(fact_id) for fact_id in ids) if fact_id not in old]
    if made and "agentName" not in said:
        raise ValueError("agentName is missing")
    found: dict[str, str | None] = {fact_path(bucket, fact_id): None for fact_id in made}
    for fact_id, entry in old.items():
        path = entry.get("path") if isinstance(entry, dict) else None
        checked = _inside(path)
        if checked in found:
            raise ValueError(f"path {path!r:.80} stands there twice")
        found[checked] = check_id(fact_id)
    return found


def _inside(path: object) -> str:
    """The path itself, if a fact file may lie there: `agents/{agent}/facts/…/*.md`."""
    if not isinstance(path, str) or len(path) > _MAX_PATH:
        raise ValueError("a path is missing, no text or too long")
    parts = path.split("/")
    if len(parts) < 4 or (parts[0], parts[2]) != (AGENTS, FACTS) or normalize_agent(parts[1]) != parts[1]:
        raise ValueError(f"path {path!r:.80} is not among the user's facts")
    *folders, name = parts[3:]
    # A folder of such a name could be the file of another step.
    looks_like_a_file = any(folder.lower().endswith(".md") for folder in folders)
    if looks_like_a_file or not name.endswith(".md") or not all(_SEGMENT.fullmatch(part) for part in parts[3:]):
        raise ValueError(f"path {path!r:.80} is not one of a fact file")
    return path


# --- what the backups say


def _plan_manifest(files: Files, paths: UserPaths, plan: UndoPlan, *, first: bool) -> None:
    backup = files.read(os.path.join(plan.folder, "memory.json"))
    if backup is not None:
        try:
            manifest.decode(backup)
        except FormatError as error:
            _log.warning("%s can't be used: %s", os.path.join(plan.folder, "memory.json"), error)
            return
        plan.used.add("memory.json")
        plan.steps.append(UndoStep(paths.manifest_name, backup))
    elif first and _says_nothing(files.read(str(paths.manifest))):
        plan.steps.append(UndoStep(paths.manifest_name, None))


def _says_nothing(data: bytes | None) -> bool:
    """Whether a memory.json may go: it holds no summary, no fact of version 1 and nothing that we don't know."""
    if data is None:
        return False
    try:
        found = manifest.decode(data)
    except FormatError:
        return False
    if manifest.needs_migration(found.raw) or not found.raw.keys() <= _MANIFEST_KEYS:
        return False
    names = (*USER_SECTIONS.values(), *HISTORY_SECTIONS.values())
    return not any(found.summaries.section(name).summary for name in names)


def _plan_fact(files: Files, plan: UndoPlan, path: str, fact_id: str | None) -> None:
    if fact_id is None:
        plan.steps.append(UndoStep(path, None))
        return
    name = f"{fact_id}.md"
    backup = files.read(os.path.join(plan.folder, name))
    if backup is None:
        return
    try:
        held = markdown.decode(backup, stem=PurePosixPath(path).stem, when=_EPOCH).fact.id
    except FormatError as error:
        # A torn backup must not replace a file that may be whole.
        _log.warning("%s can't be used: %s", os.path.join(plan.folder, name), error)
        return
    if held != fact_id:
        _log.warning("%s can't be used: it holds fact %s", os.path.join(plan.folder, name), held)
        return
    plan.used.add(name)
    plan.steps.append(UndoStep(path, backup))
