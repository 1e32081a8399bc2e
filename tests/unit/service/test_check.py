"""What check finds in one user's files, how bad it is, and what it says to do."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from builders_store import fact_text, facts_of, place, shard, tree

from deermem import DeerMem, Finding, Memory


@pytest.fixture
def engine(root: Path, clock) -> Iterator[DeerMem]:
    with DeerMem(root, clock=clock) as opened:
        yield opened


@pytest.fixture
def memory(engine: DeerMem) -> Memory:
    return engine.memory("alice", "coder")


@pytest.fixture
def facts(root: Path, memory: Memory) -> Path:
    """A bucket with one fact in order."""
    memory.add("In order.")
    return facts_of(root)


def only(findings: list[Finding], code: str) -> Finding:
    (found,) = [finding for finding in findings if finding.code == code]
    assert os.path.isabs(found.path)
    assert found.message
    assert not found.fixed
    return found


def codes(findings: list[Finding]) -> list[str]:
    return [finding.code for finding in findings]


def whole(fact_id: str, content: str = "A fact.", **keys: object) -> str:
    """A file that lacks nothing."""
    owner = {"source": "manual", "user_id": "alice", "agent_name": "coder"}
    return fact_text(fact_id, content, **{**owner, **keys})


def test_a_store_in_order_has_nothing_to_say(engine, facts):
    assert engine.check() == []
    assert engine.check("alice") == []


def test_nothing_is_found_where_nothing_is(engine, root):
    assert engine.check() == []
    assert engine.check("nobody") == []
    assert not root.exists()


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        (b"---\nid: x\n\nNo fence", "no-closing-fence", 1),
        (b"---\nid: x\nconfidence: high\n---\n\nText\n", "bad-number", 3),
        (b"---\nid: [\n---\n\nText\n", "yaml", 3),
        (b"\xff\xfe", "not-utf8", 1),
        (b"", "empty-file", 1),
    ],
)
def test_a_file_that_can_not_be_read_is_an_error_with_line_and_mend(engine, facts, text, code, line):
    path = place(facts / "broken.md", text)
    found = only(engine.check(), code)
    assert (found.severity, found.path, found.line) == ("error", str(path), line)
    assert found.hint
    assert str(found).startswith(f"error: {path}:{line}: ")
    assert "\n" not in str(found)


def test_a_fact_of_somebody_else_is_an_error(engine, facts):
    path = place(facts / "stray.md", whole("stray", user_id="bob"))
    found = only(engine.check(), "wrong-owner")
    assert (found.severity, found.path) == ("error", str(path))
    assert "'bob'" in found.message


def test_of_two_files_with_one_id_both_are_named(engine, facts):
    first = place(facts / shard("twin") / "twin.md", whole("twin", "First."))
    second = place(facts / "second.md", whole("twin", "Second."))
    found = only(engine.check(), "duplicate-id")
    assert (found.severity, found.path) == ("warning", str(second))
    assert str(first) in found.message
    assert "'twin'" in found.message


def test_a_hand_made_file_is_no_more_than_a_note(engine, facts):
    """Without keys that DeerFlow's readers ask for, they refuse it."""
    path = place(facts / "idea.md", "Just an idea.\n")
    found = only(engine.check(), "deerflow-cannot-read")
    assert (found.severity, found.path) == ("info", str(path))
    assert (
        f"deermem check --fix completes its front matter and moves it to {facts}/{shard('idea')}/idea.md" in found.hint
    )


def test_a_file_out_of_its_place_is_no_more_than_a_note(engine, facts):
    path = place(facts / "sub" / "there.md", whole("there"))
    found = only(engine.check(), "misplaced")
    assert (found.severity, found.path) == ("info", str(path))
    assert found.hint == f"deermem check --fix moves it to {facts}/{shard('there')}/there.md"


def test_a_place_that_is_taken_is_named(engine, facts):
    place(facts / "there.md", whole("there"))
    taken = place(facts / shard("there") / "there.md", b"---\nid: [\n---\n")
    assert only(engine.check(), "misplaced").hint == f"another file stands at its place {taken}"


def test_a_fact_that_expired_is_named(engine, facts, clock):
    place(facts / shard("old") / "old.md", whole("old", expiresAt="'2026-12-01T00:00:00Z'"))
    assert engine.check() == []
    clock.advance(days=1)
    assert only(engine.check(), "expired").severity == "info"


def test_what_waits_below_the_journal_for_a_person_is_a_warning(engine, facts, root):
    journal = root / "users/alice/.journal"
    copy = place(journal / "conflict.fact_a.0123abcd.md", "Mine")
    record = place(journal / "set-aside.record.0123abcd", "?")
    aside = place(root / "users/alice/.journal.set-aside-0123abcd", "?")
    findings = engine.check()
    assert (only(findings, "conflict-copy").severity, only(findings, "conflict-copy").path) == ("warning", str(copy))
    assert {found.path for found in findings if found.code == "set-aside"} == {str(record), str(aside)}


def test_leftovers_are_a_note_and_kept_copies_nothing(engine, facts, root):
    journal = root / "users/alice/.journal"
    place(journal / "kept.fact_a.0123abcd.md", "Before")
    assert engine.check() == []
    place(journal / "t.0123456789abcdef", "half")
    found = only(engine.check(), "leftovers")
    assert (found.severity, found.path) == ("info", str(journal))


