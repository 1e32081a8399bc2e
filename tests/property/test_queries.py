"""No text raises anywhere on the way from a query to its hits, and all ways agree."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from deermem.index.expression import holds
from deermem.index.query import parse_query
from deermem.index.search import body_of, count, search, substring_rank
from deermem.index.snippets import snippet
from deermem.index.tokens import FTS_TOKENIZE, index_text, scan
from deermem.model.fact import Fact
from deermem.model.records import SearchFilter

NOW = 1_800_000_000.0
ANY = SearchFilter()
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = ["red", "AND", "OR", "NOT", "(", ")", '"', '"blue whale"', "depl*", "*", "node.js", "成语接龙", "雨", "的",
         "C++", "the", "don't", "tier1-test", "🚀", "हिन्दी", "e\u0301", "\u200b", "\0", "\ud800", "a:b",
         "-x", "^", "{", "'"]  # fmt: skip
CONTENTS = [
    "red node.js",
    "the blue whale",
    "今天玩成语接龙游戏",
    "明天下雨",
    "C++ tier1-test 🚀",
    "हिन्दी café",
    "deploy NOT",
]
texts = st.one_of(st.text(max_size=40), st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
FACTS = [
    Fact(id=str(n), content=text, title="t", created_at=MOMENT, updated_at=MOMENT) for n, text in enumerate(CONTENTS)
]


def open_store() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute(
        "CREATE TABLE files (id INTEGER PRIMARY KEY, agent TEXT, path TEXT, fact_id TEXT, category TEXT,"
        " confidence REAL, updated REAL, thread TEXT, topics TEXT, expires REAL, length INTEGER)"
    )
    connection.execute(f"CREATE VIRTUAL TABLE words USING fts5(body, tokenize={FTS_TOKENIZE})")
    for row, content in enumerate(CONTENTS):
        body, length = index_text(content)
        connection.execute(
            "INSERT INTO files VALUES (?, 'a', ?, ?, 'context', 0.5, ?, NULL, '[]', NULL, ?)",
            (row, str(row), str(row), NOW, length),
        )
        connection.execute("INSERT INTO words (rowid, body) VALUES (?, ?)", (row, body))
    connection.commit()
    return connection


@given(text=texts)
def test_no_text_raises_and_search_count_and_expression_agree(text: str) -> None:
    query = parse_query(text)
    connection = open_store()
    hits = search(connection, query, where=ANY, top_k=100, now=NOW)
    assert count(connection, query, ANY, now=NOW) == len(hits)
    connection.close()
    bodies = {str(row): index_text(content)[0] for row, content in enumerate(CONTENTS)}
    matching = {row for row, body in bodies.items() if query.expression is not None and holds(query.expression, body)}
    assert {hit.fact_id for hit in hits} == matching
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(hit.score > 0 for hit in hits)


@given(text=texts, content=st.text(max_size=80))
def test_the_substring_path_never_raises_and_finds_what_the_index_finds(text: str, content: str) -> None:
    odd = Fact(id="odd", content=content, title="t", created_at=MOMENT, updated_at=MOMENT)
    found = substring_rank(text, [*FACTS, odd], ANY, 100)
    expression = parse_query(text).expression
    everything = [*FACTS, odd]
    matching = {item.id for item in everything if expression is not None and holds(expression, body_of(item))}
    assert matching <= {item.id for item in found}
    assert len({item.id for item in found}) == len(found)
    assert substring_rank(text, everything, ANY, 2) == found[:2]


@given(content=st.text(max_size=60))
def test_a_fact_is_found_by_its_own_text(content: str) -> None:
    assert parse_query(content).is_empty == (not scan(content).words)
    body, length = index_text(content)
    assert len(body.split(" ")) == length or not body
    if not parse_query(content).is_empty:
        fact = Fact(id="f", content=content, title="t", created_at=MOMENT, updated_at=MOMENT)
        assert substring_rank(content, [fact], ANY, 1) == [fact]


@given(content=st.text(max_size=300), text=texts, width=st.integers(1, 200))
def test_a_snippet_is_one_short_line(content: str, text: str, width: int) -> None:
    shown = snippet(content, parse_query(text), width)
    assert len(shown.splitlines()) <= 1
    assert len(shown) <= width + 2 + 4 * (shown.count("**") + 1)
