"""What every LangGraph store must do: put, get, delete, batches, and what may be asked for."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from builders_store import tree

pytest.importorskip("langgraph.store.base")

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)

from deermem import DeerMem, DeerMemError, InvalidInput, Settings
from deermem.integrations.langgraph_store import DeerMemStore

NS = ("memories", "alice")
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_what_is_put_is_there_for_the_next_store(engine, root, clock):
    DeerMemStore(engine, "alice").put(NS, "tea", {"text": "Likes tea.", "n": 1})
    with DeerMem(root, Settings(max_facts=0), clock=clock) as other:
        item = DeerMemStore(other, "alice").get(NS, "tea")
    assert item == Item(value={"text": "Likes tea.", "n": 1}, key="tea", namespace=NS, created_at=NOON, updated_at=NOON)


def test_an_update_keeps_the_time_of_creation(store, clock):
    store.put(NS, "tea", {"text": "Likes tea."})
    later = clock.advance(hours=1)
    store.put(NS, "tea", {"drink": {"name": "coffee"}})
    item = store.get(NS, "tea")
    assert (item.created_at, item.updated_at, item.value) == (NOON, later, {"drink": {"name": "coffee"}})
    assert len(store.search(NS)) == 1


def test_an_item_that_was_deleted_begins_anew(store, clock):
    store.put(NS, "tea", {"text": "Likes tea."})
    store.delete(NS, "tea")
    assert store.get(NS, "tea") is None
    later = clock.advance(hours=1)
    store.put(NS, "tea", {"text": "Likes tea."})
    assert store.get(NS, "tea").created_at == later


def test_a_put_of_what_is_there_writes_nothing(store, root, clock):
    store.put(NS, "tea", {"text": "Likes tea.", "n": 1})
    before = tree(root)
    clock.advance(hours=1)
    store.put(NS, "tea", {"text": "Likes tea.", "n": 1})
    assert tree(root) == before


@pytest.mark.parametrize(("first", "then"), [(1, True), (1, 1.0), (0.0, -0.0), ([0], [False])])
def test_a_put_of_an_equal_value_of_another_type_is_a_change(store, first, then):
    store.put(NS, "tea", {"text": "Likes tea.", "n": first})
    store.put(NS, "tea", {"text": "Likes tea.", "n": then})
    assert repr(store.get(NS, "tea").value["n"]) == repr(then)


def test_what_is_missing_is_none_and_deleting_it_is_silent(store, root):
    assert store.get(NS, "tea") is None
    assert store.search(()) == []
    assert store.search(NS, query="tea") == []
    assert store.list_namespaces() == []
    store.delete(NS, "tea")
    assert store.sweep_ttl() == 0
    assert not root.exists()


def test_reading_makes_no_namespace_and_no_user(store, root):
    store.put(NS, "tea", {"text": "Likes tea."})
    before = tree(root)
    folders = sorted(path for path in root.rglob("*") if path.is_dir())
    assert store.get(("other",), "tea") is None
    assert store.search(("other",), query="tea") == []
    store.delete(("other",), "tea")
    assert tree(root) == before
    assert sorted(path for path in root.rglob("*") if path.is_dir()) == folders
    assert store.list_namespaces() == [NS]


def test_changing_what_was_given_or_got_changes_nothing(store):
    for form in ({"text": "t"}, {}):
        value = {**form, "tags": ["x"], "deep": {"a": [1]}}
        store.put(NS, "k", value)
        value["tags"].append("y")
        store.get(NS, "k").value["deep"]["a"].append(2)
        store.search(NS)[0].value["tags"].clear()
        assert store.get(NS, "k").value == {**form, "tags": ["x"], "deep": {"a": [1]}}


def test_a_batch_answers_in_order_and_reads_what_was_there_before_it(store):
    store.put(NS, "old", {"text": "Old."})
    results = store.batch(
        [
            PutOp(NS, "new", {"text": "First."}),
            GetOp(NS, "new"),
            GetOp(NS, "old"),
            PutOp(NS, "old", None),
            SearchOp(("memories",)),
            PutOp(NS, "new", {"text": "Last."}),
            ListNamespacesOp(),
            PutOp(("more",), "x", {"a": 1}),
            GetOp(("nothing",), "x"),
        ]
    )
    kinds = [None, None, Item, None, list, None, list, None, None]
    assert [None if result is None else type(result) for result in results] == kinds
    assert results[2].value == {"text": "Old."}
    assert [(item.key, type(item)) for item in results[4]] == [("old", SearchItem)]
    assert results[6] == [NS]
    assert {item.key: item.value for item in store.search(())} == {"new": {"text": "Last."}, "x": {"a": 1}}


def test_the_last_of_a_put_and_a_delete_of_one_key_counts(store):
    store.batch([PutOp(NS, "a", {"n": 1}), PutOp(NS, "a", None), PutOp(NS, "b", None), PutOp(NS, "b", {"n": 2})])
    assert [item.key for item in store.search(NS)] == ["b"]


def test_the_puts_of_a_namespace_are_one_commit(store, engine):
    store.batch([PutOp(NS, f"k{number}", {"n": number}) for number in range(50)])
    assert engine.memory("alice").summaries().revision == 1
    store.batch([PutOp(NS, f"k{number}", None) for number in range(50)])
    assert engine.memory("alice").summaries().revision == 2
    assert store.list_namespaces() == []


def test_a_batch_with_one_bad_operation_does_nothing(store, root):
    good = PutOp(NS, "good", {"n": 1})
    for bad in (
        PutOp(NS, "bad", {"n": float("nan")}),
        PutOp(NS, "bad", ["no", "mapping"]),
        PutOp(NS, "bad", {"n": 1}, index=["a", 3]),
        PutOp(NS, "bad", {"n": 1}, ttl=-1),
        PutOp(("another",), "bad", {"n": 1}, ttl=1e12),
        PutOp(NS, "bad", {"n": 1}, ttl=10**400),
        PutOp(NS, 7, {"n": 1}),
        PutOp(NS, "nul\0", {"n": 1}),
        PutOp(NS, "half\ud800", {"n": 1}),
        PutOp(("half\ud800",), "k", {"n": 1}),
        PutOp((), "k", {"n": 1}),
        PutOp((7,), "k", {"n": 1}),
        PutOp("memories", "k", {"n": 1}),
        PutOp(None, "k", {"n": 1}),
        GetOp("memories", "k"),
        SearchOp("memories"),
        ListNamespacesOp(match_conditions=(MatchCondition("prefix", "memories"),)),
        GetOp(("a.b",), "k"),
        GetOp(NS, 7),
        SearchOp(("",)),
        SearchOp((), filter={"a": {"$in": [1]}}),
        SearchOp((), limit=-1),
        SearchOp((), offset=True),
        SearchOp((), query=7),
        ListNamespacesOp(limit=-1),
        ListNamespacesOp(max_depth=-1),
        ListNamespacesOp(match_conditions=(MatchCondition("prefix", ("a\0",)),)),
        "no operation",
    ):
        with pytest.raises(ValueError, match=r"\w"):
            store.batch([good, bad])
    assert not root.exists()


def test_a_batch_with_a_user_who_can_have_no_folder_does_nothing(engine, root):
    store = DeerMemStore(engine, user_at=0)
    for value in ({"n": 1}, None):
        with pytest.raises(InvalidInput, match="makes a folder name of 500 characters"):
            store.batch([PutOp(("alice",), "good", {"n": 1}), PutOp(("x" * 500,), "bad", value)])
    assert not root.exists()


class Kind(str):
    """Text that shows itself as something else, as a member of an enumeration does."""

    def __str__(self) -> str:
        return "Kind.FOOD"


def test_text_of_another_class_is_text(store, root):
    food = Kind("food")
    store.batch([PutOp((food,), food, {"text": "Likes tea.", "kind": food, food: 1}, index=[food])])
    item = store.get(("food",), "food")
    assert (item.namespace, item.key) == (("food",), "food")
    assert item.value == {"text": "Likes tea.", "kind": "food", "food": 1}
    assert [type(name) for name in (*item.namespace, item.key, *item.value)] == [str] * 5
    (path,) = root.rglob("food.md")
    assert "value:\n  kind: food\n  food: 1\n" in path.read_text()


def test_two_values_of_which_one_fits_no_files_are_neither_stored(store, root):
    with pytest.raises(InvalidInput, match="takes 140027 characters"):
        store.batch([PutOp(("another",), "good", {"n": 1}), PutOp(NS, "k" * 140_000, {"n": 1})])
    assert not root.exists()


@pytest.mark.parametrize("namespace", [(), ("langgraph", "x"), ("a.b",), ("a", ""), (7,), ("a\0",), (None,)])
def test_a_put_into_no_namespace_is_refused(store, root, namespace):
    with pytest.raises(InvalidNamespaceError):
        store.put(namespace, "k", {"n": 1})
    assert not root.exists()


def test_equal_contents_under_two_keys_are_two_items(store):
    store.put(NS, "a", {"text": "Likes tea."})
    store.put(NS, "b", {"text": "Likes tea."})
    assert [item.key for item in store.search(NS)] == ["a", "b"]


def test_an_engine_with_a_cap_is_refused(root):
    with DeerMem(root) as engine, pytest.raises(InvalidInput, match="max_facts=0"):
        DeerMemStore(engine)


def test_a_path_in_place_of_an_engine_is_refused(root):
    with pytest.raises(InvalidInput, match=r"use DeerMemStore\.open"):
        DeerMemStore(root)


@pytest.mark.parametrize("user_at", [-1, True, "0"])
def test_a_place_of_the_user_that_is_none_is_refused(engine, user_at):
    with pytest.raises(InvalidInput, match="user_at"):
        DeerMemStore(engine, user_at=user_at)


def test_an_engine_that_asks_for_a_user_gets_one(root):
    with DeerMem(root, Settings(max_facts=0, strict_user_scope=True)) as engine:
        with pytest.raises(InvalidInput, match="user_id is missing"):
            DeerMemStore(engine)
        store = DeerMemStore(engine, user_at=1)
        store.put(NS, "tea", {"text": "Likes tea."})
        with pytest.raises(InvalidInput, match="user_id is missing"):
            store.put(("memories",), "tea", {"text": "Likes tea."})
        assert store.list_namespaces() == [NS]


def test_async_calls_go_through_a_thread_and_sync_ones_work_in_a_running_loop(store):
    async def both() -> None:
        await store.aput(NS, "a", {"text": "Likes tea."})
        store.put(NS, "b", {"text": "Likes coffee."})
        assert store.get(NS, "a") == await store.aget(NS, "a")
        assert [item.key for item in await store.asearch(("memories",), query="coffee")] == ["b"]
        await asyncio.gather(*(store.aput(NS, f"k{number}", {"n": number}) for number in range(20)))
        await store.adelete(NS, "a")
        assert await store.alist_namespaces(prefix=("memories", "*")) == [NS]
        found, count = await store.abatch(iter([GetOp(NS, "k19"), SearchOp(NS, limit=50)]))
        assert (found.value, len(count)) == ({"n": 19}, 21)

    asyncio.run(both())


def test_a_store_of_its_own_engine_is_closed_behind_its_block(root):
    with DeerMemStore.open(root, "alice") as store:
        store.put(NS, "tea", {"text": "Likes tea."})
    with DeerMemStore.open(root, "alice") as again:
        assert again.get(NS, "tea").value == {"text": "Likes tea."}
    with pytest.raises(Exception, match="closed"):
        store.get(NS, "tea")


def test_many_items_are_never_evicted(store):
    store.batch([PutOp(NS, f"k{number}", {"n": number}) for number in range(150)])
    store.put(NS, "one-more", {"n": 150})
    assert len(store.search(NS, limit=1000)) == 151


def test_a_store_may_be_opened_and_closed_off_the_event_loop(root):
    async def both() -> None:
        async with DeerMemStore.open(root, "alice") as store:
            await store.aput(NS, "k", {"n": 1})
            assert (await store.aget(NS, "k")).value == {"n": 1}
        with pytest.raises(DeerMemError, match="the engine is closed"):
            store.get(NS, "k")
        with pytest.raises(ZeroDivisionError):
            async with DeerMemStore.open(root, "alice") as store:
                raise ZeroDivisionError

    asyncio.run(both())
