"""The order of what was found: one pure function over the candidates.

    score = relevance × coverage × recency

- relevance: BM25 with k1 = 1.2 and b = 0.3 (facts are short, length says little) over words, compounds, character
  pairs and single Han characters; idf = ln(1 + (N − n + ½) / (n + ½)) is never zero, so that a term in half of
  ten facts still ranks.
- coverage: 1 + 0.3 × the idf-weighted share of the query's terms that the fact has.
- recency: 1 + 0.05 / (1 + years since the last update, in whole days): at most five parts in a hundred, so that
  last year's exact match beats this week's near miss while of two equals the newer one wins.

Scores are rounded to six decimals; confidence, then the later update, parts only what is equal then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Final, NamedTuple

from deermem.index.query import Term

K1: Final = 1.2
B: Final = 0.3
COVERAGE: Final = 0.3
RECENCY: Final = 0.05
DAY: Final = 86_400
YEAR: Final = 365.25 * DAY


class Candidate(NamedTuple):
    """A fact that matched. `body` and `length` are as `index_text` made them; `updated` is in unix seconds."""

    row_id: int
    body: str
    length: int
    updated: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Statistics:
    """The user's store: its number of facts, their mean length in tokens, and how many facts have a term."""

    facts: int
    mean_length: float
    frequencies: Mapping[Term, int]


class Parts(NamedTuple):
    """A score taken apart: it is their sum, rounded."""

    relevance: float
    """BM25 of all terms."""
    coverage: float
    """What the share of the query that the fact covers adds."""
    recency: float
    """What the fact's age adds."""

    @property
    def score(self) -> float:
        """What hits are ordered by."""
        return round(self.relevance + self.coverage + self.recency, 6)


class Counted(NamedTuple):
    """One term in one fact: how often it is there, and its share of `Parts.relevance`."""

    term: Term
    times: int
    bm25: float


def rank(
    candidates: Sequence[Candidate], terms: Sequence[Term], statistics: Statistics, now: float
) -> list[tuple[float, Candidate]]:
    """All candidates with their scores, best first, full equals as they were given; `now` in unix seconds."""
    scorer = Scorer(terms, statistics, now)
    final = [(scorer.parts(item).score, item) for item in candidates]
    return sorted(final, key=lambda pair: (-pair[0], -pair[1].confidence, -pair[1].updated))


class Scorer:
    """The ranking function for one query over one store; `now` in unix seconds."""

    def __init__(self, terms: Sequence[Term], statistics: Statistics, now: float) -> None:
        weights = {term: inverse_frequency(statistics, term) for term in terms}
        self._total = sum(weights.values()) or 1.0
        self._counter = _Counter(weights)
        self._mean_length = statistics.mean_length or 1.0
        self._now = now

    def parts(self, item: Candidate) -> Parts:
        """The candidate's score, taken apart."""
        damping = self._damping(item)
        relevance = covered = 0.0
        for _, weight, times in self._counter.count(item.body):
            covered += weight
            relevance += _bm25(weight, times, damping)
        coverage = relevance * COVERAGE * covered / self._total
        return Parts(relevance, coverage, (relevance + coverage) * (recency(item.updated, self._now) - 1))

    def counted(self, item: Candidate) -> list[Counted]:
        """Every term that the candidate has; their `bm25` add up to its relevance."""
        damping = self._damping(item)
        return [
            Counted(term, times, _bm25(weight, times, damping))
            for term, weight, times in self._counter.count(item.body)
        ]

    def _damping(self, item: Candidate) -> float:
        return K1 * (1 - B + B * item.length / self._mean_length)


def _bm25(weight: float, times: int, damping: float) -> float:
    return weight * times * (K1 + 1) / (times + damping)


def inverse_frequency(statistics: Statistics, term: Term) -> float:
    """How much a term tells; above zero even where every fact has it."""
    found = min(statistics.frequencies.get(term, 0), statistics.facts)
    return log(1 + (statistics.facts - found + 0.5) / (found + 0.5))


def recency(updated: float, now: float) -> float:
    """The factor of a fact's age; what lies in the future is as of now."""
    days = max(now - updated, 0.0) // DAY
    return 1 + RECENCY / (1 + days * DAY / YEAR)


class _Counter:
    """Counts the terms of a query in a body; a token that repeats at once counts once.

    First and last characters are asked for before the term itself: most Han characters don't occur in a fact, and
    asking for one is six times cheaper than asking for a pair.
    """

    def __init__(self, weights: Mapping[Term, float]) -> None:
        groups: dict[str, list[tuple[str, str, Term, float]]] = {}
        for term, weight in weights.items():
            needle = f" {term.text}" if term.kind in ("character", "prefix") else f" {term.text} "
            groups.setdefault(term.text[0], []).append((term.text[-1], needle, term, weight))
        self._groups = list(groups.items())

    def count(self, body: str) -> list[tuple[Term, float, int]]:
        """Every term that is there, its weight, and how often it is there."""
        padded = f" {body} "
        return [
            (term, weight, times)
            for first, group in self._groups
            if first in body
            for last, needle, term, weight in group
            if last in body and (times := padded.count(needle))
        ]
