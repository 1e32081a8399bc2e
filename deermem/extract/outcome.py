"""What became of one answer: for reports, for counters, and for whoever looks why a fact is not there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from deermem.model.changes import Commit
from deermem.model.proposals import ProposalKind, Refusal

WARN_ABOVE: Final = 0.6
"""The share of rejected items above which a prompt or a model is at fault."""

_NO_FAULT: Final = frozenset({"duplicate", "unchanged", "capacity", "limit", "off", "signal", "changed", "restated"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Ids of the facts that were touched, names of the summaries, and why everything else was not.

    `stored` are new facts, `merged` facts that took the place of several others (`consolidated`), `removed` those that
    the conversation contradicted, `retired` those that a review took for outdated. `replaced` says which new or merged
    fact takes whose place; `evicted` went to keep the cap.
    """

    stored: tuple[str, ...] = ()
    summaries: tuple[str, ...] = ()
    confirmed: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    consolidated: tuple[str, ...] = ()
    replaced: tuple[tuple[str, str], ...] = ()
    evicted: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()

    def counts(self) -> Mapping[str, int]:
        """Numbers for a metrics callback: `fact.accepted`, `fact.secret`, `removal.replacement` and so on.

        A key is the kind of an item with `accepted` or a reason of REASONS; what did not occur has no key.
        """
        found = Counter(f"{item.kind}.{item.reason}" for item in self.refused)
        for kind, carried_out in self._accepted().items():
            if carried_out:
                found[f"{kind}.accepted"] = len(carried_out)
        return dict(sorted(found.items()))

    @property
    def rejected_share(self) -> float:
        """How much of the answer was rejected, 0 to 1.

        What is stored already, or could not be done for a reason that lies here, is no fault of the answer.
        """
        rejected = sum(item.reason not in _NO_FAULT for item in self.refused)
        total = len(self.refused) + sum(map(len, self._accepted().values()))
        return rejected / total if total else 0.0

    def settled(self, commit: Commit | None) -> Outcome:
        """What is true after the commit: where a full bucket had no room for a new fact, what it replaces stays.

        None: nothing was stored, because the only new fact had no room (NotStored).
        """
        evicted = {*self.stored, *self.merged} if commit is None else set(commit.evicted)
        lost = evicted & {*self.stored, *self.merged}
        # Of what stays the cap itself may have taken one.
        kept = {old for old, new in self.replaced if new in lost}
        refused = (
            *_refusals("fact", self.stored, lost, "capacity"),
            *_refusals("merge", self.merged, lost, "capacity"),
            *_refusals("removal", self.removed, kept, "replacement"),
        )
        return replace(
            self,
            stored=_without(self.stored, lost),
            merged=_without(self.merged, lost),
            removed=_without(self.removed, kept),
            consolidated=_without(self.consolidated, kept),
            replaced=tuple(pair for pair in self.replaced if pair[1] not in lost),
            evicted=() if commit is None else _without(tuple(commit.evicted), lost),
            refused=(*self.refused, *refused),
        )

    def _accepted(self) -> Mapping[ProposalKind, tuple[str, ...]]:
        return {
            "fact": self.stored,
            "summary": self.summaries,
            "reinforcement": self.confirmed,
            "removal": self.removed,
            "stale_removal": self.retired,
            "extension": self.extended,
            "merge": self.merged,
        }


def _without(ids: tuple[str, ...], gone: Collection[str]) -> tuple[str, ...]:
    return tuple(item for item in ids if item not in gone)


def _refusals(kind: ProposalKind, ids: tuple[str, ...], hit: Collection[str], reason: str) -> list[Refusal]:
    return [Refusal(kind=kind, reason=reason, subject=item) for item in ids if item in hit]
