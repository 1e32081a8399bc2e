"""What a search finds, through the index and without one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from builders_store import edit, fact_text, facts_of, place

from deermem import DeerMem, InvalidInput, Settings


@pytest.fixture
def plain(root, clock):
    """The same bucket without an index."""
    with DeerMem(root, Settings(retrieval_adapter=""), clock=clock) as engine:
        yield engine.memory("alice", "coder")


@pytest.fixture(params=["fts5", "substring"])
def either(request, memory, plain):
    """A handle whose searches go through the index, or without one."""
    return memory if request.param == "fts5" else plain


def found(hits) -> list[str]:
    return [hit.fact.content for hit in hits]


def test_without_an_adapter_a_search_goes_through_the_facts(plain, root):
    """75: match substring, score, and no index on disk."""
    plain.add("Deploys with Docker")
    (hit,) = plain.search("docker")
    assert (hit.match, hit.fact.content, hit.score) == ("substring", "Deploys with Docker", 0.5)
    assert "Docker" in hit.snippet
    assert not (root / "users/alice/.retrieval").exists()


def test_the_index_says_fts5(memory):
    """79: a score, a snippet, the agent; nothing of that inside the fact."""
    fact = memory.add("Deploys with Docker")
    (hit,) = memory.search("docker")
    assert (hit.match, hit.agent, hit.fact) == ("fts5", "coder", fact)
    assert hit.score > 0
    assert "Docker" in hit.snippet
    assert "score" not in fact.extra


@pytest.mark.parametrize("text", ["", " ", "\n\t", "?!", '"', "…", "\u200b", "()"])
def test_a_blank_query_finds_nothing(either, text):
    """76, F10: no exception."""
    either.add("Deploys with Docker")
    assert either.search(text) == []


@pytest.mark.parametrize("top_k", [0, -1, -100])
def test_no_hits_wanted_are_no_hits(either, top_k):
    """76."""
    either.add("Deploys with Docker")
    assert either.search("docker", top_k) == []


def test_case_does_not_matter_and_top_k_is_kept(either):
    """76."""
    for number in range(8):
        either.add(f"Docker fact {number}")
    assert len(either.search("DOCKER")) == 5
    assert len(either.search("docker", top_k=3)) == 3
    assert len(either.search("docker", 100)) == 8


def test_substring_order_is_by_confidence_and_stable(plain, root):
    """77: null counts as 0.5, "0.9" as 0.9, equals keep their order."""
    folder = facts_of(root)
    for fact_id, confidence in (("a", 0.5), ("b", '"0.9"'), ("c", "null"), ("d", 1.0), ("e", 0.0)):
        place(folder / f"{fact_id}.md", fact_text(fact_id, f"Docker {fact_id}", confidence=confidence))
    assert found(plain.search("docker")) == ["Docker d", "Docker b", "Docker a", "Docker c", "Docker e"]


def test_filters_come_before_the_cut(either, clock):
    """78: category, topics, thread and time."""
    wanted = either.add(
        "Docker, the wanted one", category="goal", topics=["CI", "deploy"], source="thread-1", confidence=0.1
    )
    clock.advance(days=10)
    for number in range(20):
        either.add(f"Docker fact {number}", confidence=0.9)
    narrowed = [
        {"category": "Goal"},
        {"topics": ["ci"]},
        {"topics": ["deploy", "ci"]},
        {"source_thread": "thread-1"},
        {"until": datetime(2026, 12, 1, tzinfo=UTC)},
        {"until": datetime(2026, 12, 1)},
        {"since": datetime(2026, 11, 1), "until": datetime(2026, 12, 1, tzinfo=UTC), "category": "goal"},
    ]
    for filters in narrowed:
        assert [hit.fact.id for hit in either.search("docker", top_k=1, **filters)] == [wanted.id], filters
    assert either.search("docker", since=datetime(2027, 1, 1, tzinfo=UTC)) == []
    assert either.search("docker", category="nothing", topics=["ci"]) == []


@pytest.mark.parametrize(
    "filters", [{"topics": "ci"}, {"topics": [7]}, {"since": "yesterday"}, {"until": 7}, {"since": datetime}]
)
def test_filters_of_another_type_are_refused(either, filters):
    """D13: with the field's name."""
    either.add("Docker")
    with pytest.raises(InvalidInput, match=next(iter(filters)).rstrip("s")):
        either.search("docker", **filters)


@pytest.mark.parametrize("value", ["x') OR 1=1--", '" OR "1"="1', "%", "_", "*", "\\", "'"])
def test_filter_values_are_values(engine, either, value):
    """D13: no SQL, no pattern, no other user's facts."""
    either.add("Docker of Alice", category="goal", topics=["a"], source="t")
    engine.memory("bob", "coder").add("Docker of Bob")
    for filters in ({"category": value}, {"topics": [value]}, {"source_thread": value}):
        assert either.search("docker", **filters) == []


def test_users_never_see_each_other(engine):
    """80: even with equal fact ids; nor their agents."""
    for user in ("alice", "bob", None):
        engine.memory(user).import_document({"facts": [{"id": "same", "content": f"Docker of {user}"}]})
    engine.memory("alice", "coder").add("Docker of Alice's coder")
    assert found(engine.memory("alice").search("docker")) == ["Docker of alice"]
    assert found(engine.memory("bob").search("docker")) == ["Docker of bob"]
    assert found(engine.memory().search("docker")) == ["Docker of None"]


