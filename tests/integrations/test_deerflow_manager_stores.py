"""DeerFlow's manager on a store that others write too: other managers, other processes, DeerFlow's own DeerMem."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import deerflow_double
import pytest
from deerflow_stage import contents, fact_file, opened

HERE = Path(__file__).resolve().parent

V1 = {
    "version": "1.0",
    "lastUpdated": "2026-05-01T10:00:00Z",
    "user": {"workContext": {"summary": "Builds trains", "updatedAt": "2026-05-01T10:00:00Z"}},
    "history": {},
    "facts": [{"id": "fact_1", "content": "Likes tea", "category": "preference", "confidence": 0.9, "source": "t1"}],
}
FACT_OF_DEERFLOW = """---
id: fact_corr_001
category: correction
confidence: 0.99
source:
  type: conversation
  threadId: thread-9
sourceError: used pip
createdAt: '2026-05-01T10:00:00Z'
topics:
- deploy
schemaVersion: 2
status: active
consolidatedFrom: []
updatedAt: '2026-05-01T10:00:00Z'
revision: 2
user_id: alice
agent_name: coder
---

# Deploy with uv.

Deploy with uv.
"""


def copied(source: Path, target: Path) -> Path:
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    return target


def test_two_managers_at_once_lose_nothing(root: Path):
    def write(manager: Any, word: str) -> None:
        for number in range(8):
            manager.create_fact(f"{word} says {number}", user_id="alice")

    with opened(root) as one, opened(root) as other, ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(write, one, "one"), threads.submit(write, other, "other")]:
            done.result()
        expected = sorted(f"{word} says {number}" for word in ("one", "other") for number in range(8))
        assert contents(one.get_memory(user_id="alice")) == expected
        assert contents(other.get_memory(user_id="alice")) == expected


def test_of_two_that_create_the_same_one_gets_the_duplicate(root: Path):
    """171"""
    with opened(root) as one, opened(root) as other:
        one.create_fact("Likes tea", user_id="alice")
        with pytest.raises(ValueError, match="Duplicate fact"):
            other.create_fact("likes tea", user_id="alice")
        assert contents(other.get_memory(user_id="alice")) == ["Likes tea"]


def test_two_processes_at_once_lose_nothing(root: Path):
    path = os.pathsep.join([str(HERE), str(HERE.parent), *sys.path])
    command = [sys.executable, str(HERE / "deerflow_writer.py"), str(root)]
    writers = [
        subprocess.Popen(
            [*command, word, "6"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        for word in ("one", "other")
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=60)
    assert [writer.returncode for writer in writers] == [0, 0]
    with opened(root) as manager:
        expected = sorted(f"{word} says {number}" for word in ("one", "other") for number in range(6))
        assert contents(manager.get_memory(user_id="alice@example.com")) == expected


def test_a_hand_edit_is_what_the_next_call_changes(root: Path):
    """32"""
    with opened(root) as manager:
        _, fact_id = manager.create_fact("Deploys on Tuesdays", user_id="alice")
        file = fact_file(root, "Tuesdays")
        edited = (
            file.read_text(encoding="utf-8").replace("Tuesdays", "Wednesdays").replace("---\n", "---\nmine: 1\n", 1)
        )
        file.write_text(edited, encoding="utf-8")
        assert "Wednesdays" in manager.get_context("alice")
        assert [fact["content"] for fact in manager.search("wednesdays", user_id="alice")] == ["Deploys on Wednesdays"]
        (fact,) = manager.update_fact(fact_id, confidence=0.9, user_id="alice")["facts"]
        assert (fact["content"], fact["confidence"], fact["mine"]) == ("Deploys on Wednesdays", 0.9, 1)
        assert "mine: 1" in file.read_text(encoding="utf-8")


def test_a_store_of_version_1_is_migrated_when_it_is_first_read(root: Path):
    """59"""
    manifest = root / "users/alice/memory.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps(V1), encoding="utf-8")
    before = manifest.read_bytes()
    with opened(root) as manager:
        document = manager.get_memory(user_id="alice")
        assert document["user"]["workContext"]["summary"] == "Builds trains"
        assert [(fact["content"], fact["source"]) for fact in document["facts"]] == [("Likes tea", "t1")]
        manager.update_fact("fact_1", content="Likes green tea", user_id="alice")
        assert "green tea" in manager.get_context("alice")
    assert (manifest.parent / "memory.json.v1.bak").read_bytes() == before


def test_a_store_of_version_1_that_stops_is_corruption_to_the_host(root: Path):
    """58"""
    folder = root / "users/alice"
    folder.mkdir(parents=True)
    (folder / "memory.json").write_text(json.dumps(V1), encoding="utf-8")
    (folder / "memory.json.v1.bak").write_text("{}", encoding="utf-8")
    with opened(root) as manager:
        with pytest.raises(deerflow_double.MemoryCorruptionError, match="differs"):
            manager.get_memory(user_id="alice")
        assert manager.get_memory(user_id="bob")["facts"] == []
    assert json.loads((folder / "memory.json").read_text()) == V1


def test_a_file_that_deerflow_wrote_reads_changes_and_goes(root: Path):
    facts = root / "users/alice/agents/coder/facts/1a"
    facts.mkdir(parents=True)
    (facts / "fact_corr_001.md").write_text(FACT_OF_DEERFLOW, encoding="utf-8")
    with opened(root) as manager:
        (fact,) = manager.get_memory(user_id="alice", agent_name="Coder")["facts"]
        assert (fact["source"], fact["sourceError"], fact["revision"]) == ("thread-9", "used pip", 2)
        assert "Deploy with uv. (avoid: used pip)" in manager.get_context("alice", agent_name="coder")
        changed = manager.update_fact("fact_corr_001", confidence=0.5, user_id="alice", agent_name="coder")
        assert (changed["facts"][0]["revision"], changed["facts"][0]["sourceError"]) == (3, "used pip")
        assert manager.delete_fact("fact_corr_001", user_id="alice", agent_name="coder")["facts"] == []


def test_the_store_of_version_2_that_deerflow_wrote_works_through_the_manager(shared: Path, tmp_path: Path):
    store = copied(shared / "fixtures/deerflow-v2", tmp_path / "v2")
    files = sorted(path.relative_to(store) for path in store.rglob("facts/**/*.md"))
    with opened(store) as manager:
        alice = manager.get_memory(user_id="alice")
        assert len(alice["facts"]) == 10
        coder = manager.get_memory(user_id="alice", agent_name="coder")
        assert len(coder["facts"]) == 4
        assert manager.search("Python", user_id="alice", agent_name="coder")
        assert manager.get_context("alice", agent_name="coder")
        (bob,) = manager.get_memory(user_id="bob@example.com")["facts"]
        assert manager.get_memory(user_id="bob-example-com-5ff860bf1190596c")["facts"] == [bob]
        assert sorted(path.relative_to(store) for path in store.rglob("facts/**/*.md")) == files
        manager.update_fact(bob["id"], confidence=0.95, user_id="bob@example.com")
        assert manager.get_memory(user_id="bob@example.com")["facts"][0]["confidence"] == 0.95


def test_the_store_of_version_1_that_deerflow_wrote_opens_user_by_user(shared: Path, tmp_path: Path):
    store = copied(shared / "fixtures/deerflow-v1", tmp_path / "v1")
    expected = json.loads((shared / "fixtures/deerflow-v1.expected.json").read_text("utf-8"))
    opens = {user: buckets["__default__"] for user, buckets in expected.items() if "__default__" in buckets}
    assert len(opens) > 10
    with opened(store) as manager:
        for user, bucket in opens.items():
            if any("stops" in each for each in expected[user].values()):
                continue
            document = manager.get_memory(user_id=user)
            assert contents(document) == sorted(fact["content"] for fact in bucket["facts"]), user
