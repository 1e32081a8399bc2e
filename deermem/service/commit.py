"""The one way in which memory changes: lock, look, decide, stage-seal-swap, and tell the index."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from deermem.clock import format_timestamp
from deermem.errors import FactConflict
from deermem.format import manifest
from deermem.format.markdown import Parsed
from deermem.format.paths import facts_folder
from deermem.index.catalogue import Currency
from deermem.model.changes import Commit, FileChange
from deermem.model.evictions import Eviction
from deermem.model.fact import Fact
from deermem.model.summaries import Section, Summaries
from deermem.service.user import ManifestState, UserContext
from deermem.store.epoch import renew_epoch
from deermem.store.folding import refuse_folded
from deermem.store.lock import HeldLock
from deermem.store.refusals import in_words
from deermem.store.sidecars import USAGE, record_eviction, remove_entries
from deermem.store.spool import Spool
from deermem.store.transaction import ManifestChange, PathTaken, Transaction, prepare_user

_log: Final = logging.getLogger("deermem")
_ATTEMPTS: Final = 3
_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class Write:
    """One fact file of a decision. `path` is below the agent's `facts/`; `after` None removes it.

    `parsed` is what `after` reads back as, where that is known. `replaced_by` is the id of the new fact for which
    this one goes.
    """

    agent: str
    path: str
    before: bytes | None
    after: bytes | None
    fact_id: str
    parsed: Parsed | None = None
    replaced_by: str | None = None

    def change(self) -> FileChange:
        """As the store takes it."""
        return FileChange(f"{facts_folder(self.agent)}/{self.path}", self.before, self.after)


@dataclass(slots=True)
class Decision:
    """What a commit will do, and what it will answer.

    `facts` are the upserted ones as they will be stored, in the caller's order; `summaries` is what memory.json
    will say, None for no change; `new_epoch` marks a clear, which whatever was decided before must notice, and
    `cleared` the agents that it clears, None for all; `living` are ids that another file carries on although one of
    theirs is removed; `evictions` is what the cap decided, by agent.
    """

    writes: list[Write] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    summaries: Summaries | None = None
    new_epoch: bool = False
    cleared: Sequence[str] | None = None
    living: set[str] = field(default_factory=set)
    evictions: dict[str, Eviction] = field(default_factory=dict)

    def gone(self) -> list[Write]:
        """The writes that end a fact."""
        return [write for write in self.writes if write.after is None and write.fact_id not in self.living]

    def deleted(self) -> tuple[str, ...]:
        """Ids of the removed facts that no policy chose, each once: several files may have one."""
        return tuple(dict.fromkeys(write.fact_id for write in self.gone() if write.fact_id not in self.evicted))


Decide = Callable[[HeldLock, ManifestState], Decision]


def commit(user: UserContext, agent: str | None, decide: Decide, *, creates: bool = True) -> Commit:
    """Makes one change. `decide` is called under the lock, on the state as it lies on disk then.

    Where a person takes the place of a file between the look and the swap, it is all decided again, at most three
    times. `creates`: whether a user that does not exist yet may come to be. Raises what `decide` raises, and
    LockTimeout, StoreUnavailable, Corruption, MigrationError; FactConflict where a person keeps being faster;
    InvalidInput for a user or agent that differs only in case from one that is there, where that makes one folder.
    """
    if user.user_id is not None:
        refuse_folded(user.files, user.paths.folder)
    if creates:
        prepare_user(user.files, user.paths)
    elif not user.paths.folder.is_dir():
        return Commit(revision=0)
    if agent is not None:
        refuse_folded(user.files, user.paths.agent(agent))
    for _ in range(_ATTEMPTS):
        try:
            return _attempt(user, agent, decide)
        except PathTaken as taken:
            path = taken.path
    raise FactConflict(f"{path} is being edited right now", hint="nothing was changed; try again")


def _attempt(user: UserContext, agent: str | None, decide: Decide) -> Commit:
    with user.locked(agent) as held:
        state = user.read_manifest()
        decision = decide(held, state)
        if not decision.writes and decision.summaries is None and not decision.new_epoch:
            # New facts that all rank below what is there are not written, and the caller must hear of it.
            return Commit(revision=state.revision, facts=tuple(decision.facts), evicted=tuple(decision.evicted))
        change = _manifest_change(user, state, decision)
        transaction = Transaction(user.files, held)
        if decision.new_epoch:
            with in_words(user.paths):
                transaction.prepare_journal()
                renew_epoch(user.files, user.paths)
                Spool(user.files, user.paths).clear(decision.cleared, user.passed_over)
        conflicts = transaction.commit([write.change() for write in decision.writes], change)
        user.migration.settled(agent)
        after = user.files.stat(str(user.paths.manifest))
        _clean_sidecars(user, decision)
        _record_evictions(user, decision)
    _tell_index(user, state, decision, change, after)
    return Commit(
        revision=change.revision,
        facts=tuple(decision.facts),
        deleted=decision.deleted(),
        evicted=tuple(decision.evicted),
        conflict_copies=conflicts,
    )


def _manifest_change(user: UserContext, state: ManifestState, decision: Decision) -> ManifestChange:
    revision = state.revision + 1
    present = state.manifest.summaries if state.manifest else Summaries()
    after = manifest.encode(
        state.manifest,
        summaries=decision.summaries or present,
        revision=revision,
        now=format_timestamp(user.clock()),
    )
    return ManifestChange(state.data, after, revision, decision.summaries is not None)


def patched(state: ManifestState, patch: Mapping[str, str], now: str) -> Summaries | None:
    """The summaries with new texts; None where they say that already."""
    present = state.manifest.summaries if state.manifest else Summaries()
    changed = present
    for name, text in patch.items():
        if present.section(name).summary != text:
            changed = changed.with_section(name, Section(text, now))
    return changed if changed != present else None


def _clean_sidecars(user: UserContext, decision: Decision) -> None:
    """A deleted fact leaves nothing in the usage and audit files; they are ours alone, and derived.

    One that the cap evicts stays in the audit: that it went, and what the other policy would have done, is its point.
    """
    gone: dict[tuple[str, str], set[str]] = {}
    for write in decision.gone():
        only = USAGE if write.fact_id in decision.evicted else ""
        gone.setdefault((write.agent, only), set()).add(write.fact_id)
    for (agent, only), ids in gone.items():
        try:
            remove_entries(user.files, user.paths, agent, ids, only=only)
        except OSError as error:
            _log.warning("the sidecars of agent %s still name deleted facts: %s", agent, error)


def _record_evictions(user: UserContext, decision: Decision) -> None:
    """What the cap decided, once it is done; ours alone, and derived: it never fails the commit that stands."""
    for agent, eviction in decision.evictions.items():
        named = ", ".join(eviction.victims[:_NAMED])
        more = f" and {len(eviction.victims) - _NAMED} more" if len(eviction.victims) > _NAMED else ""
        # A caller of `add` gets the new fact alone.
        _log.info("agent %s: evicted %s%s to keep the cap of %d", agent, named, more, eviction.max_facts)
        try:
            record_eviction(user.files, user.paths, agent, eviction, max_entries=user.rules.audit_entries)
        except OSError as error:
            _log.warning("the audit of agent %s lacks an eviction: %s", agent, error)


def _tell_index(
    user: UserContext,
    state: ManifestState,
    decision: Decision,
    change: ManifestChange,
    after: os.stat_result | None,
) -> None:
    """The index learns which paths changed, and reads the files itself; no lock is held any more."""
    moved = None
    if after is not None:
        old = user.currency(state)
        moved = (old, Currency(old.boot, change.revision, after.st_ino, after.st_ctime_ns))
    by_agent: dict[str, list[str]] = {}
    hints: dict[bytes, Parsed] = {}
    for write in decision.writes:
        by_agent.setdefault(write.agent, []).append(write.path)
        if write.after is not None and write.parsed is not None:
            hints[hashlib.sha256(write.after).digest()] = write.parsed
    for number, (agent, paths) in enumerate(sorted(by_agent.items())):
        last = number == len(by_agent) - 1
        try:
            user.view.note(agent, paths, moved if last else None, hints)
        except OSError as error:
            _log.warning("the index of agent %s will be brought up by the next sweep: %s", agent, error)
