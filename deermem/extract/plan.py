"""From judged proposals to one change set, and an account of every item. Decides only; nothing is read or written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from deermem.errors import InvalidInput
from deermem.extract.basis import Basis, mark_of
from deermem.extract.ledger import Ledger, said_key
from deermem.extract.merging import merge
from deermem.extract.outcome import Outcome
from deermem.model.changes import ChangeSet
from deermem.model.fact import DEFAULT_CONFIDENCE, Draft, Fact, Source
from deermem.model.proposals import NewFact, Removal, StaleRemoval
from deermem.model.summaries import summary_patch
from deermem.policy import staleness
from deermem.policy.confirmation import confirmed
from deermem.policy.gate import Gated, subject_of
from deermem.service.apply import checked_draft


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes to commit, and what becomes of each item if all are made; `Outcome.settled` tells what was."""

    change: ChangeSet
    outcome: Outcome

    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not (self.change.upserts or self.change.deletes or self.change.summaries)


def plan(gated: Gated, basis: Basis) -> Plan:
    """What to change, in this order: confirmations, summaries, the review of old facts, new facts, removals, merges.

    Only facts that the model was shown, as they still are, are touched; each change carries the version that it rests
    on. A removal never takes what the same answer says again. The cap is the commit's: a delete says what replaces it.
    Never raises for anything that an answer may hold.
    """
    return _Planner(gated, basis).run()


