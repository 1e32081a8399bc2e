"""Which facts are due for review, and what a review may do to them: nothing at all to any other fact."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from deermem.model.fact import Fact
from deermem.policy.bounds import confidence_of, number, whole, word, words
from deermem.policy.decay import aware, since

LONGEST_WINDOW = 36_500
"""A hundred years in days: what a fact file takes."""
_DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class StalenessRules:
    """The review of old facts. Days are days; a new fact's window is at most `age_days` × `max_lifetime_multiplier`.

    Raises InvalidInput that names the rule.
    """

    enabled: bool = True
    age_days: int = 90
    min_candidates: int = 3
    max_removals_per_cycle: int = 10
    protected_categories: Sequence[str] = ("correction",)
    max_lifetime_multiplier: float = 20
    max_extension_days: int = 3650

    def __post_init__(self) -> None:
        whole("age_days", self.age_days, 30, 365)
        whole("min_candidates", self.min_candidates, 1, 50)
        whole("max_removals_per_cycle", self.max_removals_per_cycle, 1, 50)
        number("max_lifetime_multiplier", self.max_lifetime_multiplier, 1, 100)
        whole("max_extension_days", self.max_extension_days, 90, LONGEST_WINDOW)
        object.__setattr__(self, "protected_categories", words("protected_categories", self.protected_categories))

    @property
    def max_window_days(self) -> int:
        """The longest window that a new or merged fact gets."""
        return int(self.age_days * self.max_lifetime_multiplier)


def expected_valid_days(value: object) -> int | None:
    """A number of days as a model says it: a finite number of at least 1, its fraction cut off, at most 36,500.

    None for everything else; a number in quotes, true and 0.5 are no numbers of days.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    days = int(value)
    return min(days, LONGEST_WINDOW) if days >= 1 else None


def reference(fact: Fact) -> datetime:
    """The moment from which a fact's age, its window and its extension are all counted: last confirmed, else created.

    With one moment for the age and another for the extension, a few days more would become years.
    """
    return fact.last_confirmed_at or fact.created_at


def window_days(fact: Fact, rules: StalenessRules) -> int:
    """How many days from its reference a fact is taken as good."""
    return expected_valid_days(fact.expected_valid_days) or rules.age_days


def new_window(days: object, rules: StalenessRules) -> int | None:
    """The window that a new fact is stored with, of what a model asked for; None: the default."""
    asked = expected_valid_days(days)
    return None if asked is None else min(asked, rules.max_window_days)


def is_stale(fact: Fact, now: datetime, rules: StalenessRules) -> bool:
    """Whether a fact is older than its window, and not protected."""
    if word(fact.category) in {word(name) for name in rules.protected_categories}:
        return False
    return since(reference(fact), now).total_seconds() > window_days(fact, rules) * _DAY_SECONDS


def candidates(facts: Iterable[Fact], now: datetime, rules: StalenessRules) -> tuple[Fact, ...]:
    """The facts that a review may look at, the oldest first; none where they are too few, or the review is off."""
    if not rules.enabled:
        return ()
    stale = {fact.id: fact for fact in facts if fact.id and is_stale(fact, now, rules)}
    if len(stale) < rules.min_candidates:
        return ()
    return tuple(sorted(stale.values(), key=lambda fact: (aware(reference(fact)), fact.id)))


def removals(proposed: Collection[str], reviewed: Iterable[Fact], rules: StalenessRules) -> tuple[str, ...]:
    """The ids that a review removes: of those proposed the candidates alone, the lowest confidence first.

    `reviewed` are the candidates as they are now. At most `max_removals_per_cycle`, none where the review is off.
    Of two equals the older goes first, then the smaller id.
    """
    if not rules.enabled:
        return ()
    named = {fact.id: fact for fact in reviewed if fact.id and fact.id in proposed}
    ranked = sorted(named.values(), key=lambda fact: (confidence_of(fact.confidence), aware(reference(fact)), fact.id))
    return tuple(fact.id for fact in ranked[: rules.max_removals_per_cycle])


def extended(fact: Fact, extend_by_days: object, now: datetime, rules: StalenessRules) -> int | None:
    """The new window of a stale fact that is good for so many days more: its age and those, at most so many in all.

    None where the fact isn't stale or the days are none: nothing changes then. Whoever applies a review leaves out
    what it proposed to remove (`extensions`).
    """
    more = expected_valid_days(extend_by_days)
    if more is None or not rules.enabled or not is_stale(fact, now, rules):
        return None
    return min(since(reference(fact), now).days + more, rules.max_extension_days)


def extensions(
    asked: Mapping[str, object],
    removing: Collection[str],
    reviewed: Iterable[Fact],
    now: datetime,
    rules: StalenessRules,
) -> dict[str, int]:
    """Id → new window for the days that a review `asked` for: of the candidates, without what it wants removed.

    `removing` are all ids proposed for removal, those over the limit of a cycle too.
    """
    found: dict[str, int] = {}
    for fact in reviewed:
        days = extended(fact, asked.get(fact.id), now, rules) if fact.id and fact.id not in removing else None
        if days is not None:
            found[fact.id] = days
    return found