def test_an_engine_searches_over_agents(engine):
    """Each hit names its agent; all agents, or those named, in any case."""
    for agent in ("coder", "writer", None):
        engine.memory("alice", agent).add(f"Docker of {agent}")
    engine.memory("bob", "coder").add("Docker of Bob")
    assert {(hit.agent, hit.fact.content) for hit in engine.search("alice", "docker")} == {
        ("coder", "Docker of coder"), ("writer", "Docker of writer"), ("__default__", "Docker of None")
    }  # fmt: skip
    assert {hit.agent for hit in engine.search("alice", "docker", agents=["CODER", "__default__"])} == {
        "coder",
        "__default__",
    }
    assert engine.search("alice", "docker", agents=[]) == engine.search("alice", "docker", agents=["nobody"]) == []
    assert len(engine.search("alice", "docker", top_k=2)) == 2
    with pytest.raises(InvalidInput):
        engine.search("alice", "docker", agents=["../x"])
    with pytest.raises(InvalidInput, match="agents is 'coder'"):
        engine.search("alice", "docker", agents="coder")


def test_changed_words_are_found_and_old_ones_are_not(either):
    """82, D8: after update, delete and hand edit."""
    fact = either.add("Uses Synology storage")
    either.update(fact.id, "Uses Fnos storage")
    assert either.search("synology") == []
    assert found(either.search("fnos")) == ["Uses Fnos storage"]
    edit(either.path(fact.id), "Fnos", "Truenas")
    assert either.search("fnos") == []
    assert found(either.search("truenas")) == ["Uses Truenas storage"]
    either.delete(fact.id)
    assert either.search("storage") == []


NATURAL = [
    ("TODO: fix login", "TODO: fix"), ("error:timeout in step", "error:timeout"), ("a pre-edit hook", "pre-edit"),
    ("BENCH-100821 is slow", "BENCH-100821"), ("We don't use agents", "don't use agents"),
    ("see Downloads/transcripts", "Downloads/transcripts"), ("grammar::fa lives there", "grammar::fa"),
    ("C++ and C# only", "C++"), ("Phase 2 begins", "phase-2"), ("do NOT deploy on Friday", "do NOT deploy"),
    ("Speed of 5 GB/s", "GB/s"), ("mail @user first", "@user"), ("call foo(bar)", "foo(bar)"), ("the [x] box", "[x]"),
    ("今天玩成语接龙游戏", "成语接龙"), ("中文检索支持验证", "检索"), ("明天下雨", "雨"), ("用户喜欢茶", "用户"),
    ("今日は京都で寿司", "京都"), ("한국어 문장입니다", "한국어"), ("重跑gen-itgc后", "itgc"), ("ราคาน้ำมัน", "น้ำมัน"),
    ("Straße gesperrt", "strasse"), ("İstanbul ofisi", "istanbul"), ("Café au lait", "cafe\u0301"),
    ("학점인정", "\u1112\u1161\u11a8\u110c\u1165\u11b7"),
    ("a db index", "db"), ("微信读书的书架", "微信读书 书架 阅读偏好"),
    ("Melanie painted a sunrise", "When did Melanie paint a sunrise?"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "query"), NATURAL)
def test_natural_text_is_no_syntax(either, content, query):
    """83, 84 and the trap list of FTS5: no package for Chinese is needed."""
    fact = either.add(content)
    either.add("Nothing to do with it whatsoever")
    assert fact.id in [hit.fact.id for hit in either.search(query)]


@pytest.mark.parametrize(
    "query", ["*", "AND", "NOT", '"unbalanced', "a AND", "(", ")", "(" * 300, "NEAR(a b)", "a:b:c", "%",
              "\\", "\0", "\ud800",
              "x" * 100_000, "'; DROP TABLE files;--", "a* b* c*", "-", "--x", "^a", "\u202e", "NOT NOT a", "{a b} : c"]
)  # fmt: skip
def test_no_query_raises(either, query):
    """83: whatever the text, before and after, the same facts are there."""
    either.add("Docker")
    either.search(query)
    assert found(either.search("docker")) == ["Docker"]


def test_a_quoted_phrase_is_one(memory):
    """83."""
    memory.add("The red house burns")
    memory.add("The house is red")
    assert found(memory.search('"red house"')) == ["The red house burns"]


def test_of_two_equals_the_newer_comes_first(memory, root):
    """85: six years apart; and an exact match of last year is before this week's near miss."""
    place(facts_of(root) / "old.md", fact_text("old", "Docker in use", createdAt="2020-11-30", updatedAt="2020-11-30"))
    place(facts_of(root) / "new.md", fact_text("new", "Docker in use", createdAt="2026-11-29", updatedAt="2026-11-29"))
    assert [hit.fact.id for hit in memory.search("docker")] == ["new", "old"]
    place(facts_of(root) / "near.md", fact_text("near", "Postgres somewhere", createdAt="2026-11-29"))
    exact = fact_text("exact", "Postgres backup schedule", createdAt="2025-11-29", updatedAt="2025-11-29")
    place(facts_of(root) / "exact.md", exact)
    assert memory.search("postgres backup schedule")[0].fact.id == "exact"


def test_a_word_of_most_facts_still_ranks(memory):
    """The trap: in a small store ranking must not collapse to confidence."""
    for number in range(9):
        memory.add(f"Docker note {number} on something else entirely", confidence=0.9)
    wanted = memory.add("Docker volumes", confidence=0.3)
    assert memory.search("docker volumes")[0].fact.id == wanted.id
