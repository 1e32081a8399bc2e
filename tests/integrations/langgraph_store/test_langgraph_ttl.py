"""Items with a time to live: gone when it is over, alive for longer when they are read."""

from __future__ import annotations

import logging
import threading
import time
from datetime import UTC, datetime

import pytest
from builders_store import edit, facts_of, place, tree

pytest.importorskip("langgraph.store.base")

from langgraph.store.base import GetOp, PutOp, SearchOp

from deermem import Corruption, DeerMem, InvalidInput, Settings
from deermem.integrations.langgraph_store import DeerMemStore
from deermem.integrations.langgraph_store.names import agent_of
from deermem.integrations.langgraph_store.sweeping import Sweeper

NS = ("memories",)
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def files(root) -> int:
    return sum(name.endswith(".md") for name in tree(root))


def test_an_item_is_gone_when_its_time_is_over(store, root, clock):
    store.put(NS, "tea", {"text": "Likes tea."}, ttl=1)
    store.put(NS, "milk", {"text": "Likes milk."})
    clock.advance(seconds=59)
    assert len(store.search(NS, query="likes", refresh_ttl=False)) == 2
    clock.advance(seconds=1)
    assert store.get(NS, "tea") is None
    assert [item.key for item in store.search(NS)] == ["milk"]
    assert [item.key for item in store.search(NS, query="likes")] == ["milk"]
    store.delete(NS, "milk")
    assert store.list_namespaces() == []
    assert store.sweep_ttl() == 0
    assert files(root) == 0


def test_a_sweep_deletes_the_files(store, root, clock):
    for number in range(3):
        store.put(("a", str(number)), "k", {"n": number}, ttl=number + 1)
    clock.advance(seconds=120)
    assert files(root) == 3
    assert store.sweep_ttl() == 2
    assert files(root) == 1
    assert store.sweep_ttl() == 0
    assert store.list_namespaces() == [("a", "2")]


def test_a_namespace_that_can_not_be_swept_keeps_no_other_from_it(store, root, clock, monkeypatch):
    from deermem import LockTimeout, Memory

    for name in ("a", "b", "c"):
        store.put((name,), "k", {"n": 1}, ttl=1)
    clock.advance(seconds=61)
    original = Memory.apply

    def apply(memory, change):
        if memory.scope.agent == "ns-b":
            raise LockTimeout("somebody writes")
        return original(memory, change)

    monkeypatch.setattr(Memory, "apply", apply)
    with pytest.raises(LockTimeout, match="somebody writes"):
        store.sweep_ttl()
    assert files(root) == 1


def test_a_user_whose_old_document_can_not_be_read_keeps_no_other_from_being_swept(engine, root, clock):
    store = DeerMemStore(engine, user_at=0)
    for user in ("a", "z"):
        store.put((user,), "k", {"n": 1}, ttl=1)
    clock.advance(seconds=61)
    place(facts_of(root, "b", agent_of(("b", "x" * 200))) / "k.md", "Likes tea.\n")
    place(root / "users" / "b" / "memory.json", '{"version": "1.0", "facts": [{')
    with pytest.raises(Corruption, match=r"users/b/memory\.json"):
        store.sweep_ttl()
    assert files(root) == 1


def test_reading_gives_an_item_its_whole_time_again(store, clock):
    store.put(NS, "tea", {"text": "Likes tea."}, ttl=1)
    reads = [
        lambda: store.get(NS, "tea"),
        lambda: store.search(NS),
        lambda: store.search(NS, query="tea"),
        lambda: store.batch([GetOp(NS, "tea")])[0],
        lambda: store.batch([SearchOp(())])[0],
    ]
    for read in reads:
        clock.advance(seconds=45)
        assert read()
    assert store.get(NS, "tea").updated_at == NOON
    clock.advance(seconds=60)
    assert store.get(NS, "tea") is None


