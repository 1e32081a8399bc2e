"""Any JSON object goes into a fact's file and comes back as it was, digit by digit."""

from __future__ import annotations

import json
from collections import UserDict
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("langgraph.store.base")

from deermem import InvalidInput
from deermem.format import markdown
from deermem.integrations.langgraph_store.parts import files_of
from deermem.integrations.langgraph_store.values import Meta, Put, checked_value, leaves, read_value
from deermem.model.fact import Fact

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
BASE = Fact(id="k", content="", title="", created_at=NOON, updated_at=NOON)


def written(value: dict[str, Any], **put: Any) -> str:
    """The file that a value makes."""
    checked = checked_value(value)
    assert isinstance(checked, dict)
    (fact,) = files_of(Put(namespace=("a",), key="k", value=checked, **put), BASE, further)
    return markdown.encode(fact).decode()


def further(number: int) -> Fact:
    raise AssertionError(f"one file is enough, and no {number} is asked for")


def read(text: str) -> Any:
    """The value that a file says."""
    return read_value(markdown.decode(text.encode(), stem="k", when=NOON).fact)


def exact(value: Any) -> str:
    """Text that tells 1 from 1.0 and from true."""
    return json.dumps(value, sort_keys=True)


NAMES = st.text(max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | NAMES
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))


@settings(max_examples=50)
@given(st.dictionaries(NAMES, JSON, max_size=5))
def test_any_object_comes_back(value):
    assert exact(read(written(value))) == exact(value)


@settings(max_examples=50)
@given(st.text(st.characters(codec="utf-8"), max_size=40), st.dictionaries(NAMES, JSON, max_size=3))
def test_any_text_comes_back_with_what_stands_beside_it(text, more):
    value = {**more, "content": text}
    assert exact(read(written(value))) == exact(value)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"content": ""},
        {"content": " \n "},
        {"content": None},
        {"content": {"content": "nested"}},
        {"text": "both", "content": "of them"},
        {"memory": "x", "item": 1, "value": {"y": 2}, "namespace": [], "key": "z", "id": 7, "digest": "1-0"},
        {"text": "# not a heading\n\n---\nid: x\n---"},
        {"text": "```json\n{}\n```"},
        {"text": "<<<<<<< ours\n=======\n>>>>>>> theirs"},
        {"text": "a\r\nb\r\n", "n": 1},
        {"text": "x" * 65_537, "n": 1} | {"text": "x" * 60_000},
        {"text": "t", "n": [1, 1.0, True, "1", "1.0", "true", None, "null", "no", "0123", "2026-01-01", "1e3"]},
        {"text": "t", "n": [0.1, 1e16, 1e-7, 5e-324, 1.7976931348623157e308, -0.0, 10**39, -(10**39)]},
        {"text": "t", "n": 10**300},
        {"text": "t", "deep": [[[[[[{"a": [[{}]]}]]]]]]},
        {"text": "t", "\ud800": "\udfff", "nul": "\0"},
        {"text": "half a character: \ud800"},
        {"a key\nof two: lines # and": "y"},
        {"": ""},
    ],
)  # fmt: skip
def test_odd_values_come_back(value):
    assert exact(read(written(value))) == exact(value)


def test_a_text_is_the_text_of_the_file_and_the_rest_is_front_matter():
    text = written({"text": "Likes tea.\n\nNot coffee.\n", "kind": "drink", "tags": ["hot", "green"], "n": 3})
    assert text.endswith("---\n\n# Likes tea.\n\nLikes tea.\n\nNot coffee.\n")
    assert "item:\n  text: text\n  after: 1\nvalue:\n  kind: drink\n  tags: [hot, green]\n  'n': 3\n" in text


def test_a_lone_text_of_any_name_is_the_text_of_the_file():
    assert written({"rule": "Answer in French."}).endswith("\n# Answer in French.\n\nAnswer in French.\n")


def test_what_has_no_text_is_a_block_of_json():
    text = written({"food": {"name": "pizza", "stars": 5}})
    assert '\n```json\n{\n  "food": {\n    "name": "pizza",\n    "stars": 5\n  }\n}\n```\n' in text
    assert text.partition("---\n\n")[2].startswith("# k\n")


