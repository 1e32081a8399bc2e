"""Whatever memory and conversation hold, no text closes, opens or forges a block of the prompt, or adds a fact."""

from __future__ import annotations

import re

from builders_policy import NOW, old_fact
from builders_prompts import asked, inside, shown
from hypothesis import given
from hypothesis import strategies as st

from deermem.extract.messages import Turn
from deermem.model.fact import Fact, Source
from deermem.model.summaries import SECTIONS, Section, Summaries
from deermem.policy.consolidation import Group
from deermem.policy.prompt_lines import says_something

PIECES = [
    "</facts>", "<facts>", "</conversation>", "<review>", "</merge>", "<", ">", "&lt;", "\n", "\r", "\u2028", "\x0b",
    "- [f_x | goal | 1.00] ", "[MANUAL] ", "[", "]", "|", "[\u200bMANUAL]", "［manual］", "(and 9 more not shown)",
    "{facts}", "{", "}", "{{", "%s", "\\1", "user.workContext: ", "User: ", "Assistant: ", "\u202e", "\ud800", "喜欢",
    "\U000e0041", "a" * 600, " ",
]  # fmt: skip
TEXT = st.one_of(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), st.text(st.characters(), max_size=12))
SOURCE = st.sampled_from([Source("manual"), Source("conversation", "t1"), Source("import")])
FACT = st.builds(
    lambda values, source: old_fact("f_1", **values, source=source),
    st.fixed_dictionaries(
        {"content": TEXT, "category": TEXT, "confidence": st.floats(), "source_error": TEXT | st.none()}
    ),
    SOURCE,
)  # fmt: skip
SUMMARIES = st.dictionaries(st.sampled_from(sorted(SECTIONS.values())), TEXT.map(Section)).map(
    lambda sections: Summaries(**sections)
)
TURNS = st.lists(st.builds(Turn, st.sampled_from(["user", "assistant"]), TEXT, st.just("k")), max_size=3)
TAGS = ("summaries", "facts", "review", "merge", "conversation")
LINE = re.compile(
    r"- \[f_\d \| [^][|<>\n]+ \| [01]\.\d\d(?: \| \d{4}-\d\d-\d\d \| valid:90d)?\] (\[MANUAL\] )?[^<>\n]+"
)


def numbered(facts: list[Fact]) -> list[Fact]:
    return [
        old_fact(f"f_{number}", **{name: getattr(fact, name) for name in ("content", "category", "confidence")},
                 source=fact.source, source_error=fact.source_error)
        for number, fact in enumerate(facts)
    ]  # fmt: skip


@given(st.lists(FACT, min_size=2, max_size=4).map(numbered), SUMMARIES, TURNS)
def test_no_text_closes_or_forges_a_block(facts: list[Fact], summaries: Summaries, turns: list[Turn]) -> None:
    group = Group(facts[0].category, tuple(fact.id for fact in facts))
    text = shown(facts=facts, summaries=summaries, turns=turns, stale=facts, groups=[group])
    said = [fact for fact in facts if says_something(fact)]
    tags = [tag for tag in TAGS if (tag != "review" or said) and (tag != "merge" or len(said) > 1)]
    assert re.findall(r"[<>]", text) == ["<", ">"] * 2 * len(tags)
    assert re.findall(r"<[^>]*>", text) == [each for tag in tags for each in (f"<{tag}>", f"</{tag}>")]
    marked = sum(fact.source.type == "manual" for fact in said)
    for tag in set(tags) & {"facts", "review", "merge"}:
        lines = [line for line in inside(text, tag).split("\n") if line != "(none)" or said]
        lines = lines[1:] if tag == "merge" else lines
        assert len(lines) == len(said)
        assert all(LINE.fullmatch(line) for line in lines), lines
        assert inside(text, tag).casefold().count("[manual]") == marked
    assert len(inside(text, "summaries").split("\n")) == len(SECTIONS)


@given(st.lists(FACT, max_size=3).map(numbered), TURNS)
def test_the_system_message_never_changes(facts: list[Fact], turns: list[Turn]) -> None:
    assert asked(facts=facts, turns=turns, now=NOW)[0] == asked()[0]
