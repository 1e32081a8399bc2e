"""Counting and rebuilding: what operators ask of one user."""

from __future__ import annotations

from deermem.model.reports import BucketStats, IndexReport
from deermem.service.snapshot import Snapshot
from deermem.service.user import UserContext


def bucket_stats(user: UserContext, name: str | None) -> tuple[BucketStats, ...]:
    """One entry an agent; `name` is what the user is called in the report.

    Facts of old documents are counted too: as unreadable where a migration would stop.
    """
    found = []
    waiting = user.migration.waiting()
    stopped = bool(waiting and user.migration.problems())
    for agent in sorted({*user.paths.agents(), *waiting}):
        seen = user.view.sweep(agent)
        size = sum(row.stamp[2] for row in seen.all_rows())
        old = waiting.get(agent, 0)
        found.append(
            BucketStats(
                user_id=name,
                agent=agent,
                facts=len(seen.facts) + (0 if stopped else old),
                unreadable=len(seen.unreadable) + len(seen.shadowed) + (old if stopped else 0),
                bytes=size,
            )
        )
    return tuple(found)


def reindex(user: UserContext) -> IndexReport:
    """Drops the index of one user and builds it again from the files."""
    user.view.start_over()
    if user.adapter is not None:
        user.adapter.start_over()
    indexed = failed = 0
    supported = True
    for agent in user.paths.agents():
        seen = user.view.sweep(agent)
        supported = user.view.is_stored(agent) and _synced(user, agent, seen) and supported
        indexed += len(seen.facts) + len(seen.shadowed)
        failed += len(seen.unreadable)
    return IndexReport(supported=supported, indexed=indexed, failed=failed, users=1)


def warm(user: UserContext) -> bool:
    """Builds what is missing of the index; whether it is whole."""
    agents = user.paths.agents()
    seen = {agent: user.view.sweep(agent) for agent in agents}
    return all(user.view.is_stored(agent) and _synced(user, agent, seen[agent]) for agent in agents)


def _synced(user: UserContext, agent: str, seen: Snapshot) -> bool:
    return user.adapter is None or user.adapter.sync(agent, seen.facts)
