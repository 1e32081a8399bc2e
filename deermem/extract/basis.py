"""What a plan rests on: the memory as it is, what the model was shown of it, and the rules."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from deermem.extract.prompts import MAX_REVIEWED, MAX_SHOWN
from deermem.model.fact import Fact
from deermem.model.summaries import SECTIONS, Summaries
from deermem.policy import consolidation, staleness
from deermem.policy.bounds import number
from deermem.policy.consolidation import ConsolidationRules, Group
from deermem.policy.prompt_lines import ranked, says_something
from deermem.policy.staleness import StalenessRules


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRules:
    """What an answer may do. `threshold` is the least confidence that is stored, 0 to 1.

    `confirms`: whether confirmations count at all, which only `hybrid-v1`, in earnest or in the shadow, looks at.
    Raises InvalidInput that names the rule.
    """

    threshold: float = 0.7
    confirms: bool = False
    staleness: StalenessRules = field(default_factory=StalenessRules)
    consolidation: ConsolidationRules = field(default_factory=ConsolidationRules)

    def __post_init__(self) -> None:
        number("threshold", self.threshold, 0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a model was shown: which version of each fact, and which it was asked to review or to merge.

    `summaries` are marks of the sections' texts by name; one that is not noted may be written.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    summaries: Mapping[str, str] = field(default_factory=dict)
    stale: tuple[Fact, ...] = ()
    groups: tuple[Group, ...] = ()

    @classmethod
    def of(cls, facts: Iterable[Fact], now: datetime, rules: PlanRules, summaries: Summaries | None = None) -> Shown:
        """What a prompt shows of these facts: the best, and what is up for review or merging; none that is over."""
        living = {fact.id: fact for fact in facts if not fact.expired_by(now)}
        stale = staleness.candidates(living.values(), now, rules.staleness)[:MAX_REVIEWED]
        groups = consolidation.candidates(living.values(), rules.consolidation)
        best = [fact for fact in ranked(living.values()) if says_something(fact)][:MAX_SHOWN]
        offered = [living[fact_id] for group in groups for fact_id in group.ids]
        return cls(
            versions={fact.id: fact.version for fact in (*best, *stale, *offered)},
            summaries={} if summaries is None else {name: mark_of(summaries, name) for name in SECTIONS.values()},
            stale=stale,
            groups=groups,
        )


def mark_of(summaries: Summaries, section: str) -> str:
    """Tells whether a section still says what it said."""
    return hashlib.sha256(summaries.section(section).summary.encode(errors="surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The state that a plan is made on.

    `facts` are all of the bucket, expired ones too. `thread` is the conversation that new facts come from. Ids of new
    facts derive from `item_id`, so that the same answer planned twice adds nothing twice. `state_token` and `epoch`
    are those of the state, for the commit to hold it against.
    """

    facts: Sequence[Fact]
    shown: Shown
    now: datetime
    item_id: str
    thread: str = ""
    summaries: Summaries = field(default_factory=Summaries)
    signals: Collection[str] = ()
    rules: PlanRules = field(default_factory=PlanRules)
    state_token: str | None = None
    epoch: str | None = None
