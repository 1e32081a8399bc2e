"""The audit of the cap: written after the commit and only then, bounded, without any content; and how it is read."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil

import pytest
from builders_buckets import audit, fill, ids, item, metadata, opened, ten, usage
from builders_store import place

from deermem import ChangeSet, Draft, Evicted, InvalidInput, Score
from deermem.store.files import Files

HYBRID = {"fact_eviction_policy": "hybrid-v1"}
SHADOW = {"fact_eviction_shadow_enabled": True}


def shed(memory, count: int = 1, start: int = 0) -> None:
    for number in range(start, start + count):
        memory.add(f"A secret word {number}", confidence=0.9)


@pytest.fixture
def full(root, clock):
    """Opens an engine with these settings on a full bucket."""
    engines = []

    def full(**settings):
        engines.append(opened(root, clock, **settings))
        memory = engines[-1].memory("alice", "coder")
        fill(memory, ten(clock(), category="goal"))
        return memory

    yield full
    for engine in engines:
        engine.close()


def test_an_entry_has_ids_and_scores_and_never_content(full, root):
    """103."""
    memory = full(**HYBRID)
    memory.update("fact_0", confidence=0.3)
    assert [hit.fact.id for hit in memory.search("fact_0", top_k=1)] == ["fact_0"]
    shed(memory)
    assert audit(root) == [
        {
            "occurredAt": "2026-11-30T12:00:00Z",
            "reason": "capacity",
            "maxFacts": 10,
            "policyVersion": "hybrid-v1",
            "reservedCorrectionSlots": 0,
            "evicted": [
                {
                    "factId": "fact_0",
                    "category": "goal",
                    "score": round(0.65 * 0.3 + 0.25 * 0.5 + 0.1 * 0.315465, 6),
                    "components": {"confidence": 0.3, "confirmationFreshness": 0.5, "accessHeat": 0.315465},
                }
            ],
        }
    ]
    text = (metadata(root) / "eviction-audit.json").read_text().lower()
    assert not any(word in text for word in ("content", "secret", "title"))


@pytest.mark.parametrize(("entries", "kept"), [(0, []), (1, ["fact_3"]), (3, ["fact_1", "fact_2", "fact_3"])])
def test_the_audit_is_bounded(full, root, entries, kept):
    """103: 0 is none, 1 keeps the last; 200 by default."""
    memory = full(eviction_audit_max_entries=entries)
    shed(memory, 4)
    assert [entry["evicted"][0]["factId"] for entry in audit(root)] == kept
    assert [decision.victims for decision in memory.evictions()] == [(name,) for name in reversed(kept)]


def test_two_hundred_decisions_are_kept_by_default(full, root):
    """103."""
    memory = full()
    old = {"occurredAt": "2026-01-01T00:00:00Z", "evicted": [{"factId": "old"}]}
    place(metadata(root) / "eviction-audit.json", json.dumps([old] * 200))
    shed(memory)
    assert len(audit(root)) == len(memory.evictions()) == 200
    assert memory.evictions(limit=1)[0].victims == ("fact_0",)


@pytest.mark.parametrize("said", [b"{", b"{}", b"3", b'["x", 5, null]', b"\xff\xfe"])
def test_a_damaged_audit_begins_anew(full, root, said):
    """104: tolerated and put right."""
    memory = full()
    place(metadata(root) / "eviction-audit.json", said)
    assert memory.evictions() == []
    shed(memory)
    assert [entry["evicted"][0]["factId"] for entry in audit(root)] == ["fact_0"]


def test_deleting_takes_a_fact_out_of_the_audit(full, root):
    """73, 104: one that is deleted, not one that is evicted; where the shadow disagrees is worked out again."""
    memory = full(**SHADOW)
    shadow = {"policyVersion": "hybrid-v1", "wouldEvict": ["fact_5", "x"], "disagrees": True}
    gone = [{"factId": "x"}, {"factId": "y"}]
    entry = {"occurredAt": "2026-11-01T00:00:00Z", "evicted": gone, "shadow": shadow}
    place(metadata(root) / "eviction-audit.json", json.dumps([entry]))
    memory.delete("fact_5")
    assert audit(root)[0]["shadow"] == {"policyVersion": "hybrid-v1", "wouldEvict": ["x"], "disagrees": True}
    memory.apply(ChangeSet([Draft(id="y", content="Back again", confidence=0.9)]))
    memory.delete("y")
    assert audit(root)[0]["shadow"]["disagrees"] is False
    shed(memory, 2)
    assert [item.victims for item in memory.evictions()] == [("fact_0",), ("x",)]
    memory.apply(ChangeSet([Draft(id="fact_0", content="Back again", confidence=0.95)]))
    assert [item.victims for item in memory.evictions()] == [("fact_1",), ("fact_0",), ("x",)]
    memory.clear()
    assert [item.victims for item in memory.evictions()] == [("fact_1",), ("x",)]


class Killed(BaseException):
    """The process is gone."""


class StoppedFiles(Files):
    """Fails, or dies, at the call of this number that changes something."""

    def __init__(self, at: int, error: BaseException) -> None:
        self.calls, self.at, self.error = 0, at, error

    def _step(self) -> None:
        self.calls += 1
        if self.calls == self.at or (self.calls > self.at and isinstance(self.error, Killed)):
            raise self.error

    def create(self, path, data, *, flush=True):
        self._step()
        super().create(path, data, flush=flush)

    def rewrite(self, path, data):
        self._step()
        super().rewrite(path, data)

    def rename(self, source, target):
        self._step()
        super().rename(source, target)

    def rename_new(self, source, target):
        self._step()
        super().rename_new(source, target)

    def exchange(self, staged, target, displaced):
        self._step()
        super().exchange(staged, target, displaced)


@pytest.mark.parametrize("error", [Killed(), OSError(28, "No space left on device")], ids=["killed", "full disk"])
def test_a_commit_that_is_not_made_leaves_no_entry(full, root, clock, tmp_path, error):
    """103: stopped anywhere, the audit never names a fact that is still there."""
    full().delete("fact_9")
    with opened(root, clock) as engine:
        engine.memory("alice", "coder").add("The tenth", confidence=0.9)
    named = set()
    for at in range(1, 100):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(root, copy)
        files = StoppedFiles(at, error)
        with opened(copy, clock, files=files) as engine:
            with contextlib.suppress(Killed, OSError):
                engine.memory("alice", "coder").add("One more", confidence=0.9)
            done = files.calls < at
        with opened(copy, clock) as engine:
            memory = engine.memory("alice", "coder")
            there, told = ids(memory), memory.evictions()
        assert all(len(there) == 10 and "fact_0" not in there for _ in told)
        named.add(len(told))
        if done:
            break
    assert done
    assert named == {0, 1}


def test_decisions_are_read_as_values(full, clock, root):
    """Newest first; `limit` counts decisions."""
    memory = full(**SHADOW)
    fill(memory, [item("fact_0", 0.5, clock(), age=400)])
    shed(memory)
    clock.advance(days=1)
    shed(memory, start=1)
    newest, oldest = memory.evictions()
    assert memory.evictions(limit=1) == [newest]
    assert memory.evictions(limit=0) == []
    assert (newest.at, newest.policy, newest.max_facts) == (clock(), "confidence", 10)
    assert oldest.evicted == (Evicted("fact_0", "goal", Score(total=0.5, confidence=0.5)),)
    assert (oldest.would_evict, oldest.disagrees) == (("fact_0",), False)
    for limit in (-1, True, "5", 1.0):
        with pytest.raises(InvalidInput, match="limit"):
            memory.evictions(limit)


def test_nothing_evicted_is_an_empty_list(root, clock):
    """A root that isn't there stays so."""
    with opened(root, clock) as engine:
        assert engine.memory("alice", "coder").evictions() == []
    assert not root.exists()


