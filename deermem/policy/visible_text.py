"""Stored text as it may stand in a prompt: one line, nothing hidden, no tag, cut where a reader would cut."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from deermem.policy.clusters import start_of
from deermem.policy.tokens_estimate import Count, quarter_tokens

_HIDDEN = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Control characters, lone surrogates and what Unicode calls default-ignorable: read by a model, seen by nobody."""

_SELECTOR = re.compile(r"[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]")
_ENTITIES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_JOINERS: Final = "\u200c\u200d"
_EMOJI_STYLE: Final = "\ufe0f"
_STYLES: Final = "\ufe0e\ufe0f"
_STYLED: Final = "0123456789#*‼⁉ℹ〰〽"
"""What has a text and an emoji style, though it is no symbol."""

_IDEOGRAPH = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_JOINING_SCRIPTS: Final = (("\u0600", "\u1cff"), ("\ua800", "\uabff"), ("\U00010a00", "\U00011fff"))
"""Where joiners shape letters: Arabic to Mongolian and the Indic scripts, in both planes."""


def one_line(text: str) -> str:
    """The text on one line without characters that hide something. Idempotent.

    Line separators of every kind become one blank. Zero-width, bidi, tag and control characters go; a lone
    surrogate becomes U+FFFD. A joiner stays between two emoji and behind an Arabic or Indic letter, one variation
    selector behind an emoji, an ideograph or a letter that has such variants: there they change what people see.
    """
    folded = " ".join(filter(None, map(str.strip, text.splitlines())))
    return folded if folded.isascii() and folded.isprintable() else _without_hidden(folded).strip()


def escape(text: str) -> str:
    """`&`, `<` and `>` as entities, so that no stored text opens or closes a tag; quotes stay."""
    return text.translate(_ENTITIES) if any(mark in text for mark in "&<>") else text


def cut(text: str, room: int, mark: str, cost: Count = quarter_tokens) -> str:
    """The text escaped, whole where it fits into `room` units of `cost`, else as `shorten` leaves it."""
    if _bounds(text, room, cost)[0] == len(text):
        return escape(text)
    return shorten(text, room, mark, cost)


def shorten(text: str, room: int, mark: str, cost: Count = quarter_tokens) -> str:
    """The text escaped, without its end and with `mark` in its place, within `room` units of `cost`.

    Cut behind a sentence, else behind a word, else (that would lose more than half) between two characters;
    never inside an entity. "" where not even one character and the mark fit.
    """
    end = min(_affordable(text, room - cost(mark), cost), len(text) - 1)
    while end > 0:
        kept = text[: _boundary(text, end)].rstrip()
        shown = f"{escape(kept)} {mark}" if kept.endswith((".", "!", "?")) else f"{escape(kept)}{mark}"
        if kept and cost(shown) > room:
            shown = f"{escape(kept)}{mark}"
        # What parts cost apart may be less than what they cost together, where a tokenizer counts.
        if cost(shown) <= room:
            return shown if kept else ""
        end -= max(1, end // 8)
    return ""


def _without_hidden(text: str) -> str:
    pieces: list[str] = []
    position = 0
    last = ""
    for match in _HIDDEN.finditer(text):
        if match.start() > position:
            pieces.append(text[position : match.start()])
            last = text[match.start() - 1]
        position = match.end()
        kept = _visible_part(match[0], last, text[position : position + 1])
        if kept:
            pieces.append(kept)
            last = kept
    return "".join(pieces) + text[position:]


def _visible_part(hidden: str, before: str, after: str) -> str:
    if "\ud800" <= hidden <= "\udfff":
        return "\ufffd"
    if hidden in _JOINERS:
        return hidden if _may_join(before, after) else ""
    if _SELECTOR.match(hidden):
        return hidden if _may_vary(before, hidden) else ""
    return ""


def _may_join(before: str, after: str) -> bool:
    if any(first <= before <= last for first, last in _JOINING_SCRIPTS):
        return unicodedata.category(before)[0] in "LM"
    return (before == _EMOJI_STYLE or _is_symbol(before)) and _is_symbol(after)


def _is_symbol(character: str) -> bool:
    return character > "\x7f" and unicodedata.category(character) in ("So", "Sk", "Sm")


def _may_vary(before: str, selector: str) -> bool:
    # Where any of 256 selectors could follow any character, a text could carry a second one, a byte a character.
    if selector in _STYLES:
        return before != "" and (before in _STYLED or _is_symbol(before))
    if selector <= "\u180f":
        return "\u1820" <= before <= "\u18aa"
    if _IDEOGRAPH.match(before):
        return selector <= "\ufe02" or "\U000e0100" <= selector <= "\U000e011f"
    return selector == "\ufe00" and ("\u1000" <= before <= "\u109f" or _is_symbol(before))


def _affordable(text: str, room: int, cost: Count) -> int:
    """How many characters fit."""
    fits, ends = _bounds(text, room, cost)
    while ends - fits > 1:
        middle = (fits + ends) // 2
        if cost(escape(text[:middle])) <= room:
            fits = middle
        else:
            ends = middle
    return fits


def _bounds(text: str, room: int, cost: Count) -> tuple[int, int]:
    """How many characters fit for sure, and how many do not; both are all of them where all fit.

    It looks twice as far each time, so that the end of a huge text is never counted.
    """
    fits, ends = 0, min(64, len(text))
    while fits < ends and cost(escape(text[:ends])) <= room:
        fits, ends = ends, min(2 * ends, len(text))
    return fits, ends


def _boundary(text: str, end: int) -> int:
    sentence = max((match.end() for match in _SENTENCE_END.finditer(text, 0, end)), default=0)
    if sentence > end // 2:
        return sentence
    if text[max(0, end - 1) : end].isspace() or text[end : end + 1].isspace():
        return end
    words = text[:end].rsplit(None, 1)
    if len(words) == 2 and len(words[0]) > end // 2:
        return len(words[0])
    return start_of(text, end) or end
