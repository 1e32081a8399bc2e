"""Where a text may be cut: around what a reader takes for one character, never within."""

import pytest

from deermem.policy.clusters import end_of, is_inside, start_of


@pytest.mark.parametrize(
    "one",
    [
        "e\u0301",
        "ที่",
        "กำ",
        "ｶﾞ",
        "👩\u200d👩\u200d👧",
        "❤\ufe0f",
        "👍🏽",
        "🇩🇪",
        "क्षि",
        "ម្ពុ",
        "\u1100\u1161\u11a8",
        "1\ufe0f\u20e3",
    ],
)
def test_a_character_is_kept_whole(one: str) -> None:
    text = f"a{one}{one}b"
    cuts = [at for at in range(len(text) + 1) if not is_inside(text, at)]
    assert cuts == [0, 1, 1 + len(one), 1 + 2 * len(one), len(text)]
    for at in range(2, 1 + len(one)):
        assert start_of(text, at) == 1
        assert end_of(text, at) == 1 + len(one)


def test_a_heap_of_marks_without_end_is_cut() -> None:
    text = "a" + "\u0301" * 1000
    assert start_of(text, 500) == end_of(text, 500) == 500