def test_what_the_last_commit_displaced_is_in_order(engine, memory, facts):
    """It is swept by the next one, whatever it says."""
    fact = memory.update(memory.list()[0].id, "Changed.")
    assert engine.check() == []
    memory.delete(fact.id)
    assert engine.check() == []


def test_an_undo_journal_of_deerflow_is_a_warning(engine, facts, root):
    place(root / "users/alice/.memory.journal.json", '{"state": "prepared", "operationId": "op"}')
    assert only(engine.check(), "undo-journal").severity == "warning"


def test_summaries_that_can_not_be_read_are_an_error(engine, facts, root):
    place(root / "users/alice/memory.json", '{\n"version": "2.0",\n')
    found = only(engine.check(), "summaries-unreadable")
    assert (found.severity, found.path, found.line) == ("error", str(root / "users/alice/memory.json"), 3)
    assert codes(engine.check()) == ["summaries-unreadable"]


def test_a_temporary_file_is_named_once_it_is_stale(engine, facts, clock):
    path = place(facts / "ab" / ".fact_a.md.tmp", "half")
    stamp = clock().timestamp()
    os.utime(path, (stamp, stamp))
    clock.advance(hours=23)
    assert engine.check() == []
    clock.advance(hours=2)
    found = only(engine.check(), "stale-temporary")
    assert (found.severity, found.path) == ("info", str(path))


def test_usage_of_facts_that_are_gone_is_a_note(engine, facts, memory, clock):
    recent, old = clock() - timedelta(days=29), clock() - timedelta(days=31)
    usage = {
        memory.list()[0].id: {"accessCount": 1, "lastAccessedAt": "2026-01-01T00:00:00Z"},
        "fact_recent": {"accessCount": 1, "lastAccessedAt": recent.isoformat()},
        "fact_old": {"accessCount": 1, "lastAccessedAt": old.isoformat()},
    }
    path = place(facts.parent / ".metadata/fact-usage.json", json.dumps(usage))
    found = only(engine.check(), "orphan-entries")
    assert (found.severity, found.path) == ("info", str(path))
    assert found.message == "names 2 ids that no fact carries; 1 are older than 30 days"


def test_a_recent_audit_entry_is_in_order_without_a_fact(engine, facts, clock):
    """It says what was evicted."""
    entries = [
        {"at": (clock() - timedelta(days=days)).isoformat(), "evicted": [{"id": f"fact_{days}"}]} for days in (1, 40)
    ]
    path = place(facts.parent / ".metadata/eviction-audit.json", json.dumps({"entries": entries}))
    found = only(engine.check(), "orphan-entries")
    assert (found.path, found.message) == (str(path), "names 1 ids that no fact carries; 1 are older than 30 days")


def test_a_clock_at_the_beginning_of_time_finds_nothing_old(root):
    with DeerMem(root, clock=lambda: datetime(1, 1, 2, tzinfo=UTC)) as engine:
        engine.memory("alice", "coder").add("In order.")
        entry = {"lastAccessedAt": "0001-01-01T00:00:00Z"}
        place(root / "users/alice/agents/coder/.metadata/fact-usage.json", json.dumps({"gone": entry}))
        assert only(engine.check(), "orphan-entries").message == "names 1 ids that no fact carries"


def test_a_file_that_can_not_be_read_still_owns_its_entries(engine, facts):
    place(facts / shard("fact_b") / "fact_b.md", b"---\nid: [\n---\n")
    place(
        facts.parent / ".metadata/fact-usage.json", json.dumps({"fact_b": {"lastAccessedAt": "2026-01-01T00:00:00Z"}})
    )
    assert "orphan-entries" not in codes(engine.check())


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"a": 7}', "null"])
def test_damaged_sidecars_are_nothing_to_speak_of(engine, facts, damage):
    for name in ("fact-usage.json", "eviction-audit.json"):
        place(facts.parent / ".metadata" / name, damage)
    assert engine.check() == []


def test_readable_by_the_world_is_no_finding(engine, facts, root):
    for path in root.rglob("*"):
        path.chmod(0o777 if path.is_dir() else 0o666)
    assert engine.check() == []


def test_the_worst_comes_first_and_everything_once(engine, facts):
    place(facts / "a.md", "A note.\n")
    place(facts / "b.md", b"")
    place(facts / shard("c") / "c.md", whole("c", "One."))
    place(facts / "c.md", whole("c", "Two."))
    findings = engine.check()
    assert [finding.severity for finding in findings] == ["error", "warning", "info"]
    assert len(set(findings)) == len(findings)


def test_looking_changes_nothing(engine, facts, root):
    place(facts / "a.md", "A note.\n")
    place(facts / "b.md", b"")
    place(root / "users/alice/.journal/t.0123456789abcdef", "half")
    before = tree(root, operational=True)
    engine.check()
    after = tree(root, operational=True)
    derived = {path for path in after if "/.retrieval/" in path}
    assert {path: after[path] for path in after.keys() - derived} == {
        path: before[path] for path in before.keys() - derived
    }
