"""`fact-usage.json` read and written, as DeerFlow lays it out."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from builders_policy import NOW
from hypothesis import given
from hypothesis import strategies as st

from deermem.format.sidecars import usage_times, usage_without
from deermem.format.usage import read_usage, write_usage
from deermem.model.usage import Usage

WRITTEN = b"""{
  "fact_a": {
    "accessHeat": 1.5,
    "accessCount": 2,
    "lastAccessedAt": "2026-11-30T12:00:00Z"
  }
}"""


def said(**entries: object) -> bytes:
    return json.dumps(entries).encode()


def test_what_is_written_and_read():
    assert write_usage(None, {"fact_a": Usage(1.5, 2, NOW)}) == WRITTEN
    assert read_usage(WRITTEN) == {"fact_a": Usage(1.5, 2, NOW)}
    assert write_usage(WRITTEN, {}) == WRITTEN


def test_what_deerflow_wrote_reads_and_writes_the_same(shared: Path) -> None:
    data = (shared / "fixtures/deerflow-v2/users/alice/agents/coder/.metadata/fact-usage.json").read_bytes()
    usage = read_usage(data)
    last = datetime(2026, 11, 30, 19, 38, 46, 948134, tzinfo=UTC)
    assert usage == {name: Usage(1.0, 1, last) for name in ("fact_zh_001", "fact_corr_001")}
    assert write_usage(data, usage) == write_usage(None, usage) == data


NAMES = st.text(alphabet='ab_é"\\\n ', max_size=3)
VALUES = st.builds(Usage, st.sampled_from([0.0, 0.5, 1.25]), st.integers(0, 9), st.sampled_from([None, NOW]))


@given(
    st.dictionaries(NAMES, VALUES, max_size=6),
    st.dictionaries(NAMES, VALUES, max_size=3),
    st.sampled_from([2, None, 1]),
)
def test_a_change_is_written_as_if_the_whole_were(before, changed, indent):
    data = (
        write_usage(None, before)
        if indent == 2
        else json.dumps(json.loads(write_usage(None, before)), indent=indent).encode()
    )
    after = write_usage(data, changed)
    assert read_usage(after) == before | changed
    if indent == 2 or before | changed != before:
        assert after == write_usage(None, before | changed)


@pytest.mark.parametrize("data", [None, b"", b"{", b"[]", b"7", b"null", b"\xff", b"[" * 5000, b"1" * 5000])
def test_a_damaged_file_is_empty(data: bytes | None) -> None:
    assert read_usage(data) == {}
    assert json.loads(write_usage(data, {"a": Usage(1.0, 1, None)})) == {
        "a": {"accessHeat": 1.0, "accessCount": 1, "lastAccessedAt": None}
    }


@pytest.mark.parametrize(
    ("entry", "usage"),
    [
        ({"accessHeat": 2, "accessCount": 3, "lastAccessedAt": "2026-11-30"}, Usage(2.0, 3, NOW.replace(hour=0))),
        ({"accessCount": 3}, Usage(0.0, 3, None)),
        ({}, Usage(0.0, 0, None)),
        ({"accessHeat": "2", "accessCount": [], "lastAccessedAt": 5}, Usage(0.0, 0, None)),
        ({"accessHeat": True, "accessCount": False, "lastAccessedAt": "soon"}, Usage(0.0, 0, None)),
        ({"accessHeat": float("nan"), "accessCount": float("inf")}, Usage(0.0, 0, None)),
        ({"accessHeat": -1, "accessCount": -1}, Usage(0.0, 0, None)),
        ({"accessHeat": 10**400, "accessCount": 10**400}, Usage(1e15, 10**15, None)),
        ({"accessHeat": 1e300, "accessCount": 2.9}, Usage(1e15, 2, None)),
        ({"lastAccessedAt": "0001-01-01T00:00:00+14:00"}, Usage(0.0, 0, None)),
    ],
)
def test_an_odd_value_costs_itself(entry: dict[str, object], usage: Usage) -> None:
    assert read_usage(said(a=entry, b={"accessHeat": 1.0, "accessCount": 1})) == {"a": usage, "b": Usage(1.0, 1, None)}


def test_what_is_no_entry_is_left_out():
    data = said(a=7, b=None, c=["x"], d={"accessCount": 1})
    assert list(read_usage(data)) == ["d"]
    assert list(json.loads(write_usage(data, {"a": Usage(1.0, 1, NOW)}))) == ["d", "a"]


def test_other_entries_and_further_keys_stay():
    data = said(a={"pinned": "yes", "accessHeat": 9.0}, odd={"theirs": [1]})
    written = json.loads(write_usage(data, {"new": Usage(1.0, 1, NOW), "a": Usage(0.5, 4, NOW)}))
    assert list(written) == ["a", "odd", "new"]
    assert written["odd"] == {"theirs": [1]}
    assert written["a"] == {
        "pinned": "yes",
        "accessHeat": 0.5,
        "accessCount": 4,
        "lastAccessedAt": "2026-11-30T12:00:00Z",
    }


def test_half_a_character_stops_nothing():
    data = b'{"a": {"note": "\\ud800"}, "b": {"accessCount": 1}}'
    after = usage_without(data, ["b"])
    assert json.loads(after or b"") == {"a": {"note": "\ud800"}}


def test_what_is_nested_too_deep_is_damaged():
    data = b'{"a": ' + b'{"x": ' * 500 + b"1" + b"}" * 500 + b', "b": {}}'
    assert read_usage(data) == usage_times(data) == {}
    assert usage_without(data, ["b"]) is None
