"""How far a conversation was extracted, known by the keys of its last turns."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deermem.extract.messages import Turn
from deermem.extract.watermarks import Place, Tail, beyond, read_watermarks, tail_of, write_watermarks


def said(keys: str, *, hashed: bool) -> tuple[Turn, ...]:
    return tuple(Turn("user", key, f"sha256:{key}" if hashed else key) for key in keys)


def rest(extracted: str, now: str, *, hashed: bool = True) -> str:
    _, turns = beyond(said(now, hashed=hashed), tail_of(said(extracted, hashed=hashed)))
    return "".join(turn.text for turn in turns)


@pytest.mark.parametrize("hashed", [True, False])
@pytest.mark.parametrize(
    ("extracted", "now", "new"),
    [
        ("", "ab", "ab"),
        ("ab", "ab", ""),
        ("ab", "abcd", "cd"),
        ("abcdefghijkl", "abcdefghijklm", "m"),
        # The host cut the front: much of it, nearly all of it, all of it.
        ("abcdefghijkl", "cdefghijklm", "m"),
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
        # As far back as is known, and further.
        ("abcdefghijkl", "abcdeF", "F"),
        ("abcdefghijkl", "abC", "abC"),
        # Cut and taken back.
        ("abcdefghijkl", "fghijK", "K"),
    ],
)
def test_what_came_after(extracted: str, now: str, new: str, hashed: bool):
    assert rest(extracted, now, hashed=hashed) == new


@pytest.mark.parametrize(
    ("extracted", "now", "new"),
    [
        # What was said before may be said again, in the middle of what is new.
        ("abcdefghij", "xyijz", "xyijz"),
        ("abcdefghij", "xyhijz", "xyhijz"),
        ("ab", "xyabz", "xyabz"),
        ("abcd", "abcDxyabcd", "Dxyabcd"),
        ("abababab", "xyababababz", "xyababababz"),
        ("abcabc", "abcabcabcd", "abcd"),
    ],
)
def test_what_was_said_in_the_same_words_passes_over_nothing_new(extracted: str, now: str, new: str):
    assert rest(extracted, now) == new


def test_a_message_with_an_id_is_known_wherever_it_stands():
    assert rest("abcdefghij", "xyijz", hashed=False) == "z"
    assert rest("abcdefghij", "xyiz", hashed=False) == "z"


@given(st.text("abc", max_size=14), st.text("abcd", max_size=8))
def test_of_a_conversation_that_went_on_just_what_is_new_is_left(extracted: str, more: str):
    assert rest(extracted, extracted + more) == (more if extracted else extracted + more)


class _Host:
    """Tells its conversation, or just what was said since; unheard-of letters stand for what is new."""

    def __init__(self, *, all_of_it: bool) -> None:
        self._all_of_it = all_of_it
        self._letters = map(chr, count(0x4E00))
        self._told = ""

    def tell(self, back: int, cut: int, more: str) -> tuple[str, set[str]]:
        said_now = "".join(next(self._letters) if letter == "?" else letter for letter in more)
        kept = self._told[cut : max(cut, len(self._told) - back)] if self._all_of_it else ""
        self._told = kept + said_now
        return self._told, {letter for letter in said_now if letter > "z"}


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 12), st.text("abc??", max_size=9)), max_size=9), st.booleans()
)
def test_whatever_is_taken_back_cut_or_said_again_nothing_new_is_passed_over(
    steps: list[tuple[int, int, str]], all_of_it: bool
):
    """What is left out once more, told where it stands, stays as it is."""
    tail: Tail = ()
    host = _Host(all_of_it=all_of_it)
    for back, cut, more in steps:
        told, unheard = host.tell(back, cut, more)
        known, new = beyond(said(told, hashed=True), tail)
        assert unheard <= {turn.text for turn in new}
        assert beyond(new, tail, known) == (known, new)
        tail = tail_of(new, known) if new else tail


def test_how_much_is_taken_back_is_known_after_many_short_steps():
    tail: Tail = ()
    for end in range(2, 13, 2):
        known, new = beyond(said("abcdefghijkl"[:end], hashed=True), tail)
        assert len(new) == 2
        tail = tail_of(new, known)
    _, new = beyond(said("abcdeF", hashed=True), tail)
    assert [turn.text for turn in new] == ["F"]


def test_eight_places_a_conversation_are_kept_and_read_back():
    tail = tail_of(said("abcdefghijkl", hashed=False))
    assert "".join(place.key for place in tail) == "efghijkl"
    assert read_watermarks(write_watermarks({}, "a/t", tail, max_keys=5)) == {"a/t": tail}


def test_a_file_of_keys_alone_is_read_and_a_damaged_entry_is_none():
    found = read_watermarks(b'{"a/t":["x","y","z"],"a/odd":[],"a/more":[1],"a/pair":[["x"]],"a/mixed":["x",["y",1]]}')
    assert found == {"a/t": (Place("x"), Place("y"), Place("z"))}
