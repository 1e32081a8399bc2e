"""Where a text may be cut: never within what a reader takes for one character.

A base with its marks, joined emoji, a flag's two letters, a syllable of Hangul letters, and Indic or Khmer consonants
that a virama ties together. Longer heaps of marks than anybody writes are cut all the same.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final

_LONGEST: Final = 64
_JOINERS: Final = "\u200c\u200d"
_VIRAMA: Final = 9


def is_inside(text: str, at: int) -> bool:
    """Whether a cut before `text[at]` would part a character."""
    if not 0 < at < len(text) or text[at] < "\u0300":
        return False
    before, after = text[at - 1], text[at]
    if before in _JOINERS or _extends(after):
        return True
    if _is_flag_letter(before) and _is_flag_letter(after):
        return _flag_letters_before(text, at) % 2 == 1
    return unicodedata.combining(before) == _VIRAMA and after.isalpha()


def start_of(text: str, at: int) -> int:
    """The last place up to `at` where the text may be cut."""
    found = at
    while at - found < _LONGEST and is_inside(text, found):
        found -= 1
    return at if is_inside(text, found) else found


def end_of(text: str, at: int) -> int:
    """The first place from `at` on where the text may be cut."""
    found = at
    while found - at < _LONGEST and is_inside(text, found):
        found += 1
    return at if is_inside(text, found) else found


@lru_cache(maxsize=4096)
def _extends(character: str) -> bool:
    return (
        unicodedata.category(character)[0] == "M"
        or character in _JOINERS
        or character in "\u0e33\u0eb3\uff9e\uff9f"
        or "\u1160" <= character <= "\u11ff"
        or "🏻" <= character <= "🏿"
        or "\U000e0020" <= character <= "\U000e007f"
    )


def _is_flag_letter(character: str) -> bool:
    return "🇦" <= character <= "🇿"


def _flag_letters_before(text: str, at: int) -> int:
    found = 0
    # All of a row decide which two belong together; longer rows than this say nothing any more.
    while found < 1024 and found < at and _is_flag_letter(text[at - found - 1]):
        found += 1
    return found
