"""What tests of policies share: a moment that is now, and facts of a certain age."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from deermem.model.fact import Fact
from deermem.policy.hybrid import Contender

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
FIRST = datetime.min.replace(tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)


def ago(days: float) -> datetime:
    """So many days before NOW."""
    return NOW - timedelta(days=days)


def old_fact(fact_id: str, age: float = 100, confirmed: float | None = None, **values: object) -> Fact:
    """A fact of this age in days, last confirmed so many days ago."""
    given: dict[str, object] = {
        "content": f"Content of {fact_id}.",
        "title": "",
        "created_at": ago(age),
        "updated_at": ago(age),
        "last_confirmed_at": None if confirmed is None else ago(confirmed),
        **values,
    }
    return Fact(id=fact_id, **given)  # type: ignore[arg-type]


def contender(
    fact_id: str, confidence: float = 0.8, age: float = 0, confirmed: float | None = None, category: str = "context"
) -> Contender:
    """What the cap sees of such a fact."""
    return Contender.of(old_fact(fact_id, age, confirmed, confidence=confidence, category=category))
