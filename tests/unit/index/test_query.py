import sqlite3

import pytest

from deermem.index.expression import Group, Leaf, holds, joined, render
from deermem.index.query import MAX_TERMS, Term, parse_query
from deermem.index.tokens import FTS_TOKENIZE, index_text


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("TODO: fix", '"todo" OR "fix"'),
        ("error:timeout", '"error" OR "timeout" OR "error:timeout"'),
        ("pre-edit", '"pre" OR "edit" OR "pre-edit"'),
        ("don't use agents", '"use" OR "agent"'),
        ("grammar::fa", '"grammar" OR "fa" OR "grammar::fa"'),
        ("do NOT use tabs", '"use" OR "tab"'),
        ("do NOT deploy", '"deploy"'),
        ("NOT tabs", '"tab"'),
        ("When did Melanie paint a sunrise?", '"melani" OR "paint" OR "sunris"'),
        ("the of", '"the" OR "of"'),
        ("category:context", '"categori" OR "context" OR "category:context"'),
        ("foo(bar)", '"foo" OR "bar"'),
        ("-word +extra", '"word" OR "extra"'),
        ("*.py", '"py" OR ".py"'),
    ],
)
def test_plain_words_are_alternatives(text: str, match: str) -> None:
    assert parse_query(text).match == match


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("tier1-test AND unicode", '"tier1 test" AND "unicod"'),
        ("python NOT java", '"python" NOT "java"'),
        ("python AND NOT java", '"python" NOT "java"'),
        ("red OR green AND blue", '"red" OR ("green" AND "blue")'),
        ("(red OR green) AND blue", '("red" OR "green") AND "blue"'),
        ('"blue whale" AND deploy', '"blue whale" AND "deploy"'),
        ("C++ AND rust", '"c++" AND "rust"'),
        ('"blue whale"', '"blue whale"'),
        ("“blue whale”", '"blue whale"'),
        ('"成语接龙"', '"成语 语接 接龙"'),
        ('"跑gen"', '"跑 gen"'),
        ("数据*", '"数据"'),
        ("v1*", '"v1"*'),
    ],
)
def test_meant_queries(text: str, match: str) -> None:
    assert parse_query(text).match == match


@pytest.mark.parametrize("text", ["", "   ", "?!", '"', '""', "*", "()", "\0", "\ud800", "…", "AND AND"])
def test_texts_without_a_word_ask_for_nothing_special(text: str) -> None:
    query = parse_query(text)
    assert query.is_empty == (text != "AND AND")
    assert query.match == ("" if query.is_empty else '"and"')


def test_a_phrase_beside_words_is_one_more_alternative() -> None:
    query = parse_query('who said "hi bob" today')
    assert query.match == '"hi bob" OR "said" OR "hi" OR "bob" OR "today"'
    assert Term("hi bob", "phrase") in query.terms


def test_prefixes_reach_stems() -> None:
    for prefix, content in (("computat*", "computations"), ("happy*", "happy"), ("depl*", "deployment")):
        expression = parse_query(prefix).expression
        assert expression is not None
        assert holds(expression, index_text(f"some {content} here")[0])


@pytest.mark.parametrize("depth", [1, 12, 13, 300, 2000])
def test_nested_brackets_never_overflow(depth: int) -> None:
    query = parse_query("(" * depth + "red AND blue" + ")" * depth)
    assert query.match == ('"red" AND "blue"' if depth <= 12 else '"red" OR "blue"')


def test_long_queries_are_bounded() -> None:
    query = parse_query(" ".join(f"word{number}" for number in range(20_000)))
    assert query.match.count(" OR ") == MAX_TERMS - 1
    assert len(query.terms) == MAX_TERMS
    assert len(parse_query("中文" * 50_000).match) < 10_000


def test_chinese_stop_words_fall_away() -> None:
    assert parse_query("什么是成语").match == '"是成" OR "成语"'
    assert parse_query("我的猫叫什么").match == '"的猫" OR "猫叫" OR "猫"*'
    assert parse_query("什么").match == '"什么"'
    assert parse_query("雨").match == '"雨"*'


def test_excluded_words_do_not_rank() -> None:
    assert parse_query("python NOT java").terms == (Term("python"),)


def test_an_expression_says_the_same_as_fts5() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute(f"CREATE VIRTUAL TABLE words USING fts5(body, tokenize={FTS_TOKENIZE})")
    contents = ["red green", "green blue", "red blue", "blue red", "redder", "今天玩成语接龙游戏", "语接", ""]
    bodies = [index_text(content)[0] for content in contents]
    for row, body in enumerate(bodies):
        connection.execute("INSERT INTO words(rowid, body) VALUES (?, ?)", (row, body))
    red, blue = Leaf(("red",)), Leaf(("blue",))
    nodes = [
        red, Leaf(("red",), prefix=True), Leaf(("red", "blue")), Group("AND", (red, blue)), Group("NOT", (red, blue)),
        Group("OR", (red, Group("NOT", (blue, Leaf(("green",)))))), Leaf(("语接", "接龙")), Leaf(("语",), prefix=True),
    ]  # fmt: skip
    for node in nodes:
        rows = {row for (row,) in connection.execute("SELECT rowid FROM words WHERE words MATCH ?", (render(node),))}
        assert rows == {row for row, body in enumerate(bodies) if holds(node, body)}
    connection.close()


def test_joining_drops_repeats() -> None:
    red = Leaf(("red",))
    assert joined("OR", (red, red)) == red
    assert joined("AND", ()) is None
    assert render(None) == ""
