"""Counting and rebuilding: what operators ask of one user."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace

from deermem.config import Settings
from deermem.errors import DeerMemError
from deermem.model.reports import BucketStats, IndexReport
from deermem.policy.staleness import is_stale
from deermem.service.evictions import audited
from deermem.service.read import served
from deermem.service.rules import staleness_rules
from deermem.service.snapshot import Snapshot
from deermem.service.user import UserContext
from deermem.store.spool import Spool

_log = logging.getLogger("deermem")


def bucket_stats(user: UserContext, name: str | None, settings: Settings | None = None) -> tuple[BucketStats, ...]:
    """One entry an agent; `name` is what the user is called in the report.

    Facts of old documents are counted too: as unreadable where a migration would stop. Without `settings` nothing is
    said but the counts, for which no fact has to be built.
    """
    found = []
    waiting = user.migration.waiting()
    stopped = bool(waiting and user.migration.problems())
    queued, set_aside = _queued(user)
    for agent in sorted({*user.paths.agents(), *waiting, *queued, *set_aside}):
        seen = user.view.sweep(agent)
        size = sum(row.stamp[2] for row in seen.all_rows())
        old = waiting.get(agent, 0)
        counts = BucketStats(
            user_id=name,
            agent=agent,
            facts=len(seen.rows) + (0 if stopped else old),
            unreadable=len(seen.unreadable) + len(seen.shadowed) + (old if stopped else 0),
            bytes=size,
            waiting=queued[agent],
            set_aside=set_aside[agent],
        )
        found.append(counts if settings is None else _judged(user, counts, seen, settings))
    return tuple(found)


def _judged(user: UserContext, counts: BucketStats, seen: Snapshot, settings: Settings) -> BucketStats:
    """With what the cap and time make of the facts."""
    rules, now = staleness_rules(settings), user.clock()
    living = served(seen.facts, now)
    decisions = audited(user, counts.agent)
    return replace(
        counts,
        max_facts=settings.max_facts,
        policy=settings.fact_eviction_policy,
        stale=sum(is_stale(fact, now, rules) for fact in living),
        expired=len(seen.facts) - len(living),
        evictions=len(decisions),
        evicted_at=decisions[0].at if decisions else None,
    )


def _queued(user: UserContext) -> tuple[Counter[str], Counter[str]]:
    """How many conversations wait for extraction, and how many are not tried any more, by agent."""
    try:
        entries = Spool(user.files, user.paths).entries()
    except PermissionError:
        # What is closed is for `check` to name; the facts are counted all the same.
        entries = []
    failed = Counter(entry.agent for entry in entries if entry.state == "failed")
    return Counter(entry.agent for entry in entries if entry.state != "failed"), failed


def reindex(user: UserContext) -> IndexReport:
    """Drops the index of one user and builds it again from the files."""
    user.view.start_over()
    if user.adapter is not None:
        user.adapter.start_over()
    indexed = failed = 0
    supported = True
    swept = {agent: user.view.sweep(agent, lean=True) for agent in user.paths.agents()}
    for agent, seen in swept.items():
        supported = user.view.is_stored(agent) and _synced(user, agent, seen) and supported
        indexed += len(seen.rows) + len(seen.shadowed)
        failed += len(seen.unreadable)
    return IndexReport(supported=supported, indexed=indexed, failed=failed, users=1)


def warm(user: UserContext) -> bool:
    """Builds what is missing of the index; whether it is whole."""
    agents = user.paths.agents()
    seen = {agent: user.view.sweep(agent, lean=True) for agent in agents}
    return all(user.view.is_stored(agent) and _synced(user, agent, seen[agent]) for agent in agents)


def warm_each(
    folders: Iterable[str | None], visit: Callable[[str | None], AbstractContextManager[UserContext]]
) -> bool:
    """The same for one user after the other; one who can't be read is logged, and the others go on."""
    whole = True
    for folder in folders:
        try:
            with visit(folder) as user:
                whole = warm(user) and whole
        except (DeerMemError, OSError) as error:
            _log.warning("the index of user %s could not be made whole: %s", folder or "(none)", error)
            whole = False
    return whole


def _synced(user: UserContext, agent: str, seen: Snapshot) -> bool:
    return user.adapter is None or user.adapter.sync(agent, seen.facts)
