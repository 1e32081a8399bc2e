"""Going back to version 1: the old documents from their backups, as long as nothing else would be lost.

What goes are fact files that are still, field by field, what the migration made of the documents that come back.
Whatever else version 2 says by now would be lost on a program that reads version 1: then nothing is done at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath

from deermem.format import manifest
from deermem.format.manifest import Manifest
from deermem.format.paths import facts_folder
from deermem.migrate.kept import KeptBucket, KeptDocument, KeptFact, kept_documents, kept_facts, scope_of
from deermem.migrate.legacy import StoredFact, UserFiles, legacy_agents, mapped_facts
from deermem.migrate.manifests import current_manifest, legacy_manifest, normalised, own_keys, sections_of
from deermem.migrate.merge import merge_sections
from deermem.migrate.place import UserPlace, printable
from deermem.model.changes import FileChange
from deermem.model.summaries import SECTIONS, Summaries
from deermem.model.values import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """What a restore would do; `problems` is why it must not, and then nothing else counts.

    `changes` removes fact files and puts agents' documents back; memory.json goes from `manifest_before` to
    `manifest_after`. `shared` tells whether that is the old document, or the present one with a further revision.
    `folders` may be empty afterwards, the deepest first. All paths are posix, below the user's folder.
    """

    documents: tuple[KeptDocument, ...] = ()
    changes: tuple[FileChange, ...] = ()
    manifest_before: bytes | None = None
    manifest_after: bytes | None = None
    revision: int = 0
    shared: bool = False
    folders: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def facts(self) -> int:
        """How many fact files go."""
        return sum(1 for change in self.changes if change.after is None)


def plan_restore(files: UserFiles, place: UserPlace, when: datetime) -> RestorePlan:
    """The plan for one user; without documents and problems, all of them lie there already.

    With a backup of the shared document all agents go back, and each must be clean; without, only those agents whose
    own documents come back. Raises Corruption and MigrationError for documents that can't be read.
    """
    documents = kept_documents(files, place)
    if not documents:
        return RestorePlan(problems=("there is no backup of a version 1 document (….v1.bak) to restore from",))
    return _Planner(files, place, when, [item for item in documents if not item.is_back]).plan()


def describe_restore(plan: RestorePlan) -> list[str]:
    """What the plan would do, one readable line each."""
    lines = [f"would put back {item.source.path} from {item.backup}" for item in plan.documents]
    gone = [change.path.split("/")[1] for change in plan.changes if change.after is None]
    for agent in dict.fromkeys(gone):
        count = gone.count(agent)
        lines.append(f"would remove {count} fact file{'' if count == 1 else 's'} of {agent}")
    return lines


class _Planner:
    """One run over a user's files. Lives for one call of `plan_restore`."""

    def __init__(self, files: UserFiles, place: UserPlace, when: datetime, documents: list[KeptDocument]) -> None:
        self._files = files
        self._place = place
        self._when = when
        self._documents = documents
        self._shared = next((item for item in documents if item.source.path == place.manifest_name), None)

    def plan(self) -> RestorePlan:
        if not self._documents:
            return RestorePlan()
        problems = list(self._places_taken())
        data = self._files.read(self._place.manifest_name)
        present = None if data is None else current_manifest(data, self._place.shown(self._place.manifest_name))
        if self._shared is not None:
            problems += self._changed_manifest(self._shared, present)
        changes: list[FileChange] = []
        for agent in self._agents():
            removed, lost = self._bucket(agent)
            changes += removed
            problems += lost
        returned = [item.source for item in self._documents if item is not self._shared]
        changes += [FileChange(source.path, None, source.data) for source in returned]
        revision = 1 + (present.summaries.revision if present is not None else 0)
        return RestorePlan(
            documents=tuple(self._documents),
            changes=tuple(changes),
            manifest_before=data,
            manifest_after=self._shared.source.data if self._shared else _raised(present, revision),
            revision=revision,
            shared=self._shared is not None,
            folders=_folders(changes),
            problems=tuple(problems),
        )

    def _agents(self) -> list[str]:
        if self._shared is not None:
            return legacy_agents(self._files, None)
        return list(dict.fromkeys(item.agent for item in self._documents))

    def _places_taken(self) -> Iterator[str]:
        for item in self._documents:
            if item is not self._shared and self._files.read(item.source.path) is not None:
                spot, backup = self._place.shown(item.source.path), self._place.shown(item.backup)
                yield f"{spot} is there already and differs from {backup}; move one of them away"

    # --- facts

    def _bucket(self, agent: str) -> tuple[list[FileChange], list[str]]:
        """The removals, and what would be lost."""
        wanted = self._kept(agent)
        listed = self._listed(agent)
        removed: list[FileChange] = []
        lost: list[str] = []
        gone = dict(wanted)
        for item in KeptBucket(self._files, scope_of(self._place, agent), self._when).stored:
            fact_id = item.fact.id if item.fact is not None else ""
            if item.path in listed:
                lost += [self._unlike(agent, item, listed[item.path])] if not _is(item, listed[item.path]) else []
                continue
            kept = gone.pop(fact_id, None)
            if kept is None or (reason := self._reason(agent, item, kept)):
                lost.append(self._added(agent, item) if kept is None else f"fact {fact_id!r} of {agent} {reason}")
            else:
                removed.append(FileChange(item.path, item.data, None))
        lost += [f"fact {fact_id!r} of {agent} was deleted since, and would come back" for fact_id in gone]
        return removed, lost

    def _kept(self, agent: str) -> dict[str, KeptFact]:
        found: dict[str, KeptFact] = {}
        for document in self._documents:
            if document.agent == agent:
                for kept in kept_facts(document, self._place, self._when):
                    found.setdefault(kept.fact.id, kept)
        return found

    def _listed(self, agent: str) -> dict[str, JsonValue]:
        """What maps of paths name in this bucket: path → hash. These files stay where they are."""
        entries = [entry for item in self._documents for entry in mapped_facts(item.source).values()]
        named = [(str(entry.get("path")), entry.get("contentHash")) for entry in entries if isinstance(entry, Mapping)]
        return {path: stated for path, stated in named if path.startswith(f"{facts_folder(agent)}/")}

    def _reason(self, agent: str, item: StoredFact, kept: KeptFact) -> str:
        assert item.fact is not None
        differ = kept.differences(item.fact, scope_of(self._place, agent))
        if differ:
            return f"was changed since: {', '.join(differ)}"
        return "" if item.has_digest else f"lies in {printable(item.path)}, which no migration wrote"

    def _added(self, agent: str, item: StoredFact) -> str:
        if item.fact is None:
            return f"{self._place.shown(item.path)}, of {agent}, can't be read: {item.problem}"
        return f"fact {item.fact.id!r} of {agent} is in no backup: {printable(item.path)}"

    def _unlike(self, agent: str, item: StoredFact, stated: JsonValue) -> str:
        return f"{printable(item.path)}, of {agent}, was changed since: its hash is not {stated!r:.80}"

    # --- memory.json

    def _changed_manifest(self, shared: KeptDocument, present: Manifest | None) -> Iterator[str]:
        shown = self._place.shown
        base = legacy_manifest(shared.source, shown(shared.backup))
        summaries = base.summaries
        for item in self._documents:
            if item is not shared:
                found = sections_of(item.source, shown(item.backup))
                summaries = merge_sections(summaries, found, shown(item.backup), shared_wins=True)
        wanted = normalised(base, summaries)
        actual = normalised(present, present.summaries if present else Summaries())
        for key, name in SECTIONS.items():
            if wanted.summaries.section(name) != actual.summaries.section(name):
                yield f"summary {key} was changed since"
        ours, theirs = own_keys(wanted), own_keys(actual)
        for key in dict.fromkeys([*ours, *theirs]):
            if ours.get(key) != theirs.get(key):
                yield f"{key} in {shown(self._place.manifest_name)} was changed since"


def _is(item: StoredFact, stated: JsonValue) -> bool:
    """Whether a file that a map of paths names is the one it named; without a hash nothing says otherwise."""
    return stated is None or stated == f"sha256:{hashlib.sha256(item.data).hexdigest()}"


def _raised(present: Manifest | None, revision: int) -> bytes | None:
    if present is None:
        return None
    summaries = present.summaries
    return manifest.encode(present, summaries=summaries, revision=revision, now=summaries.last_updated)


def _folders(changes: Sequence[FileChange]) -> tuple[str, ...]:
    """The folders of the facts that go, up to the agents' own, the deepest first."""
    gone = [PurePosixPath(change.path) for change in changes if change.after is None]
    found = {parent for path in gone for parent in path.parents if len(parent.parts) > 1}
    return tuple(str(folder) for folder in sorted(found, key=lambda folder: (-len(folder.parts), str(folder))))
