"""What check --fix mends, what it leaves alone, and that a kill in the middle costs nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from builders_store import fact_text, facts_of, place, shard, tree

from deermem import DeerMem, Finding, LockTimeout, Memory, Settings
from deermem.format.markdown import decode
from deermem.store.files import Files
from deermem.store.lock import user_lock

OWNED = {"source": "manual", "user_id": "alice", "agent_name": "coder"}
UNINDEXED = Settings(retrieval_adapter="")
NOTE = """---
# why: asked in review
category: goal   # not a decision yet
mine:
  - one
  - two
tags: [ci, deploy]
---

Ship on Tuesdays.

    indented
"""


@pytest.fixture
def engine(root: Path, clock) -> Iterator[DeerMem]:
    with DeerMem(root, clock=clock) as opened:
        opened.memory("alice", "coder").add("In order.")
        yield opened


@pytest.fixture
def memory(engine: DeerMem) -> Memory:
    return engine.memory("alice", "coder")


@pytest.fixture
def facts(root: Path) -> Path:
    return facts_of(root)


def kept(root: Path, user: str = "alice") -> list[bytes]:
    return [path.read_bytes() for path in sorted((root / "users" / user / ".journal").glob("kept.*"))]


def summary(findings: list[Finding]) -> list[tuple[str, bool]]:
    return [(finding.code, finding.fixed) for finding in findings]


def contents(memory: Memory) -> list[str]:
    return sorted(fact.content for fact in memory.list())


def settled(root: Path) -> dict[str, bytes]:
    """Everything but the index and the lock, which a mere look may touch."""
    everything = tree(root, operational=True)
    return {path: data for path, data in everything.items() if "/.retrieval/" not in path}


def test_a_hand_made_file_is_completed_and_moved(engine, memory, facts, root):
    old = place(facts / "ideas" / "ship.md", NOTE)
    before = memory.get("ship")
    (finding,) = engine.check(fix=True)
    assert (finding.code, finding.path, finding.fixed) == ("deerflow-cannot-read", str(old), True)
    assert str(finding).endswith("(fixed)")
    assert not old.exists()
    data = (facts / shard("ship") / "ship.md").read_bytes()
    parsed = decode(data, stem="ship", when=before.created_at)
    assert (parsed.complete, parsed.has_digest, parsed.edited) == (True, True, False)
    assert (parsed.fact.user_id, parsed.fact.agent_name) == ("alice", "coder")
    after = memory.get("ship")
    assert (after.content, after.revision, after.created_at) == (before.content, 1, before.created_at)
    assert (after.topics, after.category, after.source) == (("ci", "deploy"), "goal", before.source)
    assert after.extra == {"mine": ["one", "two"], "tags": ["ci", "deploy"]}
    for line in ("# why: asked in review", "category: goal   # not a decision yet", "tags: [ci, deploy]"):
        assert f"\n{line}\n".encode() in data
    assert kept(root) == [NOTE.encode()]
    assert [hit.fact.id for hit in memory.search("Tuesdays")] == ["ship"]


def test_a_note_without_front_matter_gets_one(engine, memory, facts):
    place(facts / "Meine Idee.md", "Nur eine Idee.\n")
    engine.check("alice", fix=True)
    (fact,) = [fact for fact in memory.list() if fact.content == "Nur eine Idee."]
    assert memory.path(fact.id) == facts / shard(fact.id) / f"{fact.id}.md"
    assert memory.path(fact.id).read_text("utf-8").startswith(f"---\nid: {fact.id}\n")


def test_the_second_time_there_is_nothing_to_do(engine, facts, root):
    place(facts / "a.md", NOTE)
    place(facts / "deep" / "down" / "b.md", fact_text("b", **OWNED))
    assert summary(engine.check(fix=True)) == [("deerflow-cannot-read", True), ("misplaced", True)]
    before = settled(root)
    assert engine.check(fix=True) == []
    assert settled(root) == before


def test_a_file_that_lacks_nothing_is_moved_byte_for_byte(engine, memory, facts):
    text = fact_text("b", revision=7, **OWNED)
    place(facts / "sub" / "b.md", text)
    version = memory.get("b").version
    assert summary(engine.check(fix=True)) == [("misplaced", True)]
    assert (facts / shard("b") / "b.md").read_text() == text
    assert memory.get("b").version == version


def test_nothing_is_moved_onto_another_file(engine, memory, facts):
    place(facts / "there.md", "Hand-made.\n")
    taken = place(facts / shard("there") / "there.md", b"---\nid: [\n---\n")
    findings = engine.check(fix=True)
    assert summary(findings) == [("yaml", False), ("deerflow-cannot-read", True), ("misplaced", False)]
    assert taken.read_bytes() == b"---\nid: [\n---\n"
    assert "id: there\n" in (facts / "there.md").read_text()
    assert summary(engine.check(fix=True)) == [("yaml", False), ("misplaced", False)]


def test_an_edited_file_keeps_the_revision_that_counts(engine, memory, facts):
    """A person took a key out of a file that an engine wrote."""
    fact = memory.list()[0]
    path = memory.path(fact.id)
    path.write_text(path.read_text().replace("agent_name: coder\n", ""))
    assert memory.get(fact.id).revision == 2
    assert summary(engine.check(fix=True)) == [("deerflow-cannot-read", True)]
    assert memory.get(fact.id).revision == 2
    assert "\nrevision: 2\n" in path.read_text()
    assert "\nagent_name: coder\n" in path.read_text()


def test_the_owner_is_the_raw_id_where_other_facts_know_it(root, clock):
    """All users are visited by their folders' names."""
    with DeerMem(root, clock=clock) as engine:
        engine.memory("bob@example.com").add("Known.")
        folder = facts_of(root, engine.users()[0], "__default__")
        place(folder / "hand.md", "Hand-made.\n")
        engine.check(fix=True)
    assert "user_id: bob@example.com\n" in (folder / shard("hand") / "hand.md").read_text()


