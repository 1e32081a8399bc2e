"""What a text costs in tokens: an estimate without tokenizer, download or data file, or somebody's count."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

Count = Callable[[str], int]
"""How many tokens a text has. Of a text in parts it may say more or less than the sum of what it says of the parts."""

QUARTERS: Final = 4
"""Quarter tokens in a token: whole numbers add up without rounding, so a sum of parts is the cost of the whole."""

_CHARACTERS: Final = 16
_CJK = re.compile(
    r"[\u1100-\u11ff\u2e80-\u303f\u3040-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff"
    r"\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]+"
)


def quarter_tokens(text: str) -> int:
    """The estimate in quarters of a token: two for a CJK character, one for any other."""
    if text.isascii():
        return len(text)
    return len(text) + sum(map(len, _CJK.findall(text)))


def estimate_tokens(text: str) -> int:
    """Half a token for a CJK character, a quarter for any other, rounded up over the whole text."""
    return -(-quarter_tokens(text) // QUARTERS)


@dataclass(frozen=True, slots=True)
class Measure:
    """What texts cost, in units: `unit` of them are a token."""

    cost: Count
    unit: int = 1

    def within(self, text: str, room: int) -> int:
        """The cost of a text, or just more than `room` where it is longer than 16 characters for each token of room.

        A text like that is no prose, and counting a megabyte of it would hold up the prompt.
        """
        if len(text) * self.unit > _CHARACTERS * room:
            return room + 1
        return self.cost(text)

    def tokens(self, cost: int) -> int:
        """Units as tokens, rounded up."""
        return -(-cost // self.unit)


ESTIMATE: Final = Measure(quarter_tokens, QUARTERS)
