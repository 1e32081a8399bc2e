"""The facts of a prompt block: their order, one line each, and as many as there is room for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from deermem.model.fact import DEFAULT_CATEGORY, DEFAULT_CONFIDENCE, Fact
from deermem.policy.tokens_estimate import Measure
from deermem.policy.visible_text import cut, escape, one_line

_CUT: Final = "…"
_LABEL_MARKS: Final = str.maketrans("[]|", "()/")


@dataclass(frozen=True, slots=True)
class Line:
    """A fact as it is shown, and what that costs with its line break; `cut` where its end is missing."""

    fact: Fact
    text: str
    cost: int
    guaranteed: bool = False
    cut: bool = False


def ranked(facts: Iterable[Fact]) -> list[Fact]:
    """By confidence, then the newer, then id."""
    # Ids may repeat where a caller joins two buckets: without the texts the order would then be the input's.
    found = sorted(facts, key=lambda fact: (fact.id, fact.content, fact.category, fact.source_error or ""))
    found.sort(key=attrgetter("created_at"), reverse=True)
    found.sort(key=confidence, reverse=True)
    return found


def fill(facts: Iterable[Fact], room: int, measure: Measure, guaranteed: bool = False) -> list[Line]:
    """The lines of the facts up to the first that doesn't fit; a fact that says nothing takes no line."""
    lines: list[Line] = []
    for fact in facts:
        text = _line(fact)
        if not text:
            continue
        cost = measure.within(f"{text}\n", room)
        if cost > room:
            break
        room -= cost
        lines.append(Line(fact, text, cost, guaranteed))
    return lines


def cut_first(facts: Iterable[Fact], room: int, measure: Measure, guaranteed: bool = False) -> list[Line]:
    """The first fact that says something, cut where it must be; none where not even a character of it fits."""
    for fact in facts:
        whole = _line(fact)
        if whole:
            text = _cut_line(fact, whole, room - measure.cost("\n"), measure)
            return [Line(fact, text, measure.cost(f"{text}\n"), guaranteed, text != whole)] if text else []
    return []


def says_something(fact: Fact) -> bool:
    """Whether anything is left of the content when what nobody sees is taken away."""
    return one_line(fact.content) != ""


def confidence(fact: Fact) -> float:
    """The confidence as it is shown and ranked: from 0 to 1, the default where it is no number."""
    value = fact.confidence if math.isfinite(fact.confidence) else DEFAULT_CONFIDENCE
    return min(1.0, max(0.0, value))


def word(category: str) -> str:
    """A category as it is compared."""
    return category.strip().casefold()


def _line(fact: Fact) -> str:
    statement = _statement(fact)
    return f"{_label(fact, escape(_category(fact)))}{escape(statement)}" if statement else ""


def _cut_line(fact: Fact, whole: str, room: int, measure: Measure) -> str:
    if measure.within(whole, room) <= room:
        return whole
    category = cut(_category(fact), room // 2, _CUT, measure.cost)
    label = _label(fact, category)
    statement = cut(_statement(fact), room - measure.cost(label), _CUT, measure.cost)
    return f"{label}{statement}" if category and statement else ""


def _label(fact: Fact, category: str) -> str:
    return f"- [{category} | {confidence(fact):.2f}] "


def _category(fact: Fact) -> str:
    # A category that closes the bracket could show a confidence that the fact doesn't have.
    return one_line(fact.category).translate(_LABEL_MARKS) or DEFAULT_CATEGORY


def _statement(fact: Fact) -> str:
    content = one_line(fact.content)
    wrong = one_line(fact.source_error or "") if word(fact.category) == "correction" else ""
    return f"{content} (avoid: {wrong})" if content and wrong else content