def test_the_no_user_root_is_mended_too(root, clock):
    with DeerMem(root, clock=clock) as engine:
        engine.memory().add("Known.")
        folder = facts_of(root, None, "__default__")
        place(folder / "hand.md", "Hand-made.\n")
        assert summary(engine.check(fix=True)) == [("deerflow-cannot-read", True)]
        assert contents(engine.memory()) == ["Hand-made.", "Known."]
    assert "user_id: null\n" in (folder / shard("hand") / "hand.md").read_text()


# --- two files with one id


def test_a_copy_that_says_the_same_is_removed(engine, memory, facts, root):
    place(facts / shard("twin") / "twin.md", fact_text("twin", **OWNED))
    copy = place(facts / "twin.md", fact_text("twin", source="manual", user_id="'alice'", agent_name="CODER"))
    usage = place(facts.parent / ".metadata/fact-usage.json", '{"twin": {"accessCount": 3}}')
    (finding,) = engine.check(fix=True)
    assert (finding.code, finding.path, finding.fixed) == ("duplicate-id", str(copy), True)
    assert not copy.exists()
    assert memory.get("twin").content == "A fact."
    assert len(kept(root)) == 1
    assert json.loads(usage.read_bytes()) == {"twin": {"accessCount": 3}}


@pytest.mark.parametrize("other", [{"content": "Another."}, {"category": "goal"}, {"mine": 1}])
def test_a_copy_that_says_more_is_left_to_the_person(engine, facts, root, other):
    place(facts / shard("twin") / "twin.md", fact_text("twin", **OWNED))
    place(facts / "twin.md", fact_text("twin", **{**OWNED, **other}))
    before = tree(root)
    assert summary(engine.check(fix=True)) == [("duplicate-id", False)]
    assert tree(root) == before
    assert kept(root) == []


# --- what is never touched


def test_what_needs_a_person_is_never_touched(engine, facts, root):
    place(facts / "broken.md", b"---\nid: x\n\nNo fence")
    place(facts / "stray.md", fact_text("stray", user_id="bob"))
    place(root / "users/alice/.journal/conflict.fact_a.0123abcd.md", "Mine")
    place(root / "users/alice/.journal/set-aside.record.0123abcd", "?")
    place(facts / "hand.md", "Hand-made.\n")
    before = tree(root, operational=True)
    assert ("deerflow-cannot-read", True) in summary(engine.check(fix=True))
    after = tree(root, operational=True)
    untouched = [path for path in before if path.endswith(("broken.md", "stray.md", "0123abcd.md", "0123abcd"))]
    assert len(untouched) == 4
    assert [after[path] for path in untouched] == [before[path] for path in untouched]


