"""What the cap decided: which facts went, with what score, and what the other policy would have done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

Policy = Literal["confidence", "hybrid-v1"]
CONFIDENCE: Final = "confidence"
HYBRID: Final = "hybrid-v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How much a fact is worth keeping, 0 to 1, and what the total is made of.

    The parts are not weighted yet, each 0 to 1. The policy `confidence` looks at one alone: the others are 0 then.
    """

    total: float
    confidence: float
    confirmation: float = 0.0
    access: float = 0.0


@dataclass(frozen=True, slots=True)
class Evicted:
    """A fact that makes room. Never its content."""

    id: str
    category: str
    score: Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """One decision of the cap, as it is carried out and as the audit keeps it.

    `evicted` has the first to go first. `reserved` counts the places that corrections held. `would_evict` are the
    ids that `hybrid-v1` would have chosen in the shadow of `confidence`, the first to go first; None: not asked.
    """

    at: datetime
    policy: str
    max_facts: int
    evicted: tuple[Evicted, ...] = ()
    reserved: int = 0
    would_evict: tuple[str, ...] | None = None

    @property
    def victims(self) -> tuple[str, ...]:
        """The ids of those that go."""
        return tuple(item.id for item in self.evicted)

    @property
    def disagrees(self) -> bool:
        """Whether the policy in the shadow would have chosen others."""
        return self.would_evict is not None and set(self.would_evict) != set(self.victims)
