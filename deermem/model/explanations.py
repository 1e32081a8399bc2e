"""Why a search found what it found, and why it did not find something."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from deermem.model.records import SearchHit

QueryForm = Literal["words", "phrases", "operators", "nothing"]
TermWord = Literal["word", "character", "prefix", "phrase"]
AbsenceReason = Literal[
    "found",
    "no-shared-term",
    "filtered",
    "below-limit",
    "not-indexed",
    "expired",
    "unreadable",
    "shadowed",
    "unknown",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryReading:
    """A query as it was understood.

    `words` are looked for, `dropped` are stop words, `operators` are AND, OR and NOT as they stand; `expression` is
    what the index is asked.
    """

    text: str
    form: QueryForm
    words: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    expression: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TermMatch:
    """A term of the query that a hit has: how often, in how many facts of the user, and its BM25 part of the score.

    `facts` is 0 where nobody counted, as for single characters, whose weight is an estimate; `score` is 0 where the
    built-in index did not answer.
    """

    term: str
    kind: TermWord
    times: int
    facts: int = 0
    score: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedHit:
    """A hit and the parts of its score, which add up to it (but for its six decimals).

    `place` counts from 1. `coverage` is what the covered share of the query adds, `recency` what the age adds;
    `confidence` orders the hits of a substring search, else it only parts equals and adds nothing; `adapter` is
    the score that an adapter gave.
    """

    hit: SearchHit
    place: int
    terms: tuple[TermMatch, ...] = ()
    coverage: float = 0.0
    recency: float = 0.0
    confidence: float = 0.0
    adapter: float = 0.0

    @property
    def bm25(self) -> float:
        """The terms' part of the score."""
        return sum(term.score for term in self.terms)

    @property
    def sum(self) -> float:
        """All parts."""
        return self.bm25 + self.coverage + self.recency + self.confidence + self.adapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """Why a fact is not among the hits, in one word and in one sentence; "found" where it is.

    `path` is the file that the sentence is about, absolute; `place` and `score` are set for "found" and
    "below-limit", `filters` names the filters that keep it out.
    """

    fact_id: str
    reason: AbsenceReason
    message: str
    path: str = ""
    place: int = 0
    score: float = 0.0
    filters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A search laid open. `total` is how many facts match before the limit; `why` answers for the fact asked about."""

    query: QueryReading
    hits: tuple[ExplainedHit, ...] = ()
    total: int = 0
    why: Absence | None = None
