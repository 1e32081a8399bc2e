"""Clearing a bucket, or everything of a user: files that can't be read go too, other owners' files stay."""

from __future__ import annotations

from collections.abc import Sequence

from deermem.model.changes import Commit
from deermem.model.summaries import SECTIONS, Section, Summaries
from deermem.service.commit import Decision, Write, commit
from deermem.service.snapshot import Snapshot
from deermem.service.user import ManifestState, UserContext
from deermem.store.lock import HeldLock, user_lock
from deermem.store.recovery import recover


def clear(user: UserContext, agents: Sequence[str] | None, *, summaries: bool) -> Commit:
    """Removes all facts of these agents (None: all there are), and with `summaries` the six summaries.

    The host's own files in an agent's folder stay. A change of the epoch comes first, so that whatever was
    decided before the clear can't bring anything back.
    """

    def decide(_: HeldLock, state: ManifestState) -> Decision:
        decision = Decision(new_epoch=True, cleared=agents)
        for agent in user.paths.agents() if agents is None else agents:
            _remove_all(user, agent, user.view.sweep(agent), decision)
        present = state.manifest.summaries if state.manifest else Summaries()
        if summaries and not present.is_empty():
            decision.summaries = present
            for name in SECTIONS.values():
                decision.summaries = decision.summaries.with_section(name, Section())
        return decision

    if summaries and user.paths.folder.is_dir():
        _migrate(user)
    only = agents[0] if agents is not None and len(agents) == 1 else None
    return commit(user, only, decide, creates=False)


def _migrate(user: UserContext) -> None:
    """An old store is backed up and read first; its agents' summaries can't conflict when all are to be emptied."""
    if user.migration.is_due(None):
        with user_lock(user.paths, user.lock_timeout) as held:
            recover(user.files, held)
            user.migration.run(held, None, shared_wins=True)


def _remove_all(user: UserContext, agent: str, seen: Snapshot, decision: Decision) -> None:
    for row in seen.all_rows():
        if row.problem is not None and row.problem.code == "wrong-owner":
            continue
        data = user.files.read(f"{user.paths.facts(agent)}/{row.path}")
        if data is not None:
            fact_id = row.fact.id if row.fact is not None else row.path.rpartition("/")[2].removesuffix(".md")
            decision.writes.append(Write(agent, row.path, data, None, fact_id))
