"""Behaviours 145 and 146: turns that only acknowledge go, whole and with their answers."""

from __future__ import annotations

import pytest

from deermem.extract.acknowledgements import is_acknowledgement, without_acknowledgements
from deermem.extract.messages import Turn, has_both_sides, read_turns
from deermem.extract.signals import load_patterns

ACKNOWLEDGEMENTS = [
    *("ok", "OK", "Ok.", "okay!", "k", "kk", "ok ok", "okkkk", "thanks", "Thanks!", "thank you", "Thank you so much!!"),
    *("thx", "ty", "Thanks a lot.", "ok thanks", "Okay, thank you.", "great, thanks!", "Got it.", "got it, thanks 🙏"),
    *(
        "Makes sense",
        "Thanks, that makes sense",
        "sounds good",
        "understood",
        "I see",
        "Alright then",
        "cool",
        "Nice one",
    ),
    *(
        "thanksssss",
        "many thanks for your help",
        "Oh I see, thanks for explaining",
        "no problem",
        "noted",
        "Cheers mate",
    ),
    *("👍", "👍👍🏽", "🙏 🙂", "Ｏ Ｋ".replace(" ", ""), "  ok \n", "that's good, thanks", "that’s fine"),
    *(
        "好的",
        "好的。",
        "好",
        "好的，谢谢！",
        "谢谢",
        "谢谢你～",
        "多谢",
        "非常感谢！",
        "嗯嗯",
        "嗯嗯嗯嗯",
        "收到",
        "明白了",
        "知道了",
    ),
    *(
        "好的好的",
        "了解，谢谢",
        "没问题",
        "OK，收到",
        "ok 好的 thanks",
        "辛苦了",
        "太好了，谢谢您的帮助",
        "哈哈，好吧",
        "謝謝",
        "原来如此",
    ),
]

SUBSTANCE = [
    *(
        "ok, use tabs from now on",
        "okay but why?",
        "the ok button is broken",
        "Is it ok?",
        "thanks for nothing, it fails",
    ),
    *(
        "yes",
        "no",
        "sure",
        "Yes, exactly",
        "Perfect, thanks",
        "no thanks",
        "that's helpful",
        "not ok",
        "nope",
        "thank Anna for the report",
    ),
    *(
        "book",
        "token",
        "okra",
        "1",
        "?",
        "...",
        "",
        "   ",
        "then",
        "so much",
        "ok 2",
        "ok C++",
        "thanks, I live in Oslo",
    ),
    *(
        "好的，以后用中文",
        "不好",
        "对",
        "是的",
        "可以",
        "谢谢小明的建议，改用方案二",
        "好的方案是什么",
        "好吃",
        "老师很好",
        "中",
        "没有了",
        "行李在哪",
        "完全正确",
    ),
    "ok " * 40,
]


def test_acknowledgements_are_known():
    assert [text for text in ACKNOWLEDGEMENTS if not is_acknowledgement(text)] == []


def test_what_says_something_is_none():
    assert [text for text in SUBSTANCE if is_acknowledgement(text)] == []


def test_no_acknowledgement_signals_anything():
    """What signals is worth keeping, so the two must not meet."""
    turns = {text: [Turn("user", text, "key")] for text in ACKNOWLEDGEMENTS}
    assert {text: found for text in turns if (found := load_patterns().detect(turns[text]))} == {}


def test_an_acknowledgement_goes_with_its_answers():
    turns = read_turns(
        [
            ("user", "I live in Oslo."),
            ("assistant", "Nice."),
            ("user", "ok, thanks!"),
            ("assistant", "You're welcome."),
            ("assistant", "Anything else?"),
            ("user", "Is the ok button green?"),
            ("assistant", "ok"),
        ]
    )
    left = [turn.text for turn in without_acknowledgements(turns)]
    assert left == ["I live in Oslo.", "Nice.", "Is the ok button green?", "ok"]


@pytest.mark.parametrize(
    ("messages", "has"),
    [
        ([], False),
        ([("user", "I live in Oslo.")], False),
        ([("assistant", "Hello")], False),
        ([("user", "ok"), ("assistant", "Fine.")], False),
        ([("user", "I live in Oslo."), ("user", "thanks"), ("assistant", "Fine.")], False),
        ([("user", "I live in Oslo."), ("assistant", "Fine.")], True),
        ([("assistant", "Where do you live?"), ("user", "In Oslo.")], True),
    ],
)
def test_both_sides_are_needed(messages: list[tuple[str, str]], has: bool) -> None:
    assert has_both_sides(without_acknowledgements(read_turns(messages))) is has


def test_a_huge_text_is_not_looked_at():
    assert not is_acknowledgement("ok " * 1_000_000)
