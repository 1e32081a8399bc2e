"""Stop words: what a question is made of besides what it asks for. Only queries drop them, the index never."""

from __future__ import annotations

from typing import Final


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


ENGLISH: Final = _listed(
    """
    a about after again all also am an and any anybody anyone anything are arent as at be because been before being
    both but by can cannot cant could couldnt did didnt do does doesnt doing done dont during each either else ever
    every everyone everything few for from further get gets getting go goes going got had hadnt has hasnt have havent
    having he her here hers herself him himself his how however i if in into is isnt it its itself just kind let lets
    like many maybe me might mine more most much must my myself need neither never no nor not now of off often on
    once one only or other others our ours ourselves out over own per perhaps please quite rather really s same shall
    she should shouldnt since so some somebody someone something sort such t than that the their theirs them
    themselves then there these they thing things this those though through to together too towards under until up
    upon us very was wasnt way we were werent what whatever when whenever where wherever whether which while who whoever
    whom whose why will with within without wont would wouldnt yes yet you your yours yourself
    """
)

CHINESE: Final = _listed(
    """
    的 地 得 了 着 过 吗 呢 吧 啊 呀 么 嘛 哦 是 在 和 与 及 或 而 但 也 都 就 还 又 很 把 被 给 让 从 到 对
    向 于 以 为 之 其 所 我 你 您 他 她 它 们 这 那 哪 谁 几 多 少 有 个 些 种 样 请 问
    我们 你们 他们 她们 它们 咱们 自己 大家 这个 那个 这些 那些 这里 那里 这样 那样 这种 那种
    什么 怎么 怎样 怎么样 如何 为什么 为何 哪里 哪儿 哪个 哪些 哪种 多少 几个 何时 何地 何人 谁的
    什么样 什么时候 什么地方 是否 是不是 有没有 能不能 可不可以 可以 可能 能够 应该 需要 因为 所以
    如果 但是 而且 然后 虽然 由于 关于 以及 或者 还是
    叫 曾经 已经 正在 一共 总共 一下 一些 一个 一种 叫做 称为 名字 请问 告诉
    """
)

LONGEST_CHINESE: Final = max(map(len, CHINESE))


def stop_marks(run: str) -> list[bool]:
    """For every character of a run whether it belongs to a Chinese stop word; the longest word wins."""
    marks = [False] * len(run)
    at = 0
    while at < len(run):
        length = next((size for size in range(LONGEST_CHINESE, 0, -1) if run[at : at + size] in CHINESE), 0)
        length = min(length, len(run) - at)
        marks[at : at + length] = [True] * length
        at += max(length, 1)
    return marks
