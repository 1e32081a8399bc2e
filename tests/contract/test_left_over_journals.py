"""What a dead process leaves behind: DeerFlow's undo journal, our own record, and what can't be used of either."""

from __future__ import annotations

import json

import pytest
from builders_store import fact_text, facts_of, place, shard, tree

from deermem import DeerMem
from deermem.store.files import Files

MANIFEST = {"version": "2.0", "revision": 3, "lastUpdated": "", "user": {}, "history": {}}


@pytest.fixture
def home(root):
    """A user that DeerFlow's DeerMem wrote."""
    home = root / "users/alice"
    place(home / "memory.json", json.dumps(MANIFEST))
    place(fact_file(root, "fact_old"), fact_text("fact_old", "Before the write", user_id="alice", agent_name="coder"))
    return home


def fact_file(root, fact_id: str):
    return facts_of(root) / shard(fact_id) / f"{fact_id}.md"


def dead_deerflow(home, *, state: str = "prepared", operation: str = "op1", path: str | None = None) -> None:
    """DeerFlow died after it had written both facts and memory.json, and before it cleaned up."""
    root = home.parent.parent
    where = path or f"agents/coder/facts/{shard('fact_old')}/fact_old.md"
    recovery = home / ".recovery" / "op1"
    place(recovery / "memory.json", (home / "memory.json").read_bytes())
    place(recovery / "fact_old.md", fact_file(root, "fact_old").read_bytes())
    journal = {
        "state": state,
        "operationId": operation,
        "expectedRevision": 3,
        "agentName": "coder",
        "factIds": ["fact_old", "fact_new"],
        "oldEntries": {"fact_old": {"path": where}},
    }
    place(home / ".memory.journal.json", json.dumps(journal))
    place(home / "memory.json", json.dumps({**MANIFEST, "revision": 4}))
    place(fact_file(root, "fact_old"), fact_text("fact_old", "Half of a write", user_id="alice", agent_name="coder"))
    place(fact_file(root, "fact_new"), fact_text("fact_new", "Other half", user_id="alice", agent_name="coder"))


DOORS = [
    lambda memory: memory.list(),
    lambda memory: memory.get("fact_old"),
    lambda memory: memory.search("before"),
    lambda memory: memory.document(),
    lambda memory: memory.context(),
    lambda memory: memory.update("fact_old", confidence=0.8),
]


@pytest.mark.parametrize("door", range(len(DOORS)))
def test_a_prepared_undo_journal_is_rolled_back_at_the_first_touch(engine, memory, home, root, door):
    """53: manifest and fact files as they were, the journal gone; what was displaced is a conflict copy."""
    dead_deerflow(home)
    DOORS[door](memory)
    assert [fact.content for fact in memory.list()] == ["Before the write"]
    assert memory.document()["revision"] == 3
    assert not (home / ".memory.journal.json").exists()
    assert not (home / ".recovery").exists()
    assert not fact_file(root, "fact_new").exists()
    kept = "".join(
        data.decode(errors="replace") for path, data in tree(home, operational=True).items() if "conflict" in path
    )
    assert "Half of a write" in kept
    assert any(finding.code == "conflict-copy" for finding in engine.check("alice"))


def test_a_committed_undo_journal_is_only_cleaned_up(memory, home):
    """54."""
    dead_deerflow(home, state="committed")
    assert [fact.content for fact in memory.list()] == ["Other half", "Half of a write"]
    assert memory.document()["revision"] == 4
    assert not (home / ".memory.journal.json").exists()
    assert not (home / ".recovery").exists()


@pytest.mark.parametrize(
    "text",
    ["{", "", "[]", '{"state": "strange", "operationId": "op1"}', '{"state": "prepared"}',
     '{"state": "prepared", "operationId": "../../bob"}', '{"state": "prepared", "operationId": ".."}',
     '{"state": "prepared", "operationId": "op1", "factIds": ["../x"], "agentName": "coder"}',
     '{"state": "prepared", "operationId": "op1", "factIds": ["a"], "agentName": "../coder"}'],
)  # fmt: skip
def test_an_undo_journal_that_can_not_be_used_is_set_aside(engine, memory, home, text, caplog):
    """54: the memory opens all the same; check names it; nothing else changes."""
    place(home / ".memory.journal.json", text)
    outside = tree(home)
    assert [fact.content for fact in memory.list()] == ["Before the write"]
    assert not (home / ".memory.journal.json").exists()
    assert any(finding.code == "set-aside" for finding in engine.check("alice"))
    outside.pop(".memory.journal.json")
    assert tree(home) == outside


