"""Which facts a full bucket gives up, by whichever policy, for every way of writing alike."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from deermem.errors import InvalidInput
from deermem.model.evictions import CONFIDENCE, HYBRID, Evicted, Eviction, Policy, Score
from deermem.model.usage import Usage
from deermem.policy.bounds import confidence_of, word
from deermem.policy.capacity import Ranked, rank_key
from deermem.policy.decay import aware
from deermem.policy.hybrid import Contender, HybridRules, reserved_places, score

_RESERVED_FOR: Final = "correction"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityRules:
    """The cap of a bucket (0: none) and who decides; `shadow` asks `hybrid-v1` beside `confidence`.

    Raises InvalidInput for a policy that doesn't exist.
    """

    max_facts: int = 100
    policy: Policy = CONFIDENCE
    shadow: bool = False
    hybrid: HybridRules = field(default_factory=HybridRules)

    def __post_init__(self) -> None:
        if self.policy not in (CONFIDENCE, HYBRID):
            raise InvalidInput(f"policy is {self.policy!r:.60}", hint=f'give "{CONFIDENCE}" or "{HYBRID}"')
        if isinstance(self.max_facts, bool) or not isinstance(self.max_facts, int) or self.max_facts < 0:
            raise InvalidInput(f"max_facts is {self.max_facts!r:.60}", hint="give 0 (no limit) or a whole number")

    @property
    def uses_heat(self) -> bool:
        """Whether the usage sidecar is needed at all; else it is neither read nor written."""
        return self.policy == HYBRID or self.shadow


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """What a bucket would hold after a commit, were nothing shed.

    `staying` were there and stay, `added` are new, each id once. `written` are ids of `staying` that the same
    commit updates: they count, and take reserved places, but never go. `unlisted` counts further facts that stay:
    the policy `confidence` without shadow decides on the lowest alone, as many as are added and written together.
    """

    staying: Sequence[Contender] = ()
    added: Sequence[Contender] = ()
    written: frozenset[str] = frozenset()
    unlisted: int = 0


def decide(bucket: Bucket, rules: CapacityRules, usage: Mapping[str, Usage], now: datetime) -> Eviction:
    """Who goes, the first to go first; nobody at or under the cap.

    Never more than the commit adds, so that a bucket found over its cap isn't emptied by its first write. An
    added fact may be among those that go: the caller doesn't write it. The order of the input is of no matter:
    of two that score the same, the newer stays, then the one with the greater id.
    Raises InvalidInput where `hybrid-v1`, in earnest or in the shadow, isn't given all facts.
    """
    if bucket.unlisted and rules.uses_heat:
        raise InvalidInput(f"{bucket.unlisted} facts are not listed", hint=f"{HYBRID} has to see all facts of a bucket")
    total = len(bucket.staying) + len(bucket.added) + bucket.unlisted
    surplus = min(total - rules.max_facts, len(bucket.added)) if rules.max_facts else 0
    shadowed = rules.shadow and rules.policy == CONFIDENCE
    if surplus <= 0:
        would = () if shadowed else None
        return Eviction(at=now, policy=rules.policy, max_facts=rules.max_facts, would_evict=would)
    everybody = (*bucket.staying, *bucket.added)
    hybrid: tuple[tuple[Evicted, ...], int] = ((), 0)
    if rules.uses_heat:
        scores = {fact.id: score(fact, usage.get(fact.id), rules.hybrid, now) for fact in everybody}
        hybrid = _choose(bucket, scores, surplus, reserved_places(rules.hybrid, rules.max_facts))
    evicted, reserved = hybrid
    if rules.policy == CONFIDENCE:
        evicted, reserved = _choose(bucket, {fact.id: _plain(fact) for fact in everybody}, surplus, 0)
    return Eviction(
        at=now,
        policy=rules.policy,
        max_facts=rules.max_facts,
        evicted=evicted,
        reserved=reserved,
        would_evict=tuple(item.id for item in hybrid[0]) if shadowed else None,
    )


def _plain(fact: Contender) -> Score:
    confidence = confidence_of(fact.confidence)
    return Score(total=confidence, confidence=confidence)


def _choose(bucket: Bucket, scores: Mapping[str, Score], surplus: int, places: int) -> tuple[tuple[Evicted, ...], int]:
    """The first `surplus` to go, and how many places corrections hold."""
    everybody = (*bucket.staying, *bucket.added)
    ranks = {fact.id: _rank(fact, scores[fact.id]) for fact in everybody}
    corrections = [fact.id for fact in everybody if word(fact.category) == _RESERVED_FOR] if places else []
    reserved = set(heapq.nlargest(places, corrections, key=ranks.__getitem__))
    free = [fact for fact in everybody if fact.id not in bucket.written]
    # The cap goes before the reserve: where what is written takes all other places, corrections give up theirs too.
    first = heapq.nsmallest(surplus, free, key=lambda fact: (fact.id in reserved, ranks[fact.id]))
    chosen = tuple(Evicted(fact.id, fact.category, scores[fact.id]) for fact in first)
    return chosen, len(reserved - {item.id for item in chosen})


def _rank(fact: Contender, judged: Score) -> tuple[float, float, str]:
    created = aware(fact.created_at).timestamp() if fact.created_at is not None else -math.inf
    return rank_key(Ranked(fact.id, judged.total, created))
