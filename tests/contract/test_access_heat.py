"""Access heat on real files: who is warmed by what, and that noting it costs nobody an answer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from datetime import datetime, timedelta

import pytest
from builders_buckets import audit, fill, ids, item, metadata, opened, ten, usage
from builders_store import fact_text, facts_of, ordinary_user, place, shard, tree

from deermem import ChangeSet, Draft, NotStored
from deermem.errors import LockTimeout
from deermem.service import heat

HYBRID = {"fact_eviction_policy": "hybrid-v1"}
SHADOW = {"fact_eviction_shadow_enabled": True}


@pytest.fixture
def warm(root, clock):
    """A full bucket under hybrid-v1."""
    with opened(root, clock, **HYBRID) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, ten(clock()))
        yield memory


def heats(root) -> dict[str, tuple[object, object]]:
    return {name: (entry["accessHeat"], entry["accessCount"]) for name, entry in usage(root).items()}


@pytest.mark.parametrize("settings", [HYBRID, SHADOW, {**HYBRID, "retrieval_adapter": ""}])
def test_what_a_search_returns_is_warmed_and_nothing_else(root, clock, settings):
    """101, 102: beside the facts; no file of a fact changes."""
    with opened(root, clock, **settings) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, ten(clock()))
        before = tree(root)
        assert len(memory.search("content", top_k=3)) == 3
        assert memory.search("nothing of that kind") == memory.search("") == memory.search("content", top_k=0) == []
        after = tree(root)
        sidecar = after.pop("users/alice/agents/coder/.metadata/fact-usage.json")
        assert after == before
        assert len(json.loads(sidecar)) == 3
        assert set(heats(root).values()) == {(1.0, 1)}


def test_only_a_search_warms(warm, root):
    """102: not what is read, listed, counted, explained, exported or put into a prompt."""
    warm.get("fact_1")
    warm.list()
    warm.count("content")
    warm.explain("content", why="fact_2")
    warm.context()
    warm.context_block()
    warm.document()
    warm.update("fact_3", confidence=0.9)
    assert not metadata(root).exists()


def test_a_search_over_agents_warms_each_in_its_own_bucket(root, clock):
    """102."""
    with opened(root, clock, **HYBRID) as engine:
        for agent in ("coder", "writer"):
            engine.memory("alice", agent).apply(ChangeSet([Draft(id=f"of_{agent}", content="Tea at four")]))
        assert len(engine.search("alice", "tea")) == 2
        assert (set(usage(root, "coder")), set(usage(root, "writer"))) == ({"of_coder"}, {"of_writer"})


def test_heat_halves_in_thirty_days(warm, root, clock):
    """100: two hits 30 days apart are a heat of 1.5 and a count of 2."""
    warm.search("fact_4")
    clock.advance(days=30)
    warm.search("fact_4")
    entry = usage(root)["fact_4"]
    assert (round(entry["accessHeat"], 6), entry["accessCount"]) == (1.5, 2)
    assert entry["lastAccessedAt"] == "2026-12-30T12:00:00Z"


def test_the_half_life_is_a_setting(root, clock):
    """100."""
    with opened(root, clock, eviction_access_half_life_days=10, **HYBRID) as engine:
        memory = engine.memory("alice", "coder")
        memory.add("Tea at four")
        memory.search("tea")
        clock.advance(days=20)
        memory.search("tea")
    assert list(heats(root).values()) == [(1.25, 2)]


def test_a_fact_deleted_since_the_search_does_not_come_back(warm, root):
    """102: whoever deletes is not undone by who found."""
    user = warm._user
    warm.delete("fact_1")
    heat.record(user, {"coder": ["fact_1", "fact_2", "FACT_3"]})
    assert set(usage(root)) == {"fact_2"}
    shutil.rmtree(root / "users/alice")
    heat.record(user, {"coder": ["fact_2"]})
    assert not (root / "users/alice").exists()


@pytest.mark.parametrize("way", ["delete", "clear", "evict", "expire", "clear all", "replace"])
def test_a_fact_that_goes_leaves_no_heat(warm, root, clock, way):
    """73."""
    engine = warm._engine
    warm.update("fact_0", "Tea at four")
    fill(warm, [item("fact_1", 0.51, clock(), content="Tea at five", expiresAt="2026-12-24T00:00:00Z")])
    assert {hit.fact.id for hit in warm.search("tea")} == {"fact_0", "fact_1"} == set(usage(root))
    if way == "delete":
        warm.delete("fact_0")
    elif way == "clear":
        warm.clear()
    elif way == "clear all":
        engine.clear("alice")
    elif way == "evict":
        warm.apply(ChangeSet([Draft(content=f"New {number}", confidence=1.0) for number in range(10)]))
    elif way == "expire":
        clock.advance(days=60)
        warm.update("fact_2", confidence=0.9)
        assert set(usage(root)) == {"fact_0"}
        return
    else:
        warm.import_document({"facts": [item("fact_1", 0.5, clock())]}, replace=True)
        assert set(usage(root)) == {"fact_1"}
        return
    assert set(usage(root)) == ({"fact_1"} if way == "delete" else set())


@pytest.mark.skipif(os.geteuid() != 0, reason="a folder of somebody else's is made by the superuser")
def test_a_folder_that_can_not_be_written_fails_no_search(root, clock, caplog):
    """102: the memory is there to read only."""
    with opened(root, clock, **HYBRID) as engine:
        fill(engine.memory("alice", "coder"), ten(clock()))
    for path in [root, *root.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    for path in root.parents:
        if path.stat().st_uid == 0 and path.is_relative_to("/tmp"):
            path.chmod(path.stat().st_mode | 0o055)
    with ordinary_user(), opened(root, clock, **HYBRID) as engine:
        assert len(engine.memory("alice", "coder").search("content")) == 5
    assert "not counted" in caplog.text
    assert usage(root) == {}


def test_what_stands_in_the_way_of_the_sidecar_fails_no_search(warm, root, caplog):
    """102: a file in the place of its folder."""
    place(metadata(root), "x")
    assert len(warm.search("content")) == 5
    assert "not counted" in caplog.text


HOLDER = """
import fcntl, sys
with open(sys.argv[1], "r+b") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_search_goes_on_while_another_process_writes(root, clock, caplog):
    """102: it doesn't wait for the lock to be free."""
    with opened(root, clock, file_lock_timeout_seconds=0.05, **HYBRID) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, ten(clock()))
        command = [sys.executable, "-c", HOLDER, str(root / "users/alice/.memory.lock")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            assert len(memory.search("content")) == 5
            assert "is held by" in caplog.text
            assert usage(root) == {}
            holder.communicate()
        memory.search("content")
        assert len(usage(root)) == 5


@pytest.mark.parametrize(("setting", "waits"), [(0.0, 0.0), (0.25, 0.25), (10.0, 1.0), (3600.0, 1.0)])
def test_a_search_waits_at_most_a_second(root, clock, monkeypatch, setting, waits):
    """102: however long a write may wait."""
    asked = []

    def refuse(paths, timeout):
        asked.append(timeout)
        raise LockTimeout("held")

    with opened(root, clock, file_lock_timeout_seconds=setting, **HYBRID) as engine:
        memory = engine.memory("alice", "coder")
        memory.add("Tea at four")
        monkeypatch.setattr(heat, "user_lock", refuse)
        assert len(memory.search("tea")) == 1
    assert asked == [waits]


def test_a_bucket_that_waits_for_its_adoption_gets_no_sidecars(root, clock):
    """Else the program that made it, which takes nothing but facts there for its own, would not adopt it."""
    with opened(root, clock, **HYBRID) as engine:
        memory = engine.memory("alice", "lead-agent")
        fill(memory, ten(clock()))
        assert len(memory.search("content")) == 5
        memory.add("New", confidence=1.0)
        assert not metadata(root, "lead-agent").exists()
        place(root / "users/alice/agents/lead-agent/config.yaml", "name: lead-agent\n")
        assert len(memory.search("content")) == 5
        memory.add("Newer", confidence=1.0)
        assert len(usage(root, "lead-agent")) >= 4
        assert len(audit(root, "lead-agent")) == 1


def test_heat_that_another_program_noted_counts_on(root, clock):
    """A store that deermem never wrote to: unknown keys and other entries stay as they are."""
    for name in ("fact_a", "fact_b"):
        place(facts_of(root) / shard(name) / f"{name}.md", fact_text(name, f"Tea for {name}"))
    entry = {"accessHeat": 1.0, "accessCount": 4, "lastAccessedAt": "2026-10-31T12:00:00.000000Z", "seen": True}
    other = {"accessHeat": 2.0, "accessCount": 2, "lastAccessedAt": "2026-11-30T00:00:00Z"}
    place(metadata(root) / "fact-usage.json", json.dumps({"fact_b": other, "fact_a": entry}))
    with opened(root, clock, **HYBRID) as engine:
        assert [hit.fact.id for hit in engine.memory("alice", "coder").search("fact_a", top_k=1)] == ["fact_a"]
    said = usage(root)
    assert list(said) == ["fact_b", "fact_a"]
    assert said["fact_b"] == other
    assert said["fact_a"] == {
        "accessHeat": 1.5,
        "accessCount": 5,
        "lastAccessedAt": "2026-11-30T12:00:00Z",
        "seen": True,
    }


def test_a_real_stores_usage_is_honoured(shared, root, clock):
    """DeerFlow's own sidecar, from a copy of a store that it wrote."""
    shutil.copytree(shared / "fixtures/deerflow-v2", root)
    before = usage(root)
    clock.advance(days=31)
    with opened(root, clock, **HYBRID) as engine:
        memory = engine.memory("alice", "coder")
        found = [hit.fact.id for hit in memory.search(memory.get("fact_corr_001").content, top_k=1)]
        assert found == ["fact_corr_001"]
        after = usage(root)
        assert set(after) == set(before)
        assert after["fact_zh_001"] == before["fact_zh_001"]
        assert after["fact_corr_001"]["accessCount"] == 2
        age = clock() - datetime.fromisoformat(before["fact_corr_001"]["lastAccessedAt"])
        assert after["fact_corr_001"]["accessHeat"] == pytest.approx(1 + 0.5 ** (age / timedelta(days=30)), abs=1e-4)


def test_threads_that_search_and_write_lose_nothing(root, clock):
    """Nobody is refused but facts that have no room; each bucket keeps its cap and each sidecar its form."""
    failures: list[BaseException] = []
    stored: list[str] = []

    def work(memory, number: int) -> None:
        try:
            for turn in range(4):
                memory.search("tea")
                try:
                    stored.append(memory.add(f"Tea {number} {turn}", confidence=0.9).id)
                except NotStored as error:
                    failures.append(error)
                memory.search(f"{turn}")
        except Exception as error:  # noqa: BLE001 - asserted on by the test itself
            failures.append(error)

    with opened(root, clock, max_facts=12, **HYBRID) as first, opened(root, clock, max_facts=12, **HYBRID) as second:
        memories = [engine.memory("alice", "coder") for engine in (first, second, first)]
        threads = [threading.Thread(target=work, args=(memory, n)) for n, memory in enumerate(memories)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert sorted(ids(memories[0])) == sorted(stored)
        assert len(stored) == 12
        assert set(usage(root)) <= set(stored)
        assert len(usage(root)) >= 5
