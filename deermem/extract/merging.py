"""Merges that a model proposes, as a plan takes them up."""

from __future__ import annotations

from collections.abc import Sequence

from deermem.extract.ledger import Ledger
from deermem.model.fact import Fact, Source, derive_title, normalize_content
from deermem.model.proposals import Merge
from deermem.policy.consolidation import Cycle, Merged, Proposal, merge_all
from deermem.policy.gate import subject_of

_REASONS = {
    "disabled": "off",
    "too_many": "limit",
    "source_count": "malformed",
    "unknown_source": "unknown",
    "not_offered": "candidate",
    "consumed": "duplicate",
    "mixed_groups": "category",
    "protected": "category",
    "category": "category",
    "confidence": "confidence",
    "content": "storage",
    "duplicate": "duplicate",
}


def merge(ledger: Ledger, asked: Sequence[Merge]) -> None:
    """Carries out the merges that the rules allow, over the facts as everything before has left them."""
    basis, rules = ledger.basis, ledger.basis.rules
    open_ones = [item for item in asked if not _refused(ledger, item)]
    cycle = Cycle(
        offered=basis.shown.groups,
        threshold=rules.threshold,
        now=basis.now,
        rules=rules.consolidation,
        staleness=rules.staleness,
    )
    done, refused = merge_all(map(_proposal, open_ones), ledger.living(), cycle)
    successes, reasons = iter(done), iter(refused)
    success = next(successes, None)
    for item in open_ones:
        # Both come in the order proposed, and a merge is known by its sources and its words.
        if success is not None and _is_of(success, item):
            ledger.refuse("merge", ledger.merge(_fact(ledger, success)), subject_of(item))
            success = next(successes, None)
        else:
            ledger.refuse("merge", _REASONS[next(reasons)], subject_of(item))


def _refused(ledger: Ledger, item: Merge) -> bool:
    """Refuses a merge of facts that are not as they were shown."""
    there = [fact_id for fact_id in item.source_ids if fact_id in ledger.before]
    reason = "" if ledger.basis.rules.consolidation.enabled else "off"
    reason = reason or next(filter(None, map(ledger.no_target, there)), "")
    ledger.refuse("merge", reason, subject_of(item))
    return bool(reason)


def _proposal(item: Merge) -> Proposal:
    return Proposal(
        sources=item.source_ids,
        content=item.fact.content,
        category=item.fact.category or None,
        confidence=item.fact.confidence,
    )


def _is_of(merged: Merged, item: Merge) -> bool:
    return set(merged.sources) == set(item.source_ids) and merged.content == normalize_content(item.fact.content)


def _fact(ledger: Ledger, merged: Merged) -> Fact:
    return Fact(
        id=ledger.new_id("merge", *merged.sources, merged.content),
        content=merged.content,
        title=derive_title(merged.content),
        category=merged.category,
        confidence=merged.confidence,
        source=Source("consolidation"),
        created_at=merged.created_at,
        updated_at=ledger.basis.now,
        source_error=merged.source_error,
        expected_valid_days=merged.expected_valid_days,
        consolidated_from=merged.sources,
        consolidated_at=merged.consolidated_at,
    )
