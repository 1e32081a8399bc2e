"""The estimate: a quarter of a token for a character, half of one for CJK."""

from __future__ import annotations

import pytest

from deermem.policy.tokens_estimate import estimate_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("four", 1),
        ("fours", 2),
        ("x" * 2000, 500),
        ("中", 1),
        ("中文", 1),
        ("中文字", 2),
        ("中文ab", 2),
        ("ひらカタ", 2),
        ("한국어말", 2),
        ("𠀀𠀁", 1),
        ("，。", 1),
        ("naïve", 2),
        ("\U0001f600" * 4, 1),
    ],
)
def test_estimate(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens
