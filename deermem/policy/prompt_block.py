"""Memory as text for a prompt: the summaries, then the facts, within a token budget.

The same memory gives the same bytes, whatever the order it arrives in, so that a provider's prompt cache holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from deermem.model.fact import DEFAULT_CATEGORY, DEFAULT_CONFIDENCE, Fact
from deermem.model.summaries import Summaries
from deermem.policy.tokens_estimate import QUARTERS, estimate_tokens, quarter_tokens
from deermem.policy.visible_text import cut, escape, one_line

__all__ = ["Budget", "estimate_tokens", "render"]

_CONTEXT: Final = (
    ("User Context:", {"Work": "work_context", "Personal": "personal_context", "Current Focus": "top_of_mind"}),
    ("History:", {"Recent": "recent_months", "Earlier": "earlier_context", "Background": "long_term_background"}),
)
_FACTS: Final = "Facts:"
_GAP: Final = "\n\n"
_CLIPPED: Final = "..."
_CUT: Final = "…"
_LABEL_MARKS: Final = str.maketrans("[]|", "()/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What the block may cost, in tokens as `estimate_tokens` counts them; 0 or less is nothing.

    Facts of `guaranteed_categories` come first, as many as fit into `guaranteed_tokens`; where that is more than
    `max_tokens`, the ceiling rises for them alone. No category, or 0 tokens: no fact is preferred.
    `include_facts` False is for a model that has memory tools: it gets the summaries only.
    Raises TypeError for `guaranteed_categories` as a bare string, which would be read letter by letter.
    """

    max_tokens: int = 2_000
    guaranteed_categories: Sequence[str] = ("correction",)
    guaranteed_tokens: int = 500
    include_facts: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.guaranteed_categories, str):
            raise TypeError("guaranteed_categories is a string; give a list of category words")


def render(facts: Sequence[Fact], summaries: Summaries, *, budget: Budget) -> str:
    """The block for a prompt, "" for an empty memory; at most max(max_tokens, guaranteed_tokens) long.

    Facts go by confidence, then the newer, then id; the first that doesn't fit ends the list, so the order is
    never bent. Were there none, the first is cut, so the list is empty only where there is no fact or no room.
    Summaries give way: facts may have what these leave, and half of the budget in any case; the tail of the
    summaries is then clipped with "...". What facts are served (expiry, status, scope) is the caller's matter.
    """
    ceiling = QUARTERS * max(0, budget.max_tokens)
    context = _context(summaries)
    lines: list[str] = []
    if budget.include_facts:
        taken = quarter_tokens(f"{_joined(context)}{_GAP}") if context else 0
        lines = _choose(_ranked(facts), max(ceiling - taken, ceiling // 2), budget)
    block = "\n".join((_FACTS, *lines)) if lines else ""
    room = ceiling - quarter_tokens(block) - (len(_GAP) if block else 0)
    return _GAP.join(filter(None, (_clip(context, room), block)))


def _context(summaries: Summaries) -> list[tuple[str, str]]:
    pieces: list[tuple[str, str]] = []
    for title, names in _CONTEXT:
        texts = {label: one_line(summaries.section(name).summary) for label, name in names.items()}
        opening = f"{_GAP if pieces else ''}{title}"
        for label, text in texts.items():
            if text:
                pieces.append((f"{opening}\n- {label}: ", text))
                opening = ""
    return pieces


def _joined(pieces: Iterable[tuple[str, str]]) -> str:
    return "".join(f"{title}{escape(text)}" for title, text in pieces)


def _clip(pieces: Sequence[tuple[str, str]], room: int) -> str:
    whole = _joined(pieces)
    if quarter_tokens(whole) <= room:
        return whole
    kept = ""
    for title, text in pieces:
        line = f"{title}{escape(text)}"
        cost = quarter_tokens(line)
        if cost > room - len(_CLIPPED):
            shortened = cut(text, min(room, cost - 1) - quarter_tokens(title), _CLIPPED)
            return f"{kept}{title}{shortened}" if shortened else f"{kept}{_CLIPPED}" if kept else ""
        kept += line
        room -= cost
    return kept


def _ranked(facts: Iterable[Fact]) -> list[Fact]:
    # Ids may repeat where a caller joins two buckets: without the texts the order would then be the input's.
    ranked = sorted(facts, key=lambda fact: (fact.id, fact.content, fact.category, fact.source_error or ""))
    ranked.sort(key=attrgetter("created_at"), reverse=True)
    ranked.sort(key=_confidence, reverse=True)
    return ranked


def _choose(ranked: Sequence[Fact], room: int, budget: Budget) -> list[str]:
    room -= len(_FACTS)
    own = QUARTERS * budget.guaranteed_tokens - len(_FACTS)
    names = {_word(name) for name in budget.guaranteed_categories} - {""} if own > 0 else set()
    first = [position for position, fact in enumerate(ranked) if _word(fact.category) in names]
    lines = _fill(ranked, first, own) or _cut_first(ranked, first, max(own, room))
    left = room - sum(quarter_tokens(line) + 1 for line in lines.values())
    lines |= _fill(ranked, (position for position in range(len(ranked)) if position not in lines), left)
    return list((lines or _cut_first(ranked, range(len(ranked)), room)).values())


def _fill(ranked: Sequence[Fact], positions: Iterable[int], room: int) -> dict[int, str]:
    lines: dict[int, str] = {}
    for position in positions:
        statement = _statement(ranked[position])
        line = f"{_label(ranked[position], escape(_category(ranked[position])))}{escape(statement)}"
        if not statement:
            continue
        room -= quarter_tokens(line) + 1
        if room < 0:
            break
        lines[position] = line
    return lines


def _cut_first(ranked: Sequence[Fact], positions: Iterable[int], room: int) -> dict[int, str]:
    for position in positions:
        if _statement(ranked[position]):
            line = _cut_line(ranked[position], room - 1)
            return {position: line} if line else {}
    return {}


def _cut_line(fact: Fact, room: int) -> str:
    whole = f"{_label(fact, escape(_category(fact)))}{escape(_statement(fact))}"
    if quarter_tokens(whole) <= room:
        return whole
    category = cut(_category(fact), room // 2, _CUT)
    label = _label(fact, category)
    statement = cut(_statement(fact), room - quarter_tokens(label), _CUT)
    return f"{label}{statement}" if category and statement else ""


def _label(fact: Fact, category: str) -> str:
    return f"- [{category} | {_confidence(fact):.2f}] "


def _category(fact: Fact) -> str:
    # A category that closes the bracket could show a confidence that the fact doesn't have.
    return one_line(fact.category).translate(_LABEL_MARKS) or DEFAULT_CATEGORY


def _statement(fact: Fact) -> str:
    content = one_line(fact.content)
    wrong = one_line(fact.source_error or "") if _word(fact.category) == "correction" else ""
    return f"{content} (avoid: {wrong})" if content and wrong else content


def _confidence(fact: Fact) -> float:
    value = fact.confidence if math.isfinite(fact.confidence) else DEFAULT_CONFIDENCE
    return min(1.0, max(0.0, value))


def _word(category: str) -> str:
    return category.strip().casefold()