def test_without_anything_to_mend_no_lock_is_taken(engine, root):
    with user_lock(engine.context("alice").paths, 1):
        lock = (root / "users/alice/.memory.lock").stat()
        assert engine.check(fix=True) == []
        assert (root / "users/alice/.memory.lock").stat().st_mtime_ns == lock.st_mtime_ns


def test_a_held_lock_is_a_finding_and_the_other_users_are_mended(engine, root, clock, monkeypatch):
    engine.memory("bob", "coder").add("Bob's.")
    for user in ("alice", "bob"):
        place(facts_of(root, user) / "hand.md", "Hand-made.\n")

    def refuse(paths, timeout):
        if paths.folder.name == "alice":
            raise LockTimeout(f"{paths.lock} is held by process 7", hint="try again later")
        return user_lock(paths, timeout)

    monkeypatch.setattr("deermem.store.lock.user_lock", refuse)
    with DeerMem(root, Settings(file_lock_timeout_seconds=0.0), clock=clock) as other:
        findings = other.check(fix=True)
    alice, bob = ([item for item in findings if f"/users/{user}" in item.path] for user in ("alice", "bob"))
    assert summary(alice) == [("not-mended", False), ("deerflow-cannot-read", False)]
    assert "process 7" in alice[0].message
    assert summary(bob) == [("deerflow-cannot-read", True)]


# --- what is operational or derived


def test_leftovers_are_swept(engine, root):
    left = place(root / "users/alice/.journal/t.0123456789abcdef", "half")
    assert summary(engine.check(fix=True)) == [("leftovers", True)]
    assert not left.exists()
    assert engine.check() == []


@pytest.mark.parametrize("copy_ends", ["2026-12-01T00:00:00Z", "2027-12-01T00:00:00Z"], ids=["expired", "alive"])
def test_an_expired_fact_is_not_brought_back_by_a_copy(engine, memory, facts, clock, copy_ends):
    """A copy that has expired too goes with it; of one that has not, a person says which holds."""
    path = place(facts / shard("old") / "old.md", fact_text("old", expiresAt="'2026-12-01T00:00:00Z'", **OWNED))
    copy = place(facts / "copy.md", fact_text("old", "Another text.", expiresAt=f"'{copy_ends}'", **OWNED))
    clock.advance(days=2)
    for _ in range(2):
        engine.check(fix=True)
        assert [fact.content for fact in memory.list()] == ["In order."]
    assert path.exists() == copy.exists() == (copy_ends > "2027")


def test_an_expired_fact_is_deleted_with_its_usage(engine, memory, facts, clock, root):
    path = place(facts / shard("old") / "old.md", fact_text("old", expiresAt="'2026-12-01T00:00:00Z'", **OWNED))
    usage = place(facts.parent / ".metadata/fact-usage.json", '{"old": {"accessCount": 3}, "x": {"accessCount": 1}}')
    clock.advance(days=2)
    assert ("expired", True) in summary(engine.check(fix=True))
    assert not path.exists()
    assert "old" not in json.loads(usage.read_bytes())
    assert contents(memory) == ["In order."]


def test_old_entries_of_facts_that_are_gone_go_and_recent_ones_stay(engine, memory, facts, clock):
    here = memory.list()[0].id
    times = {here: 400, "recent": 29, "old": 31}
    said = {key: {"lastAccessedAt": (clock() - timedelta(days=days)).isoformat()} for key, days in times.items()}
    usage = place(facts.parent / ".metadata/fact-usage.json", json.dumps(said))
    entries = [{"at": (clock() - timedelta(days=days)).isoformat(), "id": name} for name, days in times.items()]
    audit = place(facts.parent / ".metadata/eviction-audit.json", json.dumps(entries))
    assert summary(engine.check(fix=True)) == [("orphan-entries", True), ("orphan-entries", False)]
    assert set(json.loads(usage.read_bytes())) == {here, "recent"}
    assert [entry["id"] for entry in json.loads(audit.read_bytes())] == [here, "recent"]
    before = usage.read_bytes()
    assert summary(engine.check(fix=True)) == [("orphan-entries", False)]
    assert usage.read_bytes() == before


