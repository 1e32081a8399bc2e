"""The block of memory for a prompt, and what a host records of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CountedBy = Literal["tiktoken", "estimate"]
SummariesShown = Literal["none", "whole", "clipped"]
LeftOutReason = Literal["budget", "expired", "tool-mode", "blank"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A fact that is not in the block, and why.

    "budget": the room was used up by those before it. "expired": its time is over. "tool-mode": the model has
    tools for facts. "blank": nothing of its content can be seen.
    """

    id: str
    why: LeftOutReason
    category: str
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextBlock:
    """What goes into a prompt, and what identifies it.

    `digest` is "sha256:" and 64 hex digits over the text in UTF-8: the same text, the same digest, on every machine.
    `tokens` is what the whole text costs as `counted_by` counts, `max_tokens` what it may; `guaranteed_tokens` of them
    go to the facts that are `guaranteed`, which may have `guaranteed_limit`. `facts` are ids in the order shown; those
    in `shortened` lack their end. `left_out` has the best first, and those that expired last.
    """

    text: str
    digest: str
    tokens: int
    counted_by: CountedBy
    max_tokens: int
    guaranteed_tokens: int
    guaranteed_limit: int
    summaries: SummariesShown
    facts: tuple[str, ...] = ()
    guaranteed: tuple[str, ...] = ()
    shortened: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
