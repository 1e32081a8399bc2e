"""The knowledge graph of the MCP memory server as facts."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from deermem.errors import InvalidInput
from deermem.format.foreign.mcp_memory import read_mcp_memory
from deermem.model.fact import Source

WHEN = datetime(2026, 11, 1, tzinfo=UTC)
MIRA = {"type": "entity", "name": "Mira_Holt", "entityType": "person", "observations": ["Speaks Finnish"]}
WORKS = {"type": "relation", "from": "Mira_Holt", "to": "Saltworks", "relationType": "works_at"}


def lines(*items: object) -> str:
    return "\n".join(json.dumps(item) for item in items)


def read(text: str):
    return read_mcp_memory(text, when=WHEN)


def contents(text: str) -> list[str]:
    return [fact.content for fact in read(text).document.facts]


def refusal(text: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        read(text)
    return str(caught.value)


def test_an_observation_is_a_fact_that_names_its_entity():
    (fact,) = read(lines(MIRA)).document.facts
    assert fact.content == "Mira_Holt: Speaks Finnish"
    assert (fact.category, fact.topics) == ("knowledge", ("Mira_Holt", "person"))
    assert fact.source == Source("import", None, {"uri": "mcp-memory:Mira_Holt"})
    assert fact.created_at == fact.updated_at == WHEN


@pytest.mark.parametrize(
    ("name", "said", "content"),
    [
        ("Mira_Holt", "mira holt plays the viola", "mira holt plays the viola"),
        ("Al", "Also rows", "Al: Also rows"),
        ("小明", "小明喜欢茶", "小明喜欢茶"),
        ("C++", "Writes C++", "Writes C++"),
        ("two\nlines", "Rows", "two lines: Rows"),
    ],
)
def test_an_observation_that_names_its_entity_stays_as_it_is(name, said, content):
    assert contents(lines({**MIRA, "name": name, "observations": [said]})) == [content]


def test_a_relation_is_a_sentence():
    (fact,) = read(lines(WORKS)).document.facts
    assert (fact.content, fact.topics) == ("Mira_Holt works at Saltworks", ("Mira_Holt", "Saltworks"))


def test_ids_come_from_what_is_said_and_about_whom():
    other = {**MIRA, "name": "Otto"}
    ids = [fact.id for fact in read(lines(MIRA, other, WORKS)).document.facts]
    assert len(set(ids)) == 3
    assert [fact.id for fact in read(lines(WORKS, other, MIRA)).document.facts] == ids[::-1]
    assert all(fact_id.startswith("mcp_") for fact_id in ids)


def test_its_time_is_not_stated():
    """An older or newer file must not change facts that say the same."""
    (stated,) = read(lines(MIRA)).document.stated
    assert stated == {"id", "content", "category", "topics", "source"}


def test_the_answer_of_read_graph_is_taken_too():
    entity = {key: value for key, value in MIRA.items() if key != "type"}
    relation = {key: value for key, value in WORKS.items() if key != "type"}
    graph = {"entities": [entity], "relations": [relation]}
    assert contents(json.dumps(graph)) == contents(json.dumps(graph, indent=2)) == contents(lines(MIRA, WORKS))


def test_blank_lines_carriage_returns_and_separators_within_a_text_are_fine():
    odd = json.dumps({**MIRA, "observations": ["one\u2028two"]}, ensure_ascii=False)
    assert contents(f"\n{odd}\r\n\n") == ["Mira_Holt: one\u2028two"]
    assert read("").document.facts == ()


def test_what_says_nothing_is_passed_over_and_named():
    empty = {"type": "entity", "name": "Saltworks", "entityType": "company", "observations": []}
    blank = {**MIRA, "observations": [" ", "Rows"]}
    found = read(lines(empty, {"type": "marker", "source": "x"}, blank))
    assert [fact.content for fact in found.document.facts] == ["Mira_Holt: Rows"]
    assert found.skipped == (
        "line 1: entity 'Saltworks' has no observations",
        "line 2: it is of type 'marker', not an entity or a relation",
        "line 3, observations[0] of 'Mira_Holt': it is blank",
    )


def test_the_same_observation_twice_is_one_fact():
    assert contents(lines({**MIRA, "observations": ["Rows", "Rows"]}, MIRA)) == [
        "Mira_Holt: Rows",
        "Mira_Holt: Speaks Finnish",
    ]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("{", "not valid JSON at line 1"),
        ("[1]", "it is [1]"),
        ('{"name": "x"}', "type is missing"),
        ('{"type": 3}', "type is 3"),
        ('{"type": "entity", "name": "x", "name": "y"}', "the key 'name' twice"),
        ('{"type": "entity", "observations": []}', "name is missing"),
        ('{"type": "entity", "name": " ", "observations": []}', "name is blank"),
        ('{"type": "entity", "name": "x", "entityType": 1, "observations": []}', "entityType is 1"),
        ('{"type": "entity", "name": "x", "observations": "one"}', "observations is 'one'"),
        ('{"type": "entity", "name": "x", "observations": [7]}', "observations[0] of 'x': it is 7"),
        ('{"type": "entity", "name": "x", "observations": ["a\\u0000b"]}', "NUL"),
        ('{"type": "entity", "name": "x", "observations": ["a\\ud800"]}', "surrogate"),
        ('{"type": "relation", "from": "a", "to": "b"}', "relationType is missing"),
        ('{"type": "relation", "from": "a", "to": [], "relationType": "c"}', "to is []"),
    ],
)
def test_a_bad_line_is_named_with_field_and_value(line, named):
    message = refusal(f"{lines(MIRA)}\n{line}")
    assert message.startswith("line 2")
    assert named in message


def test_a_text_too_long_for_a_fact_is_named():
    message = refusal(lines({**MIRA, "observations": ["fine", "x" * 70_000]}))
    assert "observations[1] of 'Mira_Holt'" in message
    assert "at most 65536" in message


def test_all_bad_lines_are_named_up_to_twenty():
    message = refusal("\n".join(["{}"] * 25))
    assert all(f"line {number}: type is missing" in message for number in range(1, 21))
    assert message.endswith("and 5 more")


def test_an_object_over_several_lines_that_is_broken_is_named_where_it_is():
    assert "line 2, column" in refusal('{\n"entities": [}')


def test_an_object_without_a_graph_is_refused():
    message = refusal('{"facts": []}')
    assert "no list 'entities'" in message
    assert "no list 'relations'" in message