# --- a kill in the middle


class Killed(BaseException):
    """The process is gone."""


class MortalFiles(Files):
    """Dies at one of the calls that change something; flushes are not waited for."""

    def __init__(self, dies_at: int | None = None) -> None:
        self.dies_at = dies_at
        self.calls = 0

    def _step(self) -> None:
        if self.dies_at is not None and self.calls >= self.dies_at:
            raise Killed
        self.calls += 1

    def flush(self, descriptor: int, path: str) -> None:
        self._step()

    def flush_folder(self, path: str) -> None:
        self._step()

    def create(self, path: str, data: bytes, *, flush: bool = True) -> None:
        self._step()
        super().create(path, data, flush=flush)

    def rewrite(self, path: str, data: bytes) -> None:
        self._step()
        super().rewrite(path, data)

    def rename(self, source: str, target: str) -> None:
        self._step()
        super().rename(source, target)

    def rename_new(self, source: str, target: str) -> None:
        self._step()
        super().rename_new(source, target)

    def exchange(self, staged: str, target: str, displaced: str) -> None:
        self._step()
        super().exchange(staged, target, displaced)

    def unlink(self, path: str) -> None:
        self._step()
        super().unlink(path)

    def mkdir(self, path: str) -> bool:
        self._step()
        return super().mkdir(path)


def _messy(root: Path, clock: Callable[[], object]) -> None:
    with DeerMem(root, UNINDEXED, clock=clock, files=MortalFiles()) as engine:
        engine.memory("alice", "coder").add("In order.")
    facts = facts_of(root)
    place(facts / "ideas" / "ship.md", NOTE)
    place(facts / "note.md", "Just a note.\n")
    place(facts / shard("twin") / "twin.md", fact_text("twin", "Said twice.", **OWNED))
    place(facts / "twin.md", fact_text("twin", "Said twice.", **OWNED))


def test_a_kill_at_any_call_costs_nothing(tmp_path, clock):
    wanted = ["In order.", "Just a note.", "Said twice.", "Ship on Tuesdays.\n\n    indented"]
    _messy(tmp_path / "whole", clock)
    counting = MortalFiles()
    with DeerMem(tmp_path / "whole", UNINDEXED, clock=clock, files=counting) as engine:
        engine.check(fix=True)
    assert counting.calls > 20
    for number in range(counting.calls):
        root = tmp_path / f"killed-{number}"
        _messy(root, clock)
        with DeerMem(root, UNINDEXED, clock=clock, files=MortalFiles(number)) as engine, pytest.raises(Killed):
            engine.check(fix=True)
        with DeerMem(root, UNINDEXED, clock=clock, files=MortalFiles()) as engine:
            memory = engine.memory("alice", "coder")
            assert contents(memory) == wanted, number
            assert {item.severity for item in engine.check()} <= {"info", "warning"}
            assert all(item.fixed for item in engine.check(fix=True)), number
            assert engine.check() == []
            assert contents(memory) == wanted
        names = sorted(path.name for path in facts_of(root).rglob("*.md") if not path.name.startswith("fact_"))
        assert names == ["note.md", "ship.md", "twin.md"], number


def test_a_person_who_edits_meanwhile_loses_nothing(root, clock):
    """The save lands between the copy that is kept and the swap."""

    class Raced(MortalFiles):
        saved = False

        def rename(self, source: str, target: str) -> None:
            if not self.saved and os.path.basename(source) == "ship.md":
                self.saved = True
                place(Path(source), NOTE.replace("Tuesdays", "Wednesdays"))
            super().rename(source, target)

    _messy(root, clock)
    files = Raced()
    with DeerMem(root, clock=clock, files=files) as engine:
        findings = engine.check(fix=True)
        assert files.saved
        (copy,) = [finding for finding in findings if finding.code == "conflict-copy"]
    assert b"Wednesdays" in Path(copy.path).read_bytes()
