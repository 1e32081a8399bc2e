"""The policy `hybrid-v1`: a fact is worth its confidence, how lately it was confirmed, and how often it is found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from deermem.errors import InvalidInput
from deermem.model.evictions import Score
from deermem.model.fact import Fact
from deermem.model.usage import Usage
from deermem.policy.bounds import confidence_of, number, whole
from deermem.policy.decay import freshness
from deermem.policy.heat import decayed

UNCONFIRMED: Final = 0.5
"""What the freshness of a fact that nobody ever confirmed counts, from its creation on."""
_FULL_HEAT: Final = math.log(9)
_TOLERANCE: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridRules:
    """Weights (0 to 1, together 1), half-lives in days, and the places that corrections have for themselves.

    Corrections keep min(correction_reserved_max, correction_reserved_fraction of the cap, rounded up) places.
    Raises InvalidInput that names the rule.
    """

    confidence_weight: float = 0.65
    confirmation_weight: float = 0.25
    access_weight: float = 0.10
    confirmation_half_life_days: float = 90.0
    access_half_life_days: float = 30.0
    correction_reserved_fraction: float = 0.10
    correction_reserved_max: int = 10

    def __post_init__(self) -> None:
        number("confidence_weight", self.confidence_weight, 0, 1)
        number("confirmation_weight", self.confirmation_weight, 0, 1)
        number("access_weight", self.access_weight, 0, 1)
        number("confirmation_half_life_days", self.confirmation_half_life_days, 1, 3650)
        number("access_half_life_days", self.access_half_life_days, 1, 3650)
        number("correction_reserved_fraction", self.correction_reserved_fraction, 0, 1)
        whole("correction_reserved_max", self.correction_reserved_max, 0, 100)
        together = self.confidence_weight + self.confirmation_weight + self.access_weight
        if abs(together - 1) > _TOLERANCE:
            raise InvalidInput(
                f"confidence_weight, confirmation_weight and access_weight add up to {together:g}",
                hint="let them add up to 1",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """What the cap judges a fact by; a time that nobody knows is None."""

    id: str
    category: str
    confidence: float
    created_at: datetime | None
    confirmed_at: datetime | None = None

    @classmethod
    def of(cls, fact: Fact) -> Contender:
        """The judged part of a stored fact."""
        return cls(
            id=fact.id,
            category=fact.category,
            confidence=fact.confidence,
            created_at=fact.created_at,
            confirmed_at=fact.last_confirmed_at,
        )


def score(fact: Contender, usage: Usage | None, rules: HybridRules, now: datetime) -> Score:
    """The weighted total with its parts."""
    confidence = confidence_of(fact.confidence)
    confirmation = _confirmation(fact, rules.confirmation_half_life_days, now)
    access = min(1.0, math.log1p(decayed(usage, now, rules.access_half_life_days)) / _FULL_HEAT)
    total = (
        rules.confidence_weight * confidence + rules.confirmation_weight * confirmation + rules.access_weight * access
    )
    return Score(total=total, confidence=confidence, confirmation=confirmation, access=access)


def reserved_places(rules: HybridRules, cap: int) -> int:
    """How many places of a bucket corrections have for themselves; those that they don't need are anybody's."""
    # 0.07 of 100 is 7.000000000000001 in binary, which must not become 8.
    share = math.ceil(round(rules.correction_reserved_fraction * cap, 6))
    return min(rules.correction_reserved_max, share)


def _confirmation(fact: Contender, half_life_days: float, now: datetime) -> float:
    if fact.confirmed_at is not None:
        return freshness(fact.confirmed_at, now, half_life_days)
    return UNCONFIRMED * freshness(fact.created_at, now, half_life_days)
