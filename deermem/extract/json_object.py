"""The one JSON object that matters, in a text that may hold anything around it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

_START: Final = re.compile(r'\{(?=[ \t\r\n]*"(?:[^"\\]|\\.){0,60}"[ \t\r\n]*:)')
_THINKING: Final = re.compile(
    r"[<◁](/?)(?:think|thinking|thoughts?|reasoning|reflection|analysis|scratchpad)[>▷]", re.IGNORECASE
)
_LONGEST_INTEGER: Final = 400
_STRETCH: Final = 4096


def find_object(text: str, keys: Collection[str]) -> Mapping[str, object] | None:
    """The first object that has all of `keys`, within another object too; None where there is no whole one.

    What a closed `<think>` block holds is a draft, and counts only where nothing is found outside. Numbers may be
    infinite or NaN, and text may hold lone surrogates. Never raises; the time grows with the length of the text,
    whatever that says.
    """
    drafts = _thinking(text)
    found = _find(text, keys, drafts)
    return _find(text, keys, ()) if found is None and drafts else found


def _find(text: str, keys: Collection[str], skipped: Sequence[tuple[int, int]]) -> Mapping[str, object] | None:
    last = min(text.rfind(f'"{key}"') for key in keys)
    # A million braces, each a start, would each be read to the end.
    work = 8 * len(text) + 100_000
    reader = _Reader(text)
    blocks = list(reversed(skipped))
    position = 0
    while work > 0 and (match := _START.search(text, position)) and match.start() < last:
        start = match.start()
        while blocks and blocks[-1][1] <= start:
            blocks.pop()
        if blocks and blocks[-1][0] <= start:
            position = blocks[-1][1]
            continue
        value, position, cost = reader.read(start)
        work -= cost
        found = _within(value, keys)
        if found is not None:
            return found
    return None


def _thinking(text: str) -> list[tuple[int, int]]:
    """The closed blocks as (start, end). One that only closes began before the text did: a template opened it."""
    blocks: list[tuple[int, int]] = []
    start: int | None = None
    for tag in _THINKING.finditer(text):
        if not tag[1]:
            start = tag.start() if start is None else start
        elif start is not None:
            blocks.append((start, tag.end()))
            start = None
        elif not blocks:
            blocks.append((0, tag.end()))
    return blocks


class _Reader:
    """Reads values of a text at places that grow.

    An error counts the lines before it, so what lies far behind is cut off from time to time.
    """

    def __init__(self, text: str) -> None:
        self._rest = text
        self._cut = 0

    def read(self, start: int) -> tuple[object, int, int]:
        """The value at `start`, None where there is none; where to go on; and how many characters that cost."""
        cost = 0
        if start - self._cut > _STRETCH:
            self._rest = self._rest[start - self._cut :]
            self._cut = start
            cost = len(self._rest) // _STRETCH
        here = start - self._cut
        try:
            value, end = _DECODER.raw_decode(self._rest, here)
        except json.JSONDecodeError as error:
            return None, start + 1, cost + max(1, error.pos - here)
        except RecursionError:
            return None, start + 1, len(self._rest) - here
        return value, end + self._cut, cost + end - here


def _within(value: object, keys: Collection[str]) -> Mapping[str, object] | None:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if all(key in item for key in keys):
                return item
            waiting += reversed(item.values())
        elif isinstance(item, list):
            waiting += reversed(item)
    return None


def _integer(digits: str) -> int | float:
    # Python refuses to read an integer of more than some thousand digits.
    return int(digits) if len(digits) <= _LONGEST_INTEGER else float(digits)


_DECODER: Final = json.JSONDecoder(parse_int=_integer, strict=False)
