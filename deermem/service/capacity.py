"""How a decision ends: expired facts go, and the cap is kept. The policy decides, and what it chose is read afresh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from deermem.errors import NotStored
from deermem.format.usage import read_usage
from deermem.model.evictions import Evicted, Eviction
from deermem.model.fact import DEFAULT_CATEGORY, Fact
from deermem.model.usage import Usage
from deermem.policy.eviction import Bucket, decide
from deermem.policy.hybrid import Contender
from deermem.service.commit import Decision, Write
from deermem.service.expiry import delete_expired
from deermem.service.known import Known
from deermem.service.locate import Found, read_path
from deermem.service.user import UserContext
from deermem.service.writing import removal
from deermem.store.sidecars import USAGE, read_sidecar

_LAST_SECOND: Final = 253_402_300_799.0
"""Of the year 9999: a last microsecond, rounded to a float, would be the year 10000."""


def settle(user: UserContext, known: Known, decision: Decision, added: Sequence[Fact]) -> None:
    """Adds expired facts and evictions to a decision, and takes new facts out that rank below all others.

    Where a new fact that takes another's place has no room, the other stays, and it is decided again over what is
    there then. Raises NotStored where the one new fact, which is all that was asked for, would be the one to go.
    """
    # What was asked for besides may be there already, and so need no write.
    asked_for = len(decision.writes) == len(decision.facts) == 1 and decision.summaries is None
    alone = len(added) == 1 and asked_for
    now = user.clock()
    delete_expired(user, known, decision, now)
    # One that comes in with its end behind it is written as it was given, and takes nobody's place.
    added = [fact for fact in added if not fact.expired_by(now)]
    if not added or not user.rules.capacity.max_facts:
        return
    asked = list(decision.writes)
    candidates = _Candidates(user, known, decision, added)
    verdict = _verdict(user, candidates, decision, added)
    if candidates.have_copies(verdict.victims):
        decision.writes = asked
        candidates.see_all(decision)
        verdict = _verdict(user, candidates, decision, added)
    _carry_out(user, decision, verdict, candidates)
    if alone and added[0].id in decision.evicted:
        raise NotStored(
            f"the bucket of agent {known.agent} is full and this fact ranks below all others",
            hint="give it a higher confidence, delete others, or raise max_facts",
        )


@dataclass(slots=True)
class _Judged:
    """A stored fact that may go, and the file that speaks for it."""

    path: str
    contender: Contender


class _Candidates:
    """The stored facts of a bucket, as far as the policy has to see them.

    All of them for `hybrid-v1`; else the lowest alone, so that a write costs the same in any bucket. `total` counts
    them all, `whole` says whether `judged` has them all.
    """

    def __init__(self, user: UserContext, known: Known, decision: Decision, added: Sequence[Fact]) -> None:
        self.known = known
        self.total = known.count()
        self.judged: dict[str, _Judged] = {}
        self.whole = False
        self.now = user.clock()
        self._user = user
        if self.surplus(decision, added) <= 0:
            return
        if user.rules.capacity.uses_heat:
            self.see_all(decision)
            return
        lowest = known.lowest(len(added) + len(decision.writes) + len(decision.facts))
        self.judged = {
            rank.id: _Judged(path, _contender(rank.id, rank.confidence, rank.created_at)) for path, rank in lowest
        }
        if len(self.judged) < len(lowest):
            self.see_all(decision)

    def see_all(self, decision: Decision) -> None:
        """One file for each id, whatever copies lie beside it; what was found expired goes first."""
        self.judged = {fact.id: _Judged(path, Contender.of(fact)) for path, fact in self.known.stored()}
        self.total, self.whole = len(self.judged), True
        delete_expired(self._user, self.known, decision, self.now)

    def have_copies(self, ids: Sequence[str]) -> bool:
        """Whether any of these has a second file, so that the rank may be another file's than the fact's."""
        return not self.whole and any(len(self.known.paths_of(name)) > 1 for name in ids if name in self.judged)

    def surplus(self, decision: Decision, added: Sequence[Fact]) -> int:
        """How many have to go; never more than are added."""
        gone = self.gone(decision)
        left = self.total - (len(self.judged.keys() & gone) if self.whole else len(gone))
        return min(left + len(added) - self._user.rules.capacity.max_facts, len(added))

    def gone(self, decision: Decision) -> set[str]:
        """The ids of stored facts that are removed, or given an end that is over; each counts once."""
        over = {fact.id for fact in decision.facts if fact.expired_by(self.now)}
        stored = (write for write in decision.writes if write.before is not None)
        return {write.fact_id for write in stored if write.after is None or write.fact_id in over}

    def usage(self) -> Mapping[str, Usage]:
        """How often each was found; nothing where the policy doesn't ask."""
        if not self._user.rules.capacity.uses_heat:
            return {}
        return read_usage(read_sidecar(self._user.files, self._user.paths, self.known.agent, USAGE))


