"""What explaining a search says: the same hits, scores that add up, and the reason for every absence."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta

import pytest
from builders_store import fact_text, facts_of, place

from deermem import DeerMem, InvalidInput, Settings


@pytest.fixture
def engine(root, clock):
    with DeerMem(root, Settings(max_facts=0), clock=clock) as opened:
        yield opened


@pytest.fixture
def memory(engine):
    return engine.memory("alice", "coder")


def why(memory, text: str, fact_id: str, top_k: int = 5, **filters):
    absence = memory.explain(text, top_k, why=fact_id, **filters).why
    assert absence is not None
    assert absence.fact_id == fact_id
    assert absence.message
    return absence


@pytest.mark.parametrize("adapter", ["fts5", ""])
def test_the_hits_are_those_of_the_search_and_their_parts_add_up(memory, root, clock, adapter):
    memory.add("Docker volumes live on the Synology", confidence=0.9)
    clock.advance(days=400)
    memory.add("Docker is old, and docker is new")
    memory.add("喜欢成语接龙游戏")
    memory.add("getUserName runs in node.js")
    with DeerMem(root, Settings(retrieval_adapter=adapter), clock=clock) as other:
        same = other.memory("alice", "coder")
        for text in (
            "where are docker volumes?",
            "成语接龙",
            '"docker volumes" OR node.js',
            "volum* new",
            "getUserName",
        ):
            found = same.explain(text, 3)
            assert [item.hit for item in found.hits] == same.search(text, 3)
            assert found.total == same.count(text) >= len(found.hits) > 0
            assert [item.place for item in found.hits] == list(range(1, len(found.hits) + 1))
            for item in found.hits:
                assert item.sum == pytest.approx(item.hit.score, abs=1e-6)
                assert item.terms
                assert all(term.times > 0 for term in item.terms)


def test_each_part_says_what_it_is(memory, clock):
    memory.add("Docker volumes, docker", confidence=0.9)
    memory.add("Docker alone")
    first, second = memory.explain("docker volumes").hits
    assert [(term.term, term.kind, term.times, term.facts) for term in first.terms] == [
        ("volum", "word", 1, 1),
        ("docker", "word", 2, 2),
    ]
    assert first.bm25 > second.bm25 > 0
    assert first.coverage == pytest.approx(0.3 * first.bm25)
    assert second.coverage < 0.3 * second.bm25
    assert first.recency == pytest.approx(0.05 * (first.bm25 + first.coverage))
    assert first.confidence == second.confidence == first.adapter == 0.0


def test_without_an_index_confidence_is_the_score(memory, root):
    memory.add("Docker volumes", confidence=0.7)
    with DeerMem(root, Settings(retrieval_adapter="")) as plain:
        (item,) = plain.memory("alice", "coder").explain("docker").hits
    assert (item.hit.match, item.confidence, item.bm25) == ("substring", 0.7, 0.0)
    assert [(term.term, term.times, term.score) for term in item.terms] == [("docker", 1, 0.0)]


def test_the_query_is_told_as_it_was_understood(memory):
    memory.add("Docker")
    said = memory.explain("where is the docker?").query
    assert (said.form, said.words, said.dropped) == ("words", ("docker",), ("where", "is", "the"))
    assert memory.explain("docker AND x1").query.operators == ("AND",)


def test_a_text_that_asks_for_nothing_is_explained_too(memory):
    fact = memory.add("Docker")
    found = memory.explain("?!", why=fact.id)
    assert (found.query.form, found.hits, found.total) == ("nothing", (), 0)
    assert found.why.reason == "no-shared-term"


def test_a_hit_is_where_it_is(memory):
    memory.add("Docker docker docker")
    fact = memory.add("Docker and other things that one may say")
    absence = why(memory, "docker", fact.id)
    assert (absence.reason, absence.place, absence.path) == ("found", 2, str(memory.path(fact.id)))
    assert absence.score == memory.search("docker")[1].score


def test_no_shared_term(memory):
    memory.add("Docker")
    fact = memory.add("Podman")
    assert why(memory, "docker", fact.id).reason == "no-shared-term"
    assert why(memory, '"docker x1"', fact.id).reason == "no-shared-term"
    assert why(memory, "docker NOT podman", fact.id).reason == "no-shared-term"


@pytest.mark.parametrize(
    ("filters", "named"),
    [
        ({"category": "goal"}, ("category",)),
        ({"topics": ["ci", "x"]}, ("topics",)),
        ({"source_thread": "t2"}, ("source_thread",)),
        ({"since": datetime(2027, 1, 1, tzinfo=UTC)}, ("since",)),
        ({"until": datetime(2020, 1, 1)}, ("until",)),
        ({"category": "goal", "source_thread": "t2", "topics": ["ci"]}, ("category", "source_thread")),
    ],
)
def test_filtered_by_which_filter(memory, filters, named):
    fact = memory.add("Docker", category="context", topics=["CI"], source="t1")
    absence = why(memory, "docker", fact.id, **filters)
    assert (absence.reason, absence.filters) == ("filtered", named)
    assert memory.explain("docker", **filters).total == 0


def test_below_the_limit_has_a_place_and_a_score(memory):
    for number in range(30):
        memory.add(f"Docker docker number {number}")
    fact = memory.add("Docker among a great many other words that say something else")
    absence = why(memory, "docker", fact.id, top_k=3)
    assert (absence.reason, absence.place) == ("below-limit", 31)
    assert absence.score == memory.search("docker", 31)[30].score
    assert "31 of 31" in absence.message
    assert why(memory, "docker", fact.id, top_k=0).place == 31


def test_expired(memory, root, clock):
    place(facts_of(root) / "old.md", fact_text("old", "Docker", expiresAt="'2026-12-03T00:00:00Z'"))
    assert why(memory, "docker", "old").reason == "found"
    clock.advance(days=5)
    absence = why(memory, "docker", "old")
    assert (absence.reason, "2026-12-03" in absence.message) == ("expired", True)
    assert memory.count("docker") == 0


def test_an_unreadable_file(memory, root):
    memory.add("Docker")
    path = place(facts_of(root) / "broken.md", b"\xff")
    absence = why(memory, "docker", "broken")
    assert (absence.reason, absence.path) == ("unreadable", str(path))


def test_shadowed_by_another_file(memory, root):
    fact = memory.add("Docker")
    path = place(facts_of(root) / "second.md", fact_text(fact.id, "Podman rules"))
    absence = why(memory, "podman", fact.id)
    assert (absence.reason, absence.path) == ("shadowed", str(path))
    assert why(memory, "podman", "second").reason == "shadowed"
    assert why(memory, "docker", fact.id).reason == "found"


def test_unknown(memory, engine):
    other = engine.memory("alice").add("Docker of another agent")
    for fact_id in ("nobody", "../x", "", other.id):
        assert why(memory, "docker", fact_id).reason == "unknown"


def test_not_indexed(memory, root, monkeypatch, caplog):
    """The index answers and lacks the words of one fact: said so, as nobody could see it otherwise."""
    memory.add("Docker one")
    fact = memory.add("Docker two")
    memory.search("docker")
    connection = sqlite3.connect(root / "users/alice/.retrieval/index.sqlite3", isolation_level=None)
    connection.execute("UPDATE words SET body = '' WHERE rowid = (SELECT id FROM files WHERE fact_id = ?)", (fact.id,))
    connection.close()
    assert why(memory, "docker", fact.id).reason == "not-indexed"


def test_explaining_narrows_as_searching_does(memory, clock):
    memory.add("Docker", category="goal")
    memory.add("Docker too", category="context")
    assert memory.explain("docker", category="GOAL").total == 1
    with pytest.raises(InvalidInput):
        memory.explain("docker", topics="ci")
    with pytest.raises(TypeError):
        memory.explain("docker", author="me")
    assert memory.explain("docker", since=clock() + timedelta(days=1)).hits == ()
