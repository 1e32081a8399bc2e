"""How many tokens a text is likely to cost, without a tokenizer, a download or a data file."""

from __future__ import annotations

import re
from typing import Final

QUARTERS: Final = 4
"""Quarter tokens in a token: whole numbers add up without rounding, so a sum of parts is the cost of the whole."""

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
