"""Stores that DeerFlow's DeerMem wrote: version 1 ends as DeerFlow itself would end, version 2 opens as it is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders_store import tree

from deermem import DeerMem, DeerMemError, Memory
from deermem.clock import format_timestamp

Wanted = dict[str, dict[str, Any]]


def copied(source: Path, target: Path) -> Path:
    """A copy that can be written to."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    return target


@pytest.fixture
def v1(shared: Path, tmp_path: Path) -> Path:
    return copied(shared / "fixtures" / "deerflow-v1", tmp_path / "v1")


@pytest.fixture
def v2(shared: Path, tmp_path: Path) -> Path:
    return copied(shared / "fixtures" / "deerflow-v2", tmp_path / "v2")


@pytest.fixture(scope="session")
def expected(shared: Path) -> dict[str, Wanted]:
    found = json.loads((shared / "fixtures" / "deerflow-v1.expected.json").read_text("utf-8"))
    assert len(found) == 16
    return dict(found)


def is_stopped(buckets: Wanted) -> bool:
    return any("stops" in bucket for bucket in buckets.values())


def shown(memory: Memory) -> dict[str, dict[str, object]]:
    """The facts by content, in the words of the expectations."""
    found = {}
    for fact in memory.list():
        item = {
            "id": fact.id,
            "category": fact.category,
            "confidence": fact.confidence,
            "content": fact.content,
            "createdAt": format_timestamp(fact.created_at),
            "source": {"type": fact.source.type, "threadId": fact.source.thread_id},
            "sourceError": fact.source_error,
            "expected_valid_days": fact.expected_valid_days,
        }
        found[fact.content] = {key: value for key, value in item.items() if value is not None}
    return found


def wanted_facts(bucket: dict[str, Any], found: dict[str, dict[str, object]], now: str) -> dict[str, dict[str, object]]:
    """The expected facts by content, values that are made at run time filled in."""
    wanted = {}
    for given in bucket["facts"]:
        item = dict(given)
        extension = item.pop("categoryExtension", None)
        item["category"] = extension or item.get("category", "context")
        if item["createdAt"] == "<now>":
            item["createdAt"] = now
        if item["id"] == "<generated>":
            item["id"] = found[item["content"]]["id"]
        wanted[item["content"]] = item
    return wanted


def summaries(memory: Memory) -> dict[str, dict[str, str]]:
    found = memory.summaries()
    groups = {"user": found.user, "history": found.history}
    return {name: {key: text.summary for key, text in group.items() if text.summary} for name, group in groups.items()}


def check_user(engine: DeerMem, user: str, buckets: Wanted, now: str, *, opened_in_turn: bool) -> None:
    """Every bucket as expected. `opened_in_turn`: the shared summaries as they stood when each was opened."""
    for agent, bucket in buckets.items():
        memory = engine.memory(user, agent)
        if "stops" in bucket:
            with pytest.raises(DeerMemError):
                memory.list()
            continue
        found = shown(memory)
        assert found == wanted_facts(bucket, found, now), (user, agent)
        last = list(buckets)[-1]
        if opened_in_turn or agent == last or "stops" in buckets[last]:
            assert summaries(memory) == bucket["summaries"], (user, agent)


def test_migrating_all_ends_as_expected(v1: Path, expected: dict[str, Wanted], clock: Callable[[], Any]) -> None:
    """56, 57, 69: user by user, bucket by bucket; backups equal the sources."""
    before = tree(v1)
    with DeerMem(v1, clock=clock) as engine:
        report = engine.migrate()
        assert [user.user for user in report.users] == sorted(expected)
        for user in report.users:
            assert (user.outcome == "failed") == is_stopped(expected[user.user]), user
            assert all(Path(path).read_bytes() in before.values() for path in user.backups)
            check_user(engine, user.user, expected[user.user], format_timestamp(clock()), opened_in_turn=False)
    after = tree(v1)
    replaced = [path for path in before if path.endswith("memory.json") and after.get(path) != before[path]]
    assert len(replaced) == 9
    for path in replaced:
        if "uma" in path:
            assert json.loads(before[path])["version"] == "2.0"
        else:
            assert after[f"{path}.v1.bak"] == before[path]


