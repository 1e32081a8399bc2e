"""Merging facts that say much the same: which may be offered for it, and which merge is one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from deermem.errors import InvalidInput
from deermem.model.fact import Fact, check_content, content_key
from deermem.policy.bounds import confidence_of, whole, word, words
from deermem.policy.decay import aware
from deermem.policy.staleness import StalenessRules, reference, window_days

Refusal: TypeAlias = Literal[
    "disabled",
    "too_many",
    "source_count",
    "unknown_source",
    "not_offered",
    "consumed",
    "mixed_groups",
    "protected",
    "category",
    "confidence",
    "content",
    "duplicate",
]
"""Why a merge is refused, in one word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationRules:
    """The merging of facts, off by default. Raises InvalidInput that names the rule."""

    enabled: bool = False
    min_facts: int = 8
    max_groups_per_cycle: int = 3
    max_sources: int = 8
    protected_categories: Sequence[str] = ("correction",)

    def __post_init__(self) -> None:
        whole("min_facts", self.min_facts, 3, 30)
        whole("max_groups_per_cycle", self.max_groups_per_cycle, 1, 10)
        whole("max_sources", self.max_sources, 2, 20)
        object.__setattr__(self, "protected_categories", words("protected_categories", self.protected_categories))


@dataclass(frozen=True, slots=True)
class Group:
    """Facts of one category that are offered for merging; a merge may take sources from one group alone."""

    category: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A merge as a model proposes it; category None: that of the sources, confidence None: the best source's."""

    sources: Sequence[str]
    content: str
    category: str | None = None
    confidence: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What takes the place of its sources. `expected_valid_days` counts from `created_at`."""

    sources: tuple[str, ...]
    content: str
    category: str
    confidence: float
    created_at: datetime
    consolidated_at: datetime
    source_error: str | None
    expected_valid_days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """What the merges of one update are judged by. `offered` is what the model was shown.

    `threshold` is the least confidence that is stored.
    """

    offered: Sequence[Group]
    threshold: float
    now: datetime
    rules: ConsolidationRules
    staleness: StalenessRules = field(default_factory=StalenessRules)


def candidates(facts: Iterable[Fact], rules: ConsolidationRules) -> tuple[Group, ...]:
    """The groups that a model may be offered, the largest category first; none where merging is off.

    A category counts with `min_facts` or more, and offers its oldest `max_sources`. A fact with an end of its own
    (`expires_at`) is never merged: the others' words would end with it, or its own would outlive it.
    """
    if not rules.enabled:
        return ()
    kinds: dict[str, list[Fact]] = {}
    for fact in {fact.id: fact for fact in facts if fact.id and fact.expires_at is None}.values():
        kinds.setdefault(word(fact.category), []).append(fact)
    large = [kind for kind in kinds if kind not in _protected(rules) and len(kinds[kind]) >= rules.min_facts]
    large.sort(key=lambda kind: (-len(kinds[kind]), kind))
    return tuple(_group(kinds[kind], rules) for kind in large[: rules.max_groups_per_cycle])


def merge_all(
    proposals: Iterable[Proposal], facts: Iterable[Fact], cycle: Cycle
) -> tuple[tuple[Merged, ...], tuple[Refusal, ...]]:
    """The merges to carry out and the reasons of the others, each in the order proposed.

    `facts` are those that live when everything else of the update is done, its new ones included. At most
    `max_groups_per_cycle` merges succeed; those that fail take nobody's turn.
    """
    living = {fact.id: fact for fact in facts if fact.id and not fact.expired_by(aware(cycle.now))}
    contents = Counter(content_key(fact.content) for fact in living.values())
    done: list[Merged] = []
    refused: list[Refusal] = []
    consumed: set[str] = set()
    for proposal in proposals:
        full = len(done) >= cycle.rules.max_groups_per_cycle
        verdict = "too_many" if full else _judge(proposal, living, consumed, cycle)
        if isinstance(verdict, Merged):
            verdict = _unless_duplicate(verdict, living, contents)
        if not isinstance(verdict, Merged):
            refused.append(verdict)
            continue
        done.append(verdict)
        consumed.update(verdict.sources)
        contents.subtract(content_key(living[fact_id].content) for fact_id in verdict.sources)
        contents[content_key(verdict.content)] += 1
    return tuple(done), tuple(refused)


def _protected(rules: ConsolidationRules) -> set[str]:
    return {word(name) for name in rules.protected_categories}


def _by_age(facts: Iterable[Fact]) -> list[Fact]:
    return sorted(facts, key=lambda fact: (aware(fact.created_at), fact.id))


def _group(facts: Iterable[Fact], rules: ConsolidationRules) -> Group:
    oldest = _by_age(facts)[: rules.max_sources]
    return Group(oldest[0].category, tuple(fact.id for fact in oldest))


def _judge(proposal: Proposal, living: Mapping[str, Fact], consumed: Collection[str], cycle: Cycle) -> Merged | Refusal:
    sources = _sources(proposal, living, consumed, cycle)
    if isinstance(sources, str):
        return sources
    kind = word(sources[0].category)
    asked = kind if proposal.category is None else word(proposal.category)
    if {kind, asked} & _protected(cycle.rules):
        return "protected"
    if asked != kind:
        return "category"
    confidence = _confidence(proposal.confidence, max(confidence_of(fact.confidence) for fact in sources))
    if confidence < cycle.threshold:
        return "confidence"
    try:
        content = check_content(proposal.content)
    except InvalidInput:
        return "content"
    errors = dict.fromkeys(fact.source_error.strip() for fact in sources if fact.source_error)
    return Merged(
        sources=tuple(fact.id for fact in sources),
        content=content,
        category=sources[0].category,
        confidence=confidence,
        created_at=sources[-1].created_at,
        consolidated_at=cycle.now,
        source_error="; ".join(filter(None, errors)) or None,
        expected_valid_days=_window(sources, cycle.staleness),
    )


def _sources(
    proposal: Proposal, living: Mapping[str, Fact], consumed: Collection[str], cycle: Cycle
) -> list[Fact] | Refusal:
    """The sources, the oldest first."""
    if not cycle.rules.enabled:
        return "disabled"
    ids = set(proposal.sources)
    if not 2 <= len(ids) <= cycle.rules.max_sources:
        return "source_count"
    # Before the look at the living: a source that an earlier merge took lives no more, but that is not the reason.
    if ids & set(consumed):
        return "consumed"
    if not ids <= living.keys():
        return "unknown_source"
    if not ids <= {fact_id for group in cycle.offered for fact_id in group.ids}:
        return "not_offered"
    sources = _by_age(living[fact_id] for fact_id in ids)
    # Somebody may have given a fact an end, or another category, since it was offered.
    if any(fact.expires_at is not None for fact in sources):
        return "not_offered"
    one_group = any(ids <= set(group.ids) for group in cycle.offered)
    return sources if one_group and len({word(fact.category) for fact in sources}) == 1 else "mixed_groups"


def _confidence(said: float | None, best: float) -> float:
    if said is None or isinstance(said, bool) or not isinstance(said, (int, float)):
        return best
    # NaN compares as neither; a whole number may be too large for a float until it was compared.
    return best if not said < best else float(max(0, said))


def _window(sources: Sequence[Fact], rules: StalenessRules) -> int:
    """Days from the newest source to the earliest deadline of any, 1 at least."""
    start = aware(sources[-1].created_at)
    deadlines = [(aware(reference(fact)) - start).days + window_days(fact, rules) for fact in sources]
    return max(1, min(*deadlines, rules.max_window_days))


def _unless_duplicate(merge: Merged, living: Mapping[str, Fact], contents: Mapping[bytes, int]) -> Merged | Refusal:
    """Refused where another fact than its sources says the same already."""
    key = content_key(merge.content)
    own = sum(content_key(living[fact_id].content) == key for fact_id in merge.sources)
    return merge if contents.get(key, 0) <= own else "duplicate"