def test_reading_without_refresh_changes_no_file(store, root, clock):
    store.put(NS, "tea", {"text": "Likes tea."}, ttl=1)
    before = tree(root)
    clock.advance(seconds=45)
    assert store.get(NS, "tea", refresh_ttl=False)
    assert store.search(NS, refresh_ttl=False)
    assert store.batch([GetOp(NS, "tea", False), SearchOp(NS, refresh_ttl=False)])[0]
    assert tree(root) == before


def test_readings_close_together_write_nothing(store, root, clock):
    store.put(NS, "tea", {"text": "Likes tea."}, ttl=100)
    before = tree(root)
    clock.advance(seconds=59)
    assert store.get(NS, "tea")
    assert tree(root) == before
    clock.advance(seconds=2)
    assert store.get(NS, "tea")
    assert tree(root) != before


def test_a_store_has_a_time_for_all_items_and_each_put_its_own(engine, clock):
    store = DeerMemStore(engine, "alice", ttl={"default_ttl": 5, "refresh_on_read": False})
    store.put(NS, "default", {"n": 1})
    store.put(NS, "short", {"n": 1}, ttl=1)
    store.put(NS, "for-ever", {"n": 1}, ttl=None)
    clock.advance(seconds=60)
    assert sorted(item.key for item in store.search(NS)) == ["default", "for-ever"]
    clock.advance(seconds=240)
    assert [item.key for item in store.search(NS)] == ["for-ever"]
    assert store.supports_ttl


def test_a_put_ends_or_begins_a_time(store, clock):
    store.put(NS, "tea", {"text": "Likes tea."}, ttl=1)
    store.put(NS, "tea", {"text": "Likes tea."})
    clock.advance(hours=1)
    assert store.get(NS, "tea").value == {"text": "Likes tea."}
    store.put(NS, "tea", {"text": "Likes tea."}, ttl=0.5)
    clock.advance(seconds=31)
    assert store.get(NS, "tea") is None


def test_what_is_put_over_an_item_that_is_over_is_new(store, clock, root):
    store.put(NS, "tea", {"text": "Likes tea."}, ttl=1)
    now = clock.advance(hours=1)
    store.put(NS, "tea", {"text": "Likes tea."})
    assert store.get(NS, "tea").created_at == now
    assert files(root) == 1
    store.put(NS, "milk", {"text": "Likes milk."}, ttl=1)
    clock.advance(hours=1)
    store.delete(NS, "milk")
    assert files(root) == 1


@pytest.mark.parametrize("ttl", ["4190000000", "1.0e+300"])
def test_a_reading_that_would_move_the_end_past_all_years_leaves_it(store, engine, clock, ttl):
    store.put(NS, "tea", {"text": "Likes tea."}, ttl=4_190_000_000)
    path = engine.memory("alice", "ns-memories").path("tea")
    if ttl not in path.read_text():
        edit(path, "ttl: 4190000000", f"ttl: {ttl}")
    before = path.read_bytes()
    clock.advance(days=40_000)
    assert store.get(NS, "tea").value == {"text": "Likes tea."}
    assert [item.key for item in store.search(NS)] == ["tea"]
    assert path.read_bytes() == before


def test_a_person_may_give_an_item_more_time(store, engine, clock):
    store.put(NS, "tea", {"text": "Likes tea."}, ttl=1)
    edit(engine.memory("alice", "ns-memories").path("tea"), "2026-11-30T12:01:00Z", "2026-12-30T12:01:00Z")
    clock.advance(days=1)
    assert store.get(NS, "tea", refresh_ttl=False).value == {"text": "Likes tea."}


def test_a_reading_goes_on_where_the_time_can_not_be_moved(store, engine, clock, monkeypatch, caplog):
    from deermem import LockTimeout, Memory

    store.put(NS, "tea", {"text": "Likes tea."}, ttl=1)
    clock.advance(seconds=30)

    def locked(*_: object) -> None:
        raise LockTimeout("somebody writes")

    monkeypatch.setattr(Memory, "apply", locked)
    with caplog.at_level(logging.WARNING, "deermem"):
        assert store.get(NS, "tea").value == {"text": "Likes tea."}
    assert "their time was not moved: somebody writes" in caplog.text


