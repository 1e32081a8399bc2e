"""Two memory.json that git could not join, as one: valid, above both, and no newer text lost."""

from __future__ import annotations

import json
from difflib import SequenceMatcher

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from deermem.clock import parse_timestamp
from deermem.format import manifest
from deermem.format.manifest import Manifest
from deermem.format.merge import resolve
from deermem.format.problems import FormatError
from deermem.model.summaries import SECTIONS, Section, Summaries

# A small stock, so that sides often agree in part; markers within a text must not matter.
texts = st.sampled_from(["", "A compiler.", "A parser.\n<<<<<<< HEAD\n=======\n", "Ünï\u2028code"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=5
)
stamps = st.sampled_from(
    ["", "no time", "2026-01-01", "2026-01-02T00:00:00Z", "2026-01-02T01:00:00+01:00", "2026-03-01"]
)
sections = st.builds(Section, texts, stamps)
documents = st.builds(
    Summaries,
    revision=st.integers(0, 50),
    last_updated=stamps,
    **dict.fromkeys(SECTIONS.values(), sections),
)
own = st.dictionaries(st.sampled_from(["mine", "x"]), st.integers() | texts | st.dictionaries(texts, texts, max_size=2))


def written(summaries: Summaries, extra: dict[str, object]) -> bytes:
    base = manifest.decode(json.dumps({"version": "2.0", **extra}).encode())
    return manifest.encode(base, summaries=summaries, revision=summaries.revision, now=summaries.last_updated)


def conflicted(ours: bytes, theirs: bytes, *, diff3: bool) -> bytes:
    """As git leaves a file that both branches changed: common lines once, hunks between markers."""
    one, other = ours.decode().split("\n"), theirs.decode().split("\n")
    lines: list[str] = []
    for kind, start, stop, begin, end in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if kind == "equal":
            lines += one[start:stop]
        else:
            base = ["||||||| 1a2b3c4", *one[start:stop]] if diff3 else []
            lines += ["<<<<<<< HEAD", *one[start:stop], *base, "=======", *other[begin:end], ">>>>>>> branch"]
    return "\n".join(lines).encode()


def is_newer(one: str, other: str) -> bool:
    mine, others = parse_timestamp(one), parse_timestamp(other)
    return mine is not None and (others is None or mine > others)


def joined(ours: bytes, theirs: bytes, *, diff3: bool) -> Manifest | None:
    try:
        found = resolve(conflicted(ours, theirs, diff3=diff3))
    except FormatError:
        return None
    summaries = found.summaries
    data = manifest.encode(found, summaries=summaries, revision=summaries.revision, now=summaries.last_updated)
    assert not manifest.needs_migration(manifest.decode(data).raw)
    again = manifest.decode(data)
    assert again.summaries == summaries
    return again


@given(documents, documents, own, own, st.booleans())
def test_any_two_documents_join_or_are_left_to_a_person(
    one: Summaries, other: Summaries, mine: dict[str, object], others: dict[str, object], diff3: bool
) -> None:
    assume(one != other or mine != others)
    found = joined(written(one, mine), written(other, others), diff3=diff3)
    pairs = [(name, one.section(name), other.section(name)) for name in SECTIONS.values()]
    unclear = [
        name
        for name, a, b in pairs
        if a.summary
        and b.summary
        and a.summary != b.summary
        and not is_newer(a.updated_at, b.updated_at)
        and not is_newer(b.updated_at, a.updated_at)
    ]
    assert (found is None) == bool(unclear)
    if found is None:
        return
    assert found.summaries.revision == max(one.revision, other.revision) + 1
    assert found.summaries.last_updated in (one.last_updated, other.last_updated)
    assert not any(is_newer(side.last_updated, found.summaries.last_updated) for side in (one, other))
    for name, a, b in pairs:
        taken = found.summaries.section(name)
        assert taken in (a, b)
        for side, facing in ((a, b), (b, a)):
            if side.summary and (not facing.summary or is_newer(side.updated_at, facing.updated_at)):
                assert taken.summary == side.summary
    assert {key: found.raw[key] for key in mine if not isinstance(mine[key], dict)} == {
        key: value for key, value in mine.items() if not isinstance(value, dict)
    }
    assert {*mine, *others} <= found.raw.keys()


@given(documents, own)
def test_joining_takes_the_same_text_from_either_order(one: Summaries, mine: dict[str, object]) -> None:
    later = one.with_section("workContext", Section("Said later.", "2027-01-01"))
    assume(later != one)
    ours, theirs = written(one, mine), written(later, mine)
    for first, second in ((ours, theirs), (theirs, ours)):
        found = joined(first, second, diff3=False)
        assert found is not None
        assert found.summaries.work_context.summary == "Said later."


V2 = '{"version": "2.0", "revision": 1}'


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (V2, '{"version": "1.0", "facts": []}', "second side of the merge is of version 1"),
        ('{"version": "2.0", "revision": 1,', V2, "first side of the merge can't be read"),
        (V2, '{"version": "9.0"}', "second side of the merge can't be read"),
    ],
)
def test_a_side_that_is_no_document_of_this_version_is_left_to_a_person(ours: str, theirs: str, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        resolve(f"<<<<<<< HEAD\n{ours}\n=======\n{theirs}\n>>>>>>> x\n".encode())


@pytest.mark.parametrize(
    ("data", "code"), [(b"<<<<<<< HEAD\n{}\n>>>>>>> x\n", "merge-conflict"), (b"<<<<<<< \xff", "not-utf8")]
)
def test_markers_out_of_order_and_strange_bytes_are_left_to_a_person(data: bytes, code: str) -> None:
    with pytest.raises(FormatError) as caught:
        resolve(data)
    assert caught.value.problem.code == code


def test_keys_that_others_added_come_from_both_sides_and_ours_win() -> None:
    ours = {"version": "2.0", "x": 1, "o": {"a": 1}, "user": {"workContext": {"summary": "W", "pin": "o"}, "mood": "o"}}
    theirs = {"version": "2.0", "x": 2, "y": [3], "o": {"a": 2, "b": 2}, "user": {"workContext": {"pin": "t", "t": 1}}}
    found = resolve(f"<<<<<<< a\n{json.dumps(ours)}\n=======\n{json.dumps(theirs)}\n>>>>>>> b\n".encode())
    document = json.loads(manifest.encode(found, summaries=found.summaries, revision=1, now=""))
    assert (document["x"], document["y"], document["o"]) == (1, [3], {"a": 1, "b": 2})
    assert document["user"]["mood"] == "o"
    assert document["user"]["workContext"] == {"summary": "W", "updatedAt": "", "pin": "o", "t": 1}
