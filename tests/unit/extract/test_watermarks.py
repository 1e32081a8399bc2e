"""How far a conversation was extracted, known by the keys of its last turns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deermem.extract.messages import Turn
from deermem.extract.watermarks import beyond, read_watermarks, tail_of, write_watermarks


def said(keys: str) -> tuple[Turn, ...]:
    return tuple(Turn("user", "something", key) for key in keys)


def rest(extracted: str, now: str) -> str:
    return "".join(turn.key for turn in beyond(said(now), tail_of(said(extracted))))


@pytest.mark.parametrize(
    ("extracted", "now", "new"),
    [
        ("", "ab", "ab"),
        ("ab", "ab", ""),
        ("ab", "abcd", "cd"),
        ("abcdefghijkl", "abcdefghijklm", "m"),
        # The host cut the front: much of it, nearly all of it, all of it.
        ("abcdefghijkl", "ghijklm", "m"),
        ("abcdefghijkl", "lm", "m"),
        ("abcdefghijkl", "m", "m"),
        # Another answer, an edited message, at the end, in the middle, at the beginning.
        ("ab", "aB", "B"),
        ("ab", "AB", "AB"),
        ("abcdef", "abcdeF", "F"),
        ("abcdef", "abCD", "CD"),
        ("abcdefghijkl", "abcdefghijKL", "KL"),
        ("abcdefghijkl", "abcdefgH", "H"),
        # Taken back further than is known.
        ("abcdefghijkl", "abC", "abC"),
        # Cut and taken back.
        ("abcdefghijkl", "fghijK", "K"),
        # Two turns that recur in the middle are no watermark.
        ("abcdefghij", "xyijz", "xyijz"),
        # Standing twice, the first place counts.
        ("abcabc", "abcabcabcd", "abcd"),
    ],
)
def test_what_came_after(extracted: str, now: str, new: str):
    assert rest(extracted, now) == new


@given(st.text("abc", max_size=14), st.text("abcd", max_size=8))
def test_of_a_conversation_that_went_on_nothing_new_is_passed_over(extracted: str, more: str):
    found = rest(extracted, extracted + more)
    assert found.endswith(more)
    assert (extracted + more).endswith(found)


def test_eight_keys_a_conversation_are_kept_and_read_back():
    tail = tail_of(said("abcdefghijkl"))
    assert tail == tuple("efghijkl")
    assert read_watermarks(write_watermarks({}, "a/t", tail, max_keys=5)) == {"a/t": tail}


def test_a_file_with_fewer_keys_is_read():
    assert read_watermarks(b'{"a/t":["x","y","z"],"a/odd":[],"a/more":[1]}') == {"a/t": ("x", "y", "z")}
