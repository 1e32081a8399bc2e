"""From what a model proposes to what may be carried out: sentences about uploads go, then the gate decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from deermem.extract.uploads import without_upload_events
from deermem.model.proposals import Merge, NewFact, NewSummary, ProposalKind, Proposals, Refusal
from deermem.policy.gate import Gated, gate, subject_of

T = TypeVar("T", NewFact, NewSummary, Merge)


def judge(proposals: Proposals, *, threshold: float) -> Gated:
    """The proposals that pass, their texts without sentences about an upload; what was nothing else is refused.

    `threshold` is the least confidence of a new fact, 0 to 1.
    """
    refused: list[Refusal] = []
    told = replace(
        proposals,
        facts=_kept("fact", proposals.facts, _of_fact, refused),
        summaries=_kept("summary", proposals.summaries, _of_summary, refused),
        merges=_kept("merge", proposals.merges, _of_merge, refused),
    )
    return gate(replace(told, refused=(*told.refused, *refused)), threshold=threshold)


def _kept(
    kind: ProposalKind, items: Sequence[T], scrubbed: Callable[[T], T | None], refused: list[Refusal]
) -> tuple[T, ...]:
    kept: list[T] = []
    for item in items:
        rest = scrubbed(item)
        if rest is None:
            refused.append(Refusal(kind=kind, reason="upload", subject=subject_of(item)))
        else:
            kept.append(rest)
    return tuple(kept)


def _of_fact(fact: NewFact) -> NewFact | None:
    content = without_upload_events(fact.content)
    return replace(fact, content=content) if content else None


def _of_summary(summary: NewSummary) -> NewSummary | None:
    text = without_upload_events(summary.text)
    # One that was blank from the start is refused for that.
    return replace(summary, text=text) if text or not summary.text else None


def _of_merge(merge: Merge) -> Merge | None:
    fact = _of_fact(merge.fact)
    return None if fact is None else replace(merge, fact=fact)
