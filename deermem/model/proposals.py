"""What a model proposes after reading a conversation, item by item, and why an item is refused.

Nothing here was judged yet: a proposal is what the answer says, typed. The gate (`policy/gate.py`) decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

ProposalKind = Literal["fact", "summary", "removal", "reinforcement", "stale_removal", "extension", "merge"]

REASONS: Final = {
    "malformed": "the item is not of the asked form",
    "missing": "a label, a text or a reason is missing",
    "scope": "it does not concern the user as a whole",
    "durability": "it does not last",
    "authority": "it is an instruction or a permission, not a description",
    "confidence": "its confidence is below the threshold",
    "duplicate": "its content is stored already, or it repeats another item",
    "secret": "it holds a credential",
    "upload": "it only tells of an uploaded file",
    "storage": "its content can't be stored",
    "replacement": "what replaces it was refused or not kept",
    "unknown": "it names a fact that is not there",
    "candidate": "it names a fact that is not up for this decision",
    "signal": "nothing in the conversation confirms it",
    "limit": "the limit of one cycle is reached",
    "batch": "a new fact beside it is malformed, so nothing is removed",
    "changed": "the fact was changed meanwhile",
    "capacity": "the bucket is full and it ranks below what is there",
    "off": "this decision is switched off",
    "category": "the category is protected, or differs from its sources'",
    "unchanged": "it says what is there already",
    "restated": "the same conversation says its content again",
}
"""Every reason word with its meaning; counters and reports use the words."""


@dataclass(frozen=True, slots=True)
class Labels:
    """How the model classifies an item: stripped, in lower case, "" where the label is missing."""

    scope: str = ""
    durability: str = ""
    authority: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFact:
    """A fact to be stored. `position` is its place in the answer's list, from 0; `confidence` None: not given.

    Days are as the model said them, not yet bounded by any rule.
    """

    position: int
    content: str
    category: str = "context"
    confidence: float | None = None
    labels: Labels = Labels()
    source_error: str | None = None
    expected_valid_days: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSummary:
    """A summary to be replaced; `section` is one of the six names in snake_case."""

    section: str
    text: str
    labels: Labels = Labels()


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A fact that the conversation contradicts; `replacement` is the position of the new fact that takes its place.

    It is -1, where no fact stands, if the answer names a place that can't be read.
    """

    id: str
    scope: str = ""
    reason: str = ""
    replacement: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reinforcement:
    """A fact that the person confirmed."""

    id: str
    scope: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleRemoval:
    """A fact past its window that no longer holds."""

    id: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """A fact past its window that still holds, for `days` more."""

    id: str
    days: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Several facts of one category told as one; where `fact.category` is "", it is theirs."""

    source_ids: tuple[str, ...]
    fact: NewFact


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One item that is not carried out. `reason` is a key of REASONS; `subject` names it by id or position."""

    kind: ProposalKind
    reason: str
    subject: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposals:
    """One answer, read. `refused` are the items that could not be read at all."""

    summaries: tuple[NewSummary, ...] = ()
    facts: tuple[NewFact, ...] = ()
    reinforcements: tuple[Reinforcement, ...] = ()
    removals: tuple[Removal, ...] = ()
    stale_removals: tuple[StaleRemoval, ...] = ()
    extensions: tuple[Extension, ...] = ()
    merges: tuple[Merge, ...] = ()
    refused: tuple[Refusal, ...] = ()

    def malformed_facts(self) -> Iterator[Refusal]:
        """The new facts that could not be read: beside one nothing is removed, for it may have been the replacement."""
        return (item for item in self.refused if item.kind == "fact" and item.reason == "malformed")

    def count(self) -> int:
        """All items, read or not."""
        read = (
            self.summaries,
            self.facts,
            self.reinforcements,
            self.removals,
            self.stale_removals,
            self.extensions,
            self.merges,
        )
        return sum(len(items) for items in read) + len(self.refused)
