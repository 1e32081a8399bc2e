"""What a migration of one user would do, decided from the files alone; nothing is written here."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Literal

from deermem.errors import BackupMismatch, MigrationError
from deermem.format.document import parse_facts
from deermem.migrate import default_bucket, legacy, merge
from deermem.migrate.legacy import LegacyDocument, StoredFact, UserFiles, listed_facts, mapped_facts
from deermem.migrate.manifests import current_manifest, legacy_manifest, migrated_manifest, sections_of
from deermem.migrate.place import UserPlace, printable
from deermem.migrate.refused import refuse
from deermem.model.changes import FileChange
from deermem.model.fact import Fact
from deermem.model.scope import DEFAULT_AGENT
from deermem.model.summaries import Summaries
from deermem.store.layout import BACKUP_SUFFIX


@dataclass(frozen=True, slots=True)
class Backup:
    """A copy to be made before anything else: `data` is the source's exact content."""

    source: str
    path: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPlan:
    """Everything that the migration of one user changes; paths are posix, relative to the user's folder.

    `changes` creates fact files and removes legacy files, never memory.json: that goes from `manifest_before` to
    `manifest_after`. `facts` counts the facts of the old sources; `remove_dirs`, the deepest first, are to be
    removed if they are empty afterwards.
    """

    outcome: Literal["current", "migrate"]
    manifest_before: bytes | None = None
    manifest_after: bytes | None = None
    changes: tuple[FileChange, ...] = ()
    backups: tuple[Backup, ...] = ()
    facts: int = 0
    remove_dirs: tuple[str, ...] = ()


def plan_user(
    files: UserFiles, place: UserPlace, *, now: datetime, only_agent: str | None = None, shared_wins: bool = False
) -> UserPlan:
    """The plan for one user; `only_agent` plans memory.json and that one bucket, for opening just that bucket.

    `shared_wins` lets an agent's differing summaries go, for a clear that empties them all.

    Facts of memory.json go to `__default__`, those of `agents/NAME/memory.json` to that agent; a previous default
    bucket is adopted. A second run finds nothing to do. Raises MigrationError, BackupMismatch, SummaryConflict,
    UnexpectedFiles or Corruption, whose message names file, fact, field, value and mend.
    """
    sources = _read_sources(files, place, now, only_agent)
    if sources.is_empty():
        return UserPlan(outcome="current", manifest_before=sources.manifest, manifest_after=sources.manifest)
    return _Planner(files, place, now, sources, shared_wins).plan()


def describe(plan: UserPlan) -> list[str]:
    """What the plan would do, one readable line each."""
    if plan.outcome == "current":
        return ["already current"]
    created = Counter(change.path.split("/")[1] for change in plan.changes if _is_new_fact(change))
    lines = [f"would migrate {plan.facts} fact{'' if plan.facts == 1 else 's'}"]
    lines += [f"would back up {backup.source} as {backup.path}" for backup in plan.backups]
    lines += [
        f"would write {count} fact file{'' if count == 1 else 's'} of {agent}" for agent, count in created.items()
    ]
    lines += [
        f"would write {printable(change.path)}" for change in plan.changes if change.after and not _is_new_fact(change)
    ]
    lines += [f"would remove {printable(change.path)}" for change in plan.changes if change.after is None]
    return [*lines, "would write the user's summaries and revision in format 2.0"]


def derived_id(content: str) -> str:
    """The id of a v1 fact without one: the same content always gets the same id, so a repeated run adds nothing."""
    return f"fact_{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def _is_new_fact(change: FileChange) -> bool:
    return change.after is not None and change.path.endswith(".md")


@dataclass(frozen=True, slots=True)
class _Sources:
    manifest: bytes | None
    shared: LegacyDocument | None
    agents: Mapping[str, LegacyDocument]
    old_default: list[StoredFact]

    def is_empty(self) -> bool:
        return self.shared is None and not self.agents and not self.old_default

    def documents(self) -> list[tuple[str, LegacyDocument]]:
        shared = [] if self.shared is None else [(DEFAULT_AGENT, self.shared)]
        return [*shared, *self.agents.items()]


def _read_sources(files: UserFiles, place: UserPlace, now: datetime, only_agent: str | None) -> _Sources:
    names = legacy.legacy_agents(files, only_agent)
    found = {name: legacy.load_agent(files, place, name) for name in names}
    return _Sources(
        files.read(place.manifest_name),
        legacy.load_global(files, place),
        {name: document for name, document in found.items() if document is not None},
        legacy.old_default_facts(files, now) if legacy.adopts_default(only_agent) else [],
    )


