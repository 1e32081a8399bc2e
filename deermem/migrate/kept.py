"""What the backups of a user's old documents say, and how a fact in version 2 is held against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from operator import attrgetter
from typing import Final

from deermem.errors import MigrationError
from deermem.format.document import parse_facts
from deermem.format.fact_mapping import stated_fields
from deermem.migrate.legacy import (
    LegacyDocument,
    StoredFact,
    UserFiles,
    agent_document,
    legacy_agents,
    listed_facts,
    parse_json,
    stored_facts,
)
from deermem.migrate.merge import precedence
from deermem.migrate.place import UserPlace
from deermem.migrate.plan import derived_id
from deermem.model.fact import Fact
from deermem.model.scope import DEFAULT_AGENT, Scope
from deermem.store.layout import BACKUP_SUFFIX

_NOT_COMPARED: Final = ("version", "user_id", "agent_name")
_COMPARED: Final = tuple(item.name for item in fields(Fact) if item.name not in _NOT_COMPARED)
_VALUES: Final = attrgetter(*_COMPARED)


@dataclass(frozen=True, slots=True)
class KeptDocument:
    """An old document as its backup keeps it: `source.path` is where it lay, `agent` whose its listed facts are.

    `is_back`: the same bytes lie there again, or still.
    """

    agent: str
    source: LegacyDocument
    is_back: bool

    @property
    def backup(self) -> str:
        """Where the copy lies."""
        return self.source.path + BACKUP_SUFFIX


@dataclass(frozen=True, slots=True)
class KeptFact:
    """A fact as a migration makes it; where the document states no time, `created_at` or `updated_at` says nothing."""

    fact: Fact
    has_created: bool
    has_updated: bool

    def differences(self, found: Fact, scope: Scope) -> list[str]:
        """The fields in which a stored fact is another, () where it is this one."""
        wanted, actual = _VALUES(self.fact), _VALUES(found)
        differ = []
        if wanted != actual:
            differ = [name for name, one, other in zip(_COMPARED, wanted, actual, strict=True) if one != other]
        if not self.has_created and "created_at" in differ:
            differ.remove("created_at")
        if not self.has_updated and "updated_at" in differ and found.updated_at == found.created_at:
            differ.remove("updated_at")
        return differ if scope.owns(found.user_id, found.agent_name) else [*differ, "owner"]


class KeptBucket:
    """The fact files of one bucket as they lie on disk, by id; each is read once. `scope` says whose it is."""

    def __init__(self, files: UserFiles, scope: Scope, when: datetime) -> None:
        self.stored = stored_facts(files, scope.agent, when)
        self._by_id: dict[str, StoredFact] = {}
        self._unreadable: dict[str, StoredFact] = {}
        for item in sorted(self.stored, key=lambda item: precedence(item, scope)):
            if item.fact is None:
                self._unreadable.setdefault(item.path.rpartition("/")[2].removesuffix(".md"), item)
            else:
                self._by_id.setdefault(item.fact.id, item)

    def speaker(self, fact_id: str) -> StoredFact | None:
        """Of the readable files of an id the one that whoever reads the bucket gets."""
        return self._by_id.get(fact_id)

    def unreadable(self, fact_id: str) -> StoredFact | None:
        """The file that carries an id as its name and can't be read."""
        return self._unreadable.get(fact_id)


def kept_documents(files: UserFiles, place: UserPlace) -> list[KeptDocument]:
    """Every document that has a backup, the shared one first; raises MigrationError for one that can't be read."""
    sources = [(DEFAULT_AGENT, place.manifest_name)]
    sources += [(agent, agent_document(agent)) for agent in legacy_agents(files, None)]
    found = []
    for agent, path in sources:
        data = files.read(path + BACKUP_SUFFIX)
        if data is None and _is_there(files, path + BACKUP_SUFFIX):
            raise MigrationError(
                f"{place.shown(path + BACKUP_SUFFIX)} is no regular file",
                hint="put the copy itself there, or move that away",
            )
        if data is not None:
            doc = parse_json(data, place.shown(path + BACKUP_SUFFIX))
            found.append(KeptDocument(agent, LegacyDocument(path, data, doc), files.read(path) == data))
    return found


def _is_there(files: UserFiles, path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return any(name == entry for entry, _ in files.listdir(folder))


def kept_facts(document: KeptDocument, place: UserPlace, when: datetime) -> list[KeptFact]:
    """The facts that a document lists, in its order, each as the migration puts it into its bucket.

    Raises MigrationError where one can't be read: such a document was never migrated.
    """
    shown = place.shown(document.backup)
    items, refused = listed_facts(document.source, shown), list[str]()
    facts = parse_facts(items, now=when, new_id=derived_id, strict=False, refused=refused)
    if refused:
        raise MigrationError(f"{shown}: {refused[0]}", hint="this copy is not what was migrated; look at it")
    return [_kept(fact, item, document.agent) for fact, item in zip(facts, items, strict=True)]


def _kept(fact: Fact, item: object, agent: str) -> KeptFact:
    assert isinstance(item, Mapping)
    stated = stated_fields(item)
    created = "created_at" in stated
    updated = created or "updated_at" in stated
    # Read here once more, by no parser: what a person wrote is the one thing that must not be read wrongly.
    return KeptFact(replace(fact, content=str(item["content"]).strip(), agent_name=agent), created, updated)


def scope_of(place: UserPlace, agent: str) -> Scope:
    """Whose a fact in this bucket must be."""
    return Scope(place.user_id if place.user_id is not None else place.folder, agent)