def test_where_it_stops_the_source_is_intact(v1: Path, expected: dict[str, Wanted]) -> None:
    """58, 61, 62, 66: byte for byte, whatever is tried; nina's default bucket alone goes on."""
    before = tree(v1)
    stopped = [user for user, buckets in expected.items() if is_stopped(buckets)]
    assert stopped == ["nina", "quinn", "rob", "sam", "tia", "wes", "yan", "zoe"]
    with DeerMem(v1) as engine:
        engine.migrate()
        for user in stopped:
            for agent, bucket in expected[user].items():
                if "stops" in bucket:
                    refused(engine.memory(user, agent))
    after = tree(v1)
    for user in stopped:
        mine = {path: data for path, data in before.items() if path.startswith(f"users/{user}/")}
        if user == "nina":
            path = "users/nina/agents/writer/memory.json"
            assert after[path] == before[path]
            assert not any(path.startswith("users/nina/agents/writer/facts") for path in after)
        else:
            assert {path: data for path, data in after.items() if path.startswith(f"users/{user}/")} == mine


def refused(memory: Memory) -> None:
    calls = [
        memory.list,
        memory.document,
        lambda: memory.search("x"),
        lambda: memory.add("New"),
        lambda: memory.update_summaries({"topOfMind": "T"}),
        lambda: memory.import_document({"facts": [{"content": "New"}]}),
    ]
    for call in calls:
        with pytest.raises(DeerMemError) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_a_second_run_changes_nothing(v1: Path) -> None:
    """59, 69: not a byte; what migrated is current, what stopped stops again."""
    with DeerMem(v1) as engine:
        first = {user.user: user.outcome for user in engine.migrate().users}
        before = tree(v1)
        second = {user.user: user.outcome for user in engine.migrate().users}
    assert tree(v1) == before
    assert second == {user: "failed" if outcome == "failed" else "current" for user, outcome in first.items()}
    assert first["mei"] == "migrated"
    with DeerMem(v1) as engine:
        assert {user.user: user.outcome for user in engine.migrate().users} == second
    assert tree(v1) == before


def test_a_dry_run_changes_no_byte_and_tells_the_same(v1: Path, expected: dict[str, Wanted]) -> None:
    """68: no folder, no lock, no index either."""
    before = tree(v1, operational=True)
    folders = {path for path in v1.rglob("*") if path.is_dir()}
    with DeerMem(v1) as engine:
        report = engine.migrate(dry_run=True)
    for user in report.users:
        assert (user.outcome == "failed") == is_stopped(expected[user.user]), user
    assert not report.ok
    assert tree(v1, operational=True) == before
    assert {path for path in v1.rglob("*") if path.is_dir()} == folders


def test_plain_reads_end_the_same(v1: Path, expected: dict[str, Wanted], clock: Callable[[], Any]) -> None:
    """59, 60: each bucket opened in turn, without a migrate call."""
    with DeerMem(v1, clock=clock) as engine:
        for user, buckets in expected.items():
            check_user(engine, user, buckets, format_timestamp(clock()), opened_in_turn=True)


def test_a_first_write_loses_nothing(v1: Path, expected: dict[str, Wanted], clock: Callable[[], Any]) -> None:
    """59 and the trap of the write to a store that was never read."""
    with DeerMem(v1, clock=clock) as engine:
        for user, agent, bucket in going_on(expected):
            memory = engine.memory(user, agent)
            added = memory.add("Written before anything was read")
            memory.delete(added.id)
            found = shown(memory)
            assert found == wanted_facts(bucket, found, format_timestamp(clock())), (user, agent)
            assert summaries(memory) == bucket["summaries"], (user, agent)


