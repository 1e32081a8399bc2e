"""Memory as text for a prompt: the summaries, then the facts, within a token budget.

The same memory, counted alike, gives the same bytes, whatever the order it arrives in, so that a provider's prompt
cache holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from deermem.model.context_block import SummariesShown
from deermem.model.fact import Fact
from deermem.model.summaries import Summaries
from deermem.policy.prompt_lines import Line, cut_first, fill, ranked, word
from deermem.policy.tokens_estimate import ESTIMATE, Count, Measure, estimate_tokens
from deermem.policy.visible_text import escape, one_line, shorten

__all__ = ["Budget", "Composed", "Line", "compose", "estimate_tokens", "render"]

_CONTEXT: Final = (
    ("User Context:", {"Work": "work_context", "Personal": "personal_context", "Current Focus": "top_of_mind"}),
    ("History:", {"Recent": "recent_months", "Earlier": "earlier_context", "Background": "long_term_background"}),
)
_FACTS: Final = "Facts:"
_GAP: Final = "\n\n"
_CLIPPED: Final = "..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What the block may cost, in tokens; 0 or less is nothing.

    Facts of `guaranteed_categories` come first, as many as fit into `guaranteed_tokens`; where that is more than
    `max_tokens`, the ceiling rises for them alone. No category, or 0 tokens: no fact is preferred.
    `include_facts` False is for a model that has memory tools: it gets the summaries only.
    Raises TypeError for `guaranteed_categories` as a bare string, which would be read letter by letter, and for
    a category that is no string.
    """

    max_tokens: int = 2_000
    guaranteed_categories: Sequence[str] = ("correction",)
    guaranteed_tokens: int = 500
    include_facts: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.guaranteed_categories, str):
            raise TypeError("guaranteed_categories is a string; give a list of category words")
        if not all(isinstance(name, str) for name in self.guaranteed_categories):
            raise TypeError(f"guaranteed_categories is {self.guaranteed_categories!r:.60}; give a list of words")


@dataclass(frozen=True, slots=True)
class Composed:
    """The block, the lines of its facts in the order shown, what became of the summaries, the guaranteed tokens."""

    text: str
    lines: tuple[Line, ...]
    summaries: SummariesShown
    guaranteed_tokens: int


def render(facts: Sequence[Fact], summaries: Summaries, *, budget: Budget, count: Count | None = None) -> str:
    """The text that `compose` makes."""
    return compose(facts, summaries, budget=budget, count=count).text


def compose(facts: Sequence[Fact], summaries: Summaries, *, budget: Budget, count: Count | None = None) -> Composed:
    """The block for a prompt, "" for an empty memory; at most max(max_tokens, guaranteed_tokens) long.

    `count` None is `estimate_tokens`. Facts go by confidence, then the newer, then id; the first that doesn't fit
    ends the list, so the order is never bent. Were there none, the first is cut, so the list is empty only where
    there is no fact or no room. Summaries give way: facts may have what these leave, and half of the budget in any
    case; the tail of the summaries is then clipped with "...". What facts are served (expiry, scope) is the
    caller's matter.
    """
    measure = ESTIMATE if count is None else Measure(count)
    pieces = _context(summaries)
    order = ranked(facts) if budget.include_facts else []
    slack = 0
    while True:
        found, ceiling = _attempt(order, pieces, budget, measure, slack)
        over = measure.cost(found.text) - ceiling
        if over <= 0 or not found.text:
            return found
        # A tokenizer may count more for the whole than for its lines; twice as much each time ends soon.
        slack += max(over, slack)


def _attempt(
    order: Sequence[Fact], pieces: Sequence[tuple[str, str]], budget: Budget, measure: Measure, slack: int
) -> tuple[Composed, int]:
    """A block and what it may cost: its lines fit, each counted by itself, with `slack` left free."""
    ceiling = measure.unit * max(0, budget.max_tokens)
    own = measure.unit * budget.guaranteed_tokens
    names = {word(name) for name in budget.guaranteed_categories} - {""} if own > 0 else set()
    total = ceiling - slack
    lines: list[Line] = []
    if order:
        taken = measure.within(f"{_joined(pieces)}{_GAP}", total) if pieces else 0
        lines = _choose(order, names, (own - slack, max(total - taken, total // 2)), measure)
    block = "\n".join((_FACTS, *(line.text for line in lines))) if lines else ""
    used = measure.cost(_GAP) + _header(measure) + sum(line.cost for line in lines) if lines else 0
    context = _clip(pieces, total - used, measure)
    spent = sum(line.cost for line in lines if line.guaranteed)
    shown: SummariesShown = "none" if not context else "whole" if context == _joined(pieces) else "clipped"
    composed = Composed(_GAP.join(filter(None, (context, block))), tuple(lines), shown, measure.tokens(spent))
    raised = bool(lines) and not context and all(line.guaranteed for line in lines)
    return composed, max(ceiling, own) if raised else ceiling


# --- the summaries


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


def _clip(pieces: Sequence[tuple[str, str]], room: int, measure: Measure) -> str:
    whole = _joined(pieces)
    if measure.within(whole, room) <= room:
        return whole
    kept = ""
    for title, text in pieces:
        line = f"{title}{escape(text)}"
        cost = measure.within(line, room)
        if cost > room - measure.cost(_CLIPPED):
            shortened = shorten(text, min(room, cost - 1) - measure.cost(title), _CLIPPED, measure.cost)
            return f"{kept}{title}{shortened}" if shortened else f"{kept}{_CLIPPED}" if kept else ""
        kept += line
        room -= cost
    return kept


# --- the facts


def _choose(order: Sequence[Fact], names: set[str], rooms: tuple[int, int], measure: Measure) -> list[Line]:
    """The guaranteed facts within their own room, the first of the two, then all others within the second."""
    own, room = (each - _header(measure) for each in rooms)
    first = [fact for fact in order if word(fact.category) in names]
    lines = fill(first, own, measure, guaranteed=True) or cut_first(first, max(own, room), measure, guaranteed=True)
    left = room - sum(line.cost for line in lines)
    taken = {id(line.fact) for line in lines}
    lines += fill((fact for fact in order if id(fact) not in taken), left, measure)
    return lines or cut_first(order, room, measure)


def _header(measure: Measure) -> int:
    # Each line is counted with its line break, and the last has none.
    return measure.cost(f"{_FACTS}\n") - measure.cost("\n")
