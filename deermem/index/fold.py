"""The one folding of text: what is the same to a reader becomes the same characters.

NFKC and case folding (ß is ss, İ is i, full width is half width); combining marks of Latin, Greek and Cyrillic
fall away, so do zero-width and other format characters; digits of every script become ASCII; typographic
apostrophes and hyphens become their ASCII twins; symbols and emoji stand alone between blanks; every other
punctuation beyond ASCII becomes a blank. Marks that carry the word itself (Devanagari, Thai) stay. Letters that
only a stroke or a ligature parts from Latin ones become those, the forms of Arabic letters one of them.
"""

from __future__ import annotations

import unicodedata
from typing import Final

_MAX_KNOWN: Final = 20_000
_APOSTROPHES: Final = frozenset("’‘ʼ′＇ʻ‛՚׳ꞌ")
_HYPHENS: Final = frozenset("‐‑﹣－־֊")
_TWINS: Final = {
    **{ord(one): other for one, other in zip("łøđħŧıأإآٱىیکةەۀ", "lodhtiااااييكههه", strict=True)},
    **{ord("æ"): "ae", ord("œ"): "oe"},
}
_UNSEEN: Final = frozenset("\u055b\u055c\u055e\u055f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f")
"""Armenian marks, which stand inside the word that they stress, and letters that are no more than a filling."""

_SIGNS: Final = str.maketrans({"™": " ", "℠": " ", "´": "'", "`": "'"})
"""NFKC would make letters of the first two, and `Acme™` another word than `Acme`, and part `don´t` at its accent."""

_FREE_MARKS: Final = ((0x0300, 0x036F), (0x0483, 0x0489), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x20D0, 0x20FF),
                      (0xFE00, 0xFE0F), (0xFE20, 0xFE2F), (0xE0100, 0xE01EF))  # fmt: skip
_POINTS: Final = ((0x0591, 0x05C7), (0x0610, 0x061A), (0x064B, 0x065F), (0x0670, 0x0670), (0x06D6, 0x06ED))
_TATWEEL: Final = 0x0640
_SKIN_TONES: Final = (0x1F3FB, 0x1F3FF)
_REGIONAL: Final = (0x1F1E6, 0x1F1FF)


def fold(text: str) -> str:
    """The folded text. Idempotent but for blanks; never raises, lone surrogates become blanks."""
    if text.isascii():
        return text.lower().replace("`", "'")
    plain = unicodedata.normalize("NFKC", text.translate(_SIGNS))
    return unicodedata.normalize("NFKC", plain.casefold()).translate(_TABLE)


def category_key(category: str) -> str:
    """A category as filters compare it: case, outer blanks and the normal form don't count."""
    folded = unicodedata.normalize("NFC", category.strip()).casefold()
    return folded if folded.isascii() else unicodedata.normalize("NFC", folded)


class _Table(dict[int, str]):
    """A `str.translate` table that works out a character when it is first met."""

    def __missing__(self, code: int) -> str:
        if len(self) > _MAX_KNOWN:
            self.clear()
        folded = self[code] = _fold_character(chr(code))
        return folded


_TABLE: Final = _Table()


def _within(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(low <= code <= high for low, high in ranges)


def _fold_character(character: str) -> str:
    code = ord(character)
    if code < 0x80:
        return character
    if character in _APOSTROPHES:
        return "'"
    if character in _HYPHENS:
        return "-"
    if code in _TWINS:
        return _TWINS[code]
    if code == _TATWEEL or character in _UNSEEN or _within(code, (*_FREE_MARKS, *_POINTS, _SKIN_TONES)):
        return ""
    return _fold_by_category(character, code)


def _fold_by_category(character: str, code: int) -> str:
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category[0] in "LNM":
        return _without_marks(character, code)
    if category == "Cf":
        return ""
    if _within(code, (_REGIONAL,)):
        return character
    if category[0] == "S" or category in ("Co", "Cn"):
        return f" {character} "
    return " "


def _without_marks(character: str, code: int) -> str:
    """Й stays: in Russian it is a letter, and the stemmer needs it; `tokens` lets it fall afterwards."""
    if character == "й" or not (code < 0x0530 or 0x1E00 <= code <= 0x1FFF):
        return character
    parts = unicodedata.normalize("NFD", character)
    return "".join(part for part in parts if not unicodedata.combining(part))
