"""What of a model's proposals is let through: by rules alone, whatever its prompt said."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from deermem.model.fact import DEFAULT_CONFIDENCE
from deermem.model.proposals import (
    Extension,
    Labels,
    Merge,
    NewFact,
    NewSummary,
    ProposalKind,
    Proposals,
    Refusal,
    Reinforcement,
    Removal,
    StaleRemoval,
)
from deermem.policy.secrets import holds_secret

T = TypeVar("T", NewFact, NewSummary, Merge, Removal, Reinforcement)
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_SCOPE = "user"
_DURABILITY = "durable"
_AUTHORITY = "descriptive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """The proposals that passed, and why the others did not: those that could not be read are among them."""

    accepted: Proposals = field(default_factory=Proposals)
    refused: tuple[Refusal, ...] = ()


def gate(proposals: Proposals, *, threshold: float) -> Gated:
    """Judges each item alone; `threshold` is the least confidence of a new fact.

    A fact, new or merged, must concern the user, last, and describe; a summary must concern the user and describe; a
    removal or reinforcement must concern the user and have a reason. A missing label is a no. Nothing that holds a
    credential passes. A removal that names a replacement needs that one to have passed; beside a new fact that could
    not be read there is no removal at all.
    """
    taken = _Sieve()
    facts = taken.keep("fact", proposals.facts, lambda item: _fact(item, threshold))
    passed = {fact.position for fact in facts}
    stopped = any(proposals.malformed_facts())
    accepted = Proposals(
        summaries=taken.keep("summary", proposals.summaries, _summary),
        facts=facts,
        reinforcements=taken.keep("reinforcement", proposals.reinforcements, _reasoned),
        removals=taken.keep("removal", proposals.removals, lambda item: _removal(item, passed, stopped)),
        stale_removals=proposals.stale_removals,
        extensions=proposals.extensions,
        merges=taken.keep("merge", proposals.merges, _merge),
    )
    return Gated(accepted=accepted, refused=(*proposals.refused, *taken.refused))


class _Sieve:
    def __init__(self) -> None:
        self.refused: list[Refusal] = []

    def keep(self, kind: ProposalKind, items: Sequence[T], judge: Callable[[T], str]) -> tuple[T, ...]:
        """Those that `judge` has no reason against."""
        kept: list[T] = []
        for item in items:
            reason = judge(item)
            if reason:
                self.refused.append(Refusal(kind=kind, reason=reason, subject=subject_of(item)))
            else:
                kept.append(item)
        return tuple(kept)


def subject_of(item: NewFact | NewSummary | Merge | Removal | Reinforcement | StaleRemoval | Extension) -> str:
    """What a report names a proposal by: its id, section, sources, or place in the answer's list."""
    if isinstance(item, NewFact):
        return str(item.position)
    if isinstance(item, NewSummary):
        return item.section
    if isinstance(item, Merge):
        return ", ".join(map(named, item.source_ids))[:160]
    return named(item.id)


def named(fact_id: str) -> str:
    """An id for a report, "(no id)" for what can't be one: a report must not repeat what a model wrote in its place."""
    return fact_id if _ID.fullmatch(fact_id) else "(no id)"


def _fact(fact: NewFact, threshold: float) -> str:
    reason = _labels(fact.labels)
    confidence = DEFAULT_CONFIDENCE if fact.confidence is None else fact.confidence
    # Not the other way round: a confidence that is no number is below everything.
    if not reason and not confidence >= threshold:
        reason = "confidence"
    return reason or _secret(_texts(fact))


def _merge(merge: Merge) -> str:
    return _labels(merge.fact.labels) or _secret(_texts(merge.fact))


def _summary(summary: NewSummary) -> str:
    if not summary.text.strip():
        return "missing"
    # A summary is of now: it need not last.
    return _labels(replace(summary.labels, durability=_DURABILITY)) or _secret([summary.text])


def _removal(removal: Removal, passed: set[int], stopped: bool) -> str:
    reason = _reasoned(removal)
    if not reason and stopped:
        reason = "batch"
    if not reason and removal.replacement is not None and removal.replacement not in passed:
        reason = "replacement"
    return reason


def _reasoned(item: Removal | Reinforcement) -> str:
    if not item.scope or not item.reason.strip():
        return "missing"
    return "" if item.scope == _SCOPE else "scope"


def _labels(labels: Labels) -> str:
    if not (labels.scope and labels.durability and labels.authority):
        return "missing"
    if labels.scope != _SCOPE:
        return "scope"
    if labels.durability != _DURABILITY:
        return "durability"
    return "" if labels.authority == _AUTHORITY else "authority"


def _texts(fact: NewFact) -> tuple[str, ...]:
    return fact.content, fact.category, fact.source_error or ""


def _secret(texts: Iterable[str]) -> str:
    return "secret" if any(map(holds_secret, texts)) else ""
