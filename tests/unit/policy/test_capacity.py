"""Who goes when a bucket is full."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deermem.policy.capacity import Ranked, rank_key, victims


def ranked(fact_id: str, confidence: float, created_at: float = 0.0) -> Ranked:
    return Ranked(fact_id, confidence, created_at)


LOW, MID, TOP = ranked("low", 0.3), ranked("mid", 0.6), ranked("top", 0.9)


@pytest.mark.parametrize(
    ("existing", "added", "total_after", "cap", "adds", "gone"),
    [
        pytest.param([LOW], [MID], 10, 10, 1, (), id="at the cap"),
        pytest.param([LOW], [MID], 3, 10, 1, (), id="below the cap"),
        pytest.param([LOW], [MID], 5000, 0, 1, (), id="cap 0 is no limit"),
        pytest.param([LOW, MID], [TOP], 11, 10, 1, ("low",), id="the lowest goes"),
        pytest.param([MID, TOP], [LOW], 11, 10, 1, ("low",), id="the new fact is the lowest"),
        pytest.param([ranked("a", 0.5, 1)], [ranked("b", 0.5, 2)], 11, 10, 1, ("a",), id="of equals the older goes"),
        pytest.param([ranked("a", 0.5, 2)], [ranked("b", 0.5, 1)], 11, 10, 1, ("b",), id="a back-dated add goes"),
        pytest.param([ranked("b", 0.5, 1)], [ranked("a", 0.5, 1)], 11, 10, 1, ("a",), id="of twins the smaller id"),
        pytest.param([LOW, MID], [TOP], 500, 10, 1, ("low",), id="over the cap: no more than is added"),
        pytest.param([LOW, MID], [], 500, 10, 0, (), id="an update sheds nothing"),
        pytest.param([MID], [LOW, TOP], 11, 10, 2, ("low",), id="no more than the surplus"),
        pytest.param([MID], [LOW, TOP], 12, 10, 2, ("low", "mid"), id="lowest first"),
        pytest.param([], [TOP, LOW, MID], 3, 1, 3, ("low", "mid"), id="an import into an empty bucket"),
    ],
)
def test_victims(
    existing: list[Ranked], added: list[Ranked], total_after: int, cap: int, adds: int, gone: tuple[str, ...]
) -> None:
    assert victims(existing, added, total_after=total_after, cap=cap, adds=adds) == gone


ROWS = st.lists(
    st.builds(
        Ranked,
        st.text("abZ_-09", min_size=1, max_size=3),
        st.sampled_from([0.0, 0.5, 0.7, 0.70000001, 1.0]),
        st.sampled_from([0.0, -1.5, 1767225600.0, 1767225600.000001]),
    ),
    unique_by=lambda row: row.id,
    max_size=12,
)


@given(ROWS, st.integers(0, 12), st.integers(1, 12))
def test_what_stays_outranks_what_goes_and_the_cap_holds_where_it_held(rows: list[Ranked], adds: int, cap: int) -> None:
    added, existing = rows[:adds], rows[adds:]
    gone = victims(existing, added, total_after=len(rows), cap=cap, adds=len(added))
    assert gone == victims(existing[::-1], added[::-1], total_after=len(rows), cap=cap, adds=len(added))
    assert len(gone) <= len(added)
    staying = [rank_key(row) for row in rows if row.id not in gone]
    assert all(rank_key(row) < min(staying) for row in rows if row.id in gone) or not staying
    assert len(staying) <= max(cap, len(existing))


@given(ROWS)
def test_a_catalogue_sorts_as_the_policy_does(rows: list[Ranked]) -> None:
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE facts (id TEXT, confidence REAL, created_at REAL)")
        database.executemany("INSERT INTO facts VALUES (?, ?, ?)", [(r.id, r.confidence, r.created_at) for r in rows])
        listed = database.execute("SELECT id FROM facts ORDER BY confidence, created_at, id").fetchall()
    database.close()
    assert [fact_id for (fact_id,) in listed] == [row.id for row in sorted(rows, key=rank_key)]
