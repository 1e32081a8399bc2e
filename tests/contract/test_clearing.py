"""Clear and delete: what goes, what stays, and what old stores hold besides."""

from __future__ import annotations

import json

import pytest
from builders_store import fact_text, facts_of, place, tree

from deermem import DeerMem, FactNotFound, MigrationError

V1 = {"version": "1.0", "user": {"workContext": {"summary": "Old work", "updatedAt": ""}}, "facts": []}


def v1(path, *contents: str, work: str = ""):
    facts = [{"id": f"fact_{content.lower()}", "content": content} for content in contents]
    document = {"version": "1.0", "user": {"workContext": {"summary": work}}, "history": {}, "facts": facts}
    return place(path, json.dumps(document))


def test_clearing_a_user_empties_summaries_and_every_agent(engine, root):
    """71: configuration and other files stay."""
    soul = place(root / "users/alice/agents/coder/SOUL.md", "# Soul\n")
    config = place(root / "users/alice/agents/coder/config.yaml", "name: coder\n")
    for agent in ("coder", "writer", None):
        engine.memory("alice", agent).add(f"Of {agent}")
    engine.memory("alice").update_summaries({"workContext": "Work", "recentMonths": "Recent"})
    engine.memory("bob").add("Bob's")
    commit = engine.clear("alice")
    assert len(commit.deleted) == 3
    for agent in ("coder", "writer", None):
        assert engine.memory("alice", agent).list() == engine.memory("alice", agent).search("of") == []
    assert engine.memory("alice").summaries().is_empty()
    assert commit.revision == engine.memory("alice").document()["revision"] == 5
    assert (soul.read_text(), config.read_text()) == ("# Soul\n", "name: coder\n")
    assert len(engine.memory("bob").list()) == 1
    assert set(tree(root / "users/alice")) == {"memory.json", "agents/coder/SOUL.md", "agents/coder/config.yaml"}


def test_clearing_an_agent_keeps_summaries_and_other_agents(engine, memory):
    """72."""
    memory.add("Mine")
    engine.memory("alice", "writer").add("Another's")
    memory.update_summaries({"workContext": "Work"})
    memory.clear()
    assert memory.list() == []
    assert len(engine.memory("alice", "writer").list()) == 1
    assert memory.summaries().work_context.summary == "Work"


def test_clearing_nothing_is_no_error(engine, memory):
    """71: twice as well; a user that is not there does not come to be."""
    engine.clear("nobody")
    assert engine.users() == []
    memory.add("A fact.")
    memory.clear()
    assert memory.clear().deleted == ()
    engine.clear("alice")
    assert memory.add("Afterwards").content == "Afterwards"


def test_sidecars_forget_what_was_deleted(engine, memory, root):
    """73: usage and audit entries of those facts go, others stay; clear takes them all."""
    gone, kept = memory.add("Gone"), memory.add("Kept")
    metadata = root / "users/alice/agents/coder/.metadata"
    usage = {fact.id: {"accessHeat": 1.0, "accessCount": 1} for fact in (gone, kept)}
    place(metadata / "fact-usage.json", json.dumps(usage))
    memory.delete(gone.id)
    assert set(json.loads((metadata / "fact-usage.json").read_text())) == {kept.id}
    memory.clear()
    assert kept.id not in (metadata / "fact-usage.json").read_text()


def test_deleting_what_is_not_there_says_so(memory, root):
    """74: KeyError; nothing is written for a user that is not there."""
    with pytest.raises(FactNotFound, match="fact_x") as caught:
        memory.delete("fact_x")
    assert isinstance(caught.value, KeyError)
    assert not root.exists()
    memory.add("A fact.")
    before = tree(root)
    with pytest.raises(FactNotFound):
        memory.delete("fact_x")
    assert tree(root) == before


def test_a_clear_takes_unread_old_documents_too(engine, root):
    """71: an agent's v1 facts that nobody has read; the backups stay."""
    home = root / "users/alice"
    v1(home / "memory.json", "Global", work="Work")
    v1(home / "agents/coder/memory.json", "Agent")
    sources = tree(home)
    engine.clear("alice")
    assert engine.memory("alice").list() == engine.memory("alice", "coder").list() == []
    assert engine.memory("alice").summaries().is_empty()
    found = tree(home)
    assert found["memory.json.v1.bak"] == sources["memory.json"]
    assert found["agents/coder/memory.json.v1.bak"] == sources["agents/coder/memory.json"]
    assert not [path for path in found if path.endswith(".md")]


def test_conflicting_old_summaries_do_not_stop_a_clear(engine, root):
    """71: they are ignored; the agent's old document is backed up and gone."""
    home = root / "users/alice"
    v1(home / "memory.json", work="Work")
    source = v1(home / "agents/coder/memory.json", "Agent", work="Other work").read_bytes()
    with pytest.raises(MigrationError):
        engine.memory("alice", "coder").list()
    engine.clear("alice")
    assert engine.memory("alice", "coder").list() == []
    assert engine.memory("alice").summaries().is_empty()
    assert (home / "agents/coder/memory.json.v1.bak").read_bytes() == source
    assert not (home / "agents/coder/memory.json").exists()


def test_a_clear_reaches_hand_made_files_in_sub_folders(memory, root):
    """71: wherever a person put them, and copies of one id."""
    place(facts_of(root) / "work/deep/note.md", "By hand\n")
    place(facts_of(root) / "one.md", fact_text("same", "One"))
    place(facts_of(root) / "two.md", fact_text("same", "Two"))
    memory.clear()
    assert memory.list() == []
    assert list(facts_of(root).rglob("*.md")) == []


def test_another_engine_sees_a_clear_at_once(memory, root):
    """71."""
    memory.add("A fact.")
    with DeerMem(root) as other:
        there = other.memory("alice", "coder")
        assert len(there.search("fact")) == 1
        memory.clear()
        assert there.list() == there.search("fact") == []
        assert there.context() == ""
