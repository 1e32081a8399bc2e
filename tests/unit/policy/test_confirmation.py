"""When a fact counts as confirmed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders_policy import NOW, ago, old_fact

from deermem.format.markdown import encode_parsed
from deermem.policy.confirmation import MAX_COUNT, confirm, confirmed

FACTS = (old_fact("a"), old_fact("b"), old_fact(""))


@pytest.mark.parametrize(
    ("count", "after"),
    [
        pytest.param(None, 1, id="for the first time"),
        pytest.param(1, 2, id="again"),
        pytest.param(0, 1, id="no count"),
        pytest.param(-4, 1, id="below nothing"),
        pytest.param(True, 1, id="true"),
        pytest.param("7", 1, id="text"),
        pytest.param(2.5, 1, id="a fraction"),
        pytest.param(MAX_COUNT - 1, MAX_COUNT, id="as many as a file takes"),
        pytest.param(MAX_COUNT, 1, id="one more than a file takes"),
        pytest.param(10**400, 1, id="beyond all reason"),
    ],
)
def test_counting(count: object, after: int) -> None:
    """122: a malformed count starts again at 1."""
    before = replace(FACTS[0], confirmation_count=count, last_confirmed_at=ago(9))  # type: ignore[arg-type]
    assert confirmed(before, NOW) == replace(before, confirmation_count=after, last_confirmed_at=NOW)


@pytest.mark.parametrize(
    ("named", "reinforced", "ids"),
    [
        pytest.param({"a"}, True, ["a"], id="both"),
        pytest.param({"a"}, False, [], id="the model alone"),
        pytest.param(set(), True, [], id="the signal alone"),
        pytest.param({"b", "a"}, True, ["a", "b"], id="in the order of the facts"),
        pytest.param({"nobody"}, True, [], id="a fact that isn't there"),
        pytest.param({""}, True, [], id="a fact without an id"),
    ],
)
def test_it_takes_a_signal_and_a_name(named: set[str], reinforced: bool, ids: list[str]) -> None:
    """122."""
    changed = confirm(FACTS, named, reinforced=reinforced, now=NOW)
    assert [fact.id for fact in changed] == ids
    assert all((fact.last_confirmed_at, fact.confirmation_count) == (NOW, 1) for fact in changed)


def test_a_fact_that_is_given_twice_is_confirmed_once():
    assert len(confirm((FACTS[0], FACTS[0]), ["a"], reinforced=True, now=NOW)) == 1


def test_the_largest_count_can_still_be_read_from_a_file():
    fact = replace(FACTS[0], confirmation_count=MAX_COUNT - 1, user_id="alice", agent_name="coder")
    assert encode_parsed(confirmed(fact, NOW))[1].fact.confirmation_count == MAX_COUNT
