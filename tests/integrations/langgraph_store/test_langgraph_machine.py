"""Random histories of a store against a dictionary: odd namespaces, odd keys, any JSON."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

pytest.importorskip("langgraph.store.base")

from langgraph.store.base import GetOp, PutOp, SearchOp

from deermem import DeerMem, Settings
from deermem.integrations.langgraph_store import DeerMemStore

LABELS = st.sampled_from(
    ["a", "b", "ab", "A", "a-b", "a--b", "-", "q", "q2d", "a/b", "CON", "ü", "*", "alice%2Ecom", "x" * 60]
)
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
KEYS = st.one_of(
    st.sampled_from(
        ["k", "K", "fact_1", "/memories/../a b.md", "", " ", "a" * 300, "con", "k-0123456789abcdef", "ключ", "…\n…"]
    ),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    [
        "\n\n  indented\n",
        "# A heading\n\ntext\n",
        "---\nid: x\n---\n",
        "```json\n{}\n```",
        "<<<<<<< a\n=======\n>>>>>>> b\n",
        "a\r\nb\r\n",
        " ",
        "",
    ]
)
VALUES = st.one_of(
    st.dictionaries(
        st.text(max_size=8) | st.sampled_from(["id", "key", "item", "value", "langgraph"]), JSON, max_size=4
    ),
    st.builds(
        lambda name, text, more: {name: text, **more},
        st.sampled_from(["content", "text", "memory", "note"]),
        TEXTS,
        st.dictionaries(st.sampled_from(["kind", "n", "tags", "item"]), JSON, max_size=2),
    ),
)


def exact(value: Any) -> str:
    """Text that tells 1 from 1.0 and from true."""
    return json.dumps(value, sort_keys=True)


class StoreMachine(RuleBasedStateMachine):
    """What the store says is what a dictionary of (namespace, key) would."""

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.engine = DeerMem(Path(self.folder.name, "store"), Settings(max_facts=0))
        self.store = DeerMemStore(self.engine, "alice@example.com")
        self.known: dict[tuple[tuple[str, ...], str], Any] = {}

    @rule(namespace=NAMESPACES, key=KEYS, value=VALUES)
    def put(self, namespace: tuple[str, ...], key: str, value: dict[str, Any]) -> None:
        self.store.put(namespace, key, value)
        self.known[namespace, key] = value
        self.get(namespace, key)

    @rule(puts=st.lists(st.tuples(NAMESPACES, KEYS, st.none() | VALUES), max_size=6), read=st.tuples(NAMESPACES, KEYS))
    def batch(self, puts: list[tuple[tuple[str, ...], str, Any]], read: tuple[tuple[str, ...], str]) -> None:
        before = self.known.get(read)
        found, *nothing = self.store.batch([GetOp(*read), *(PutOp(*put) for put in puts)])
        assert exact(found.value if found else None) == exact(before)
        assert nothing == [None] * len(puts)
        for namespace, key, value in puts:
            self.known[namespace, key] = value
        self.known = {place: value for place, value in self.known.items() if value is not None}

    @rule(namespace=NAMESPACES, key=KEYS)
    def get(self, namespace: tuple[str, ...], key: str) -> None:
        item = self.store.get(namespace, key)
        assert exact(item.value if item else None) == exact(self.known.get((namespace, key)))
        assert item is None or (item.namespace, item.key) == (namespace, key)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from(sorted(self.known)) if self.known else st.tuples(NAMESPACES, KEYS))
        self.store.delete(*place)
        self.known.pop(place, None)

    @rule()
    def reopen(self) -> None:
        root = self.engine.root
        self.engine.close()
        self.engine = DeerMem(root, Settings(max_facts=0))
        self.store = DeerMemStore(self.engine, "alice@example.com")

    @rule(prefix=st.lists(LABELS, max_size=2).map(tuple), size=st.integers(1, 3))
    def search(self, prefix: tuple[str, ...], size: int) -> None:
        wanted = {place: exact(value) for place, value in self.known.items() if place[0][: len(prefix)] == prefix}
        found = []
        while page := self.store.search(prefix, limit=size, offset=len(found)):
            found += page
        assert {(item.namespace, item.key): exact(item.value) for item in found} == wanted
        assert len(found) == len(wanted)

    @invariant()
    def namespaces(self) -> None:
        wanted = sorted({namespace for namespace, _ in self.known})
        (found,) = self.store.batch([SearchOp((), limit=1)])
        assert bool(found) == bool(self.known)
        assert self.store.list_namespaces(limit=10_000) == wanted

    def teardown(self) -> None:
        self.engine.close()
        self.folder.cleanup()


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=8, stateful_step_count=12, deadline=None)
