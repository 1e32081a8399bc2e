"""Proving a migration from the files: everything that the backups say stands in version 2, or was changed since.

Read afresh from disk, through no cache and no index. What was written in this very run must be there as it was made.
Else a fact counts as changed where its own file tells so (a higher revision, a later `updatedAt`), and as deleted
only where memory.json tells of a commit since; nothing of either kind is missing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from deermem.clock import parse_timestamp
from deermem.errors import DeerMemError
from deermem.migrate.kept import (
    KeptBucket,
    KeptDocument,
    KeptFact,
    kept_documents,
    kept_facts,
    scope_of,
)
from deermem.migrate.legacy import StoredFact, UserFiles, load_agent, load_global, mapped_facts
from deermem.migrate.manifests import current_manifest, legacy_manifest, normalised, own_keys, sections_of
from deermem.migrate.place import LEAD_AGENT, UserPlace, printable
from deermem.migrate.plan import UserPlan
from deermem.model.reports import Verification
from deermem.model.scope import DEFAULT_AGENT
from deermem.model.summaries import SECTIONS, Section, Summaries

_KEYS = {attribute: key for key, attribute in SECTIONS.items()}


@dataclass(frozen=True, slots=True)
class Fresh:
    """What a migration of this run did: `before`, the paths it took things from, with what lay there, and `made`."""

    before: frozenset[tuple[str, bytes | None]] = frozenset()
    made: frozenset[str] = frozenset()

    @classmethod
    def of(cls, plans: Iterable[UserPlan], place: UserPlace) -> Fresh:
        """From the plans that were carried out."""
        before: set[tuple[str, bytes | None]] = set()
        made: set[str] = set()
        for plan in plans:
            before.add((place.manifest_name, plan.manifest_before))
            before |= {(change.path, change.before) for change in plan.changes if change.after is None}
            made |= {change.path for change in plan.changes if change.after is not None}
        return cls(frozenset(before), frozenset(made))

    def holds(self, document: KeptDocument) -> bool:
        """Whether this document was migrated in this run."""
        return (document.source.path, document.source.data) in self.before


def verify_user(
    files: UserFiles, place: UserPlace, fresh: Fresh, when: datetime
) -> tuple[Verification, tuple[str, ...]]:
    """What is proved, and what is missing, one line each.

    Documents that are not migrated yet are left out. Raises Corruption for a memory.json that can't be read.
    """
    problems: list[str] = []
    try:
        documents = [document for document in kept_documents(files, place) if not _waits(files, place, document)]
    except DeerMemError as error:
        return Verification(), (f"it can't be verified: {error}",)
    verifier = _Verifier(files, place, fresh, when, _Manifest(files, place, documents))
    for document in documents:
        try:
            verifier.take(document)
        except DeerMemError as error:
            problems.append(f"it can't be verified: {error}")
    found = Verification(
        facts=verifier.facts, summaries=verifier.summaries, changed=tuple(verifier.changed), backups=len(documents)
    )
    return found, (*problems, *verifier.missing)


def _waits(files: UserFiles, place: UserPlace, document: KeptDocument) -> bool:
    """Whether an old document lies at its place, as it was copied or another: then it was not migrated."""
    if document.is_back:
        return True
    try:
        shared = document.source.path == place.manifest_name
        return (load_global(files, place) if shared else load_agent(files, place, document.agent)) is not None
    except DeerMemError:
        return True


class _Manifest:
    """memory.json as it lies there, and whether it may have counted a commit since the migration."""

    def __init__(self, files: UserFiles, place: UserPlace, documents: list[KeptDocument]) -> None:
        data = files.read(place.manifest_name)
        self.summaries = Summaries()
        present = None
        if data is not None:
            present = current_manifest(data, place.shown(place.manifest_name))
            self.summaries = present.summaries
        self.own_keys = own_keys(normalised(present, self.summaries))
        shared = next((item.source for item in documents if item.source.path == place.manifest_name), None)
        before = legacy_manifest(shared, place.shown(shared.path)).summaries.revision if shared else 0
        # A migration counts one. Without the shared document's copy nobody knows where the count began.
        self.moved_on = shared is None or self.summaries.revision > before + 1


class _Verifier:
    """One user's run: counts what is proved, and says what is not."""

    def __init__(self, files: UserFiles, place: UserPlace, fresh: Fresh, when: datetime, manifest: _Manifest) -> None:
        self.facts = 0
        self.summaries = 0
        self.changed: list[str] = []
        self.missing: list[str] = []
        self._files = files
        self._place = place
        self._fresh = fresh
        self._when = when
        self._manifest = manifest
        self._buckets: dict[str, KeptBucket] = {}
        self._seen: dict[tuple[str, str], str] = {}

    def take(self, document: KeptDocument) -> None:
        """Everything that one document says; raises DeerMemError where it can't be read."""
        facts = kept_facts(document, self._place, self._when)
        sections = sections_of(document.source, self._place.shown(document.backup))
        for kept in facts:
            self._fact(document, kept)
        for fact_id, entry in mapped_facts(document.source).items():
            self._mapped(document, fact_id, entry if isinstance(entry, Mapping) else {})
        for name, section in sections.items():
            if section.summary:
                self._section(document, name, section)
        if document.source.path == self._place.manifest_name:
            self._own_keys(document)

    def _bucket(self, agent: str) -> KeptBucket:
        if agent not in self._buckets:
            self._buckets[agent] = KeptBucket(self._files, scope_of(self._place, agent), self._when)
        return self._buckets[agent]

    def _fact(self, document: KeptDocument, kept: KeptFact) -> None:
        agent, fact_id = document.agent, kept.fact.id
        found = self._bucket(agent).speaker(fact_id)
        # Of one fact that stands twice in the old documents the first was taken in, with its fields.
        first = self._seen.get((agent, fact_id))
        self._seen.setdefault((agent, fact_id), kept.fact.content)
        if found is None or found.fact is None:
            self._absent(document, f"fact {fact_id!r} of {agent}", self._bucket(agent).unreadable(fact_id))
            return
        differ = kept.differences(found.fact, scope_of(self._place, agent))
        if "owner" not in differ and (not differ or first == kept.fact.content):
            self.facts += 1
        else:
            self._differs(document, kept, found, differ)

    def _differs(self, document: KeptDocument, kept: KeptFact, stored: StoredFact, differ: list[str]) -> None:
        what, names = f"fact {kept.fact.id!r} of {document.agent}", ", ".join(differ)
        is_fresh = self._fresh.holds(document)
        if "owner" in differ:
            self.missing.append(
                f"{what} is missing: {self._place.shown(stored.path)} names another owner, and so nobody reads it; "
                f"mend user_id and agent_name there, or take the fact from {self._place.shown(document.backup)}"
            )
        elif not is_fresh and _is_later(kept, stored):
            self.changed.append(f"{what} was changed since: {names}")
        elif stored.path not in self._fresh.made and not _must_be_migrated(kept, stored) and "content" not in differ:
            self.changed.append(f"{what} was there already and kept its own: {names}")
        else:
            self.missing.append(
                f"{what} is missing as {self._place.shown(document.backup)} has it: {printable(stored.path)} differs "
                f"in {names}, and nothing tells of a change; compare the two"
            )

    def _mapped(self, document: KeptDocument, fact_id: str, entry: Mapping[str, object]) -> None:
        agent = str(entry.get("path", "")).split("/")[1:2]
        agents = [*agent, DEFAULT_AGENT] if agent == [LEAD_AGENT] else agent
        found = [item for name in agents if (item := self._bucket(name).speaker(fact_id)) is not None]
        # What an old default bucket gave was compared before it was written anew.
        moved = any(item.path in self._fresh.made for item in found)
        wanted = entry.get("contentHash")
        if not found:
            self._absent(document, f"fact {fact_id!r} of {', '.join(agent)}", None)
        elif wanted is None or moved or wanted in [f"sha256:{hashlib.sha256(item.data).hexdigest()}" for item in found]:
            self.facts += 1
        else:
            self.changed.append(f"fact {fact_id!r} of {', '.join(agent)} was changed since: its file has another hash")

    def _absent(self, document: KeptDocument, what: str, unreadable: StoredFact | None) -> None:
        backup = self._place.shown(document.backup)
        if unreadable is not None:
            spot = f"{self._place.shown(unreadable.path)} can't be read: {unreadable.problem}"
            self.missing.append(f"{what} is missing: {spot}; mend that file, or take the fact from {backup}")
        elif not self._fresh.holds(document) and self._manifest.moved_on:
            self.changed.append(f"{what} is gone: it was deleted, evicted or expired since")
        else:
            self.missing.append(
                f"{what} is missing: no file holds it, and no commit since can have deleted it; "
                f"unless a person removed the file, take it from {backup}"
            )

    def _own_keys(self, document: KeptDocument) -> None:
        """What people and other programs keep in memory.json themselves."""
        shown, backup = self._place.shown(self._place.manifest_name), self._place.shown(document.backup)
        base = legacy_manifest(document.source, backup)
        for key, value in own_keys(normalised(base, base.summaries)).items():
            if self._manifest.own_keys.get(key) == value:
                continue
            if self._fresh.holds(document) or not (key in self._manifest.own_keys or self._manifest.moved_on):
                self.missing.append(f"{key!r:.80} of {backup} is not in {shown}; put it back from there")
            else:
                self.changed.append(f"{key!r:.80} in {shown} was changed since")

    def _section(self, document: KeptDocument, name: str, section: Section) -> None:
        present = self._manifest.summaries.section(name)
        is_fresh = self._fresh.holds(document)
        if present.summary.strip() == section.summary:
            self.summaries += 1
        elif not is_fresh and (self._manifest.moved_on or _is_newer(present, section)):
            self.changed.append(f"summary {_KEYS[name]} was changed since")
        else:
            manifest, backup = self._place.shown(self._place.manifest_name), self._place.shown(document.backup)
            self.missing.append(f"summary {_KEYS[name]} of {backup} is not in {manifest}; put it back from there")


def _is_later(kept: KeptFact, stored: StoredFact) -> bool:
    """Whether the file itself tells of a change: a hand edit counts as a revision."""
    assert stored.fact is not None
    updated = kept.fact.updated_at if kept.has_updated else stored.fact.created_at
    return stored.fact.revision > kept.fact.revision or stored.fact.updated_at > updated


def _must_be_migrated(kept: KeptFact, stored: StoredFact) -> bool:
    """Whether a file can be nothing but what a migration made: of this engine, and of the old fact's own time."""
    assert stored.fact is not None
    same = stored.fact.revision == kept.fact.revision and stored.fact.updated_at == kept.fact.updated_at
    return stored.has_digest and kept.has_updated and same


def _is_newer(present: Section, old: Section) -> bool:
    now, then = parse_timestamp(present.updated_at), parse_timestamp(old.updated_at)
    return now is not None and (then is None or now > then)
