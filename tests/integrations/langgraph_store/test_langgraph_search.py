"""Searching a store: filters, words, order, pages."""

from __future__ import annotations

import sys
from functools import reduce

import pytest

pytest.importorskip("langgraph.store.base")

from langgraph.store.base import PutOp, SearchOp

from deermem import DeerMem, InvalidInput, Settings
from deermem.integrations.langgraph_store import DeerMemStore

NS = ("items",)
ITEMS = {
    "a": {
        "price": 10,
        "name": "Tea",
        "tags": ["x", "y"],
        "d": {"z": 1, "deep": {"access-level": "public"}},
        "on": True,
    },
    "b": {"price": 20.5, "name": "Coffee", "tags": [], "d": {"z": 2}, "on": False, "none": None},
    "c": {"price": "20", "name": "Milk", "1st": "ok", "a.b": 5, "on": 1, "l": [{"a": 1, "b": 2}, 7]},
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A store that nobody changes."""
    with DeerMemStore.open(tmp_path_factory.mktemp("filled")) as store:
        store.batch([PutOp(NS, key, value) for key, value in ITEMS.items()])
        yield store


def keys(items) -> str:
    return "".join(item.key for item in items)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, "abc"),
        ({"price": 10}, "a"),
        ({"price": 10.0}, "a"),
        ({"price": "10"}, ""),
        ({"price": {"$eq": 20.5}}, "b"),
        ({"price": {"$ne": 10}}, "bc"),
        ({"price": {"$gt": 10}}, "b"),
        ({"price": {"$gte": 10, "$lt": 20}}, "a"),
        ({"price": {"$lte": float("inf")}}, "ab"),
        ({"price": {"$gt": float("-inf")}}, "ab"),
        ({"price": {"$eq": float("nan")}}, ""),
        ({"price": {"$lt": 10**100}}, "ab"),
        ({"price": {"$gt": "1"}}, "c"),
        ({"name": {"$gte": "Milk"}}, "ac"),
        ({"price": {"$gt": None}}, ""),
        ({"on": True}, "a"),
        ({"on": 1}, "c"),
        ({"on": {"$gte": 0}}, "c"),
        ({"tags": ["x", "y"]}, "a"),
        ({"tags": ("x", "y")}, "a"),
        ({"tags": ["x"]}, ""),
        ({"tags": []}, "b"),
        ({"l": [{"a": 1}, 7]}, "c"),
        ({"l": [{"a": {"$gt": 0}}, {"$lt": 8}]}, "c"),
        ({"l": [{"a": 2}, 7]}, ""),
        ({"l": [{"a": 1}]}, ""),
        ({"l": {"$eq": [{"a": 1}, 7]}}, ""),
        ({"d": {"z": 1}}, "a"),
        ({"d": {"z": {"$gt": 1}}}, "b"),
        ({"d": {"$eq": {"z": 2}}}, "b"),
        ({"d": {"$ne": {"z": 2}}}, "ac"),
        ({"d": {"deep": {"access-level": "public"}}}, "a"),
        ({"d.z": 2}, "b"),
        ({"d.deep.access-level": "public"}, "a"),
        ({"a.b": 5}, "c"),
        ({"1st": "ok"}, "c"),
        ({"missing": {"$ne": 1}}, "abc"),
        ({"missing": None}, "abc"),
        ({"none": {"$ne": None}}, ""),
        ({"missing": {"$gt": 1}}, ""),
        ({"name": "Tea", "on": False}, ""),
        ({"name": "x' OR '1'='1"}, ""),
        ({"name": "nul\0"}, ""),
    ],
)
def test_a_filter_narrows(filled, wanted, found):
    assert keys(filled.search(NS, filter=wanted)) == found


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"price": {"$in": [1]}}, "Unsupported operator: '\\$in'"),
        ({"price": {"$gt": 1, "other": 2}}, "Unsupported operator: 'other'"),
        ({"d": {"z": {"$regex": "x"}}}, "Unsupported operator"),
        ({"$or": [1]}, "Invalid filter key"),
        ({"": 1}, "Invalid filter key"),
        ({7: 1}, "Invalid filter key"),
        ({"a') = 'b' OR json_extract(value, '$.": 1}, "Invalid filter key"),
        (["a"], "the filter is"),
        ({"l": [{"$in": 1}]}, "Unsupported operator"),
        (reduce(lambda inner, _: {"a": inner}, range(200), {"a": 1}), "the filter nests deeper than 100 levels"),
        (reduce(lambda inner, _: {"a": [inner]}, range(200), {"a": 1}), "the filter nests deeper than 100 levels"),
    ],
)
def test_a_filter_that_means_nothing_is_refused_over_no_items_too(store, wanted, message):
    with pytest.raises(ValueError, match=message):
        store.batch([SearchOp(NS, filter=wanted)])


def test_unranked_items_come_by_namespace_and_the_older_first(store, clock):
    for namespace, key in [(("b",), "z"), (("a", "b"), "y"), (("a",), "x"), (("a",), "w")]:
        store.put(namespace, key, {"n": 1})
        clock.advance(seconds=1)
    order = [(("a",), "x"), (("a",), "w"), (("a", "b"), "y"), (("b",), "z")]
    assert [(item.namespace, item.key) for item in store.search(())] == order
    store.put(("a",), "x", {"n": 2})
    assert [(item.namespace, item.key) for item in store.search(())] == order
    assert {item.score for item in store.search(())} == {None}


def test_pages_are_the_whole_in_pieces(store):
    puts = [
        PutOp(namespace, f"k{number}", {"text": f"number {number}", "even": number % 2 == 0})
        for namespace in [("a",), ("a", "b"), ("ab",)]
        for number in range(5)
    ]
    store.batch(puts)
    for narrow, count in [({}, 10), ({"filter": {"even": True}}, 6), ({"query": "number"}, 10)]:
        whole = store.search(("a",), limit=100, **narrow)
        assert len(whole) == count
        for size in (1, 3, 4, 100):
            pages = [store.search(("a",), limit=size, offset=offset, **narrow) for offset in range(0, 12, size)]
            assert [item for page in pages for item in page] == whole


@pytest.mark.parametrize("number", [sys.maxsize, 10**30])
def test_a_page_may_be_larger_than_any_sequence(filled, number):
    assert keys(filled.search(NS, limit=number, offset=1)) == "bc"
    assert filled.search(NS, offset=number) == []
    assert filled.list_namespaces(limit=number, max_depth=number) == [NS]


def test_a_page_costs_what_it_shows(store, monkeypatch):
    from deermem.integrations.langgraph_store import store as module

    store.batch([PutOp(NS, f"k{number:03}", {"n": [number]}) for number in range(300)])
    store.search(NS)
    read = []
    monkeypatch.setattr(module, "read_value", lambda fact: read.append(fact.id) or {"n": 1})
    for offset in range(0, 300, 50):
        assert len(store.search(NS, limit=50, offset=offset)) == 50
    assert len(read) == 300


def test_words_find_items_best_first_with_a_score(store):
    store.put(("memories", "alice"), "1", {"text": "Drinks green tea in the morning."})
    store.put(("memories", "alice"), "2", {"text": "Tea, tea, and more tea: green tea is best."})
    store.put(("memories", "bob"), "3", {"content": "Has a green car."})
    store.put(("memories", "bob"), "4", {"favourite": {"drink": "cocoa"}})
    store.put(("other",), "5", {"text": "Green tea too."})
    found = store.search(("memories",), query="green tea")
    assert [item.key for item in found][-1] == "3"
    assert {item.key for item in found} == {"1", "2", "3"}
    assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)
    assert all(item.score > 0 for item in found)
    assert keys(store.search(("memories", "bob"), query="cocoa")) == "4"
    assert keys(store.search(("memories",), query="green tea", limit=1, offset=2)) == "3"
    assert keys(store.search((), query="nothing of the kind")) == ""
    assert keys(store.search((), query="?!")) == ""
    assert keys(store.search((), query=" \n")) == keys(store.search(())) == "12345"


def test_words_find_what_is_written_without_blanks(store):
    for key, text in [("1", "这是中文"), ("2", "これは日本語です"), ("3", "이건 한국어야"), ("4", "Это русский")]:
        store.put(NS, key, {"text": text})
        assert keys(store.search(NS, query=text)) == key


def test_words_are_found_without_an_index_too(root):
    with DeerMem(root, Settings(max_facts=0, retrieval_adapter="")) as engine:
        store = DeerMemStore(engine, "alice")
        store.put(NS, "a", {"text": "Likes green tea."})
        store.put(NS, "b", {"text": "Likes milk."}, index=False)
        assert [(item.key, item.score) for item in store.search(NS, query="green tea")] == [("a", 0.5)]
        assert keys(store.search(NS, query="milk")) == ""
        assert not (root / "users/alice/.retrieval").exists()


def test_an_update_is_found_by_its_new_words_alone(store):
    store.put(NS, "k", {"text": "Likes tea."})
    store.put(NS, "k", {"text": "Likes cocoa."})
    assert keys(store.search(NS, query="tea")) == ""
    assert keys(store.search(NS, query="cocoa")) == "k"


def test_a_query_and_a_filter_both_count(store):
    store.batch([PutOp(NS, f"k{number}", {"text": "Likes tea.", "n": number}) for number in range(30)])
    assert keys(store.search(NS, query="tea", filter={"n": {"$gte": 29}})) == "k29"


def test_an_item_without_index_is_there_and_not_found_by_words(store):
    store.put(NS, "k", {"text": "Likes tea."}, index=False)
    assert keys(store.search(NS, query="tea")) == ""
    assert keys(store.search(NS)) == "k"
    store.put(NS, "k", {"text": "Likes tea."})
    assert keys(store.search(NS, query="tea")) == "k"


def test_fields_say_what_a_query_looks_at(store):
    value = {"text": "Likes tea.", "kind": "drink", "meta": {"tags": ["hot", "green"]}}
    asked = {"tea": "text", "drink": "kind", "green": "meta.tags[*]"}
    for word, path in asked.items():
        store.put(NS, "k", value, index=[path])
        assert {query for query in asked if store.search(NS, query=query)} == {word}
    store.put(NS, "k", value, index=["$"])
    assert {query for query in asked if store.search(NS, query=query)} == set(asked)
    store.put(NS, "k", value, index=["text", "kind"])
    assert {query for query in asked if store.search(NS, query=query)} == {"tea", "drink"}
    store.put(NS, "k", value)
    assert {query for query in asked if store.search(NS, query=query)} == {"tea"}
    assert store.get(NS, "k").value == value


def test_fields_of_an_object_without_a_text(store):
    value = {"food": {"name": "pizza"}, "place": {"name": "Rome"}}
    store.put(NS, "k", value, index=["food.name"])
    assert keys(store.search(NS, query="pizza")) == "k"
    assert keys(store.search(NS, query="Rome")) == ""
    store.put(NS, "k", value)
    assert keys(store.search(NS, query="Rome")) == "k"


def test_a_store_has_fields_of_its_own(engine):
    store = DeerMemStore(engine, "alice", fields=["kind"])
    store.put(NS, "k", {"text": "Likes tea.", "kind": "drink"})
    assert keys(store.search(NS, query="drink")) == "k"
    assert keys(store.search(NS, query="tea")) == ""
    for fields in ([""], "kind"):
        with pytest.raises(InvalidInput, match="index is"):
            DeerMemStore(engine, fields=fields)
