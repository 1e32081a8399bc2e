"""Which new content repeats something."""

from __future__ import annotations

import pytest

from deermem.model.fact import content_key
from deermem.policy.duplicates import first_repeat

STORED = {content_key("Likes tea"): "fact_tea", content_key("Straße 5"): "fact_street"}


@pytest.mark.parametrize(
    ("contents", "repeat"),
    [
        ([], None),
        (["Likes coffee", "Likes milk"], None),
        (["Likes coffee", "likes  TEA\n"], (1, "fact_tea")),
        (["STRASSE 5"], (0, "fact_street")),
        (["Likes coffee", "Likes milk", "LIKES COFFEE"], (2, None)),
        (["Likes cafe\u0301", "Likes caf\u00e9"], (1, None)),
        (["Likes milk", "Likes milk", "Likes tea"], (1, None)),
    ],
)
def test_first_repeat(contents: list[str], repeat: tuple[int, str | None] | None) -> None:
    assert first_repeat(contents, STORED) == repeat
