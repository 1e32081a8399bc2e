"""A fact as the catalogue keeps it: nothing is lost on the way, and readers may ask while it is being stored."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from types import FrameType

import pytest

from deermem import DeerMem, Settings
from deermem.index.rows import Row, Stored, from_sql, to_sql
from deermem.model.fact import Fact

NOW = datetime(2026, 11, 30, tzinfo=UTC)
FACT = Fact(id="one", content="Docker runs here", title="Docker runs here", created_at=NOW, updated_at=NOW)


@pytest.mark.parametrize("key", ["expires_at", "last_confirmed_at", "consolidated_at", "created_at", "updated_at"])
def test_the_first_moment_of_1970_is_kept(key):
    fact = Fact(**{**{name: getattr(FACT, name) for name in FACT.__slots__}, key: datetime(1970, 1, 1, tzinfo=UTC)})
    *head, said, problem = to_sql(Row("coder", "one.md", (1, 2, 3, 4, 5), 6, b"hash", Stored.of(fact)))
    back = from_sql("coder", (*head[1:10], head[10], said, problem))
    assert back.fact == fact


def test_a_fact_that_ended_in_1970_is_served_by_no_process(root, clock):
    with DeerMem(root, clock=clock) as engine:
        engine.memory("alice", "coder").add("Podman is here")
        path = next(root.glob("users/alice/agents/coder/facts/*/*.md"))
        path.with_name("old.md").write_text("---\nid: old\nexpiresAt: '1970-01-01T00:00:00Z'\n---\nDocker was here\n")
        assert [fact.content for fact in engine.memory("alice", "coder").list()] == ["Podman is here"]
        assert engine.warm()
    for settings in (Settings(), Settings(retrieval_adapter="")):
        with DeerMem(root, settings, clock=clock) as engine:
            assert [fact.content for fact in engine.memory("alice", "coder").list()] == ["Podman is here"]
            assert engine.memory("alice", "coder").search("docker") == []


@pytest.mark.parametrize("step", range(12))
@pytest.mark.parametrize("lean", [True, False])
def test_another_thread_may_ask_or_store_between_any_two_lines(lean, step):
    """Readers hold a snapshot, and no lock."""
    stored = Stored("one", Stored.of(FACT).said)
    lines = 0

    def meddle(frame: FrameType, event: str, _: object) -> object:
        nonlocal lines
        if event == "line" and frame.f_code.co_name in ("fact", "said", "settle"):
            if lines == step:
                sys.settrace(None)
                frame.f_trace = None
                assert (stored.fact, bool(stored.said)) == (FACT, True)
                stored.settle(lean=lean)
            lines += 1
        return meddle

    before = sys.gettrace()
    sys.settrace(meddle)
    try:
        found = [stored.fact, Stored("one", stored.said).fact, stored.settle(lean=True), stored.fact]
    finally:
        sys.settrace(before)
    assert found == [FACT, FACT, None, FACT]
