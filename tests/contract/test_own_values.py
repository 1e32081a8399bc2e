"""A person's own values are of JSON's types: 1, 1.0 and true are three of them, though Python calls them equal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deermem import ChangeSet, DeerMem


@pytest.mark.parametrize(("first", "then"), [(1, True), (1, 1.0), (False, 0), ([0.0], [-0.0]), ({"a": 1}, {"a": True})])
def test_an_own_value_that_becomes_an_equal_one_of_another_type_is_a_change(root, first, then):
    with DeerMem(root) as engine:
        memory = engine.memory("alice")
        fact = memory.add("Likes tea.")
        fact = memory.apply(ChangeSet([replace(fact, extra={"mood": first})])).facts[0]
        stored = memory.apply(ChangeSet([replace(fact, extra={"mood": then})])).facts[0]
        assert stored.revision == fact.revision + 1
        assert repr(memory.get(fact.id).extra["mood"]) == repr(then)


def test_the_same_own_values_are_no_change(root):
    with DeerMem(root) as engine:
        memory = engine.memory("alice")
        fact = memory.apply(ChangeSet([replace(memory.add("Likes tea."), extra={"mood": {"a": 1, "b": 2}})])).facts[0]
        again = memory.apply(ChangeSet([replace(fact, extra={"mood": {"b": 2, "a": 1}})])).facts[0]
        assert (again.revision, again.version) == (fact.revision, fact.version)
