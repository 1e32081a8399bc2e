"""Which facts are found how often: kept beside the facts, where the cap's policy asks for it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from deermem.errors import DeerMemError
from deermem.format.usage import read_usage, write_usage
from deermem.policy.heat import touched
from deermem.service.user import UserContext
from deermem.store.lock import user_lock
from deermem.store.recovery import recover
from deermem.store.sidecars import USAGE, update
from deermem.store.transaction import Transaction

_log: Final = logging.getLogger("deermem")
_PATIENCE: Final = 1.0
"""Seconds that a search waits for a writer; heat that is not noted costs little."""


def record(user: UserContext, found: Mapping[str, list[str]]) -> None:
    """Notes that a search returned these facts, ids by agent; it never fails the search.

    A fact that was deleted since the search is passed over: what is swept under the lock is what there is.
    """
    if not user.rules.capacity.uses_heat or not found:
        return
    try:
        with user_lock(user.paths, min(_PATIENCE, user.lock_timeout)) as held:
            recover(user.files, held)
            # Nobody has written here yet but another program, which makes no journal; sidecars are staged in it.
            Transaction(user.files, held).prepare_journal()
            for agent, ids in found.items():
                _record(user, agent, ids)
    except (DeerMemError, OSError) as error:
        _log.warning("what this search found is not counted: %s", error)


def _record(user: UserContext, agent: str, ids: Iterable[str]) -> None:
    seen = user.view.sweep(agent)
    speaking = {fact_id: seen.row(fact_id) for fact_id in ids}
    living = {fact_id for fact_id, row in speaking.items() if row is not None and row.fact_id == fact_id}
    half_life = user.rules.capacity.hybrid.access_half_life_days

    def change(data: bytes | None) -> bytes | None:
        now_warm = touched(read_usage(data), ids, living, user.clock(), half_life)
        return write_usage(data, now_warm) if now_warm else None

    update(user.files, user.paths, agent, USAGE, change)
