"""What is asked before anything moves: whose the facts are, which of them would meet another, what may be written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from deermem.errors import DeerMemError, InvalidInput
from deermem.format.document import parse_facts
from deermem.migrate import legacy
from deermem.migrate.isolation_plan import MovePlan, Sides, nearest
from deermem.migrate.legacy import LegacyDocument
from deermem.migrate.place import UserPlace
from deermem.migrate.plan import UserPlan, derived_id
from deermem.migrate.run import FolderFiles
from deermem.migrate.writable import refusals
from deermem.model.fact import Fact
from deermem.model.scope import Scope
from deermem.store.layout import AGENTS, BACKUP_SUFFIX

_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class OldFact:
    """A fact of the no-user root, and the file or document that it stands in."""

    path: str
    id: str
    user_id: str | None


def read_facts(sides: Sides) -> list[OldFact]:
    """Every fact at the root that can be read, of files and of version 1 documents; the others move as they are."""
    reader, place = FolderFiles(sides.files, sides.root), UserPlace(folder=None, manifest_name=sides.root.manifest_name)
    found = []
    for agent in _folders(reader):
        found += [_old(item.path, item.fact) for item in legacy.stored_facts(reader, agent, _ANY_TIME) if item.fact]
    for document in _documents(reader, place):
        found += [_old(document.path, fact) for fact in _facts_of(document)]
    return found


def foreign(facts: Iterable[OldFact], user_id: str) -> tuple[str, ...]:
    """A line for each fact that names another user than the one who is to have it all."""
    scope = Scope(user_id)
    found = [
        f"{fact.path}: fact {fact.id!r} names the user {fact.user_id!r:.80}, who is not {user_id!r:.80}; "
        "move it to that user's folder, or mend the owner in it; nothing was moved"
        for fact in facts
        if not scope.owns(fact.user_id, None)
    ]
    return _cut(found)


def stuck(sides: Sides, facts: Iterable[OldFact]) -> dict[str, str]:
    """The paths that must stay although no file of their name is in the way, each with the reason and what to do."""
    reader = FolderFiles(sides.files, sides.user)
    return dict([*_repeated_ids(sides, reader, facts), *_unwanted_backups(sides, reader)])


def unwritable(sides: Sides, plan: MovePlan) -> tuple[str, ...]:
    """Where the storage would refuse: what a dry run asks, without making anything."""
    if not plan.steps:
        return ()
    nothing = UserPlan(outcome="current")
    found = [*refusals(sides.root, nothing)]
    if os.path.lexists(sides.user.folder):
        found += refusals(sides.user, nothing)
    for folder in sorted(_folders_written(sides, plan)):
        if not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
            found.append(f"{folder} is not writable; check its owner and permissions")
    return _cut(list(dict.fromkeys(found)))


def _folders_written(sides: Sides, plan: MovePlan) -> set[str]:
    folders = set()
    for step in plan.steps:
        folders.add(os.path.dirname(sides.source(step.path)))
        if step.kind in ("file", "folder", "open"):
            folders.add(nearest(os.path.dirname(sides.target(step.path))))
        if step.kind == "folder":
            # A folder that moves to another one is itself written to: its `..` changes.
            folders.add(sides.source(step.path))
    return folders


def _folders(reader: FolderFiles) -> list[str]:
    return [name for name, is_folder in reader.listdir(AGENTS) if is_folder]


def _documents(reader: FolderFiles, place: UserPlace) -> Iterator[LegacyDocument]:
    for path in _document_paths(reader, place):
        # A document that can't be read moves byte for byte; the migration of the user names it.
        with contextlib.suppress(DeerMemError):
            document = _load(reader, place, path)
            if document is not None:
                yield document


def _document_paths(reader: FolderFiles, place: UserPlace) -> list[str]:
    return [place.manifest_name, *(legacy.agent_document(agent) for agent in _folders(reader))]


def _load(reader: FolderFiles, place: UserPlace, path: str) -> LegacyDocument | None:
    """The document if it is of version 1, None where it is absent or current."""
    if path == place.manifest_name:
        return legacy.load_global(reader, place)
    return legacy.load_agent(reader, place, path.split("/")[1])


def _facts_of(document: LegacyDocument) -> Iterator[Fact]:
    items = document.doc.get("facts")
    for item in items if isinstance(items, list) else []:
        try:
            yield from parse_facts([item], now=_ANY_TIME, new_id=derived_id, strict=False)
        except InvalidInput:
            continue


def _old(path: str, fact: Fact) -> OldFact:
    return OldFact(path, fact.id, fact.user_id)


def _repeated_ids(sides: Sides, reader: FolderFiles, facts: Iterable[OldFact]) -> Iterator[tuple[str, str]]:
    """One id in two files of an agent: one of them would hide the other."""
    known: dict[str, Mapping[str, str]] = {}
    for fact in facts:
        parts = fact.path.split("/")
        if len(parts) < 4 or parts[2] != "facts":
            continue
        there = known.get(parts[1])
        if there is None:
            there = known.setdefault(parts[1], _ids(reader, parts[1]))
        other = there.get(fact.id.casefold(), fact.path)
        if other != fact.path:
            yield fact.path, f"{sides.place.shown(other)} holds the id {fact.id!r} already; give one another id"


def _ids(reader: FolderFiles, agent: str) -> dict[str, str]:
    stored = legacy.stored_facts(reader, agent, _ANY_TIME)
    return {item.fact.id.casefold(): item.path for item in stored if item.fact is not None}


def _unwanted_backups(sides: Sides, reader: FolderFiles) -> Iterator[tuple[str, str]]:
    """A backup of the root's beside a document of the user's would keep that one from being migrated."""
    for document in _document_paths(FolderFiles(sides.files, sides.root), sides.place):
        backup = document + BACKUP_SUFFIX
        data, present = sides.files.read(sides.source(backup)), reader.read(document)
        if data is None or present in (None, data) or reader.read(backup) is not None:
            continue
        if _waits(reader, sides.place, document):
            shown = sides.place.shown(document)
            yield backup, f"{shown} is of version 1 and gets a backup of that name; migrate it first, or move this away"


def _waits(reader: FolderFiles, place: UserPlace, document: str) -> bool:
    try:
        return _load(reader, place, document) is not None
    except DeerMemError:
        return True


def _cut(lines: Sequence[str]) -> tuple[str, ...]:
    more = (f"and {len(lines) - _SHOWN} more",) if len(lines) > _SHOWN else ()
    return (*lines[:_SHOWN], *more)


def same_folder(one: Path, other: Path) -> bool:
    """Whether two paths lead to one folder, through a link above or a mount."""
    return one.is_dir() and other.is_dir() and os.path.samefile(one, other)
