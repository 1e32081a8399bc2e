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


def rank(
    candidates: Sequence[Candidate], terms: Sequence[Term], statistics: Statistics, now: float
) -> list[tuple[float, Candidate]]:
    """All candidates with their scores, best first; `now` in unix seconds."""
    weights = {term: inverse_frequency(statistics, term) for term in terms}
    total = sum(weights.values()) or 1.0
    counter = _Counter(weights)
    scored = [(_score(item, counter, statistics.mean_length), item) for item in candidates]
    final = [
        (round(relevance * (1 + COVERAGE * covered / total) * recency(item.updated, now), 6), item)
        for (relevance, covered), item in scored
    ]
    return sorted(final, key=lambda pair: (-pair[0], -pair[1].confidence, -pair[1].updated, pair[1].row_id))


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
        groups: dict[str, list[tuple[str, str, float]]] = {}
        for term, weight in weights.items():
            needle = f" {term.text}" if term.kind in ("character", "prefix") else f" {term.text} "
            groups.setdefault(term.text[0], []).append((term.text[-1], needle, weight))
        self._groups = list(groups.items())

    def count(self, body: str) -> list[tuple[float, int]]:
        """The weight of every term that is there, and how often it is there."""
        padded = f" {body} "
        return [
            (weight, times)
            for first, group in self._groups
            if first in body
            for last, needle, weight in group
            if last in body and (times := padded.count(needle))
        ]


def _score(item: Candidate, counter: _Counter, mean_length: float) -> tuple[float, float]:
    damping = K1 * (1 - B + B * item.length / (mean_length or 1.0))
    relevance = covered = 0.0
    for weight, times in counter.count(item.body):
        covered += weight
        relevance += weight * times * (K1 + 1) / (times + damping)
    return relevance, covered
