"""Namespaces and keys on disk: readable, never two in one place, matched label by label."""

from __future__ import annotations

import re

import pytest
from builders_store import facts_of, place
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("langgraph.store.base")

from langgraph.store.base import InvalidNamespaceError, ListNamespacesOp, MatchCondition

from deermem import Corruption, DeerMemError, InvalidInput
from deermem.integrations.langgraph_store import DeerMemStore, namespace_label
from deermem.integrations.langgraph_store.names import agent_of, ids_of, is_long, namespace_of, text_of_label

LABEL = st.text(st.characters(exclude_characters=".\0", exclude_categories=["Cs"]), min_size=1)


@pytest.mark.parametrize(
    ("namespace", "agent"),
    [
        (("memories", "alice"), "ns-memories--alice"),
        (("memories-alice",), "ns-memories-alice"),
        (("memories--alice",), "ns-memories-q2dalice"),
        (("-", "a-", "-a"), "ns-q2d--aq2d--q2da"),
        (("Alice",), "ns-q41lice"),
        (("user_1",), "ns-userq5f1"),
        (("a/b", "~2E~2Ex~2e~"), "ns-aq2fb--q2eq2exq7e2eq7e"),
        (("q",), "ns-q71"),
        (("CON",), "ns-q43q4fq4e"),
        (("ü",), "ns-qc3qbc"),
    ],
)
def test_a_folder_says_its_namespace(namespace, agent):
    assert agent_of(namespace) == agent
    assert namespace_of(agent) == namespace


@given(st.lists(LABEL, min_size=1, max_size=4).map(tuple))
def test_no_two_namespaces_share_a_folder(namespace):
    agent = agent_of(namespace)
    assert re.fullmatch(r"[a-z0-9-]{1,128}", agent)
    assert namespace_of(agent) == (None if is_long(agent) else namespace)


def test_long_namespaces_are_told_apart_by_a_hash():
    long = "x" * 200
    agents = {agent_of(namespace) for namespace in [(long,), (long, "a"), ("x" * 201,), ("x" * 100, "x" * 100)]}
    assert len(agents) == 4
    assert {len(agent) <= 128 and agent.startswith("nsx-xxx") for agent in agents} == {True}


@pytest.mark.parametrize(
    "agent", ["coder", "__default__", "ns-", "ns-a---b", "ns-Q", "ns-q2", "ns-qff", "ns-a--", "ns-q61"]
)
def test_other_agents_are_no_namespaces(agent):
    assert namespace_of(agent) is None


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True, max_size=6))
def test_no_two_keys_share_an_id(keys):
    made = [ids_of(key)[0] for key in keys]
    assert len({fact_id.lower() for fact_id in made}) == len(keys)
    assert all(re.fullmatch(r"[a-z0-9_-]{1,128}", fact_id) for fact_id in made)


@pytest.mark.parametrize(
    ("key", "fact_id"),
    [
        ("fact_1", "fact_1"),
        ("/memories/../a b.md", "memories-a-b-md-fc9e1632373dc4ff"),
        ("Fact", "fact-"),
        ("", "item-"),
        ("k-0123456789abcdef", "k-0123456789abcdef-"),
        ("x" * 300, "x" * 80 + "-"),
    ],
)
def test_an_id_says_its_key(key, fact_id):
    assert ids_of(key)[0].startswith(fact_id)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_any_text_is_a_label(text):
    label = namespace_label(text)
    assert re.fullmatch(r"[A-Za-z0-9_@+:~-]+", label)
    assert text_of_label(label) == text


@pytest.mark.parametrize("label", ["a~b", "~", "ü", "~41", "~FF", "~2e", "a~2E.", "~00"])
def test_a_label_of_other_making_is_its_own_text(label):
    assert text_of_label(label) == label


@pytest.mark.parametrize("text", ["", "a\0", "\ud800", 7, None])
def test_what_no_user_is_called_is_no_label(text):
    with pytest.raises(InvalidInput, match="namespace label"):
        namespace_label(text)


ODD = [
    ("ab",), ("abc",), ("a", "b"), ("a", "b", "c"), ("a-b",), ("a--b",), ("a/b",), ("A", "b"), ("q",), ("a_%",),
    ("star*",), ("starX",), ("alice\n",), ("alice",), ("foo", "langgraph"), ("é",), ("e\u0301",), ("CON",),
    ("x" * 250,), ("x" * 250, "y"),
]  # fmt: skip


