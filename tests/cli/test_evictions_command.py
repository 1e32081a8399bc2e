"""evictions, and what stats say of the cap."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from builders_buckets import fill, item, opened

from deermem import ChangeSet, Draft

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture
def decided(root, clock):
    """Two decisions: one by confidence with the shadow, a day later one by hybrid-v1."""
    stale = item("stale", 0.9, NOW, age=900, category="goal")
    others = [item(f"other_{number}", 1.0, NOW) for number in range(8)]
    low = item("low", 0.6, NOW, age=90, confirmed=0)
    correction = item("correction", 0.1, NOW, category="correction")
    with opened(root, clock, fact_eviction_shadow_enabled=True) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, [stale, low, *others])
        memory.apply(ChangeSet([Draft(content="A secret word", confidence=1.0)]))
    clock.advance(days=1)
    with opened(root, clock, max_facts=11, fact_eviction_policy="hybrid-v1") as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, [correction])
        memory.apply(ChangeSet([Draft(content="Another secret", confidence=1.0)]))


def test_evictions_are_told_newest_first_with_their_reasons(call, decided):
    answer = call("evictions", "--agent", "coder", user="alice")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines() == [
        "2026-12-01T12:00:00Z  cap of 11, by hybrid-v1, 1 place kept for corrections",
        "  stale  goal  0.585  confidence 0.900, confirmation 0.000, access 0.000",
        "2026-11-30T12:00:00Z  cap of 10, by confidence",
        "  low  context  0.600",
        "hybrid-v1 would have evicted stale",
    ]
    one = call("evictions", "--agent", "coder", "--limit", "1", user="alice").out
    assert one.splitlines()[0].startswith("2026-12-01")
    assert len(one.splitlines()) == 2


def test_evictions_as_json(call, decided):
    found = call("--json", "evictions", "--agent", "coder", user="alice").json
    assert [item["at"] for item in found] == ["2026-12-01T12:00:00Z", "2026-11-30T12:00:00Z"]
    score = {"total": 0.6, "confidence": 0.6, "confirmation": 0.0, "access": 0.0}
    assert found[1] == {
        "at": "2026-11-30T12:00:00Z",
        "policy": "confidence",
        "max_facts": 10,
        "evicted": [{"id": "low", "category": "context", "score": score}],
        "reserved": 0,
        "would_evict": ["stale"],
        "disagrees": True,
    }


def test_a_fact_that_was_deleted_since_is_not_named(call, root, clock):
    """The shadow's choice went from the audit with the fact."""
    with opened(root, clock, fact_eviction_shadow_enabled=True) as engine:
        memory = engine.memory("alice")
        stale = item("stale", 0.9, NOW, age=900)
        fill(memory, [stale, *[item(f"o{number}", 0.8 + number / 100, NOW) for number in range(9)]])
        memory.apply(ChangeSet([Draft(content="New", confidence=1.0)]))
        assert call("evictions", user="alice").out.splitlines()[2] == "hybrid-v1 would have evicted stale"
        memory.delete("stale")
    assert call("evictions", user="alice").out.splitlines()[2].endswith("evicted facts that were deleted since")


def test_what_a_foreign_audit_says_steers_no_terminal(call, root):
    path = root / "users/alice/agents/__default__/.metadata/eviction-audit.json"
    path.parent.mkdir(parents=True)
    evil = '"\\u001b[2J\\nx"'
    path.write_text(
        f'[{{"occurredAt": "2026-11-30T12:00:00Z", "policyVersion": {evil}, "evicted": [{{"factId": {evil}}}]}}]'
    )
    out = call("evictions", user="alice").out
    assert "\x1b" not in out
    assert len(out.splitlines()) == 2


def test_nothing_evicted_is_an_answer(call, add, root):
    answer = call("evictions", user="alice")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == f"deermem: there is no store at {root} yet\n"
    add("One")
    assert call("evictions", user="alice").err == "nothing was evicted, or no audit was kept\n"
    assert call("--json", "evictions", user="alice").json == []
    assert call("evictions", "--limit", "-1", user="alice").code == 2


def test_stats_show_what_is_decided(call, decided, add):
    add("One", user="bob")
    header, coder, bob = call("stats").out.splitlines()[2:]
    assert header.split() == ["USER", "AGENT", "FACTS", "STALE", "EXPIRED", "UNREADABLE", "BYTES", "EVICTIONS"]
    assert coder.split()[:5] == ["alice", "coder", "11", "of", "100"]
    assert coder.endswith("2, last 2026-12-01T12:00:00Z")
    assert bob.split()[-1] == "0"
    assert call("--max-facts", "0", "stats").out.splitlines()[3].split()[:3] == ["alice", "coder", "11"]
    (found,) = call("--json", "stats", "--max-facts", "11", user="alice").json["buckets"]
    told = ("facts", "max_facts", "policy", "expired", "evictions", "evicted_at")
    assert [found[name] for name in told] == [11, 11, "confidence", 0, 2, "2026-12-01T12:00:00Z"]
    # How many are stale depends on the day on which this runs.
    assert found["stale"] in range(12)