class _Planner:
    """One run over a user's sources. Lives for one call of `plan_user`."""

    def __init__(self, files: UserFiles, place: UserPlace, now: datetime, sources: _Sources, shared_wins: bool) -> None:
        self._files = files
        self._place = place
        self._now = now
        self._sources = sources
        self._shared_wins = shared_wins
        self._owner: str | None = None
        self._buckets: dict[str, merge.Bucket] = {}
        self._refused: dict[str, list[str]] = {}

    def plan(self) -> UserPlan:
        sources = self._sources
        parsed = {document.path: self._facts(document) for _, document in sources.documents()}
        self._owner = merge.owner_of(self._place, self._named_users(parsed))
        for agent, document in sources.documents():
            self._take(document, agent, parsed[document.path])
        removed = [FileChange(document.path, document.data, None) for document in sources.agents.values()]
        if sources.old_default:
            into = self._bucket(DEFAULT_AGENT)
            removed += default_bucket.adopt(self._files, self._place, sources.old_default, into, self._owner)
        created = [change for bucket in self._buckets.values() for change in bucket.changes]
        return UserPlan(
            outcome="migrate",
            manifest_before=sources.manifest,
            manifest_after=self._manifest(),
            changes=(*created, *removed),
            backups=tuple(self._backups()),
            facts=sum(bucket.count for bucket in self._buckets.values()),
            remove_dirs=tuple(default_bucket.folders(self._files)) if sources.old_default else (),
        )

    def _bucket(self, agent: str) -> merge.Bucket:
        if agent not in self._buckets:
            stored = legacy.stored_facts(self._files, agent, self._now)
            self._buckets[agent] = merge.Bucket(self._place, agent, stored, self._owner)
        return self._buckets[agent]

    def _facts(self, document: LegacyDocument) -> tuple[Fact, ...]:
        items = listed_facts(document, self._place.shown(document.path))
        refused = self._refused.setdefault(document.path, [])
        return parse_facts(items, now=self._now, new_id=derived_id, strict=False, refused=refused)

    def _take(self, document: LegacyDocument, agent: str, facts: Sequence[Fact]) -> None:
        bucket, where = self._bucket(agent), self._place.shown(document.path)
        stops: list[MigrationError] = []
        for fact in facts:
            try:
                merge.check_owner(fact, self._owner, where)
                bucket.add(replace(fact, user_id=self._owner, agent_name=agent), document.path)
            except MigrationError as error:
                stops.append(error)
        for fact_id, entry in mapped_facts(document).items():
            try:
                stored = legacy.mapped_fact(self._files, where, fact_id, entry)
                if stored.fact is not None:
                    merge.check_owner(stored.fact, self._owner, f"{where}: {stored.path}")
                self._bucket(self._goes_to(stored.path)).note(fact_id)
            except MigrationError as error:
                stops.append(error)
        refuse(where, self._refused[document.path], stops)

    def _goes_to(self, path: str) -> str:
        """Whose fact a file is in the end."""
        agent = path.split("/")[1]
        return DEFAULT_AGENT if any(item.path == path for item in self._sources.old_default) else agent

    def _named_users(self, parsed: Mapping[str, Sequence[Fact]]) -> Iterator[str | None]:
        """Whoever the old facts name, then whoever the fact files name, read only as far as they are asked for."""
        agents = legacy.legacy_agents(self._files, None)
        stored = chain.from_iterable(legacy.stored_facts(self._files, agent, self._now) for agent in agents)
        yield from (fact.user_id for facts in parsed.values() for fact in facts)
        yield from (item.fact.user_id for item in stored if item.fact is not None)

    def _manifest(self) -> bytes:
        sources, shown = self._sources, self._place.shown
        base = None
        if sources.shared is not None:
            base = legacy_manifest(sources.shared, shown(sources.shared.path))
        elif sources.manifest is not None:
            base = current_manifest(sources.manifest, shown(self._place.manifest_name))
        summaries = Summaries() if base is None else base.summaries
        for document in sources.agents.values():
            found, where = sections_of(document, shown(document.path)), shown(document.path)
            summaries = merge.merge_sections(summaries, found, where, shared_wins=self._shared_wins)
        return migrated_manifest(base, summaries, self._now, shown(self._place.manifest_name))

    def _backups(self) -> Iterator[Backup]:
        for _, document in self._sources.documents():
            path = document.path + BACKUP_SUFFIX
            present = self._files.read(path)
            if present is None:
                yield Backup(document.path, path, document.data)
            elif present != document.data:
                raise BackupMismatch(
                    f"{self._place.shown(path)} is there already and differs from {self._place.shown(document.path)}",
                    hint="move the older backup away, then run the migration again",
                )