def test_an_item_that_a_person_changes_while_it_is_read_keeps_the_edit_and_lives_on(store, clock, monkeypatch):
    from deermem import Memory

    store.batch([PutOp(NS, key, {"text": f"Likes {key}."}, ttl=1) for key in ("tea", "milk")])
    clock.advance(seconds=30)
    original, edited = Memory.apply, []

    def apply(memory, change):
        if not edited:
            edited.append(edit(memory.path("tea"), "Likes tea.\n", "Likes cocoa.\n"))
        return original(memory, change)

    monkeypatch.setattr(Memory, "apply", apply)
    assert len(store.search(NS)) == 2
    clock.advance(seconds=45)
    assert {item.value["text"] for item in store.search(NS)} == {"Likes cocoa.", "Likes milk."}


@pytest.mark.parametrize("ttl", [0, -1, True, "1", float("nan"), float("inf"), 1e12])
def test_a_time_that_is_none_is_refused(store, ttl):
    with pytest.raises(InvalidInput, match="ttl"):
        store.put(NS, "tea", {"text": "Likes tea."}, ttl=ttl)
    assert store.search(NS) == []


@pytest.mark.parametrize(
    "ttl",
    [
        {"default_ttl": 0},
        {"sweep_interval_minutes": -1},
        {"default": 5},
        {1: 5, "default": 5},
        {"omit_expired": False},
        {"refresh_on_read": "no"},
        5,
    ],
)
def test_a_configuration_that_can_not_be_kept_is_refused(engine, ttl):
    with pytest.raises(InvalidInput, match=r"default_ttl|sweep_interval_minutes|ttl has|refresh_on_read is 'no'"):
        DeerMemStore(engine, ttl=ttl)


def test_a_thread_sweeps_until_it_is_stopped(engine, root, clock):
    store = DeerMemStore(engine, "alice", ttl={"default_ttl": 1, "sweep_interval_minutes": 0.0001})
    store.put(NS, "tea", {"text": "Likes tea."})
    clock.advance(seconds=61)
    with pytest.raises(InvalidInput, match="sweep_interval_minutes is 0"):
        store.start_ttl_sweeper(0)
    store.start_ttl_sweeper()
    store.start_ttl_sweeper()
    end = time.monotonic() + 60
    while files(root) and time.monotonic() < end:
        time.sleep(0.005)
    assert files(root) == 0
    assert store.stop_ttl_sweeper(60)
    assert store.stop_ttl_sweeper()


def test_the_thread_ends_with_its_engine(root, caplog):
    engine = DeerMem(root, Settings(max_facts=0))
    store = DeerMemStore(engine, user_at=0)
    store.put(NS, "tea", {"text": "Likes tea."})
    store.put(("bob",), "tea", {"text": "Likes tea."})
    engine.close()
    (root / "users/bob/memory.json").write_text("{")
    with caplog.at_level(logging.WARNING, "deermem"):
        store.start_ttl_sweeper(1e-6)
        (thread,) = [each for each in threading.enumerate() if each.name == "deermem-ttl"]
        thread.join(60)
    assert not thread.is_alive()
    assert caplog.text == ""
    assert store.stop_ttl_sweeper()


def test_a_sweep_that_fails_is_logged_and_tried_again(caplog):
    tries: list[int] = []

    def sweep() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("disk full")
        return 0

    sweeper = Sweeper(sweep)
    with caplog.at_level(logging.WARNING, "deermem"):
        sweeper.start(1e-6)
        end = time.monotonic() + 60
        while len(tries) < 2 and time.monotonic() < end:
            time.sleep(0.001)
        assert sweeper.stop(60)
    assert len(tries) >= 2
    assert "disk full" in caplog.text