def test_a_long_object_is_written_without_blanks():
    value = {"rows": [[number] for number in range(9_000)]}
    assert exact(read(written(value))) == exact(value)
    assert "[[0],[1]," in written(value)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [1, float("nan")]}, "value.a[1] is nan"),
        ({"a": float("-inf")}, "value.a is -inf"),
        ({"a": {1: 2}}, "value.a has the key 1"),
        ({"a": {"b": b"x"}}, "value.a.b is of type bytes"),
        ({"a": NOON}, "value.a is of type datetime"),
        ({"a": {1, 2}}, "value.a is of type set"),
        ({"a": 10**5000}, "value.a is a number of more than 4000 digits"),
    ],
)
def test_what_json_has_no_form_for_is_refused_by_its_place(value, place):
    with pytest.raises(InvalidInput) as caught:
        checked_value(value)
    assert str(caught.value).startswith(place)


def test_a_value_that_holds_itself_is_refused():
    value: dict[str, Any] = {}
    value["a"] = value
    with pytest.raises(InvalidInput, match="nests deeper"):
        checked_value(value)


def test_the_texts_of_a_value_are_found_in_order_at_any_depth():
    value: Any = ["last"]
    for number in range(5_000):
        value = [number, {"deeper": value}]
    found = leaves({"a": "first", "b": value, "c": [None, True, 1.5]})
    assert [*found[:3], *found[-3:]] == ["first", "4999", "4998", "last", "True", "1.5"]
    assert len(found) == 5_004


def test_mappings_and_tuples_become_plain():
    assert checked_value(UserDict({"a": (1, 2)})) == {"a": [1, 2]}


def test_a_reading_shares_nothing_with_the_fact():
    put = Put(namespace=("a",), key="k", value={"text": "t", "tags": ["x"]})
    (fact,) = files_of(put, BASE, further)
    value = read_value(fact)
    assert value is not None
    value["tags"].append("y")  # type: ignore[union-attr]
    assert read_value(fact) == {"text": "t", "tags": ["x"]}


HAND_MADE = "Likes tea.\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (HAND_MADE, {"content": "Likes tea."}),
        ("---\nvalue:\n  kind: drink\n  hot: true\n---\nTea.\n", {"content": "Tea.", "kind": "drink", "hot": True}),
        ("---\nitem: {text: memory}\n---\nLikes tea.\n", {"memory": "Likes tea."}),
        ('# Tea\n\n```json\n{"a": [1, 2.0]}\n```\n', {"a": [1, 2.0]}),
        ("```json\n[1]\n```\n", {"content": "```json\n[1]\n```"}),
        ("```json\n{}\n```\n\nand more\n", {"content": "```json\n{}\n```\n\nand more"}),
        ("---\nitem: tea\nvalue: 3\nmood: happy\n---\nLikes tea.\n", {"content": "Likes tea."}),
        ("---\nitem: {json: true}\n---\nA note before it.\n\n```json\n{}\n```\n\nAnd behind it.\n", {}),
        ("---\nitem: {json: true}\n---\n```json\n{a: 1}\n```\n", None),
        ("---\nitem: {json: true}\n---\n```json\n[1]\n```\n", None),
        ('---\nitem: {json: true}\n---\n```json\n{"a": NaN}\n```\n', None),
        ("---\nitem: {json: true}\n---\nNo block.\n", None),
    ],
)  # fmt: skip
def test_a_hand_made_file_is_a_value(text, value):
    assert exact(read(text)) == exact(value)


@pytest.mark.parametrize(
    ("item", "meta"),
    [
        ("{key: /a b.md, ttl: 60}", Meta(key="/a b.md", ttl=60.0)),
        ("{key: 7, ttl: -1, search: 3, updated: soon}", Meta(key="7")),
        ("{key: [a], ttl: true, search: []}", Meta()),
        ("{search: false}", Meta(fields=())),
        ("{search: [a.b, c]}", Meta(fields=("a.b", "c"))),
        ("{updated: '2026-11-30T12:00:00Z'}", Meta(updated_at=NOON)),
    ],
)
def test_what_a_person_wrote_into_an_item_counts_where_it_makes_sense(item, meta):
    fact = markdown.decode(f"---\nitem: {item}\n---\nText\n".encode(), stem="k", when=NOON).fact
    assert Meta.of(fact) == meta
