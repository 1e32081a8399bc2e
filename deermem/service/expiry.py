"""Facts whose time is over: the next write of their bucket deletes them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from deermem.model.fact import Fact
from deermem.service.commit import Decision, Write
from deermem.service.known import Known
from deermem.service.locate import Found, read_path
from deermem.service.user import UserContext


def delete_expired(user: UserContext, known: Known, decision: Decision, now: datetime) -> None:
    """Adds the removal of expired facts to a decision that changes something; each is read afresh."""
    if not decision.writes and decision.summaries is None:
        return
    taken = {write.path for write in decision.writes}
    for path in known.expired(now):
        found = read_path(user, known.agent, path) if path not in taken else None
        if isinstance(found, Found) and found.fact.expired_by(now):
            decision.writes.append(Write(known.agent, path, found.data, None, found.fact.id))


def revived(fact: Fact, now: datetime) -> Fact:
    """What is stored again under the id of an expired fact doesn't take over its end."""
    return replace(fact, expires_at=None) if fact.expired_by(now) else fact
