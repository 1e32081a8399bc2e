"""Mending what `check` found and no person need judge: each change one commit, a copy of what it touches kept first."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final

from deermem.errors import Corruption, DeerMemError, InvalidInput
from deermem.format import manifest, markdown
from deermem.format.manifest import Manifest
from deermem.format.merge import resolve
from deermem.format.problems import FormatError
from deermem.format.split import split
from deermem.index.rows import Row
from deermem.model.reports import Finding
from deermem.service.check import check, in_order
from deermem.service.commit import Decision, Write, commit
from deermem.service.locate import Found, canonical, read_path
from deermem.service.orphans import orphans
from deermem.service.snapshot import Snapshot, is_canonical
from deermem.service.user import ManifestState, UserContext
from deermem.store.kept import keep_copy
from deermem.store.lock import HeldLock, user_lock
from deermem.store.recovery import recover
from deermem.store.refusals import in_words
from deermem.store.sidecars import remove_entries
from deermem.store.transaction import ManifestChange, Transaction

MENDABLE: Final = frozenset(
    [
        "deerflow-cannot-read",
        "misplaced",
        "duplicate-id",
        "expired",
        "orphan-entries",
        "sealed-record",
        "leftovers",
        "undo-journal",
        "summaries-conflict",
    ]
)
# Taking the lock migrates, but a migration alone is no mend: whoever asks for one has a dry run first.
_MENDED_ON_THE_WAY: Final = MENDABLE | {"not-migrated"}
_BATCH: Final = 100
_OWNER_LINES: Final = ("user_id:", "agent_name:", "digest:")


def mend(user: UserContext) -> list[Finding]:
    """As `check`, after mending what is safe; what was mended comes back with `fixed`.

    Files that can't be read, other owners' files and conflict copies are never touched. Where a mend is refused (a
    lock that stays held, a full disk, a migration that stops), a finding says so and the rest stands as it was.
    """
    before = check(user)
    if not any(finding.code in MENDABLE for finding in before):
        return before
    refused: list[Finding] = []
    path = str(user.paths.folder)
    try:
        if any(finding.code == "summaries-conflict" for finding in before):
            path = str(user.paths.manifest)
            _join_summaries(user)
        _mend_all(user)
    except DeerMemError as error:
        refused = [Finding(severity="warning", code="not-mended", path=path, message=error.message, hint=error.hint)]
    after = check(user)
    left = {(finding.code, finding.path) for finding in after}
    mended = [
        replace(finding, fixed=True)
        for finding in before
        if finding.code in _MENDED_ON_THE_WAY and (finding.code, finding.path) not in left
    ]
    return in_order([*after, *mended, *refused])


def _mend_all(user: UserContext) -> None:
    # Taking the lock finishes a sealed record, rolls an undo journal back and sweeps leftovers.
    commit(user, None, lambda _held, _state: Decision(), creates=False)
    for agent in user.paths.agents():
        bucket = _Bucket(user, agent)
        paths = bucket.due(user.view.sweep(agent))
        for start in range(0, len(paths), _BATCH):
            bucket.mend(paths[start : start + _BATCH])
        commit(user, agent, bucket.drop_orphans, creates=False)


def _join_summaries(user: UserContext) -> None:
    """Makes one memory.json of the two that a git merge left in it; raises Corruption where a person must choose."""
    with user_lock(user.paths, user.lock_timeout) as held:
        recover(user.files, held)
        path = str(user.paths.manifest)
        with in_words(user.paths):
            before = user.files.read(path)
        if before is None:
            return
        try:
            manifest.decode(before)
        except FormatError:
            joined = _joined(before, path)
        else:
            # Somebody else resolved it since it was looked at.
            return
        summaries = joined.summaries
        after = manifest.encode(joined, summaries=summaries, revision=summaries.revision, now=summaries.last_updated)
        _keep_copies(user, held, [(user.paths.manifest_name, before)])
        change = ManifestChange(before, after, summaries.revision, summaries=True)
        Transaction(user.files, held).commit([], change)


def _joined(data: bytes, path: str) -> Manifest:
    try:
        return resolve(data)
    except FormatError as error:
        problem = error.problem
        raise Corruption(problem.message, path=path, reason=problem.message, hint=problem.hint) from error


def _keep_copies(user: UserContext, held: HeldLock, copies: Sequence[tuple[str, bytes]]) -> None:
    if not copies:
        return
    with in_words(user.paths):
        Transaction(user.files, held).prepare_journal()
        for name, data in copies:
            keep_copy(user.files, user.paths, name, data)
        user.files.flush_folder(str(user.paths.journal))


@dataclass(slots=True)
class _Bucket:
    """The mends of one agent's files. `paths` are those of the commit under way."""

    user: UserContext
    agent: str
    paths: Sequence[str] = field(default_factory=tuple)

    def due(self, seen: Snapshot) -> list[str]:
        """The files that something may have to be done about."""
        served = [row.path for row in seen.rows.values() if row.problem is None and self._is_due(row)]
        return sorted([*served, *(row.path for row in seen.shadowed if row.problem is None)])

    def _is_due(self, row: Row) -> bool:
        if row.fact is None:
            return False
        return not row.complete or self._has_expired(row) or not is_canonical(self.agent, row.path, row.fact.id)

    def _has_expired(self, row: Row) -> bool:
        return row.fact is not None and row.fact.expired_by(self.user.clock())

    def _has_ended(self, seen: Snapshot, row: Row) -> bool:
        """Whether it has expired, and every other file with its id, which would bring it back."""
        if not self._has_expired(row):
            return False
        fact_id = (row.fact_id or "").lower()
        copies = (other for other in seen.shadowed if (other.fact_id or "").lower() == fact_id)
        return all(self._has_expired(other) for other in copies)

    def mend(self, paths: Sequence[str]) -> None:
        """One commit for these files."""
        self.paths = paths
        commit(self.user, self.agent, self._decide, creates=False)

    def _decide(self, held: HeldLock, _: ManifestState) -> Decision:
        seen = self.user.view.sweep(self.agent)
        decision = Decision()
        for path in self.paths:
            found = read_path(self.user, self.agent, path)
            row = seen.row(found.fact.id) if isinstance(found, Found) else None
            if row is None or row.problem is not None or not isinstance(found, Found):
                continue
            if self._has_ended(seen, row):
                self._write(decision, path, found.data, None, found.fact.id)
            elif row.path != path:
                self._drop_twin(decision, found, row)
            elif not self._has_expired(row):
                self._complete(decision, found, seen)
        self._keep(held, decision)
        return decision

    def _drop_twin(self, decision: Decision, found: Found, speaker: Row) -> None:
        """A second file with the same text: nothing is lost with it. Any other is a person's to judge."""
        other = read_path(self.user, self.agent, speaker.path)
        if isinstance(other, Found) and _text(other.data) == _text(found.data):
            decision.living.add(found.fact.id)
            self._write(decision, found.path, found.data, None, found.fact.id)

    def _complete(self, decision: Decision, found: Found, seen: Snapshot) -> None:
        data = found.data
        if not found.parsed.complete:
            owner = found.fact.user_id or _owner(self.user, seen)
            fact = replace(found.fact, user_id=owner, agent_name=found.fact.agent_name or self.agent)
            try:
                data = markdown.encode(fact, base=data)
            except InvalidInput:
                # It reads well but can't be written so that it reads back equal: it stays as it is.
                return
        home = canonical(self.agent, found.fact.id)
        moves = found.path != home and self.user.files.stat(f"{self.user.paths.facts(self.agent)}/{home}") is None
        if moves:
            decision.living.add(found.fact.id)
            self._write(decision, home, None, data, found.fact.id)
            self._write(decision, found.path, found.data, None, found.fact.id)
        elif data != found.data:
            self._write(decision, found.path, found.data, data, found.fact.id)

    def _write(self, decision: Decision, path: str, before: bytes | None, after: bytes | None, fact_id: str) -> None:
        decision.writes.append(Write(self.agent, path, before, after, fact_id))

    def _keep(self, held: HeldLock, decision: Decision) -> None:
        touched = [(write.path, write.before) for write in decision.writes if write.before is not None]
        _keep_copies(self.user, held, [(PurePosixPath(path).name, data) for path, data in touched])

    def drop_orphans(self, held: HeldLock, _: ManifestState) -> Decision:
        """Takes old entries without a fact out of the sidecars, which are ours alone and derived."""
        found = [item for item in orphans(self.user, self.agent, self.user.view.sweep(self.agent)) if item.due]
        files = self.user.files
        copies = [(os.path.basename(item.path), data) for item in found if (data := files.read(item.path)) is not None]
        _keep_copies(self.user, held, copies)
        for item in found:
            remove_entries(files, self.user.paths, self.agent, item.due, only=os.path.basename(item.path))
        return Decision()


def _owner(user: UserContext, seen: Snapshot) -> str | None:
    """The raw user id, which the other facts may know where only the folder's name was given."""
    if user.user_id != user.paths.folder.name:
        return user.user_id
    named = (row.fact.user_id for row in seen.rows.values() if row.fact is not None and row.fact.user_id)
    return next(named, user.user_id)


def _text(data: bytes) -> tuple[str, str]:
    """A file's front matter and body, without the lines that say whose it is and the digest over them."""
    parts = split(data.decode())
    lines = [line for line in parts.block.split("\n") if not line.startswith(_OWNER_LINES)]
    return "\n".join(lines), parts.body
