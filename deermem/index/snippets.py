"""One line of a fact around what matched, for people and for models."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from deermem.index.query import Query, Term
from deermem.index.tokens import is_run, pairs, scan, stream
from deermem.policy.clusters import end_of, start_of

_CHUNK: Final = re.compile(r"\S+")
_INNER: Final = re.compile(r"[^\s,;()\[\]{}\"<>|!?*`/\\@:=&~^$%._+#-]+")
_ELLIPSIS: Final = "…"
_MARK: Final = "**"


@dataclass(frozen=True, slots=True)
class _Mark:
    """A marked range of the line and what it stands for, so that different words count more than repeats."""

    start: int
    end: int
    what: str


def snippet(content: str, query: Query, width: int = 160) -> str:
    """At most `width` characters (marks and ellipses not counted) of the content, what matched as `**word**`.

    White space and control characters become single blanks. Without a match it is the beginning.
    """
    line = _one_line(content)
    marks = _marks(line, query.terms)
    start, end = _window(line, marks, max(width, 1))
    text = _marked(line, [mark for mark in marks if start <= mark.start and mark.end <= end], start, end)
    return f"{_ELLIPSIS if start else ''}{text}{_ELLIPSIS if end < len(line) else ''}"


def _one_line(content: str) -> str:
    normal = unicodedata.normalize("NFC", content)
    bare = "".join(" " if unicodedata.category(character) in ("Cc", "Zl", "Zp") else character for character in normal)
    return " ".join(bare.split())


def _marks(line: str, terms: tuple[Term, ...]) -> list[_Mark]:
    """Ranges in order, none overlapping."""
    tokens = {term.text for term in terms if term.kind == "token"}
    starts = tuple(term.text for term in terms if term.kind in ("prefix", "character"))
    singles = {start for start in starts if len(start) == 1}
    longer = tuple(start for start in starts if start not in singles)
    marks: list[_Mark] = []
    for chunk in _CHUNK.finditer(line):
        whole = next((compound for compound in _compounds(chunk.group()) if compound in tokens), None)
        if whole is not None:
            marks.append(_compound_mark(chunk.group(), chunk.start(), whole))
        else:
            marks += _word_marks(chunk.group(), chunk.start(), (tokens, singles, longer))
    # A pair of Thai letters begins or ends between a letter and its tone.
    return _merged([_Mark(start_of(line, mark.start), end_of(line, mark.end), mark.what) for mark in marks])


def _compound_mark(chunk: str, offset: int, whole: str) -> _Mark:
    """Where blanks are not written, a chunk is a sentence; folded otherwise, all of it is marked."""
    core = chunk.strip(".,;:!?\"'()[]{}<>|*`")
    lower = chunk.lower()
    if len(lower) == len(chunk) and whole in lower:
        at = offset + lower.index(whole)
        return _Mark(at, at + len(whole), whole)
    at = offset + chunk.index(core)
    return _Mark(at, at + len(core), whole)


def _word_marks(chunk: str, offset: int, wanted: tuple[set[str], set[str], tuple[str, ...]]) -> list[_Mark]:
    marks: list[_Mark] = []
    for match in _INNER.finditer(chunk):
        for start, _, text in _script_parts(match.group()):
            marks += _part_marks(text, offset + match.start() + start, wanted)
    return marks


def _part_marks(text: str, at: int, wanted: tuple[set[str], set[str], tuple[str, ...]]) -> list[_Mark]:
    tokens, _, starts = wanted
    words, token = _word(text)
    if not token:
        return _run_marks(text, at, wanted) if words else []
    found = token in tokens or (bool(starts) and words[0].startswith(starts))
    return [_Mark(at, at + len(text), token)] if found else []


@lru_cache(maxsize=8192)
def _compounds(chunk: str) -> tuple[str, ...]:
    return tuple(scan(chunk).compounds)


@lru_cache(maxsize=8192)
def _word(text: str) -> tuple[tuple[str, ...], str]:
    """The words of a text, and the token where it is one word of a spaced script. Facts repeat their words."""
    words = tuple(scan(text).words)
    return words, stream(words)[0] if len(words) == 1 and not is_run(words[0]) else ""


@lru_cache(maxsize=8192)
def _folded(character: str) -> str:
    return "".join(scan(character).words)


def _script_parts(text: str) -> list[tuple[int, int, str]]:
    """Stretches of runs and of other words; a border between scripts parts them."""
    parts: list[tuple[int, int, str]] = []
    begin = 0
    kinds = [_in_run(character) for character in text]
    for at in range(1, len(text) + 1):
        if at == len(text) or kinds[at] != kinds[begin]:
            parts.append((begin, at, text[begin:at]))
            begin = at
    return parts


@lru_cache(maxsize=8192)
def _in_run(character: str) -> bool:
    words = scan(character).words if character >= "\u0e01" else ()
    return bool(words) and is_run(words[0])


def _run_marks(text: str, offset: int, wanted: tuple[set[str], set[str], tuple[str, ...]]) -> list[_Mark]:
    """Marks of pairs; single characters only where they are all that was asked for."""
    tokens, singles, _ = wanted
    folded = [_folded(character) for character in text]
    line = "".join(_word(text)[0])
    if "".join(folded) != line:
        hit = next((pair for pair in pairs(line) if pair in tokens), None)
        return [_Mark(offset, offset + len(text), hit)] if hit else []
    # Thai ำ folds to two characters.
    owners = [offset + at for at, character in enumerate(folded) for _ in character]
    marks = [_Mark(owners[at], owners[at + 1] + 1, pair) for at, pair in enumerate(pairs(line)) if pair in tokens]
    if not tokens:
        marks += [_Mark(owners[at], owners[at] + 1, one) for at, one in enumerate(line) if one in singles]
    return marks


def _merged(marks: list[_Mark]) -> list[_Mark]:
    merged: list[_Mark] = []
    for mark in sorted(marks, key=lambda item: (item.start, item.end)):
        if merged and mark.start < merged[-1].end:
            last = merged.pop()
            merged.append(_Mark(last.start, max(last.end, mark.end), f"{last.what} {mark.what}"))
        else:
            merged.append(mark)
    return merged


def _window(line: str, marks: list[_Mark], width: int) -> tuple[int, int]:
    """The stretch with the most different marks, the earliest of equals, with some text before the first."""
    if len(line) <= width:
        return 0, len(line)
    best, chosen = 0, 0
    for first, mark in enumerate(marks):
        inside: set[str] = set()
        for other in marks[first:]:
            if other.end > mark.start + width:
                break
            inside.add(other.what)
        if len(inside) > best:
            best, chosen = len(inside), mark.start
    last = max((mark.end for mark in marks if chosen <= mark.start and mark.end <= chosen + width), default=0)
    room = max(chosen + width - last, 0) if marks else 0
    start = max(min(chosen - min(room, width // 4), len(line) - width), 0)
    start = _word_start(line, start, chosen)
    return start, _word_end(line, start, min(start + width, len(line)), last)


def _word_start(line: str, start: int, limit: int) -> int:
    blank = line.find(" ", start - 1, limit) if start else -1
    return blank + 1 if blank >= 0 else min(end_of(line, start), limit) if start else 0


def _word_end(line: str, start: int, end: int, least: int) -> int:
    if end == len(line) or line[end] == " ":
        return end
    blank = line.rfind(" ", max(least, start), end)
    if blank > start and end - blank < 30:
        return blank
    whole = start_of(line, end)
    return whole if whole > start else end


def _marked(line: str, marks: list[_Mark], start: int, end: int) -> str:
    pieces: list[str] = []
    at = start
    for mark in marks:
        if line[max(mark.start - 2, 0) : mark.start] == line[mark.end : mark.end + 2] == _MARK:
            # The content marks it already; twice over it would read as no mark at all.
            continue
        pieces += [line[at : mark.start], _MARK, line[mark.start : mark.end], _MARK]
        at = mark.end
    return "".join([*pieces, line[at:end]]).rstrip()