def going_on(expected: dict[str, Wanted]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    return (
        (user, agent, bucket)
        for user, buckets in expected.items()
        for agent, bucket in buckets.items()
        if "stops" not in bucket
    )


def test_extra_keys_and_custom_agents_survive(v1: Path) -> None:
    """13, 65: a person's keys, and the lead-agent that has a configuration."""
    with DeerMem(v1) as engine:
        assert engine.memory("pat").get("fact_p7").extra == {"pinned": True, "tags": ["x", "y"]}
        assert [fact.id for fact in engine.memory("vic", "lead-agent").list()] == ["fact_v1"]
        assert engine.memory("vic").list() == []
        assert [fact.id for fact in engine.memory("uma").list()] == ["fact_u1"]
        assert not (v1 / "users/uma/agents/lead-agent").exists()


def test_version_2_opens_as_it_is(v2: Path) -> None:
    """81, 84, 90: all facts of three buckets, raw owners, Chinese search; nothing but the index is written."""
    before = tree(v2)
    with DeerMem(v2) as engine:
        assert engine.users() == ["alice", "bob-example-com-5ff860bf1190596c"]
        assert engine.agents("alice") == ["__default__", "coder"]
        assert [len(engine.memory("alice", agent).list()) for agent in (None, "coder")] == [10, 4]
        assert [fact.id for fact in engine.memory("bob@example.com").list()] == ["fact_bob_1"]
        assert engine.memory("bob@example.com").list() == engine.memory(engine.users()[1]).list()
        coder = engine.memory("alice", "coder")
        for query, wanted in (
            ("上海", "fact_zh_002"),
            ("数据平台", "fact_zh_002"),
            ("中文", "fact_zh_001"),
            ("注释", "fact_zh_001"),
        ):
            (hit,) = coder.search(query)
            assert (hit.fact.id, hit.match) == (wanted, "fts5")
        assert coder.search("python 3.12")[0].fact.id == "fact_corr_001"
        multi = coder.get("fact_multi")
        assert multi.category == "workflow"
        assert multi.content.startswith("Release checklist:\n\n# Heading inside the content\n\n---\n\n- tag")
        assert coder.summaries().revision == 4
        assert engine.stats().facts == 15
        assert engine.migrate().count("current") == 2
        assert [finding for finding in engine.check() if finding.severity == "error"] == []
        assert "avoid: assumed Python 3.10" in coder.context()
    assert tree(v2) == before


def test_an_update_keeps_what_deerflow_needs(v2: Path) -> None:
    """18, 24: all of DeerFlow's keys, in order; nothing else changes but memory.json's revision and time."""
    before = tree(v2)
    path = "users/alice/agents/coder/facts/1a/fact_corr_001.md"
    with DeerMem(v2) as engine:
        memory = engine.memory("alice", "coder")
        fact = memory.get("fact_corr_001")
        changed = memory.update("fact_corr_001", "Deploy scripts must use Python 3.13.", expected=fact.version)
        assert changed.revision == 3
    after = tree(v2)
    assert {name for name in after if after[name] != before.get(name)} == {path, "users/alice/memory.json"}
    assert before.keys() == after.keys()
    old, new = (files[path].decode().split("---\n")[1].splitlines() for files in (before, after))
    gone = [line for line in old if line not in new]
    assert [line.split(":")[0] for line in gone] == ["updatedAt", "revision"]
    keys = [line.split(":")[0] for line in new]
    assert [key for key in keys if key != "digest"] == [line.split(":")[0] for line in old]
    was, now = (json.loads(files["users/alice/memory.json"]) for files in (before, after))
    assert now["revision"] == was["revision"] + 1
    assert {key: now[key] for key in ("version", "user", "history")} == {
        key: was[key] for key in ("version", "user", "history")
    }


def test_a_delete_takes_the_sidecar_entry_along(v2: Path) -> None:
    """73: and leaves the host's files."""
    with DeerMem(v2) as engine:
        engine.memory("alice", "coder").delete("fact_zh_001")
        usage = json.loads((v2 / "users/alice/agents/coder/.metadata/fact-usage.json").read_text())
        assert set(usage) == {"fact_corr_001"}
        engine.clear("alice")
    left = set(tree(v2 / "users/alice"))
    assert {"agents/coder/SOUL.md", "agents/coder/config.yaml"} <= left
    assert not [path for path in left if path.endswith(".md") and "/facts/" in path]


def test_an_integer_is_no_proof_without_a_digest(v2: Path) -> None:
    """51: DeerFlow's files have none; its hand edits can't be told from its own writes."""
    with DeerMem(v2) as engine:
        memory = engine.memory("alice", "coder")
        with pytest.raises(DeerMemError):
            memory.update("fact_multi", "x", expected=1)
        assert memory.update("fact_multi", "x", expected=memory.get("fact_multi").version).revision == 2
        assert memory.update("fact_multi", "y", expected=2).revision == 3
