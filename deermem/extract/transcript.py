"""A conversation as text for a model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from deermem.extract.messages import Turn
from deermem.policy.visible_text import escape

LONGEST_SHOWN: Final = 1000
"""Characters of one turn that a model is shown; of what is longer it sees both ends."""

LEFT_OUT: Final = "\n[... text left out ...]\n"
_END: Final = LONGEST_SHOWN // 2
_NAMES: Final = {"user": "User", "assistant": "Assistant"}
_SPEAKER: Final = re.compile(
    r"(?<=[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029])(?=[^\S\n]{0,40}(?:user|assistant)[^\S\n]{0,4}[:：])", re.IGNORECASE
)


def transcript(turns: Iterable[Turn]) -> str:
    """The turns as `User: …` and `Assistant: …`, a blank line between two; "" without turns.

    `&`, `<` and `>` become entities, so that no text closes its block. A turn of more than 1,000 characters shows its
    first and last 500. A line within a turn that begins like a turn is marked with `| `: an answer that quotes a page
    must not put words into the person's mouth.
    """
    return "\n\n".join(f"{_NAMES[turn.role]}: {escape(_SPEAKER.sub('| ', shown(turn.text)))}" for turn in turns)


def shown(text: str) -> str:
    """What of one turn a model sees, not yet escaped: all of it, or its first and last 500 characters."""
    return text if len(text) <= LONGEST_SHOWN else f"{text[:_END]}{LEFT_OUT}{text[-_END:]}"
