"""Facts whose time is over: the next write of their bucket deletes them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from deermem.model.fact import Fact
from deermem.service.commit import Decision
from deermem.service.known import Known
from deermem.service.locate import Found, read_path
from deermem.service.user import UserContext
from deermem.service.writing import removals, with_copies


def delete_expired(user: UserContext, known: Known, decision: Decision, now: datetime) -> None:
    """Adds the removal of expired facts to a decision that changes something; each is read afresh.

    Where one of several files with its id has not expired, all stay: which of them holds is a person's to say.
    """
    if not decision.writes and decision.summaries is None:
        return
    taken = {write.path for write in decision.writes}
    ids = {write.fact_id for write in decision.writes}
    for path in known.expired(now):
        found = read_path(user, known.agent, path) if path not in taken else None
        if not isinstance(found, Found) or found.fact.id in ids:
            continue
        ids.add(found.fact.id)
        files = with_copies(user, known, found)
        if all(file.fact.expired_by(now) for file in files):
            decision.writes += removals(known.agent, files)


def revived(fact: Fact, now: datetime) -> Fact:
    """What is stored again under the id of an expired fact doesn't take over its end."""
    return replace(fact, expires_at=None) if fact.expired_by(now) else fact
