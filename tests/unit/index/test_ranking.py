import pytest

from deermem.index.query import Term
from deermem.index.ranking import YEAR, Candidate, Statistics, inverse_frequency, rank, recency

NOW = 1_800_000_000.0
DAY = 86_400.0
RED, BLUE = Term("red"), Term("blue")


def candidate(row: int, body: str, *, age: float = 0.0, confidence: float = 0.5) -> Candidate:
    return Candidate(row, body, len(body.split()), NOW - age, confidence)


def order(*candidates: Candidate, facts: int = 1000, **frequencies: int) -> list[int]:
    counted = {RED: frequencies.get("red", 10), BLUE: frequencies.get("blue", 10)}
    return [item.row_id for _, item in rank(candidates, (RED, BLUE), Statistics(facts, 5.0, counted), NOW)]


def test_covering_more_of_the_query_wins() -> None:
    assert order(candidate(1, "red red red x"), candidate(2, "red blue x x")) == [2, 1]


def test_rare_terms_tell_more() -> None:
    assert order(candidate(1, "red x"), candidate(2, "blue x"), red=900, blue=3) == [2, 1]


def test_a_year_old_exact_match_beats_this_weeks_near_miss() -> None:
    assert order(candidate(1, "red x x", age=3 * DAY), candidate(2, "red blue x", age=YEAR)) == [2, 1]


def test_of_two_equals_the_newer_one_wins_whatever_the_confidence() -> None:
    assert order(candidate(1, "red", age=6 * YEAR, confidence=1.0), candidate(2, "red", confidence=0.1)) == [2, 1]


def test_confidence_parts_only_equals() -> None:
    assert order(candidate(1, "red", confidence=0.4), candidate(2, "red", confidence=0.9)) == [2, 1]
    assert order(candidate(1, "red", age=3600, confidence=0.9), candidate(2, "red", confidence=0.4)) == [1, 2]
    assert order(candidate(1, "red blue", confidence=0.0), candidate(2, "red", confidence=1.0)) == [1, 2]


@pytest.mark.parametrize("facts", [1, 2, 10, 50_000])
def test_a_term_in_every_fact_still_weighs(facts: int) -> None:
    statistics = Statistics(facts, 3.0, {RED: facts})
    assert inverse_frequency(statistics, RED) > 0
    ((score, _),) = rank([candidate(1, "red")], (RED,), statistics, NOW)
    assert score > 0


def test_a_term_in_half_of_ten_facts_decides() -> None:
    scores = {
        item.row_id: score
        for score, item in rank(
            [candidate(1, "red blue"), candidate(2, "blue")], (RED, BLUE), Statistics(10, 2.0, {RED: 5, BLUE: 5}), NOW
        )
    }
    assert scores[1] > 2 * scores[2] > 0


def test_recency_is_gentle() -> None:
    assert recency(NOW, NOW) == pytest.approx(1.05)
    assert recency(NOW + DAY, NOW) == pytest.approx(1.05)
    assert recency(NOW - YEAR, NOW) == pytest.approx(1.025, abs=1e-4)
    assert recency(NOW - 49 * YEAR, NOW) == pytest.approx(1.001, abs=1e-5)
    assert recency(0.0, NOW) == pytest.approx(1 + 0.05 / (1 + NOW / YEAR), abs=1e-5)


def test_the_formula() -> None:
    ((score, _),) = rank([candidate(1, "red x x x x")], (RED, BLUE), Statistics(1000, 5.0, {RED: 10, BLUE: 10}), NOW)
    idf = inverse_frequency(Statistics(1000, 5.0, {RED: 10}), RED)
    assert score == pytest.approx(idf * 2.2 / (1 + 1.2) * (1 + 0.3 * 0.5) * 1.05, abs=1e-4)


def test_characters_prefixes_and_phrases_are_counted() -> None:
    terms = (Term("语", "character"), Term("gen", "prefix"), Term("成语 语接", "phrase"), Term("nothing"))
    found = rank(
        [candidate(1, "成语 语接 接 genitive"), candidate(2, "语 成语 接")],
        terms,
        Statistics(5, 4.0, dict.fromkeys(terms, 1)),
        NOW,
    )
    assert [item.row_id for _, item in found] == [1, 2]
    assert rank([], terms, Statistics(0, 0.0, {}), NOW) == []
