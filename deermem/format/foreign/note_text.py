"""The text of a note: which lines are observations, which words are tags, where it may be divided."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from deermem.model.fact import MAX_CONTENT_BYTES, MAX_ID

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"#{1,6}[ \t]+\S")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s")
_OBSERVATION = re.compile(r"\s*[-*+]\s+\[([^\[\]()]+)\]\s+(\S.*)")
_CLOCK = r"\d{1,3}:\d\d(?::\d\d)?(?:[.,]\d{1,3})?"
_TIMECODE = re.compile(rf"{_CLOCK}(?:\s+-\s+{_CLOCK})?")
_TAG = re.compile(r"(?<!\S)#(\w[\w/-]*)")
_CONTEXT = re.compile(r"\([^()]*\)\Z")
_CODE = re.compile(r"`[^`\n]*`")


@dataclass(frozen=True, slots=True)
class Observation:
    """One line of the form `- [category] text #tag (context)`. `said` is the text as written, tags and all."""

    line: int
    category: str
    text: str
    said: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a note that one fact can hold; `heading` is what it begins with, "" for none."""

    heading: str
    text: str


def observations(body: str) -> tuple[list[Observation], str]:
    """The observations of a note, and what else it says.

    A heading that has lost all that stood below it goes with it.
    """
    lines = body.split("\n")
    fenced = _fenced(lines)
    found: list[Observation] = []
    taken: set[int] = set()
    for number, line in enumerate(lines):
        match = None if fenced[number] or number in taken else _OBSERVATION.fullmatch(line)
        if match is None or not _is_category(match[1].strip()):
            continue
        rest = _continued(lines, number, fenced)
        taken.update(range(number, number + len(rest) + 1))
        said = " ".join([match[2].strip(), *rest])
        found.append(Observation(number, match[1].strip(), _without_tags(said), said, tags(said)))
    if not found:
        return [], body
    taken |= _emptied_headings(lines, fenced, taken)
    return found, "\n".join(_left(lines, taken))


def _left(lines: Sequence[str], taken: set[int]) -> Iterator[str]:
    """The lines that were not taken; of the blank ones around those that were, only the first."""
    closes = False
    for number, line in enumerate(lines):
        if number in taken:
            closes = True
        elif not (closes and not line.strip()):
            closes = False
            yield line


def says_something(text: str) -> bool:
    """Whether a text holds more than headings."""
    return any(line.strip() and not _HEADING.match(line) for line in text.split("\n"))


def tags(text: str) -> tuple[str, ...]:
    """The words marked with a `#` outside of code, each once; a number alone is none."""
    lines = text.split("\n")
    fenced = _fenced(lines)
    plain = (_CODE.sub(" ", line) for line, inside in zip(lines, fenced, strict=True) if not inside)
    words = (match[1].rstrip("/-") for line in plain for match in _TAG.finditer(line))
    return tuple(dict.fromkeys(word for word in words if word and not word.isdecimal()))


def parts(text: str) -> list[Part]:
    """The text in as few stretches as facts can hold, divided before headings alone.

    A section that is too long by itself stays whole, and will be refused by name.
    """
    if len(text.encode(errors="surrogatepass")) <= MAX_CONTENT_BYTES:
        return [Part("", text)]
    packed: list[list[str]] = []
    size = 0
    for section in _sections(text):
        length = len(section.encode(errors="surrogatepass")) + 1
        if packed and size + length <= MAX_CONTENT_BYTES:
            packed[-1].append(section)
            size += length
        else:
            packed.append([section])
            size = length
    return [Part(_first_heading(stretch[0]), "\n".join(stretch)) for stretch in packed]


def _fenced(lines: Sequence[str]) -> list[bool]:
    """For each line whether it is part of a code block."""
    found: list[bool] = []
    mark = ""
    for line in lines:
        match = _FENCE.match(line)
        if mark:
            found.append(True)
            closes = match is not None and match[1].startswith(mark) and not line.strip().strip(mark[0])
            mark = "" if closes else mark
        else:
            found.append(match is not None)
            mark = match[1] if match is not None else ""
    return found


def _is_category(word: str) -> bool:
    """Task marks (`x`, `/`, `!`), footnotes and timecodes stand in brackets too."""
    if not word or len(word) > MAX_ID or not word[0].isalnum() or word in ("x", "X"):
        return False
    return _TIMECODE.fullmatch(word) is None


def _continued(lines: Sequence[str], number: int, fenced: Sequence[bool]) -> list[str]:
    """The indented lines that carry a list item on."""
    rest: list[str] = []
    for at in range(number + 1, len(lines)):
        line = lines[at]
        if fenced[at] or not line.strip() or not line.startswith(("  ", "\t")) or _ITEM.match(line):
            break
        rest.append(line.strip())
    return rest


def _without_tags(said: str) -> str:
    """The text without the tags at its end; a context in parentheses may stand behind them."""
    match = _CONTEXT.search(said)
    context = match[0] if match is not None else ""
    words = said[: len(said) - len(context)].split()
    while words and _TAG.fullmatch(words[-1]):
        words.pop()
    return " ".join([*words, context] if context else words) if words else said


def _emptied_headings(lines: Sequence[str], fenced: Sequence[bool], taken: set[int]) -> set[int]:
    """Headings below which only lines that were taken, and blank ones, stand."""
    emptied: set[int] = set()
    heading, lost, left = -1, False, False
    for number, line in enumerate([*lines, "# end"]):
        is_end = number == len(lines)
        if is_end or (not fenced[number] and _HEADING.match(line)):
            if heading >= 0 and lost and not left:
                emptied.add(heading)
            heading, lost, left = number, False, False
        elif number in taken:
            lost = True
        elif line.strip():
            left = True
    return emptied


def _sections(text: str) -> Iterator[str]:
    """The text cut before each heading."""
    lines = text.split("\n")
    fenced = _fenced(lines)
    start = 0
    for number, line in enumerate(lines):
        if number > start and not fenced[number] and _HEADING.match(line):
            yield "\n".join(lines[start:number])
            start = number
    yield "\n".join(lines[start:])


def _first_heading(section: str) -> str:
    first = section.partition("\n")[0]
    return first.lstrip("#").strip() if _HEADING.match(first) else ""


_LEAD: Final = re.compile(r"\A\s*#[ \t]+(\S[^\n]*)(?:\n|\Z)")


def leading_heading(body: str) -> tuple[str, str]:
    """A heading of level one that a note begins with, "" for none, and what follows it."""
    match = _LEAD.match(body)
    return (match[1].strip(), body[match.end() :]) if match is not None else ("", body)
