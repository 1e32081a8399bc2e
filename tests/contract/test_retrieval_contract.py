"""What every retrieval must do, the built-in one and an adapter alike; and what a bad adapter costs: a warning."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import ClassVar

import pytest
from builders_store import edit, fact_text, facts_of, place

from deermem import DeerMem, Fact, InvalidInput, Retrieval, Scored, SearchFilter, Settings
from deermem.service.read import snapshot
from deermem.service.retrieval import retrieval_of

HERE = __name__


class InMemory:
    """An adapter as small as one can be: it counts the words that a fact shares with the text."""

    made: ClassVar[list[InMemory]] = []

    def __init__(self, index_folder, settings) -> None:
        self.folder = index_folder
        self.settings = settings
        self.facts: dict[str, Sequence[Fact]] = {}
        self.synced: list[str] = []
        self.closed = False
        self.made.append(self)

    def sync(self, agent: str, facts: Sequence[Fact]) -> bool:
        self.facts[agent] = facts
        self.synced.append(agent)
        return True

    def search(self, text: str, where: SearchFilter, top_k: int, now: float) -> Iterable[Scored]:
        words = set(text.lower().split())
        found = [
            Scored(agent, fact.id, len(shared))
            for agent in where.agents or self.facts
            for fact in self.facts.get(agent, ())
            if (shared := words & set(fact.content.lower().split())) and within(fact, where, now)
        ]
        return sorted(found, key=lambda item: -item.score)[:top_k]

    def close(self) -> None:
        self.closed = True


def within(fact: Fact, where: SearchFilter, now: float) -> bool:
    return (
        (fact.expires_at is None or fact.expires_at.timestamp() > now)
        and where.category in (None, fact.category)
        and set(where.topics) <= set(fact.topics)
        and where.source_thread in (None, fact.source.thread_id)
        and (where.since is None or fact.updated_at >= where.since)
        and (where.until is None or fact.updated_at <= where.until)
    )


@pytest.fixture(autouse=True)
def none_made():
    InMemory.made.clear()


@pytest.fixture(params=["fts5", f"{HERE}:InMemory"])
def engine(request, root, clock):
    with DeerMem(root, Settings(max_facts=0, retrieval_adapter=request.param), clock=clock) as opened:
        yield opened


@pytest.fixture
def memory(engine):
    return engine.memory("alice", "coder")


class Asking:
    """A retrieval as `recall` uses it: told of the facts, then asked."""

    def __init__(self, engine: DeerMem) -> None:
        self.user = engine.context("alice")

    def __call__(self, text: str, top_k: int = 10, agents: tuple[str, ...] = ("coder",), **where: object) -> list[str]:
        retrieval: Retrieval = retrieval_of(self.user)
        owners = {}
        for agent in agents:
            seen = snapshot(self.user, agent)
            owners |= {(agent, key): fact.content for fact in seen.facts for key in (fact.id, seen.row(fact.id).path)}
            assert retrieval.sync(agent, seen.facts) is True
        now = self.user.clock().timestamp()
        found = list(retrieval.search(text, SearchFilter(agents=agents, **where), top_k, now))
        assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)
        assert len(found) <= top_k
        return [owners[item.agent, item.key] for item in found]


@pytest.fixture
def ask(engine) -> Asking:
    return Asking(engine)


def test_a_word_finds_its_facts_the_best_first(memory, ask):
    memory.add("docker volumes on disk")
    memory.add("docker alone")
    memory.add("podman")
    assert ask("docker volumes") == ["docker volumes on disk", "docker alone"]
    assert ask("zebra") == []


@pytest.mark.parametrize(
    "text", ["", " ", "?!", '"', "AND", "NOT x", "a:b", "(" * 300, "x" * 10_000, "\0", "\ud800", "%_*"]
)
def test_any_text_is_fine(memory, ask, text):
    memory.add("docker")
    assert ask(text) == []


def test_changes_and_deletions_are_taken_in(memory, ask):
    fact = memory.add("docker volumes")
    assert ask("docker") == ["docker volumes"]
    memory.update(fact.id, "podman volumes")
    assert (ask("docker"), ask("podman")) == ([], ["podman volumes"])
    edit(memory.path(fact.id), "podman", "lima")
    assert (ask("podman"), ask("lima")) == ([], ["lima volumes"])
    memory.delete(fact.id)
    assert ask("lima volumes") == []


def test_agents_are_apart(engine, memory, ask):
    memory.add("docker of the coder")
    engine.memory("alice", "writer").add("docker of the writer")
    assert ask("docker") == ["docker of the coder"]
    assert ask("docker", agents=("writer",)) == ["docker of the writer"]
    assert sorted(ask("docker", agents=("coder", "writer"))) == ["docker of the coder", "docker of the writer"]


def test_filters_and_the_end_of_a_fact_come_before_the_limit(memory, ask, root, clock):
    memory.add("docker wanted", category="goal", topics=["ci"], source="t1")
    first = clock()
    clock.advance(days=1)
    for number in range(120):
        memory.add(f"docker number {number}")
    end = f"'{(clock() + timedelta(days=1)).isoformat()}'"
    ending = {"category": "knowledge", "updatedAt": f"'{clock().isoformat()}'", "expiresAt": end}
    place(facts_of(root) / "ends.md", fact_text("ends", "docker ends", **ending))
    for where in ({"category": "goal"}, {"topics": ("ci",)}, {"source_thread": "t1"}, {"until": first}):
        assert ask("docker number", 1, **where) == ["docker wanted"]
    assert ask("docker", 1, since=first + timedelta(hours=1), category="goal") == []
    assert ask("docker", category="knowledge") == ["docker ends"]
    clock.advance(days=2)
    assert ask("docker", category="knowledge") == []
    assert len(ask("docker", 1000)) == 121


def test_users_never_share_one(engine, memory, ask):
    engine.memory("bob", "coder").add("docker of bob")
    memory.add("docker of alice")
    engine.memory("bob", "coder").search("docker")
    assert ask("docker") == ["docker of alice"]


def test_a_store_is_found_again_by_the_next_process(memory, engine, root, clock):
    memory.add("docker volumes")
    memory.search("docker")
    settings = engine.settings
    engine.close()
    with DeerMem(root, settings, clock=clock) as again:
        assert Asking(again)("docker") == ["docker volumes"]
        assert again.warm() is True
        assert again.reindex("alice").supported is True


def test_many_threads_ask_at_once(memory, engine):
    for number in range(20):
        memory.add(f"docker number {number}")
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(len(memory.search("docker", 50)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [20] * 8


# --- an adapter in the engine


@pytest.fixture
def adapted(root, clock):
    """An engine with the example adapter, whatever its behaviour is made to be."""
    with DeerMem(root, Settings(max_facts=0, retrieval_adapter=f"{HERE}:InMemory"), clock=clock) as opened:
        yield opened


def test_an_adapter_is_what_is_asked(adapted, root):
    memory = adapted.memory("alice", "coder")
    memory.add("docker volumes")
    memory.add("docker alone")
    hits = memory.search("docker volumes")
    assert [(hit.match, hit.score, hit.fact.content) for hit in hits] == [
        ("adapter", 2.0, "docker volumes"),
        ("adapter", 1.0, "docker alone"),
    ]
    assert memory.count("docker volumes") == 2
    (item, _) = memory.explain("docker volumes").hits
    assert (item.adapter, item.sum, [term.term for term in item.terms]) == (2.0, 2.0, ["docker", "volum"])
    (made,) = InMemory.made
    assert made.folder == root / "users/alice/.retrieval/adapter"
    assert made.settings is adapted.settings
    assert not made.folder.exists()


def test_an_adapter_is_told_only_of_changes_and_closed_at_the_end(adapted):
    memory = adapted.memory("alice", "coder")
    memory.add("docker")
    for _ in range(3):
        memory.search("docker")
    (made,) = InMemory.made
    assert made.synced == ["coder"]
    memory.add("docker too")
    memory.search("docker")
    assert made.synced == ["coder", "coder"]
    adapted.reindex("alice")
    assert InMemory.made[0].closed
    adapted.close()
    assert all(made.closed for made in InMemory.made)


def test_nothing_found_by_an_adapter_is_looked_for_in_the_facts(adapted):
    memory = adapted.memory("alice", "coder")
    memory.add("Dockerised volumes")
    assert [hit.match for hit in memory.search("ockerise")] == ["substring"]
    assert memory.count("ockerise") == 1


def test_an_adapter_may_answer_with_paths_and_plain_tuples(adapted, monkeypatch):
    memory = adapted.memory("alice", "coder")
    fact = memory.add("docker")
    path = "/".join(memory.path(fact.id).parts[-2:])
    monkeypatch.setattr(InMemory, "search", lambda *_: [("coder", path, 3)])
    assert [(hit.fact.id, hit.score, hit.match) for hit in memory.search("anything")] == [(fact.id, 3.0, "adapter")]


def test_what_an_adapter_makes_up_is_no_hit(adapted, monkeypatch, clock):
    """Gone, of another agent, outside the filter, told twice: dropped, and the rest stands."""
    memory = adapted.memory("alice", "coder")
    fact = memory.add("docker", category="goal")
    other = memory.add("docker too", category="context")
    foreign = adapted.memory("alice", "writer").add("docker of another agent")
    found = [
        ("coder", "nobody", 9), ("writer", foreign.id, 8), ("coder", other.id, 7), ("coder", fact.id, 6),
        ("coder", fact.id, 5), ("coder", "zz/gone.md", 4),
    ]  # fmt: skip
    monkeypatch.setattr(InMemory, "search", lambda *_: found)
    hits = memory.search("docker", 10, category="goal")
    assert [(hit.fact.id, hit.score, hit.match) for hit in hits] == [(fact.id, 6.0, "adapter")]


def endless(*_):
    while True:
        yield ("coder", "nobody", 1.0)


def raising(*_):
    raise RuntimeError("no")


BAD: dict[str, tuple[str, Callable[..., object]]] = {
    "search raises": ("search", raising),
    "sync raises": ("sync", raising),
    "is made with an error": ("__init__", raising),
    "no tuples": ("search", lambda *_: ["coder", "x"]),
    "too short": ("search", lambda *_: [("coder", "x")]),
    "no list": ("search", lambda *_: 7),
    "no text": ("search", lambda *_: [(1, 2, 3)]),
    "no number": ("search", lambda *_: [("coder", "x", "high")]),
    "not a number": ("search", lambda *_: [("coder", "x", float("nan"))]),
    "a truth for a number": ("search", lambda *_: [("coder", "x", True)]),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_adapter_costs_a_warning(adapted, monkeypatch, caplog, kind):
    """92: the canonical result, never an error; and it is asked again next time."""
    memory = adapted.memory("alice", "coder")
    memory.add("docker volumes")
    memory.add("podman")
    with monkeypatch.context() as patch:
        patch.setattr(InMemory, *BAD[kind])
        assert [(hit.fact.content, hit.match) for hit in memory.search("docker")] == [("docker volumes", "substring")]
        assert memory.count("docker") == memory.explain("docker").total == 1
        assert any("adapter" in record.message and record.levelname == "WARNING" for record in caplog.records)
        caplog.clear()
    assert [hit.match for hit in memory.search("docker")] == ["adapter"]
    assert caplog.records == []


@pytest.mark.parametrize(
    ("method", "said"), [("search", None), ("sync", False), ("search", []), ("search", endless(None))]
)
def test_an_adapter_without_an_answer_costs_nothing(adapted, monkeypatch, caplog, method, said):
    memory = adapted.memory("alice", "coder")
    memory.add("docker volumes")
    monkeypatch.setattr(InMemory, method, lambda *_: said)
    assert [hit.match for hit in memory.search("docker")] == ["substring"]
    assert caplog.records == []


def test_an_adapter_that_hangs_holds_up_nobody(adapted, monkeypatch, caplog):
    monkeypatch.setattr("deermem.service.retrieval._PATIENCE", 0.05)
    memory = adapted.memory("alice", "coder")
    memory.add("docker volumes")
    inside, go_on = threading.Event(), threading.Event()

    def hanging(*_):
        inside.set()
        assert go_on.wait(30)
        return []

    monkeypatch.setattr(InMemory, "search", hanging)
    first = threading.Thread(target=lambda: memory.search("docker"))
    first.start()
    try:
        assert inside.wait(30)
        assert [hit.match for hit in memory.search("docker")] == ["substring"]
        memory.add("written meanwhile")
        assert len(memory.list()) == 2
    finally:
        go_on.set()
        first.join()
    assert "busy" in caplog.text


@pytest.mark.parametrize("name", ["no_such_module_anywhere:factory", f"{HERE}:nothing", f"{HERE}:HERE"])
def test_a_factory_that_can_not_be_had_is_refused_at_once(root, name):
    with pytest.raises(InvalidInput, match=name):
        DeerMem(root, Settings(retrieval_adapter=name))


@pytest.mark.parametrize(
    "name", ["bm25", "a.b", "a:b:c", "a:", ":b", "a b:c", "a.:b", "1a:b", "a-b:c", "fts5 ", ["a:b"]]
)
def test_only_a_well_formed_name_is_taken(name):
    with pytest.raises(InvalidInput, match="retrieval_adapter"):
        Settings(retrieval_adapter=name)
    assert Settings(retrieval_adapter="pkg.mod_1:make").retrieval_adapter == "pkg.mod_1:make"


def test_nothing_is_made_for_a_user_who_has_nothing(adapted, root):
    assert adapted.memory("nobody").search("docker") == []
    assert InMemory.made == []
    assert not root.exists()
