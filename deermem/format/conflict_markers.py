"""What git writes into a file whose two versions it can't join, found and taken apart again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from deermem.format.problems import FormatError

START: Final = "<<<<<<< "
_BASE: Final = "|||||||"
_MIDDLE: Final = "======="
_END: Final = ">>>>>>> "
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_HINT: Final = "resolve the merge in an editor: keep one side, or both in one text"


def refuse_conflict(text: str) -> None:
    """Raises FormatError `merge-conflict`, with the first marker's line, for a fact file that git left in two.

    That is one with all three markers at line starts, in this order, or with the first of them in its front matter.
    A conflict that a closed code fence of the body encloses is text like any other.
    """
    line = _conflict(text)
    if line:
        raise FormatError("merge-conflict", "the file holds an unresolved git merge", line=line, hint=_HINT)


def first_marker(text: str) -> int:
    """The 1-based line of the first marker, 0 for none; no line of a JSON document can look like one."""
    lines = text.split("\n")
    return next((number for number, line in enumerate(lines, 1) if line.startswith(START.rstrip())), 0)


def both_sides(text: str) -> tuple[str, str] | None:
    """The text before the merge on either side, ours first; None where the markers don't stand in their order.

    The common ancestor that the diff3 style adds is left out.
    """
    ours: list[str] = []
    theirs: list[str] = []
    into: tuple[list[str], ...] = (ours, theirs)
    expected: tuple[str, ...] = ("<",)
    for line in _LINE.findall(text):
        mark = _mark(line)
        if mark and mark not in expected:
            return None
        if mark == "<":
            into, expected = (ours,), ("|", "=")
        elif mark == "|":
            into, expected = (), ("=",)
        elif mark == "=":
            into, expected = (theirs,), (">",)
        elif mark == ">":
            into, expected = (ours, theirs), ("<",)
        else:
            for side in into:
                side.append(line)
    return ("".join(ours), "".join(theirs)) if expected == ("<",) else None


def _mark(line: str) -> str:
    """The character of a marker, "" for any other line."""
    word = line.rstrip("\n").rstrip("\r")
    if word == _MIDDLE:
        return "="
    for mark in (START, _BASE, _END):
        if word == mark.rstrip() or word.startswith(f"{mark.rstrip()} "):
            return mark[0]
    return ""


def _conflict(text: str) -> int:
    lines = text.removeprefix("\ufeff").split("\n")
    body = _body_start(lines)
    front = next((number for number, line in enumerate(lines[:body], 1) if line.startswith(START)), 0)
    return front or _in_body(lines, body)


def _body_start(lines: list[str]) -> int:
    """The index of the first line below the front matter, 0 where there is none."""
    if lines[0].rstrip() != "---":
        return 0
    return next((number + 1 for number, line in enumerate(lines) if number and line.rstrip() == "---"), 0)


def _in_body(lines: list[str], start: int) -> int:
    """The line of the first whole conflict that no code fence encloses."""
    fences = list(_fences(lines, start))
    for first, last in _conflicts(lines, start):
        # One that a fence only cuts across is no quotation: the fence may be part of either side.
        if not any(opened < first and last < closed for opened, closed in fences):
            return first
    return 0


def _conflicts(lines: list[str], start: int) -> Iterator[tuple[int, int]]:
    """The 1-based lines of the first and last marker of each whole conflict."""
    first, seen = 0, ""
    for number, line in enumerate(lines[start:], start + 1):
        mark = _mark(line)
        if mark == "<" and seen != "<=":
            first, seen = number, "<"
        elif mark == "=" and seen == "<":
            seen = "<="
        elif mark == ">" and seen == "<=":
            yield first, number
            seen = ""


def _fences(lines: list[str], start: int) -> Iterator[tuple[int, int]]:
    """The 1-based lines of the opening and closing mark of each code fence that is closed."""
    fence, opened = "", 0
    for number, line in enumerate(lines[start:], start + 1):
        match = _FENCE.fullmatch(line.rstrip())
        if match is None:
            continue
        if not fence:
            fence, opened = match[1], number
        elif match[1].startswith(fence) and not match[2]:
            yield opened, number
            fence = ""
