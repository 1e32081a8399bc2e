"""One answer by every path: search, count, explain, over one agent or several, with an index, an adapter or none."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, tzinfo

import pytest
from builders_store import fact_text, facts_of, place

from deermem import DeerMem, InvalidInput, Settings
from deermem.cli.main import run

FACTS = [
    "TODO: fix login", "error:timeout in step", "a pre-edit hook", "BENCH-100821 is slow", "We don't use agents",
    "see Downloads/transcripts", "grammar::fa lives there", "written in C++", "Phase 2 begins", "5 GB/s at best",
    "Melanie painted a sunrise", "今天玩成语接龙游戏", "用户喜欢茶", "明天下雨", "微信读书的书架", "重跑gen-itgc后",
    "今日は京都で寿司", "오늘 학점인정", "ราคาน้ำมัน", "Мария рисовала рассвет", "Café au lait", "Docker volumes",
    "The red house burns", "The house is red", "node.js and deno", "getUserName first",
]  # fmt: skip
QUERIES = {
    "TODO: fix": {0}, "error:timeout": {1}, "pre-edit": {2}, "BENCH-100821": {3}, "don't use agents": {4},
    "Downloads/transcripts": {5}, "grammar::fa": {6}, "C++": {7}, "phase-2": {8}, "GB/s": {9},
    "When did Melanie paint a sunrise?": {10}, "成语接龙": {11}, "用户": {12}, "雨": {13},
    "微信读书 书架 阅读偏好": {14}, "itgc": {15}, "京都": {16}, "\u1112\u1161\u11a8\u110c\u1165\u11b7": {17},
    "น้ำมัน": {18}, "Когда Мария нарисовала": {19}, "CAFE\u0301": {20}, "docker": {21}, "volumes of docker": {21},
    '"red house"': {22}, "red house": {22, 23}, "house NOT burns": {23}, "node.js": {24}, "getusername": {25},
    "dock*": {21}, "zebra": set(), "?!": set(), "": set(),
}  # fmt: skip


@pytest.fixture
def engine(root, clock):
    with DeerMem(root, Settings(max_facts=0), clock=clock) as opened:
        yield opened


@pytest.fixture
def memory(engine):
    return engine.memory("alice", "coder")


@pytest.fixture
def plain(root, clock):
    """The same store without an index."""
    with DeerMem(root, Settings(max_facts=0, retrieval_adapter=""), clock=clock) as opened:
        yield opened


def by_command_line(root, capsys, text: str) -> set[str]:
    arguments = [
        "--root",
        str(root),
        "--user",
        "alice",
        "--agent",
        "coder",
        "--json",
        "search",
        "-k",
        "100",
        "--",
        text,
    ]
    assert run(arguments) == 0
    return {hit["fact"]["content"] for hit in json.loads(capsys.readouterr().out)}


def test_every_path_finds_the_same(engine, memory, plain, root, capsys):
    """F3, F22: a query is read in one place, whatever the door."""
    for content in FACTS:
        memory.add(content)
    engine.memory("alice", "writer").add("Docker volumes of the writer")
    bare = plain.memory("alice", "coder")
    for text, expected in QUERIES.items():
        wanted = {FACTS[number] for number in expected}
        answers = {
            "search": {hit.fact.content for hit in memory.search(text, 100)},
            "substring": {hit.fact.content for hit in bare.search(text, 100)},
            "engine": {hit.fact.content for hit in engine.search("alice", text, ["coder"], 100)},
            "engine, substring": {hit.fact.content for hit in plain.search("alice", text, ["coder"], 100)},
            "explain": {item.hit.fact.content for item in memory.explain(text, 100).hits},
            "command line": by_command_line(root, capsys, text),
        }
        assert answers == dict.fromkeys(answers, wanted), text
        totals = [memory.count(text), bare.count(text), memory.explain(text, 1).total, bare.explain(text, 1).total]
        assert totals == [len(wanted)] * 4, text


def test_filters_are_the_same_on_every_path(engine, memory, plain, clock):
    wanted = memory.add("Docker, the wanted one", category="Caféstraße", topics=["CI", "Deploy it"], source="t1")
    clock.advance(days=10)
    for number in range(150):
        memory.add(f"Docker docker {number}", confidence=0.9)
    bare = plain.memory("alice", "coder")
    for narrow in (
        {"category": "CAFÉSTRASSE"},
        {"category": " cafe\u0301strasse"},
        {"topics": ["ci"]},
        {"topics": ("deploy  it", " ci ")},
        {"source_thread": "t1"},
        {"until": datetime(2026, 12, 1, tzinfo=UTC)},
        {"until": datetime(2026, 12, 1)},
        {"since": datetime(2026, 11, 1, tzinfo=UTC), "until": clock() - timedelta(days=1), "source_thread": "t1"},
    ):
        for handle in (memory, bare):
            assert [hit.fact.id for hit in handle.search("docker", 1, **narrow)] == [wanted.id], narrow
            assert handle.count("docker", **narrow) == handle.explain("docker", **narrow).total == 1
        for one in (engine, plain):
            assert [hit.fact.id for hit in one.search("alice", "docker", None, 1, **narrow)] == [wanted.id]
            assert one.search("alice", "docker", ["writer"], **narrow) == []
    for handle in (memory, bare):
        assert handle.count("docker") == 151
        assert handle.count("docker", category="none") == 0


@pytest.mark.parametrize(
    "narrow",
    [
        {"topics": "ci"},
        {"topics": [7]},
        {"since": "yesterday"},
        {"until": 7},
        {"category": "\ud800"},
        {"source_thread": "t\ud800"},
    ],
)
def test_filters_of_another_type_are_refused_on_every_path(engine, memory, narrow):
    memory.add("Docker")
    for call in (
        memory.search,
        memory.count,
        memory.explain,
        lambda text, **more: engine.search("alice", text, **more),
    ):
        with pytest.raises(InvalidInput, match=next(iter(narrow)).rstrip("s")):
            call("docker", **narrow)


@pytest.mark.parametrize("top_k", [True, "5", 5.0, None])
def test_a_limit_of_another_type_is_refused_on_every_path(engine, memory, top_k):
    memory.add("Docker")
    for call in (memory.search, memory.explain, lambda text, limit: engine.search("alice", text, None, limit)):
        with pytest.raises(InvalidInput, match="top_k"):
            call("docker", top_k)


def test_a_time_whose_zone_says_nothing_is_utc(memory):
    class Silent(tzinfo):
        def utcoffset(self, moment):
            return None

    memory.add("Docker")
    assert memory.count("docker", since=datetime(2020, 1, 1, tzinfo=Silent())) == 1


def test_an_unknown_filter_is_a_mistake_of_the_caller(engine, memory):
    for call in (
        memory.search,
        memory.count,
        memory.explain,
        lambda text, **more: engine.search("alice", text, **more),
    ):
        with pytest.raises(TypeError, match="author"):
            call("docker", author="me")


def test_thousands_of_hits(memory, plain):
    memory.import_document({"facts": [{"content": f"Docker fact {number}"} for number in range(1500)]})
    for handle in (memory, plain.memory("alice", "coder")):
        assert handle.count("docker") == handle.count("docker 77") == 1500
        assert len({hit.fact.id for hit in handle.search("docker", 1400)}) == 1400
        assert len(handle.search("docker", 10**30)) == 1500
    assert memory.search("docker 77", 1)[0].fact.content == "Docker fact 77"


def test_what_is_not_served_does_not_count(memory, plain, root, clock):
    """Expired facts, files that can't be read, and files whose id another one speaks for."""
    fact = memory.add("Docker")
    place(facts_of(root) / "old.md", fact_text("old", "Docker old", expiresAt="'2026-12-03T00:00:00Z'"))
    place(facts_of(root) / "second.md", fact_text(fact.id, "Docker second"))
    place(facts_of(root) / "broken.md", b"Docker \xff")
    bare = plain.memory("alice", "coder")
    assert memory.count("docker") == bare.count("docker") == 2
    clock.advance(days=5)
    assert memory.count("docker") == bare.count("docker") == 1
    assert [hit.fact.id for hit in memory.search("docker", 1)] == [fact.id]
    assert memory.count("second") == bare.count("second") == 0


