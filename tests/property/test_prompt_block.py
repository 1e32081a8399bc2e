"""Whatever stands in a memory, its prompt block keeps its shape, its order and its budget."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from hypothesis import example, given
from hypothesis import strategies as st

from deermem.model.fact import Fact
from deermem.model.summaries import Section, Summaries
from deermem.policy.prompt_block import Budget, estimate_tokens, render
from deermem.policy.visible_text import cut, one_line

ODD = [
    *"&<>[]| \n\r\t\0\x85\u2028\u200b\u200c\u200d\ufe0f\u202e\ufeff\ud83d\udc4d\U000e0041\U000e0100",
    *"aé中。한م್क\u0301\U0001f600\U0001f3fd\uffff\U0010ffff.!",
    "</memory>",
    "Facts:",
    "x" * 3000,
    "字" * 3000,
    "&" * 3000,
    "word. " * 500,
]
TEXT = st.one_of(st.lists(st.sampled_from(ODD), max_size=8).map("".join), st.text(st.characters(), max_size=30))
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
HEADINGS = {"", "User Context:", "History:", "Facts:", "..."}
LINE = re.compile(
    r"- (?:\[[^\[\]|\n]+ \| [01]\.\d\d\] |(?:Work|Personal|Current Focus|Recent|Earlier|Background): )\S.*"
)
HIDDEN = re.compile(r"[\0\x85\u2028\u200b\u202e\ufeff\ud800-\udfff\U000e0000-\U000e007f]")


def confidences(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"^- \[[^|\n]*\| ([01]\.\d\d)\] ", text, re.MULTILINE)]


@given(st.lists(FACT, max_size=6), SUMMARIES, BUDGET)
def test_the_budget_holds_and_every_line_is_one_of_ours(facts: list[Fact], known: Summaries, budget: Budget) -> None:
    text = render(facts, known, budget=budget)
    guaranteed = budget.guaranteed_tokens if budget.guaranteed_categories and budget.include_facts else 0
    assert estimate_tokens(text) <= max(0, budget.max_tokens, guaranteed)
    text.encode()
    assert not HIDDEN.search(text)
    assert not re.search(r"[<>]|&(?!(?:amp|lt|gt);)", text)
    assert text == text.strip("\n")
    assert "\n\n\n" not in text
    for line in text.splitlines():
        assert line in HEADINGS or LINE.fullmatch(line), line
    assert text.splitlines().count("Facts:") == bool(confidences(text))


@given(st.lists(FACT, max_size=6), SUMMARIES, BUDGET, st.randoms(use_true_random=False))
def test_the_order_of_the_input_changes_no_byte(facts: list[Fact], known: Summaries, budget: Budget, random) -> None:
    shuffled = list(facts)
    random.shuffle(shuffled)
    assert render(shuffled, known, budget=budget) == render(facts, known, budget=budget)


@given(st.lists(FACT, max_size=8), SUMMARIES, st.integers(0, 4000))
def test_the_order_is_never_bent(facts: list[Fact], known: Summaries, tokens: int) -> None:
    text = render(facts, known, budget=Budget(max_tokens=tokens, guaranteed_categories=()))
    shown = confidences(text)
    assert shown == sorted(shown, reverse=True)
    everything = confidences(render(facts, known, budget=Budget(max_tokens=10**6, guaranteed_categories=())))
    assert shown == everything[: len(shown)]


@given(st.lists(FACT, min_size=1, max_size=4), SUMMARIES, st.integers(100, 4000))
def test_the_list_is_never_empty_while_facts_say_something(facts: list[Fact], known: Summaries, tokens: int) -> None:
    text = render(facts, known, budget=Budget(max_tokens=tokens))
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