class _Planner:
    def __init__(self, gated: Gated, basis: Basis) -> None:
        self._asked = gated.accepted
        self._basis = basis
        self._rules = basis.rules
        self._ledger = Ledger(basis)
        self._ledger.refused += gated.refused
        self._reviewed: dict[str, Fact] = {}

    def run(self) -> Plan:
        """All steps in their order."""
        ledger, basis = self._ledger, self._basis
        drafts = list(self._drafts())
        confirmed_ids = self._confirm()
        self._summarise()
        self._reviewed = {fact.id: fact for fact in self._candidates()}
        retired = self._retire()
        extended = self._extend()
        for item, draft in drafts:
            ledger.refuse("fact", ledger.add(item.position, draft), subject_of(item))
        removed = self._remove()
        merge(ledger, self._asked.merges)
        change = ChangeSet(
            ledger.upserts(),
            ledger.deletes.values(),
            ledger.summaries,
            state_token=basis.state_token,
            epoch=basis.epoch,
        )
        replaced = ((item.id, item.replaced_by) for item in ledger.deletes.values())
        outcome = Outcome(
            stored=tuple(draft.id for draft in ledger.added.values() if draft.id),
            summaries=tuple(ledger.summaries),
            confirmed=tuple(fact_id for fact_id in confirmed_ids if fact_id in ledger.changed),
            extended=tuple(fact_id for fact_id in extended if fact_id in ledger.changed),
            removed=removed,
            retired=retired,
            merged=tuple(fact.id for fact in ledger.merged),
            consolidated=tuple(fact_id for fact in ledger.merged for fact_id in fact.consolidated_from),
            replaced=tuple((old, new) for old, new in replaced if new is not None),
            refused=tuple(ledger.refused),
        )
        return Plan(change, outcome)

    def _drafts(self) -> Iterator[tuple[NewFact, Draft]]:
        """The new facts that can be stored, checked; what they say is noted before anything is removed."""
        for item in self._asked.facts:
            draft = Draft(
                content=item.content,
                category=item.category,
                confidence=DEFAULT_CONFIDENCE if item.confidence is None else item.confidence,
                source=Source("conversation", self._basis.thread or None),
                expected_valid_days=staleness.new_window(item.expected_valid_days, self._rules.staleness),
                source_error=item.source_error,
            )
            try:
                draft = checked_draft(draft)
            except InvalidInput as error:
                self._ledger.refuse("fact", "storage", subject_of(item), error.message)
                continue
            self._ledger.said.add(said_key(draft.content))
            yield item, draft

    def _confirm(self) -> tuple[str, ...]:
        done: list[str] = []
        for item in self._asked.reinforcements:
            reason = "" if self._rules.confirms else "off"
            if not reason and "reinforcement" not in self._basis.signals:
                reason = "signal"
            reason = reason or self._ledger.no_target(item.id) or ("duplicate" if item.id in done else "")
            reason = reason or self._ledger.change(confirmed(self._ledger.before[item.id], self._basis.now))
            self._ledger.refuse("reinforcement", reason, subject_of(item))
            if not reason:
                done.append(item.id)
        return tuple(done)

    def _summarise(self) -> None:
        for item in self._asked.summaries:
            try:
                text = summary_patch({item.section: item.text})[item.section]
            except InvalidInput as error:
                self._ledger.refuse("summary", "storage", item.section, error.message)
                continue
            present = mark_of(self._basis.summaries, item.section)
            if text == self._basis.summaries.section(item.section).summary:
                self._ledger.refuse("summary", "unchanged", item.section)
            elif self._basis.shown.summaries.get(item.section, present) != present:
                # A person wrote it while the model was asked: the answer rests on what it said before.
                self._ledger.refuse("summary", "changed", item.section)
            else:
                self._ledger.summaries[item.section] = text

    def _candidates(self) -> Iterator[Fact]:
        """What was shown for review and is due still, after this answer's confirmations."""
        for shown in self._basis.shown.stale:
            if self._ledger.no_target(shown.id):
                continue
            fact = self._ledger.now(shown.id)
            if staleness.is_stale(fact, self._basis.now, self._rules.staleness):
                yield fact

    def _retire(self) -> tuple[str, ...]:
        """Removes what a review takes for outdated, unless the conversation says it again."""
        verdicts = {item.id: self._not_retired(item) for item in self._asked.stale_removals}
        open_ones = [fact_id for fact_id, reason in verdicts.items() if not reason]
        chosen = staleness.removals(open_ones, self._reviewed.values(), self._rules.staleness)
        done: list[str] = []
        for item in self._asked.stale_removals:
            reason = "duplicate" if item.id in done else verdicts[item.id]
            reason = reason or ("" if item.id in chosen else "limit")
            self._ledger.refuse("stale_removal", reason, subject_of(item))
            if not reason:
                done.append(item.id)
                self._ledger.delete(item.id)
        return tuple(done)

    def _not_retired(self, item: StaleRemoval) -> str:
        reason = self._not_due(item.id)
        if not reason and said_key(self._ledger.before[item.id].content) in self._ledger.said:
            reason = "restated"
        return reason

    def _not_due(self, fact_id: str) -> str:
        if not self._rules.staleness.enabled:
            return "off"
        reason = self._ledger.no_target(fact_id)
        if not reason and fact_id not in self._reviewed:
            reason = "candidate"
        return reason

    def _extend(self) -> tuple[str, ...]:
        asked = {item.id: item.days for item in self._asked.extensions}
        removing = {item.id for item in self._asked.stale_removals}
        rules = self._rules.staleness
        windows = staleness.extensions(asked, removing, self._reviewed.values(), self._basis.now, rules)
        done: list[str] = []
        for item in self._asked.extensions:
            reason = self._not_due(item.id) or ("duplicate" if item.id in done else "")
            reason = reason or ("" if item.id in windows else "candidate")
            reason = reason or self._prolong(item.id, windows[item.id])
            self._ledger.refuse("extension", reason, subject_of(item))
            if not reason:
                done.append(item.id)
        return tuple(done)

    def _prolong(self, fact_id: str, days: int) -> str:
        fact = self._ledger.now(fact_id)
        # At the limit of a window there is nothing to add; writing the limit could shorten what a person wrote.
        if days <= staleness.window_days(fact, self._rules.staleness):
            return "unchanged"
        return self._ledger.change(replace(fact, expected_valid_days=days))

    def _remove(self) -> tuple[str, ...]:
        done: list[str] = []
        for item in self._asked.removals:
            reason = self._not_removed(item)
            self._ledger.refuse("removal", reason, subject_of(item))
            if not reason:
                new = None if item.replacement is None else self._ledger.added[item.replacement].id
                self._ledger.delete(item.id, new)
                done.append(item.id)
        return tuple(done)

    def _not_removed(self, item: Removal) -> str:
        reason = self._ledger.no_target(item.id)
        if not reason and item.id in self._ledger.deletes:
            reason = "duplicate"
        if not reason and said_key(self._ledger.before[item.id].content) in self._ledger.said:
            reason = "restated"
        if not reason and item.replacement is not None and item.replacement not in self._ledger.added:
            reason = "replacement"
        return reason