def test_a_shadowed_file_takes_no_hits_place(memory, root):
    fact = memory.add("Podman and some docker at the very end of a long sentence about other things")
    for number in range(3):
        place(facts_of(root) / f"copy{number}.md", fact_text(fact.id, "Docker docker docker"))
    assert [hit.fact.id for hit in memory.search("docker", 1)] == [fact.id]
    assert memory.count("docker") == 1


def test_another_user_does_not_move_a_score(engine):
    """One user's facts never reach another's statistics: the score of a word stays what it was."""
    memory = engine.memory("alice")
    memory.add("Docker volumes")
    memory.add("Podman volumes")
    before = [(hit.fact.id, hit.score) for hit in memory.search("docker volumes")]
    frequencies = [[term.facts for term in item.terms] for item in memory.explain("docker volumes").hits]
    for number in range(50):
        engine.memory("bob").add(f"Docker docker volumes {number}")
    assert [(hit.fact.id, hit.score) for hit in memory.search("docker volumes")] == before
    assert [[term.facts for term in item.terms] for item in memory.explain("docker volumes").hits] == frequencies
    memory.add("Docker of Alice as well")
    assert [(hit.fact.id, hit.score) for hit in memory.search("docker volumes")] != before


def test_no_two_users_share_an_index_file(engine, root):
    for user in ("alice", "bob", None):
        engine.memory(user).add(f"Docker of {user}")
        engine.memory(user).search("docker")
    files = sorted(root.rglob("index.sqlite3"))
    assert len(files) == 3
    assert len({(path.stat().st_dev, path.stat().st_ino) for path in files}) == 3


def test_an_index_under_way_is_not_asked(memory, root, monkeypatch):
    """While a commit waits to be finished the index can't know of it: the facts answer, the commit's included."""
    memory.add("Docker")
    memory.search("docker")
    monkeypatch.setattr("deermem.service.retrieval.is_sealed", lambda user: True)
    assert [hit.match for hit in memory.search("docker")] == ["substring"]
    assert memory.count("docker") == 1
