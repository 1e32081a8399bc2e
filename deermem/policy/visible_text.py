"""Stored text as it may stand in a prompt: one line, nothing hidden, no tag, cut where a reader would cut."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from deermem.policy.tokens_estimate import quarter_tokens

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


def one_line(text: str) -> str:
    """The text on one line without characters that hide something. Idempotent.

    Line separators of every kind become one blank. Zero-width, bidi, tag and control characters go; a lone
    surrogate becomes U+FFFD. A joiner stays between two emoji and behind an Arabic or Indic letter, a variation
    selector behind one character that can have variants: there they change what people see.
    """
    folded = " ".join(filter(None, map(str.strip, text.splitlines())))
    return folded if folded.isascii() and folded.isprintable() else _without_hidden(folded).strip()


def escape(text: str) -> str:
    """`&`, `<` and `>` as entities, so that no stored text opens or closes a tag; quotes stay."""
    return text.translate(_ENTITIES) if any(mark in text for mark in "&<>") else text


def cut(text: str, room: int, mark: str) -> str:
    """The text escaped, whole where it fits into `room` quarter tokens, else cut and ended with `mark`.

    Cut behind a sentence, else behind a word, else (that would lose more than half) between two characters;
    never inside an entity. "" where not even one character and the mark fit.
    """
    escaped = escape(text)
    if quarter_tokens(escaped) <= room:
        return escaped
    kept = text[: _boundary(text, _affordable(text, room - quarter_tokens(mark)))].rstrip()
    shown = f"{escape(kept)} {mark}" if kept.endswith((".", "!", "?")) else ""
    if not shown or quarter_tokens(shown) > room:
        shown = f"{escape(kept)}{mark}"
    return shown if kept else ""


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
        return hidden if _has_variants(before) else ""
    return ""


def _may_join(before: str, after: str) -> bool:
    if "\u0600" <= before <= "\u1cff":
        return unicodedata.category(before)[0] in "LM"
    return (before == _EMOJI_STYLE or _is_symbol(before)) and _is_symbol(after)


def _is_symbol(character: str) -> bool:
    return character > "\x7f" and unicodedata.category(character) in ("So", "Sk", "Sm")


def _has_variants(before: str) -> bool:
    if before in ("", "\ufffd") or before.isspace() or _HIDDEN.match(before):
        return False
    return not (before.isascii() and before.isalpha())


def _affordable(text: str, room: int) -> int:
    for position, character in enumerate(text):
        room -= quarter_tokens(escape(character))
        if room < 0:
            return position
    return len(text)


def _boundary(text: str, end: int) -> int:
    sentence = max((match.end() for match in _SENTENCE_END.finditer(text, 0, end)), default=0)
    if sentence > end // 2:
        return sentence
    if text[max(0, end - 1) : end].isspace() or text[end : end + 1].isspace():
        return end
    words = text[:end].rsplit(None, 1)
    if len(words) == 2 and len(words[0]) > end // 2:
        return len(words[0])
    return _between_characters(text, end)


def _between_characters(text: str, end: int) -> int:
    at = end
    while 0 < at < len(text) and (text[at - 1] in _JOINERS or _extends(text[at])):
        at -= 1
    return at or end


def _extends(character: str) -> bool:
    return unicodedata.category(character)[0] == "M" or character in _JOINERS or "🏻" <= character <= "🏿"