def test_add_tells_whom_it_evicted_in_the_log(full, caplog):
    """`add` returns the new fact alone."""
    memory = full()
    with caplog.at_level(logging.INFO, logger="deermem"):
        shed(memory)
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.INFO] == [
        "agent coder: evicted fact_0 to keep the cap of 10"
    ]


def test_stats_say_how_full_each_bucket_is_and_what_is_due(root, clock):
    """Facts past their review window, expired ones that wait for the next write, and what the cap did."""
    with opened(root, clock, staleness_age_days=30, **HYBRID) as engine:
        memory = engine.memory("alice", "coder")
        engine.memory("alice", "writer").add("One")
        old = [item("old", 0.5, clock(), age=31), item("renewed", 0.5, clock(), age=400, confirmed=29)]
        windows = [
            item("long", 0.5, clock(), age=31, expected_valid_days=60),
            item("rule", 0.5, clock(), age=400, category="correction"),
            item("over", 1.0, clock(), age=400, expiresAt="2026-12-01T00:00:00Z"),
        ]
        fill(memory, [*old, *windows, *ten(clock())[:5]])
        shed(memory)
        clock.advance(hours=13)
        coder, writer = engine.stats().buckets
        assert (coder.facts, coder.max_facts, coder.policy) == (10, 10, "hybrid-v1")
        assert (coder.stale, coder.expired, coder.evictions) == (1, 1, 1)
        assert coder.evicted_at == memory.evictions()[0].at
        assert (writer.facts, writer.stale, writer.expired, writer.evictions, writer.evicted_at) == (1, 0, 0, 0, None)
        shed(memory, start=1)
        assert engine.stats().buckets[0].expired == 0
        assert usage(root) == {}
