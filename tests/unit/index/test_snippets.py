import pytest

from deermem.index.query import parse_query
from deermem.index.snippets import snippet


@pytest.mark.parametrize(
    ("content", "text", "expected"),
    [
        ("User prefers Node.js.\nRuns tests", "node.js run", "User prefers **Node.js**. **Runs** tests"),
        ("likes C++ and C", "C++", "likes **C++** and **C**"),
        ("今天玩成语接龙游戏", "成语接龙", "今天玩**成语接龙**游戏"),
        ("明天下雨", "雨", "明天下**雨**"),
        ("重跑gen-itgc后", "itgc", "重跑gen-**itgc**后"),
        ("the Café is open", "cafe", "the **Café** is open"),
        ("the cafe\u0301 is open", "café", "the **café** is open"),
        ("deployment and deploying", "deploy*", "**deployment** and **deploying**"),
        ("हिन्दी भाषा", "हिन्दी", "**हिन्दी** भाषा"),
        ("nothing here", "cello", "nothing here"),
        ("\x1b[31mred\tcar\x00", "red", "[31mred car"),
        ("", "cello", ""),
    ],
)
def test_matches_are_marked(content: str, text: str, expected: str) -> None:
    assert snippet(content, parse_query(text)) == expected


def test_it_is_one_line() -> None:
    shown = snippet("first\r\nsecond\u2028third\n\n\nfourth", parse_query("third"))
    assert shown == "first second **third** fourth"


@pytest.mark.parametrize("width", [20, 60, 160])
def test_a_long_fact_is_cut_around_what_matched(width: int) -> None:
    shown = snippet("alpha " * 400 + "needle " + "omega " * 400, parse_query("needle"), width)
    assert "**needle**" in shown
    assert shown.startswith(("…alpha", "…**needle"))
    assert shown.endswith("omega…")
    assert width - 30 <= len(shown.replace("*", "").strip("…")) <= width


def test_the_window_holds_the_most_different_words() -> None:
    content = "red red red red " + "x " * 300 + "the red bicycle"
    assert snippet(content, parse_query("red bicycle"), 40).endswith("the **red** **bicycle**")


def test_without_a_match_it_is_the_beginning() -> None:
    shown = snippet("alpha beta " * 100, parse_query("cello"), 30)
    assert shown == "alpha beta alpha beta alpha…"