@pytest.mark.parametrize(
    "path", ["../bob/agents/x/facts/aa/a.md", "/etc/passwd.md", "agents/../../x.md", "memory.json", "a\\b.md"]
)
def test_a_path_that_leaves_the_user_is_refused(memory, home, root, path):
    """55: nothing outside is touched."""
    dead_deerflow(home, path=path)
    neighbour = place(root / "users/bob/agents/x/facts/aa/a.md", "Bob's\n")
    before = tree(root / "users/bob")
    memory.list()
    assert tree(root / "users/bob") == before
    assert neighbour.exists()
    assert not (home / ".memory.journal.json").exists()


class Dying(Files):
    """A process that dies at the nth exchange or rename after it is armed."""

    def __init__(self) -> None:
        self.left = -1

    def _step(self) -> None:
        if self.left > 0:
            self.left -= 1
        elif self.left == 0:
            raise KeyboardInterrupt

    def exchange(self, staged, target, displaced):
        self._step()
        super().exchange(staged, target, displaced)

    def rename_new(self, source, target):
        self._step()
        super().rename_new(source, target)


@pytest.mark.parametrize("after", range(5))
def test_a_sealed_commit_is_whole_for_readers_and_finished_by_the_next_writer(root, after):
    """53: our own journal goes forward, whoever looks."""
    files = Dying()
    memory = DeerMem(root, files=files).memory("alice", "coder")
    old = [{"id": f"fact_{name}", "content": f"Old {name}"} for name in "abc"]
    memory.import_document({"facts": old})
    files.left = after
    new = [{"id": f"fact_{name}", "content": f"New {name}"} for name in "abcd"]
    with pytest.raises(KeyboardInterrupt):
        memory.import_document({"facts": new, "user": {"topOfMind": "New"}})
    reader = DeerMem(root).memory("alice", "coder")
    assert [fact.content for fact in reader.list()] == [f"New {name}" for name in "abcd"]
    assert reader.get("fact_d").content == "New d"
    assert reader.summaries().top_of_mind.summary == "New"
    assert sorted(hit.fact.content for hit in reader.search("new")) == [f"New {name}" for name in "abcd"]
    assert [finding.code for finding in DeerMem(root).check("alice")] == ["sealed-record"]
    reader.add("Another")
    assert len(list(facts_of(root).rglob("*.md"))) == 5
    assert [fact.content for fact in reader.list() if fact.content != "Another"] == [f"New {name}" for name in "abcd"]
    assert DeerMem(root).check("alice") == []


@pytest.mark.parametrize("text", [b"", b"garbage", b"\0" * 500, b"{}", b'{"state": "sealed"}'])
def test_a_record_that_can_not_be_used_keeps_nobody_out(engine, memory, root, text, caplog):
    """54: whatever lies under .journal/, the memory opens."""
    fact = memory.add("A fact.")
    (root / "users/alice/.journal/record").write_bytes(text)
    place(root / "users/alice/.journal/stray", b"\xff")
    assert memory.list() == [fact]
    assert memory.add("Another").revision == 1
    assert memory.update(fact.id, "Changed").revision == 2
    assert len(DeerMem(root).memory("alice", "coder").list()) == 2


def test_deleting_the_derived_and_operational_folders_costs_nothing(engine, memory, root):
    """Derived means derived: no sealed record, nothing lost."""
    import shutil

    fact = memory.add("A fact.")
    memory.search("fact")
    for name in (".retrieval", ".journal"):
        shutil.rmtree(root / "users/alice" / name)
    (root / "users/alice/.memory.lock").unlink()
    assert memory.list() == [fact]
    assert [hit.fact for hit in memory.search("fact")] == [fact]
    assert memory.update(fact.id, "Changed").revision == 2
