"""Turns that only say that the last one was heard: there is nothing in them to remember."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from deermem.extract.messages import Turn, without_exchanges

_LONGEST: Final = 100
"""Characters. What is longer than the longest thanks says something else as well, and is not looked at."""

_TOKEN: Final = re.compile(r"[a-z0-9']+|[^\W_]")
_LATIN_REPEAT: Final = re.compile(r"([a-z])\1{2,}")

_THANKS: Final = """
thanks|thank you|thank u|thankyou|thx|thnx|tnx|ty|tysm|tyvm|cheers|ta|many thanks|thanks again|thank you again
much appreciated|very much appreciated|really appreciated|appreciated|appreciate it|appreciate that
i appreciate it|i appreciate that|i appreciate your help|thanks a lot|thanks a million|thanks in advance|谢谢
谢了|谢啦|谢谢你|谢谢您|多谢|多谢你|多谢了|感谢|感谢你|感谢您|感谢帮助|谢谢帮助|谢谢你的帮助|感谢你的帮助
谢谢您的帮助|感谢您的帮助|非常感谢|十分感谢|万分感谢|太感谢了|谢谢分享|谢谢解答|感谢解答|辛苦了|辛苦|麻烦你了
麻烦了|谢|謝謝|謝謝你|謝謝您|多謝|感謝|非常感謝|谢谢老师|谢谢大佬|谢谢大家
"""
_HEARD: Final = """
ok|okay|okey|okie|okie dokie|okey dokey|okk|k|kk|okey doke|alright|all right|alrighty|righto|right then|fine
all good|good|good to know|good to hear|got it|i got it|gotcha|got you|noted|duly noted|understood|i understand
understand|i see|oh i see|makes sense|that makes sense|makes perfect sense|that makes perfect sense
makes total sense|that makes total sense|roger|roger that|copy|copy that|sounds good|sounds great|sounds fine
sounds good to me|will do|great|great stuff|great work|great job|good work|good job|nice|nice one|nice work|cool
cool beans|awesome|amazing|wonderful|fantastic|lovely|super|sweet|neat|excellent|brilliant|no problem|no worries
np|nvm|never mind|nevermind|that is all|that's all|that's it for now|that's fine|that is fine|that's good
very helpful|helpful|that helps|that helps a lot|works for me|fair enough|good point|interesting|oh|ah|aha|hmm
mhm|mm|wow|haha|hahaha|lol|ha|heh|hehe|bye|goodbye|bye bye|see you|see ya|good night|have a nice day
have a good day|好|好的|好了|好吧|好嘞|好哒|好滴|好呀|好啊|好喔|好哦|好啦|好咧|好的呢|好的呀|好的吧|行|行吧|行了
行的|嗯|嗯嗯|嗯哼|恩|恩恩|哦|哦哦|噢|喔|啊|哈|哈哈|哈哈哈|嘿嘿|呵呵|知道|知道了|我知道了|知道啦|明白|明白了
我明白了|明白啦|懂了|我懂了|了解|了解了|我了解了|清楚了|收到|收到了|已收到|没问题|没事|没事了|没关系|不客气
不用谢|不错|很好|挺好|真好|太好了|好极了|厉害|赞|棒|真棒|很棒|学到了|原来如此|原来是这样|原来这样|这样啊
是这样啊|有道理|有帮助|很有帮助|先这样|就这样吧|再见|拜拜|晚安|回头见|沒問題|瞭解
"""
_FILLERS: Final = """
so much|very much|a lot|a bunch|a ton|a million|for your help|for the help|for all your help|for that|for this
for your time|for the info|for the information|for explaining|for the explanation|for the answer
for the quick reply|for clarifying|for the clarification|for your answer|then|now|and|man|mate|buddy|dude|bro
guys|all|everyone|there|so|well|really|very|again|indeed|just|很|非常|真|真的|太|了|啦|呀|啊|哦|呢|吧|的|哈|嘛
你|您|那|那就|帮忙
"""


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def _phrases(text: str) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(_tokens(phrase)) for line in text.split("\n") for phrase in line.split("|") if phrase)


_CORE: Final = _phrases(_THANKS) | _phrases(_HEARD)
_EXTRA: Final = _phrases(_FILLERS)
_LONGEST_PHRASE: Final = max(map(len, _CORE | _EXTRA))


def is_acknowledgement(text: str) -> bool:
    """Whether the whole text is "ok", "thanks", "好的，谢谢！" or the like, or nothing but an emoji.

    Case, punctuation, emoji and drawn-out letters don't count. "Yes", "no", "sure" and "对" answer a question, and
    "perfect" confirms what was done: they say something, and are none.
    """
    folded = unicodedata.normalize("NFKC", text[: _LONGEST + 1]).casefold().replace("’", "'")
    if len(text) > _LONGEST:
        return False
    tokens = _tokens(folded)
    if not tokens:
        return any(unicodedata.category(character) == "So" for character in folded)
    return _is_made_of_phrases(tokens) or _is_made_of_phrases(_tokens(_LATIN_REPEAT.sub(r"\1", folded)))


def without_acknowledgements(turns: Iterable[Turn]) -> tuple[Turn, ...]:
    """The turns without those of the person that only acknowledge, and without the answers to them."""
    return without_exchanges(turns, is_acknowledgement)


def _is_made_of_phrases(tokens: list[str]) -> bool:
    """Whether phrases, one behind the other, make up all tokens, with at least one that is more than a filler."""
    # reached[i]: whether the first i tokens are made of phrases; and whether one of them is no filler.
    reached = [(True, False)] + [(False, False)] * len(tokens)
    for end in range(1, len(tokens) + 1):
        for start in range(max(0, end - _LONGEST_PHRASE), end):
            phrase = tuple(tokens[start:end])
            is_core = phrase in _CORE
            if reached[start][0] and (is_core or phrase in _EXTRA):
                reached[end] = (True, reached[end][1] or reached[start][1] or is_core)
    return reached[len(tokens)] == (True, True)
