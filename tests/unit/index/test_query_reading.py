import pytest
from hypothesis import given
from hypothesis import strategies as st

from deermem.index.explain import reading, times_in
from deermem.index.query import Term, parse_query
from deermem.index.ranking import Candidate, Scorer, Statistics, rank
from deermem.index.tokens import index_text

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("text", "form", "words", "dropped", "operators"),
    [
        ("When did Melanie paint a sunrise?", "words", ("melanie", "paint", "sunrise"), ("when", "did", "a"), ()),
        ("do NOT use tabs", "words", ("use", "tabs"), ("do", "not"), ()),
        ("what is it", "words", ("what", "is", "it"), (), ()),
        ("我的猫喜欢什么", "words", ("猫喜欢",), ("我的", "什么"), ()),
        ("什么", "words", ("什么",), (), ()),
        ('the "red house" burns', "words", ('"red house"', "burns"), ("the",), ()),
        ("depl* now", "words", ("depl*",), ("now",), ()),
        ('"red house" depl*', "phrases", ('"red house"', "depl*"), (), ()),
        ("tier1-test AND unicode NOT db", "operators", ("tier1-test", "unicode", "db"), (), ("AND", "NOT")),
        ("(a1 OR b1) AND c1", "operators", ("a1", "b1", "c1"), (), ("OR", "AND")),
        ("?!", "nothing", (), (), ()),
        ("", "nothing", (), (), ()),
    ],
)
def test_a_query_is_read_as_it_was_understood(text, form, words, dropped, operators) -> None:
    query = parse_query(text)
    said = reading(query)
    assert (said.text, said.form, said.words, said.dropped, said.operators) == (text, form, words, dropped, operators)
    assert said.expression == query.match


@given(st.text(max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    said = reading(parse_query(text))
    assert (said.form == "nothing") == (said.expression == "")
    assert said.words or said.form == "nothing"


WORDS = st.sampled_from(["red", "blue", "node.js", "成语接龙", "雨", "when", '"red blue"', "re*", "getUserName"])


@given(
    st.lists(WORDS, min_size=1, max_size=5),
    st.lists(st.lists(WORDS, min_size=1, max_size=8), min_size=1, max_size=4),
    st.floats(0, 1e9),
)
def test_the_parts_of_a_score_add_up_to_it(asked: list[str], facts: list[list[str]], age: float) -> None:
    query = parse_query(" ".join(asked))
    bodies = [index_text(" ".join(words)) for words in facts]
    candidates = [Candidate(row, body, length, NOW - age, 0.5) for row, (body, length) in enumerate(bodies)]
    statistics = Statistics(len(facts), 5.0, dict.fromkeys(query.terms, 1))
    scorer = Scorer(query.terms, statistics, NOW)
    for score, item in rank(candidates, query.terms, statistics, NOW):
        parts, counted = scorer.parts(item), scorer.counted(item)
        assert sum(parts) == pytest.approx(score, abs=1e-6)
        assert sum(one.bm25 for one in counted) == pytest.approx(parts.relevance)
        assert {one.term: one.times for one in counted} == {
            term: times for term in query.terms if (times := times_in(item.body, term))
        }


def test_a_term_is_counted_as_ranking_counts_it() -> None:
    body, _ = index_text("成语接龙 genitive gen")
    assert [times_in(body, Term(*term)) for term in (("语", "character"), ("gen", "prefix"), ("gen", "token"))] == [
        1,
        2,
        1,
    ]