def _verdict(user: UserContext, candidates: _Candidates, decision: Decision, added: Sequence[Fact]) -> Eviction:
    """Who goes. Of a fact that is to be replaced and its replacement, in the end never both are there."""
    usage = candidates.usage() if candidates.judged else {}
    kept: list[Write] = []
    judged: dict[str, Evicted] = {}
    refused: dict[str, Evicted] = {}
    while True:
        contending = [fact for fact in added if fact.id not in refused]
        verdict = _decided(user, candidates, decision, contending, usage)
        judged |= {victim.id: victim for victim in verdict.evicted}
        removals = [write for write in decision.writes if write.after is None]
        without = _first(verdict.victims, removals)
        if without is not None:
            kept += [write for write in removals if write.replaced_by == without]
            decision.writes = [write for write in decision.writes if write not in kept]
            continue
        # A correction that stays takes a reserved place, and may so make room for what was to replace it.
        going = {*verdict.victims, *refused}
        both = next((write.replaced_by for write in kept if not {write.fact_id, write.replaced_by} & going), None)
        if both is None:
            return replace(verdict, evicted=(*verdict.evicted, *refused.values()))
        refused[both] = judged[both]


def _first(victims: Sequence[str], removals: Sequence[Write]) -> str | None:
    """The first of the victims for which another fact was to go."""
    replacements = {write.replaced_by for write in removals}
    return next((victim for victim in victims if victim in replacements), None)


def _decided(
    user: UserContext, candidates: _Candidates, decision: Decision, added: Sequence[Fact], usage: Mapping[str, Usage]
) -> Eviction:
    rules = user.rules.capacity
    if candidates.surplus(decision, added) <= 0:
        return Eviction(at=candidates.now, policy=rules.policy, max_facts=rules.max_facts)
    gone = candidates.gone(decision)
    staying = [judged.contender for fact_id, judged in candidates.judged.items() if fact_id not in gone]
    bucket = Bucket(
        staying=staying,
        added=[Contender.of(fact) for fact in added],
        written=frozenset({fact.id for fact in decision.facts} - {fact.id for fact in added}),
        unlisted=0 if candidates.whole else max(0, candidates.total - len(gone) - len(staying)),
    )
    return decide(bucket, rules, usage, candidates.now)


def _carry_out(user: UserContext, decision: Decision, verdict: Eviction, candidates: _Candidates) -> None:
    gone: list[Evicted] = []
    unwritten: set[str] = set()
    for victim in verdict.evicted:
        judged = candidates.judged.get(victim.id)
        if judged is None:
            unwritten.add(victim.id)
            gone.append(victim)
            continue
        found = read_path(user, candidates.known.agent, judged.path)
        # A victim that changed since the catalogue judged it stays: a person may have just raised it.
        if isinstance(found, Found) and _is_as_judged(found.fact, judged.contender, whole=candidates.whole):
            decision.writes += removal(user, candidates.known, found)
            gone.append(replace(victim, category=found.fact.category))
    decision.writes = [write for write in decision.writes if write.fact_id not in unwritten]
    decision.facts = [fact for fact in decision.facts if fact.id not in unwritten]
    decision.evicted += [victim.id for victim in gone]
    if gone:
        decision.evictions[candidates.known.agent] = replace(verdict, evicted=tuple(gone))


def _is_as_judged(fact: Fact, judged: Contender, *, whole: bool) -> bool:
    if whole:
        return Contender.of(fact) == judged
    return _contender(fact.id, fact.confidence, fact.created_at.timestamp()) == judged


def _contender(fact_id: str, confidence: float, created: float) -> Contender:
    """What the catalogue's columns tell of a fact; `confidence` looks at nothing else."""
    moment = datetime.fromtimestamp(min(created, _LAST_SECOND), UTC)
    return Contender(id=fact_id, category=DEFAULT_CATEGORY, confidence=confidence, created_at=moment)
