"""Sidecar entries of facts that are gone: kept for 30 days, because a branch switch is no deletion."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Final

from deermem.format import sidecars
from deermem.policy.decay import since
from deermem.service.snapshot import Snapshot
from deermem.service.user import UserContext
from deermem.store.repository import scan_facts
from deermem.store.sidecars import AUDIT, USAGE

KEPT_FOR: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Orphans:
    """One sidecar's ids without a fact; `due` are those whose last use is older than 30 days, or unknown."""

    path: str
    ids: frozenset[str]
    due: frozenset[str]


def orphans(user: UserContext, agent: str, seen: Snapshot) -> list[Orphans]:
    """Of both sidecars. A recent audit entry is none: it names what was evicted, so no fact carries its id."""
    folder = str(user.paths.metadata(agent))
    usage, audit = os.path.join(folder, USAGE), os.path.join(folder, AUDIT)
    used = sidecars.usage_times(user.files.read(usage))
    judged = sidecars.audit_times(user.files.read(audit))
    if not (used or judged) or scan_facts(str(user.paths.facts(agent))).unreadable:
        # What a closed folder holds is not gone.
        return []
    present = _present(seen)
    now = user.clock()
    lost = {fact_id: when for fact_id, when in used.items() if fact_id.lower() not in present}
    due = frozenset(fact_id for fact_id, when in lost.items() if _is_old(when, now))
    old = frozenset(key for key, when in judged.items() if key.lower() not in present and _is_old(when, now))
    found = [Orphans(usage, frozenset(lost), due), Orphans(audit, old, old)]
    return [item for item in found if item.ids]


def _is_old(when: datetime | None, now: datetime) -> bool:
    return when is None or since(when, now) > KEPT_FOR


def _present(seen: Snapshot) -> set[str]:
    """Ids in lower case; a file that can't be read carries its stem."""
    named = {row.fact.id if row.fact is not None else PurePosixPath(row.path).stem for row in seen.all_rows()}
    return {name.lower() for name in named}
