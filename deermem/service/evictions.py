"""What the cap decided, as the audit of a bucket tells it."""

from __future__ import annotations

from deermem.errors import InvalidInput
from deermem.format.audit import read_audit
from deermem.model.evictions import Eviction
from deermem.service.read import make_ready
from deermem.service.user import UserContext
from deermem.store.sidecars import AUDIT, read_sidecar


def evictions(user: UserContext, agent: str, limit: int | None = None) -> list[Eviction]:
    """The decisions that the audit has, the newest first, at most `limit`. Raises InvalidInput for no such number."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InvalidInput(f"limit is {limit!r:.60}", hint="give a whole number, or None for all")
    make_ready(user, agent)
    return audited(user, agent)[:limit]


def audited(user: UserContext, agent: str) -> list[Eviction]:
    """All of them, as the file lies there now."""
    return list(reversed(read_audit(read_sidecar(user.files, user.paths, agent, AUDIT))))