def test_namespaces_are_matched_label_by_label(store):
    for number, namespace in enumerate(ODD):
        store.put(namespace, "k", {"n": number})
    for number, namespace in enumerate(ODD):
        assert store.get(namespace, "k").value == {"n": number}
        below = {item.namespace for item in store.search(namespace, limit=100)}
        assert below == {other for other in ODD if other[: len(namespace)] == namespace}
        assert set(store.list_namespaces(prefix=namespace)) == below
        assert namespace in store.list_namespaces(suffix=namespace)
    assert store.list_namespaces(limit=1000) == sorted(ODD)
    assert store.search(("a", "*")) == []


TREE = [("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "b", "f"), ("a", "c", "f"), ("b", "a", "f")]


LISTINGS = [
    ({"prefix": ("a", "b")}, TREE[:4]),
    ({"suffix": ("f",)}, [TREE[3], TREE[4], TREE[5]]),
    ({"prefix": ("a",), "suffix": ("f",)}, [TREE[3], TREE[4]]),
    ({"prefix": ("a", "b"), "max_depth": 3}, [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")]),
    ({"max_depth": 1}, [("a",), ("b",)]),
    ({"max_depth": 1, "offset": 1}, [("b",)]),
    ({"prefix": ("a", "*", "f")}, [TREE[3], TREE[4]]),
    ({"prefix": ("*", "a")}, [TREE[5]]),
    ({"suffix": ("*", "f")}, [TREE[3], TREE[4], TREE[5]]),
    ({"prefix": ["a"], "suffix": ["i"]}, [TREE[2]]),
    ({"prefix": ("a", "b"), "limit": 2}, TREE[:2]),
    ({"prefix": ("a", "b"), "offset": 2}, TREE[2:4]),
    ({"prefix": ("nothing",)}, []),
    ({"limit": 0}, []),
    ({}, TREE),
]


def test_namespaces_are_listed(store):
    for namespace in TREE:
        store.put(namespace, "k", {"n": 1})
    for asked, found in LISTINGS:
        assert store.list_namespaces(**asked) == found, asked


def test_a_namespace_without_an_item_is_not_listed(store):
    for namespace in TREE:
        store.put(namespace, "k", {"n": 1})
        store.delete(namespace, "k")
    assert store.list_namespaces() == []


def test_a_condition_of_no_kind_is_refused(store):
    store.put(("a",), "k", {"n": 1})
    with pytest.raises(ValueError, match="Unsupported match type"):
        store.batch([ListNamespacesOp(match_conditions=(MatchCondition("infix", ("a",)),))])  # type: ignore[arg-type]


@pytest.mark.parametrize("label", [7, None, b"a", "a.b", "", "a\0"])
@pytest.mark.parametrize("call", ["get", "delete", "search", "prefix", "suffix"])
def test_labels_that_are_none_are_refused_everywhere(store, call, label):
    calls = {
        "get": lambda: store.get(("a", label), "k"),
        "delete": lambda: store.delete(("a", label), "k"),
        "search": lambda: store.search(("a", label)),
        "prefix": lambda: store.list_namespaces(prefix=("a", label)),
        "suffix": lambda: store.list_namespaces(suffix=(label,)),
    }
    with pytest.raises(InvalidNamespaceError):
        calls[call]()


def test_agents_of_other_programs_are_not_seen_and_not_touched(store, engine, root):
    engine.memory("alice", "coder").add("Prefers tabs.")
    engine.memory("alice").add("Speaks French.")
    store.put(("memories",), "tea", {"text": "Likes tea."})
    assert [item.key for item in store.search(())] == ["tea"]
    assert store.search((), query="tabs French") == []
    assert store.list_namespaces() == [("memories",)]
    assert [fact.content for fact in engine.memory("alice", "coder").list()] == ["Prefers tabs."]


# --- users


def test_each_user_has_a_folder_a_lock_and_an_index(engine, root):
    store = DeerMemStore(engine, user_at=1)
    label = namespace_label("alice@example.com")
    store.put(("memories", label), "tea", {"text": "Likes tea."})
    store.put(("memories", "bob"), "tea", {"text": "Likes tea too."})
    store.put(("shared",), "tea", {"text": "Tea is at four."})
    folders = sorted(path.name for path in (root / "users").iterdir())
    assert folders == ["alice-example-com-ff8d9819fc0e12bf", "bob"]
    assert engine.agents("alice@example.com") == ["ns-memories--aliceq40exampleq2ecom"]
    assert engine.agents(None) == ["ns-shared"]
    assert len(store.search((), query="tea", limit=10)) == 3
    assert {item.namespace for item in store.search(())} == {("memories", label), ("memories", "bob"), ("shared",)}
    assert [item.value["text"] for item in store.search(("memories", "bob"), query="tea")] == ["Likes tea too."]
    assert store.list_namespaces(suffix=("*",)) == [("memories", label), ("memories", "bob"), ("shared",)]
    engine.clear("alice@example.com")
    assert store.list_namespaces() == [("memories", "bob"), ("shared",)]


def test_a_namespace_in_a_folder_of_another_user_is_nobodys(engine, root):
    store = DeerMemStore(engine, user_at=1)
    store.put(("memories", "bob"), "tea", {"text": "Likes tea."})
    place(facts_of(root, "alice", "ns-memories--bob") / "stolen.md", "Not bob's.\n")
    assert [item.key for item in store.search((), limit=100)] == ["tea"]
    assert store.get(("memories", "bob"), "stolen") is None


def test_a_store_of_one_user_takes_any_id(engine):
    store = DeerMemStore(engine, "alice@example.com")
    store.put(("memories",), "tea", {"text": "Likes tea."})
    assert DeerMemStore(engine, "bob@example.com").search(()) == []
    assert DeerMemStore(engine).search(()) == []
    assert DeerMemStore(engine, "alice@example.com").get(("memories",), "tea") is not None


def test_long_namespaces_of_users_are_found_by_what_their_files_say(engine):
    store = DeerMemStore(engine, user_at=0)
    long = ("alice", "x" * 200)
    store.put(long, "tea", {"text": "Likes tea."})
    assert store.list_namespaces() == [long]
    assert [item.namespace for item in store.search((), query="tea")] == [long]
    assert [item.namespace for item in store.search(("alice",))] == [long]
    assert DeerMemStore(engine, user_at=0).get(long, "tea") is not None


def test_a_user_whose_id_is_longer_than_a_folders_name_is_refused(engine, root):
    store = DeerMemStore(engine, user_at=0)
    for call in (
        lambda: store.put(("x" * 129,), "k", {"n": 1}),
        lambda: store.get(("x" * 129,), "k"),
        lambda: store.search(("x" * 129,)),
    ):
        with pytest.raises(InvalidInput, match="at most 128 fit"):
            call()
    place(facts_of(root, None, agent_of(("x" * 129,))) / "k.md", f"---\nnamespace: [{'x' * 129}]\n---\nText.\n")
    assert store.search(()) == []
    assert store.list_namespaces() == []


def test_more_users_than_stay_open_are_searched_together(engine, monkeypatch):
    monkeypatch.setattr("deermem.service.open_users._OPEN_USERS", 2)
    store = DeerMemStore(engine, user_at=0)
    for number in range(5):
        store.put((f"user{number}",), "tea", {"text": f"User {number} likes tea."})
    assert len(store.search(())) == 5
    assert len(store.search((), query="tea")) == 5
    assert len(store.list_namespaces()) == 5


def test_a_user_who_can_not_be_read_is_left_out_with_a_warning_where_others_are_asked_too(engine, root, caplog):
    store = DeerMemStore(engine, user_at=1)
    store.put(("m", "alice"), "k", {"text": "Likes tea."})
    place(facts_of(root, "bob", "ns-m--bob") / "k.md", "Likes tea.\n")
    place(root / "users/bob/memory.json", '{"facts": [')
    asked = (
        lambda: [item.namespace for item in store.search(())],
        lambda: [item.namespace for item in store.search(("m",), query="tea")],
        store.list_namespaces,
    )
    for look in asked:
        caplog.clear()
        assert look() == [("m", "alice")]
        assert [record.message.partition(":")[0] for record in caplog.records] == [
            "the items of user 'bob' are left out"
        ]
    for refused in (lambda: store.search(("m", "bob")), lambda: store.get(("m", "bob"), "k"), store.sweep_ttl):
        with pytest.raises(Corruption, match=r"users/bob/memory\.json"):
            refused()
    engine.close()
    with pytest.raises(DeerMemError, match="the engine is closed"):
        store.search(())
