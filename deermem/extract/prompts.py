"""What a model is asked: what the memory holds and what was said, as two messages.

All of it is escaped where it enters, and what is one item stands on one line: no text closes its block or opens
another, and none passes for a second fact.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from deermem.extract.messages import Turn
from deermem.extract.signals import SIGNALS
from deermem.extract.templates import Template, fill
from deermem.extract.transcript import transcript
from deermem.model.fact import DEFAULT_CATEGORY, Fact
from deermem.model.summaries import HISTORY_SECTIONS, USER_SECTIONS, Summaries
from deermem.policy.consolidation import Group
from deermem.policy.decay import aware
from deermem.policy.prompt_lines import confidence, ranked, says_something, word
from deermem.policy.staleness import StalenessRules, reference, window_days
from deermem.policy.visible_text import cut, escape, one_line

MAX_SHOWN: Final = 200
MAX_REVIEWED: Final = 50
LONGEST_FACT: Final = 500
LONGEST_SUMMARY: Final = 4_000
"""Characters, entities counted as what they are written with; what is longer is cut."""

MANUAL: Final = "[MANUAL] "
_NONE: Final = "(none)"
_CUT: Final = "…"
# A summary that is written anew after its end was not seen would lose that end.
_CUT_SUMMARY: Final = " [… too long to be shown whole; leave this one as it is]"
_LABEL_MARKS: Final = str.maketrans("[]|", "()/")
_FORGED_MARK: Final = re.compile(r"[\[［]\s*(manual)\s*[\]］]", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRequest:
    """What one call is about.

    `facts` are all that live; the `max_shown` best of them are shown. `turns` are those to learn from. `stale` and
    `groups` are what `policy/` offers for review and merging; without them nothing is asked of the kind.
    """

    summaries: Summaries
    facts: Sequence[Fact]
    turns: Sequence[Turn]
    now: datetime
    signals: Collection[str] = ()
    stale: Sequence[Fact] = ()
    groups: Sequence[Group] = ()
    staleness: StalenessRules = field(default_factory=StalenessRules)
    max_shown: int = MAX_SHOWN


def build(template: Template, request: PromptRequest) -> list[dict[str, str]]:
    """The system message, the same in every call, and the user message, as `{"role", "content"}` mappings."""
    values = {
        "today": aware(request.now).astimezone(UTC).date().isoformat(),
        "summaries": _summaries(request.summaries),
        "facts": _facts(request.facts, request.max_shown),
        "signals": ", ".join(name for name in SIGNALS if name in request.signals) or "none",
        "staleness": _review(template.staleness, request),
        "consolidation": _merging(template.consolidation, request),
        "conversation": transcript(request.turns) or _NONE,
    }
    return [
        {"role": "system", "content": template.system},
        {"role": "user", "content": fill(template.user, values)},
    ]


def _summaries(summaries: Summaries) -> str:
    lines: list[str] = []
    for group, names in (("user", USER_SECTIONS), ("history", HISTORY_SECTIONS)):
        for key, name in names.items():
            text = cut(one_line(summaries.section(name).summary), LONGEST_SUMMARY, _CUT_SUMMARY, len)
            lines.append(f"{group}.{key}: {text or _NONE}")
    return "\n".join(lines)


def _facts(facts: Iterable[Fact], most: int) -> str:
    order = [fact for fact in ranked(facts) if says_something(fact)]
    return _listed([_line(fact) for fact in order[:most]], len(order) - most)


def _review(text: str, request: PromptRequest) -> str:
    order = [fact for fact in request.stale if fact.id and says_something(fact)]
    if not order:
        return ""
    lines = [_line(fact, *_age(fact, request.staleness)) for fact in order[:MAX_REVIEWED]]
    listed = _listed(lines, len(order) - MAX_REVIEWED)
    return fill(text, {"candidates": listed, "count": str(len(lines))})


def _age(fact: Fact, rules: StalenessRules) -> tuple[str, str]:
    return reference(fact).date().isoformat(), f"valid:{window_days(fact, rules)}d"


def _merging(text: str, request: PromptRequest) -> str:
    blocks = list(_groups(request.groups, {fact.id: fact for fact in request.facts}))
    return fill(text, {"groups": "\n".join(blocks), "count": str(len(blocks))}) if blocks else ""


def _groups(groups: Iterable[Group], known: Mapping[str, Fact]) -> Iterator[str]:
    for group in groups:
        facts = [known[fact_id] for fact_id in group.ids if fact_id in known and says_something(known[fact_id])]
        if len(facts) > 1:
            yield "\n".join((f"{_label(group.category)} (count={len(facts)}):", *map(_line, facts)))


def _listed(lines: Sequence[str], more: int) -> str:
    rest = (f"(and {more} more not shown)",) if more > 0 else ()
    return "\n".join((*lines, *rest)) or _NONE


def _line(fact: Fact, *further: str) -> str:
    parts = (escape(one_line(fact.id)), _label(fact.category), f"{confidence(fact):.2f}", *further)
    mark = MANUAL if fact.source.type == "manual" else ""
    return f"- [{' | '.join(filter(None, parts))}] {mark}{cut(_statement(fact), LONGEST_FACT, _CUT, len)}"


def _label(category: str) -> str:
    # A category that closes the bracket could show another confidence, or the mark of a person's hand.
    return escape(one_line(category).translate(_LABEL_MARKS)) or DEFAULT_CATEGORY


def _statement(fact: Fact) -> str:
    content = one_line(fact.content)
    wrong = one_line(fact.source_error or "") if word(fact.category) == "correction" else ""
    stated = f"{content} (avoid: {wrong})" if wrong else content
    return _FORGED_MARK.sub(r"(\1)", stated)
