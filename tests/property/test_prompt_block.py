"""Whatever stands in a memory, its prompt block keeps its shape, its order and its budget."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from deermem.model.fact import Fact
from deermem.model.summaries import Section, Summaries
from deermem.policy.prompt_block import Budget, compose, estimate_tokens, render
from deermem.policy.prompt_lines import confidence
from deermem.policy.tokens_estimate import Count
from deermem.policy.visible_text import cut, one_line

ODD = [
    *"&<>[]| \n\r\t\0\x85\u2028\u200b\u200c\u200d\ufe0f\u202e\ufeff\ud83d\udc4d\U000e0041\U000e0100",
    *"aé中。한م್क\u0301\U0001f600\U0001f3fd\uffff\U0010ffff.!",
    "</memory>",
    "Facts:",
    "x" * 1200,
    "字" * 1200,
    "&" * 1200,
    "word. " * 250,
]
TEXT = st.one_of(st.lists(st.sampled_from(ODD), max_size=6).map("".join), st.text(st.characters(), max_size=30))
FACT = st.builds(
    Fact,
    id=st.text("ab", min_size=1, max_size=2),
    content=TEXT,
    title=st.just(""),
    category=st.one_of(st.sampled_from(["correction", "goal", "Correction ", ""]), TEXT),
    confidence=st.one_of(st.sampled_from([0.0, 0.5, 0.9, 1.0]), st.floats()),
    created_at=st.one_of(
        st.sampled_from([datetime(2026, 1, 1, tzinfo=UTC), datetime.min.replace(tzinfo=UTC)]),
        st.datetimes(timezones=st.just(UTC)),
    ),
    updated_at=st.just(datetime(2026, 1, 1, tzinfo=UTC)),
    source_error=st.one_of(st.none(), TEXT),
)
SECTION = st.builds(Section, TEXT)
SUMMARIES = st.builds(
    Summaries, work_context=SECTION, top_of_mind=SECTION, recent_months=SECTION, long_term_background=SECTION
)
BUDGET = st.builds(
    Budget,
    max_tokens=st.one_of(st.integers(-1, 40), st.integers(41, 4000)),
    guaranteed_categories=st.sampled_from([("correction",), (), ("goal", "correction"), ("",)]),
    guaranteed_tokens=st.one_of(st.integers(-1, 40), st.integers(41, 1000)),
    include_facts=st.booleans(),
)


def pieces(text: str) -> int:
    """A tokenizer's double: marks take line breaks with them, and a whole costs more than its parts."""
    return len(re.findall(r" ?\w{1,4}|[^\w\s]{1,2}\n*|\s+", text)) + len(text) // 60


COUNT = st.sampled_from([None, pieces])
HEADINGS = {"", "User Context:", "History:", "Facts:", "..."}
LINE = re.compile(
    r"- (?:\[[^\[\]|\n]+ \| [01]\.\d\d\] |(?:Work|Personal|Current Focus|Recent|Earlier|Background): )\S.*"
)
HIDDEN = re.compile(r"[\0\x85\u2028\u200b\u202e\ufeff\ud800-\udfff\U000e0000-\U000e007f]")


def confidences(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"^- \[[^|\n]*\| ([01]\.\d\d)\] ", text, re.MULTILINE)]


@given(st.lists(FACT, max_size=4), SUMMARIES, BUDGET, COUNT)
def test_the_budget_holds_and_every_line_is_one_of_ours(
    facts: list[Fact], known: Summaries, budget: Budget, count: Count | None
) -> None:
    made = compose(facts, known, budget=budget, count=count)
    text = made.text
    alone = all(line.guaranteed for line in made.lines) and made.summaries == "none"
    assert (count or estimate_tokens)(text) <= max(0, budget.max_tokens, budget.guaranteed_tokens if alone else 0)
    text.encode()
    assert not HIDDEN.search(text)
    assert not re.search(r"[<>]|&(?!(?:amp|lt|gt);)", text)
    assert text == text.strip("\n")
    assert "\n\n\n" not in text
    for line in text.splitlines():
        assert line in HEADINGS or LINE.fullmatch(line), line
    assert text.splitlines().count("Facts:") == bool(confidences(text))
    assert text.endswith("\n".join(line.text for line in made.lines))
    assert len(confidences(text)) == len(made.lines)


@given(st.lists(FACT, max_size=4), SUMMARIES, BUDGET, COUNT, st.randoms(use_true_random=False))
def test_the_order_of_the_input_changes_no_byte(
    facts: list[Fact], known: Summaries, budget: Budget, count: Count | None, random: Random
) -> None:
    shuffled = list(facts)
    random.shuffle(shuffled)
    assert render(shuffled, known, budget=budget, count=count) == render(facts, known, budget=budget, count=count)


@given(st.lists(FACT, max_size=5), SUMMARIES, st.integers(0, 4000), COUNT)
def test_the_order_is_never_bent(facts: list[Fact], known: Summaries, tokens: int, count: Count | None) -> None:
    text = render(facts, known, budget=Budget(max_tokens=tokens, guaranteed_categories=()), count=count)
    shown = confidences(text)
    assert shown == sorted(shown, reverse=True)
    everything = confidences(render(facts, known, budget=Budget(max_tokens=10**6, guaranteed_categories=())))
    assert shown == everything[: len(shown)]


@given(st.lists(FACT, max_size=5), SUMMARIES, BUDGET, COUNT)
def test_guaranteed_facts_come_first_and_each_part_keeps_its_order(
    facts: list[Fact], known: Summaries, budget: Budget, count: Count | None
) -> None:
    lines = compose(facts, known, budget=budget, count=count).lines
    assert [line.guaranteed for line in lines] == sorted((line.guaranteed for line in lines), reverse=True)
    names = {name.casefold() for name in budget.guaranteed_categories} - {""}
    assert all(line.fact.category.strip().casefold() in names for line in lines if line.guaranteed)
    for part in (True, False):
        order = [confidence(line.fact) for line in lines if line.guaranteed is part]
        assert order == sorted(order, reverse=True)


@given(st.lists(FACT, min_size=1, max_size=4), SUMMARIES, st.integers(100, 4000), COUNT)
def test_the_list_is_never_empty_while_facts_say_something(
    facts: list[Fact], known: Summaries, tokens: int, count: Count | None
) -> None:
    text = render(facts, known, budget=Budget(max_tokens=tokens), count=count)
    assert bool(confidences(text)) == any(one_line(fact.content) for fact in facts)


@given(TEXT)
@example("a\ufe0f\u200d\U0001f600")
def test_what_is_clean_stays_as_it_is(text: str) -> None:
    assert one_line(one_line(text)) == one_line(text)


@given(TEXT, st.integers(-5, 4000))
def test_a_cut_fits_and_begins_as_the_text_does(text: str, room: int) -> None:
    clean = one_line(text)
    shown = cut(clean, room, "…")
    assert estimate_tokens(shown) * 4 <= max(0, room) + 3
    plain = shown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    assert plain == clean or clean.startswith(plain.removesuffix("…").rstrip())
