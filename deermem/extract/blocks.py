"""Blocks that a host writes into a person's message: what was uploaded, what was remembered, what it reminds of."""

from __future__ import annotations

import re
from typing import Final

_REST: Final = r"(?:\s[^<>]{0,200})?>"
"""The end of a tag, with attributes or without."""

_UPLOADS: Final = tuple(
    re.compile(rf"<(/?){tag}{_REST}", re.IGNORECASE) for tag in ("uploaded_files", "current_uploads")
)
_HOST: Final = tuple(
    re.compile(rf"^<{tag}{_REST}|<(/){tag}\s{{0,9}}>(?=[ \t\r]*$)", re.IGNORECASE | re.MULTILINE)
    for tag in ("memory", "system-reminder")
)


def without_uploads(text: str) -> str:
    """The text without the blocks that list uploads, wherever they stand, stripped where one was cut."""
    return _without(_UPLOADS, text)


def without_host_blocks(text: str) -> str:
    """The text without injected memory and reminders, stripped where one was cut.

    A host puts such a block at the start of a line and ends it at the end of one. `<memory>` within a line is a
    person's own word, and indented it is a document's: both stay.
    """
    return _without(_HOST, text)


def _without(tags: tuple[re.Pattern[str], ...], text: str) -> str:
    for tag in tags:
        text = _without_one(tag, text)
    return text


def _without_one(tag: re.Pattern[str], text: str) -> str:
    """In one pass: a block goes from its first opening tag to the next closing one, so that it can't be split."""
    kept: list[str] = []
    position = 0
    start = -1
    for match in tag.finditer(text):
        if not match[1]:
            start = match.start() if start < 0 else start
        elif start >= 0:
            kept.append(text[position:start])
            position = match.end()
            start = -1
    return ("".join(kept) + text[position:]).strip() if position else text
