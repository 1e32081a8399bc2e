"""The memories of mem0 as facts."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from deermem.errors import InvalidInput
from deermem.format.foreign.mem0 import read_mem0
from deermem.model.fact import Source

WHEN = datetime(2026, 11, 1, tzinfo=UTC)
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
TRAINS = {
    "id": "7d0c6c1e-3d2a-4f57-9a35-1f0b7f0c2f11",
    "memory": "Prefers trains over planes",
    "hash": "5b1e",
    "metadata": {"channel": "chat", "weight": 2},
    "categories": ["travel", "habits"],
    "created_at": "2026-03-01T09:00:00-07:00",
    "updated_at": "2026-04-01T09:00:00-07:00",
    "user_id": "mira",
    "agent_id": "planner",
    "run_id": "run-4",
}
BARE = {"id": "a", "memory": "Rows"}


def read(value: object):
    return read_mem0(json.dumps(value), when=WHEN, now=NOW)


def refusal(value: object) -> str:
    with pytest.raises(InvalidInput) as caught:
        read(value)
    return str(caught.value)


def test_every_field_that_says_something_is_kept():
    (fact,) = read([TRAINS]).document.facts
    assert (fact.id, fact.content) == (TRAINS["id"], TRAINS["memory"])
    assert (fact.category, fact.topics) == ("travel", ("travel", "habits"))
    assert fact.created_at == datetime(2026, 3, 1, 16, tzinfo=UTC)
    assert fact.updated_at == datetime(2026, 4, 1, 16, tzinfo=UTC)
    extra = {"uri": f"mem0:{TRAINS['id']}", "userId": "mira", "agentId": "planner"}
    assert fact.source == Source("import", "run-4", extra)
    assert fact.extra == {"metadata": {"channel": "chat", "weight": 2}}
    assert fact.user_id is None


@pytest.mark.parametrize(
    "value",
    [
        [BARE],
        {"results": [BARE]},
        {"results": [BARE], "relations": []},
        {"memories": [BARE]},
        {"count": 1, "next": None, "previous": None, "results": [BARE]},
        [{"id": "a", "content": "Rows", "metadata": None, "categories": None, "updated_at": None}],
    ],
)
def test_every_shape_of_an_export_is_taken(value):
    found = read(value)
    assert [(fact.id, fact.content, fact.created_at) for fact in found.document.facts] == [("a", "Rows", WHEN)]
    assert found.skipped == ()


def test_what_is_not_given_is_not_stated():
    """What a person made of it here stays when it is imported again."""
    assert read([BARE]).document.stated == (frozenset({"id", "content", "source"}),)


@pytest.mark.parametrize("fact_id", ["a/b", "naïve id", "x" * 300, 17])
def test_an_id_that_no_file_can_have_is_made_valid_and_stays_the_same(fact_id):
    first, again = (read([{**BARE, "id": fact_id}]).document.facts[0].id for _ in range(2))
    assert first == again
    assert first != read([{**BARE, "id": f"{fact_id}-"}]).document.facts[0].id


def test_without_an_id_the_text_makes_it():
    one, other = read([{"memory": "Rows"}, {"memory": "Swims"}]).document.facts
    assert one.id != other.id
    assert read([{"memory": "Rows", "id": None}]).document.facts[0].id == one.id


def test_an_expiration_date_counts_to_its_end():
    (fact,) = read([{**BARE, "expiration_date": "2026-11-30"}]).document.facts
    assert fact.expires_at == datetime(2026, 12, 1, tzinfo=UTC)


def test_what_counts_no_more_there_is_passed_over():
    found = read([{**BARE, "expiration_date": "2026-11-29"}, {"id": "b", "memory": "Old", "replaced_by": "a"}])
    assert found.document.facts == ()
    assert found.skipped == (
        "memories[0] (id 'a'): its expiration_date is over",
        "memories[1] (id 'b'): another memory replaced it",
    )


@pytest.mark.parametrize("state", ["paused", "archived", "deleted"])
def test_what_openmemory_shows_to_nobody_is_passed_over(state):
    shown = {"id": "b", "content": "Shown", "state": "active"}
    found = read({"memories": [{"id": "a", "content": "Gone", "state": state}, shown]})
    assert [fact.content for fact in found.document.facts] == ["Shown"]
    assert found.skipped == (f"memories[0] (id 'a'): it is {state} there",)


def test_one_page_of_several_is_said_to_be_one():
    (line,) = read({"count": 900, "next": "https://example.org/?page=2", "results": [BARE]}).skipped
    assert line == "results: it is one page of several; the others are not in it"


def test_memories_of_several_users_are_refused():
    """None must get to read another's."""
    message = refusal([{**BARE, "user_id": "mira"}, {"id": "b", "memory": "Swims", "user_id": "otto"}])
    assert "2 users ('mira', 'otto')" in message
    assert len(read([{**BARE, "user_id": "mira"}, {"id": "b", "memory": "B", "agent_id": "x"}]).document.facts) == 2


@pytest.mark.parametrize(
    ("item", "named"),
    [
        ("text", "it is 'text'"),
        ({"id": "a"}, "memory is missing"),
        ({"id": "a", "memory": 5}, "memory is 5"),
        ({"id": "a", "memory": " "}, "memory is ' '"),
        ({**BARE, "id": ["a"]}, "id is ['a']"),
        ({**BARE, "categories": "travel"}, "categories is 'travel'"),
        ({**BARE, "categories": [1]}, "categories is [1]"),
        ({**BARE, "categories": ["x" * 200]}, "category 'xxx"),
        ({**BARE, "metadata": [1]}, "metadata is [1]"),
        ({**BARE, "metadata": {"n": 10**50}}, "metadata holds a number"),
        ({**BARE, "created_at": "yesterday"}, "createdAt 'yesterday' is not a timestamp"),
        ({**BARE, "created_at": 17}, "createdAt is 17"),
        ({**BARE, "expiration_date": "soon"}, "expiration_date 'soon'"),
        ({**BARE, "user_id": 3}, "user_id is 3"),
        ({**BARE, "memory": "x" * 70_000}, "content has 70000 bytes"),
    ],
)
def test_a_bad_memory_is_named_with_field_and_value(item, named):
    message = refusal({"results": [{"id": "fine", "memory": "Fine"}, item]})
    assert message.startswith("results[1]")
    assert named in message


def test_one_id_for_two_texts_is_refused_and_for_one_text_it_is_one():
    message = refusal([BARE, {"id": "A", "memory": "Swims"}])
    assert "memories[1] (id 'A'): it has the id 'A', which stands at memories[0] (id 'a') already" in message
    assert len(read([BARE, BARE]).document.facts) == 1


@pytest.mark.parametrize("value", [{}, {"results": {}}, 3, None, {"full_name": "Mira"}])
def test_what_is_no_list_of_memories_is_refused(value):
    assert "holds no list of memories" in refusal(value)
