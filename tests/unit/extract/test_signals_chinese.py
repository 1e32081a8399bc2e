"""Behaviour 144, Chinese: what realistic sentences signal, and what only looks like it."""

from __future__ import annotations

import pytest

from deermem.extract.messages import Turn
from deermem.extract.signals import load_patterns

TELLING = {
    "correction": [
        "这不正确",
        "这个答案有误",
        "不对，应该是周五",
        "你理解错了，我要的是月报",
        "我的意思是用 PostgreSQL",
        "重新写一遍",
        "应该是 5 而不是 6",
        "这里改用 pnpm",
        "这不是我想要的",
        "错了，是下周三",
        "不是这个意思",
        "你忘了加单元测试",
        "我说过不要改接口",
    ],
    "reinforcement": [
        "就是这样",
        "这个格式我很满意",
        "对，就是这样",
        "完全正确！",
        "正是我想要的",
        "写得很好",
        "太棒了，继续保持",
        "没错",
        "就是这个效果",
        "你说得对",
        "很好，就按这个来",
        "我很满意",
        "这个回答很完美",
    ],
    "preference": [
        "我更喜欢简短的回答",
        "以后都用中文回答",
        "我不喜欢吃香菜",
        "请始终使用类型注解",
        "不要用表情符号",
        "我习惯用 Vim",
        "我比较喜欢蓝色",
        "我一般早上六点起床",
        "回答尽量简短",
        "从现在起用英文回答",
        "我偏好函数式风格",
    ],
    "identity": [
        "我叫小明",
        "我是一名后端工程师",
        "我住在上海",
        "我在一家银行工作",
        "我女儿今年五岁",
        "我对花生过敏",
        "请叫我老王",
        "我是上海人",
        "我老婆是医生",
        "我今年三十岁",
        "我来自成都，是做后端的",
        "我有十年的开发经验",
    ],
    "goal": [
        "计划下个月上线",
        "我的目标是通过雅思考试",
        "我打算明年换工作",
        "我想学日语",
        "我正在备考研究生",
        "今年的目标是减重十公斤",
        "我计划三年内升职",
        "我希望能在年底前完成论文",
    ],
    "decision": [
        "我选择React",
        "定了，周五发布",
        "最终选了蓝色",
        "我们采用微服务架构",
        "我们决定用 PostgreSQL",
        "那就用第二个方案",
        "就这么定了",
        "最终方案是 A",
        "我已经决定辞职了",
        "我们最后选择了 Vue",
        "好，就选第一个",
    ],
    "correction preference": [
        "别再用 var 了",
    ],
    "correction decision": [
        "不再使用 Jenkins，改用 GitHub Actions",
    ],
}

SILENT = [
    "有什么不对吗",
    "是否不正确",
    "参数有误",
    "我选择困难症",
    "我们采用什么架构",
    "最后决定权在谁",
    "对不对？",
    "不对称加密是什么？",
    "运行时出错了",
    "你喜欢什么？",
    "你叫什么名字？",
    "我是不是应该重启？",
    "这个函数的目标是什么？",
    "怎么做决定？",
    "决定因素有哪些？",
    "帮我决定一下",
    "我准备好了",
    "他叫我去开会",
    "我还没决定",
    "以后再说",
    "完美主义是什么意思",
    "谢谢，明白了",
    "没错误提示",
    "不完美",
    "我希望你帮我写一封邮件",
    "我想问一个问题",
    "今天天气怎么样？",
    "帮我写一个排序函数",
    "这个报错怎么解决？",
    "我的代码跑不起来",
    "请问怎么安装？",
    "好的，谢谢",
    "我觉得可以",
    "如果不对就告诉我",
    "我想知道怎么用",
]


def signalled(text: str) -> set[str]:
    return set(load_patterns().detect([Turn("user", text, "key")]))


@pytest.mark.parametrize("signals", TELLING)
def test_a_sentence_signals(signals: str) -> None:
    wrong = {text: found for text in TELLING[signals] if (found := signalled(text)) != set(signals.split())}
    assert wrong == {}


def test_other_sentences_signal_nothing():
    assert {text: found for text in SILENT if (found := signalled(text))} == {}
