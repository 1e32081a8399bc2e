"""Which facts make room for new ones: the policy decides, and what it chose is read afresh."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from deermem.errors import NotStored
from deermem.model.fact import Fact
from deermem.policy.capacity import Ranked, victims
from deermem.service.commit import Decision, Write
from deermem.service.known import Known
from deermem.service.locate import Found, read_path
from deermem.service.user import UserContext


def keep_cap(user: UserContext, known: Known, decision: Decision, added: Sequence[Fact]) -> None:
    """Adds the evictions to a decision, and takes new facts out that rank below all others.

    Raises NotStored where the only new fact would be the one to go.
    """
    if not added or not user.max_facts:
        return
    removed = {write.fact_id for write in decision.writes if write.after is None}
    kept = {fact.id for fact in decision.facts}
    for victim in _make_room(user, known, added=added, removed=removed, kept=kept):
        if isinstance(victim, Found):
            decision.writes.append(Write(known.agent, victim.path, victim.data, None, victim.fact.id))
            decision.evicted.append(victim.fact.id)
        else:
            decision.writes = [write for write in decision.writes if write.fact_id != victim]
            decision.facts = [fact for fact in decision.facts if fact.id != victim]
            decision.evicted.append(victim)
    if len(added) == 1 and added[0].id in decision.evicted:
        raise NotStored(
            f"the bucket of agent {known.agent} is full and this fact ranks below all others",
            hint="give it a higher confidence, delete others, or raise max_facts",
        )


def _make_room(
    user: UserContext, known: Known, *, added: Sequence[Fact], removed: Collection[str], kept: Collection[str]
) -> list[Found | str]:
    """Files that go, and ids of added facts that are not written.

    `removed` are ids that the same commit deletes, `kept` those it writes. A victim that changed since the
    catalogue judged it stays: a person may have just raised it.
    """
    total = known.count() - len(removed) + len(added)
    surplus = min(total - user.max_facts, len(added))
    if surplus <= 0:
        return []
    lowest = known.lowest(surplus + len(removed) + len(kept))
    candidates = {rank.id: (path, rank) for path, rank in lowest if rank.id not in removed and rank.id not in kept}
    chosen = victims(
        [rank for _, rank in candidates.values()],
        [_rank(fact) for fact in added],
        total_after=total,
        cap=user.max_facts,
        adds=len(added),
    )
    return [victim for fact_id in chosen if (victim := _fresh(user, known.agent, candidates.get(fact_id), fact_id))]


def _fresh(user: UserContext, agent: str, judged: tuple[str, Ranked] | None, fact_id: str) -> Found | str | None:
    if judged is None:
        return fact_id
    found = read_path(user, agent, judged[0])
    return found if isinstance(found, Found) and _rank(found.fact) == judged[1] else None


def _rank(fact: Fact) -> Ranked:
    return Ranked(fact.id, fact.confidence, fact.created_at.timestamp())
