"""The block where somebody counts whose count of a whole is not the sum of its parts, as a tokenizer's isn't."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from deermem.model.fact import Fact
from deermem.model.summaries import Section, Summaries
from deermem.policy.prompt_block import Budget, compose, render
from deermem.policy.tokens_estimate import ESTIMATE, Measure, estimate_tokens

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
NOTHING = Summaries()


def words(text: str) -> int:
    """As a tokenizer does: short pieces of words, marks that take a line break with them."""
    return len(re.findall(r" ?\w{1,5}|[^\w\s]+\n*|\s+", text))


def dear(text: str) -> int:
    """More for the whole than for its parts."""
    return words(text) + len(text) // 30


def cheap(text: str) -> int:
    """Less for the whole than for its parts."""
    return -(-len(text) // 100)


def fact(content: str, confidence: float = 0.9, category: str = "goal") -> Fact:
    return Fact(
        id=f"{category}-{confidence}",
        content=content,
        title="",
        category=category,
        confidence=confidence,
        created_at=MOMENT,
        updated_at=MOMENT,
    )


FACTS = [fact(f"The number {n} says, in so many words: take the {n}th road." * 2, 1 - n / 100) for n in range(60)]
FIXES = [fact(f"Not the {n}th road, the other one.", n / 100, "correction") for n in range(60)]
KNOWN = Summaries(work_context=Section("Maps the roads. " * 40), top_of_mind=Section("The bridge. " * 20))


@pytest.mark.parametrize("count", [words, dear, cheap, estimate_tokens, len])
@pytest.mark.parametrize("tokens", [3, 10, 40, 100, 333, 1000, 2000])
def test_the_whole_text_never_costs_more_than_the_budget(count, tokens):
    for known in (NOTHING, KNOWN):
        text = render(FACTS, known, budget=Budget(max_tokens=tokens, guaranteed_tokens=0), count=count)
        assert count(text) <= tokens


@pytest.mark.parametrize("count", [words, dear])
def test_little_of_the_budget_is_left_unused(count):
    for tokens in (200, 500, 1000):
        made = compose(FACTS, NOTHING, budget=Budget(max_tokens=tokens), count=count)
        assert tokens - count(made.text) <= 2 * count(made.lines[-1].text)


def test_the_facts_shown_are_the_first_ones():
    for tokens in range(20, 400, 7):
        made = compose(FACTS, KNOWN, budget=Budget(max_tokens=tokens), count=dear)
        assert [line.fact for line in made.lines] == FACTS[: len(made.lines)]


@pytest.mark.parametrize("count", [words, dear, None])
def test_only_guaranteed_facts_pass_the_budget_and_then_they_stand_alone(count):
    measured = count or estimate_tokens
    made = compose(FACTS + FIXES, KNOWN, budget=Budget(max_tokens=100, guaranteed_tokens=300), count=count)
    assert 100 < measured(made.text) <= 300
    assert {line.fact.category for line in made.lines} == {"correction"}
    assert (made.summaries, 250 < made.guaranteed_tokens <= 300) == ("none", True)
    assert all(line.guaranteed for line in made.lines)


def test_the_ceiling_does_not_rise_for_guaranteed_facts_in_company():
    seen = set()
    for tokens in range(30, 200):
        budget = Budget(max_tokens=tokens, guaranteed_tokens=8_000)
        made = compose(FIXES[:2] + FACTS, KNOWN, budget=budget, count=dear)
        alone = made.summaries == "none" and all(line.guaranteed for line in made.lines)
        assert alone or dear(made.text) <= tokens
        seen.add(alone)
    assert seen == {True, False}


@pytest.mark.parametrize("count", [words, dear])
def test_a_long_fact_is_cut_by_the_same_count(count):
    made = compose([fact("The way is long. " * 500)], NOTHING, budget=Budget(max_tokens=100), count=count)
    assert [line.cut for line in made.lines] == [True]
    assert made.text.endswith("…")
    assert 80 <= count(made.text) <= 100


def test_summaries_are_clipped_by_the_same_count():
    for tokens in range(20, 150, 3):
        made = compose([], KNOWN, budget=Budget(max_tokens=tokens), count=words)
        assert made.summaries == "clipped"
        assert made.text.endswith("...")
        assert tokens - 4 <= words(made.text) <= tokens


def test_few_and_short_texts_are_counted():
    lengths: list[int] = []

    def count(text: str) -> int:
        lengths.append(len(text))
        return words(text)

    made = compose([*FACTS, fact("x " * 500_000, 0.001)], KNOWN, budget=Budget(), count=count)
    assert len(lengths) <= len(made.lines) + 15
    assert max(lengths) <= 32_000
    lengths.clear()
    made = compose([fact("x " * 500_000)], NOTHING, budget=Budget(), count=count)
    assert made.lines[0].cut
    assert len(lengths) < 50
    assert max(lengths) <= 32_000


def test_a_count_that_makes_no_sense_ends_all_the_same():
    assert render(FACTS, KNOWN, budget=Budget(), count=lambda text: 10**9) == ""
    assert render(FACTS, KNOWN, budget=Budget(max_tokens=0), count=lambda text: 1) == ""
    assert render(FACTS, NOTHING, budget=Budget(), count=lambda text: 0).count("\n") == 60


def test_a_text_far_too_long_is_not_counted_at_all():
    assert Measure(lambda text: pytest.fail("counted")).within("x" * 1601, 100) == 101
    assert Measure(len).within("x" * 1600, 100) == 1600
    assert ESTIMATE.within("", -5) == -4
    assert ESTIMATE.tokens(5) == 2
