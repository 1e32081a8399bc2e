"""How often a fact was found: kept beside the facts, never in them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Usage:
    """One fact's access heat as it was at `last_access`, and the number of accesses in all.

    `heat` is 1 for one access just now and halves over time; `last_access` None: not known, so the heat says nothing.
    """

    heat: float
    count: int
    last_access: datetime | None
