"""Old stores through the public interface: every path into one migrates it, or stops with the source intact."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from builders_store import fact_text, facts_of, place, shard, tree

from deermem import BackupMismatch, Corruption, DeerMem, MigrationError, SummaryConflict, UnexpectedFiles


def v1(*facts: dict[str, object], **sections: str) -> str:
    user = {name: {"summary": text, "updatedAt": "2026-01-01T00:00:00Z"} for name, text in sections.items()}
    return json.dumps({"version": "1.0", "lastUpdated": "x", "user": user, "history": {}, "facts": list(facts)})


ONE = {"id": "fact_one", "content": "One", "category": "goal", "confidence": 0.8, "source": "t-1", "pinned": True}
TWO = {"id": "fact_two", "content": "Two"}


@pytest.fixture
def home(root):
    """The folder of user alice."""
    return root / "users/alice"


@pytest.fixture
def old(home):
    """A v1 document with two facts and a summary."""
    return place(home / "memory.json", v1(ONE, TWO, workContext="Work"))


DOORS = {
    "list": lambda memory: memory.list(),
    "get": lambda memory: memory.get("fact_one"),
    "search": lambda memory: memory.search("one"),
    "context": lambda memory: memory.context(),
    "document": lambda memory: memory.document(),
    "summaries": lambda memory: memory.summaries(),
    "add": lambda memory: memory.add("Three"),
    "update": lambda memory: memory.update("fact_two", "Two", confidence=0.5),
    "update_summaries": lambda memory: memory.update_summaries({"topOfMind": "Top"}),
    "import": lambda memory: memory.import_document({"facts": [{"id": "fact_three", "content": "Three"}]}),
    "path": lambda memory: memory.path("fact_one"),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_way_in_migrates(engine, home, old, door):
    """59 and the trap of the write to a store that was never read: facts, summaries and a backup are there."""
    source = old.read_bytes()
    memory = engine.memory("alice")
    DOORS[door](memory)
    assert {"fact_one", "fact_two"} <= {fact.id for fact in memory.list()}
    one = memory.get("fact_one")
    assert (one.content, one.category, one.confidence, one.source.thread_id) == ("One", "goal", 0.8, "t-1")
    assert one.extra == {"pinned": True}
    assert memory.summaries().work_context.summary == "Work"
    assert (home / "memory.json.v1.bak").read_bytes() == source
    document = json.loads((home / "memory.json").read_text())
    assert (document["version"], "facts" in document) == ("2.0", False)
    before = tree(home)
    memory.list()
    engine.memory("alice").document()
    assert tree(home) == before


def test_a_migration_says_what_it_did(engine, home, old):
    """56, 57: outcome, facts, backups; progress is called; the second run changes nothing."""
    source = old.read_bytes()
    seen = []
    report = engine.migrate(["alice"], progress=seen.append)
    (user,) = report.users
    assert seen == [user]
    assert (user.user, user.outcome, user.facts, user.backups) == (
        "alice",
        "migrated",
        2,
        (str(home / "memory.json.v1.bak"),),
    )
    assert (report.ok, str(report)) == (True, "migrated=1 planned=0 current=0 failed=0")
    assert (home / "memory.json.v1.bak").read_bytes() == source
    before = tree(home)
    assert engine.migrate().users[0].outcome == "current"
    assert tree(home) == before


def test_a_dry_run_runs_the_real_checks_and_changes_nothing(engine, root, home, old):
    """68: one user would go, one would stop; not a byte, not a folder, not a lock."""
    place(root / "users/bob/memory.json", v1({"id": "b", "content": "B", "confidence": 7}))
    before = tree(root, operational=True)
    report = engine.migrate(dry_run=True)
    assert [(user.user, user.outcome) for user in report.users] == [("alice", "planned"), ("bob", "failed")]
    assert not report.ok
    assert "confidence" in report.users[1].problems[0]
    assert any("would migrate 2 facts" in line for line in report.users[0].steps)
    assert tree(root, operational=True) == before


def test_one_user_that_stops_leaves_the_others_going_on(engine, root, home, old):
    """70."""
    place(root / "users/aaa/memory.json", "{")
    place(root / "users/zoe/memory.json", v1(ONE))
    report = engine.migrate()
    assert [user.outcome for user in report.users] == ["failed", "migrated", "migrated"]
    assert (root / "users/aaa/memory.json").read_text() == "{"
    assert engine.migrate(["nobody"]).users[0].outcome == "failed"


def test_an_older_backup_that_differs_stops(engine, home, old):
    """58: source and backup untouched, no fact written; reads and writes say so."""
    place(home / "memory.json.v1.bak", "older")
    before = tree(home)
    memory = engine.memory("alice")
    for call in (memory.list, lambda: memory.add("New"), memory.document):
        with pytest.raises(BackupMismatch, match=r"memory\.json\.v1\.bak"):
            call()
    assert tree(home) == before
    assert engine.migrate().users[0].outcome == "failed"
    assert tree(home) == before
    (home / "memory.json.v1.bak").unlink()
    assert len(memory.list()) == 2


def test_a_backup_that_can_not_be_written_stops(engine, home, old, monkeypatch):
    """58: source untouched, no fact written."""
    from deermem.store.files import Files

    real = Files.create

    def refusing(self, path, data, **named):
        if data == old.read_bytes():
            raise OSError(28, "No space left on device", path)
        return real(self, path, data, **named)

    before = tree(home)
    monkeypatch.setattr(Files, "create", refusing)
    with pytest.raises(OSError, match="No space"):
        engine.memory("alice").list()
    monkeypatch.undo()
    assert tree(home) == before
    assert len(engine.memory("alice").list()) == 2


def test_an_agents_old_document_is_merged_and_removed(engine, home):
    """60, 62: on first load of that agent; its summaries fill empty shared ones."""
    place(home / "agents/coder/memory.json", v1(ONE, topOfMind="Top"))
    memory = engine.memory("alice", "coder")
    assert [fact.id for fact in memory.list()] == ["fact_one"]
    assert memory.summaries().top_of_mind.summary == "Top"
    assert not (home / "agents/coder/memory.json").exists()
    assert (home / "agents/coder/memory.json.v1.bak").exists()


def test_different_summaries_conflict_and_both_sides_stay(engine, home):
    """62: the agent's file is kept, no fact of it is written; the default bucket works."""
    place(home / "memory.json", v1(TWO, workContext="Shared"))
    source = place(home / "agents/coder/memory.json", v1(ONE, workContext="Other")).read_bytes()
    with pytest.raises(SummaryConflict, match="workContext"):
        engine.memory("alice", "coder").list()
    assert (home / "agents/coder/memory.json").read_bytes() == source
    assert not list(facts_of(home.parent.parent).rglob("*.md"))
    assert [fact.id for fact in engine.memory("alice").list()] == ["fact_two"]


def test_same_id_and_other_content_conflict(engine, home):
    """61: both sides kept; removing the old file makes reads work again."""
    old = place(home / "agents/coder/memory.json", v1(ONE))
    place(facts_of(home.parent.parent) / shard("fact_one") / "fact_one.md", fact_text("fact_one", "Another one"))
    before = tree(home)
    memory = engine.memory("alice", "coder")
    for call in (memory.list, lambda: memory.add("x")):
        with pytest.raises(MigrationError, match="fact_one"):
            call()
    assert tree(home) == before
    old.unlink()
    assert [fact.content for fact in memory.list()] == ["Another one"]


def test_engines_that_migrate_at_once_end_the_same(root, home, old):
    """63: one result, no error."""

    def opening(_):
        return len(DeerMem(root).memory("alice").list())

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(opening, range(6))) == {2}
    assert len(list(home.rglob("*.md"))) == 2


def test_a_migrated_fact_is_found_and_indexed_once(engine, home, old):
    """64."""
    memory = engine.memory("alice")
    assert [(hit.fact.id, hit.match) for hit in memory.search("one")] == [("fact_one", "fts5")]
    assert engine.reindex("alice").indexed == 2


def test_the_previous_default_bucket_is_adopted(engine, home):
    """65: facts of lead-agent only, no configuration."""
    text = fact_text("fact_l", "Lead", user_id="alice", agent_name="lead-agent")
    place(home / "agents/lead-agent/facts" / shard("fact_l") / "fact_l.md", text)
    assert [(fact.id, fact.agent_name) for fact in engine.memory("alice").list()] == [("fact_l", "__default__")]
    assert not (home / "agents/lead-agent").exists()


def test_a_configured_lead_agent_stays(engine, home):
    """65: with its own config.yaml the user is current."""
    text = fact_text("fact_l", "Lead", user_id="alice", agent_name="lead-agent")
    place(home / "agents/lead-agent/facts" / shard("fact_l") / "fact_l.md", text)
    place(home / "agents/lead-agent/config.yaml", "name: lead-agent\n")
    assert engine.memory("alice").list() == []
    assert [fact.id for fact in engine.memory("alice", "lead-agent").list()] == ["fact_l"]
    assert engine.migrate().users[0].outcome == "current"


def test_anything_unexpected_there_stops_and_stays(engine, home):
    """65: named in the error."""
    text = fact_text("fact_l", "Lead", user_id="alice", agent_name="lead-agent")
    place(home / "agents/lead-agent/facts" / shard("fact_l") / "fact_l.md", text)
    place(home / "agents/lead-agent/notes.txt", "mine")
    before = tree(home)
    with pytest.raises(UnexpectedFiles, match=r"notes\.txt"):
        engine.memory("alice").list()
    assert tree(home) == before


@pytest.mark.parametrize("path", ["../../bob/x.md", "/etc/passwd", "agents/../../x.md", "memory.json"])
def test_a_fact_map_that_leaves_the_user_is_refused(engine, home, path):
    """55, 66: source untouched."""
    source = json.dumps({"version": "1.5", "facts": {"fact_a": {"path": path, "contentHash": "sha256:00"}}})
    place(home / "memory.json", source)
    with pytest.raises((MigrationError, Corruption)):
        engine.memory("alice").list()
    assert (home / "memory.json").read_text() == source
    assert engine.migrate().users[0].outcome == "failed"


@pytest.mark.parametrize("confidence", [None, "0.9", "0.90 "])
def test_one_odd_confidence_blocks_nothing(engine, home, confidence):
    """The trap: null and numbers in quotes are read, by reads and by the dry run alike."""
    place(home / "memory.json", v1({**TWO, "confidence": confidence}))
    assert engine.migrate(dry_run=True).ok
    assert engine.memory("alice").get("fact_two").confidence == (0.5 if confidence is None else 0.9)


def test_an_old_no_user_root_migrates_too(engine, root):
    """59: without a user id."""
    place(root / "memory.json", v1(ONE))
    assert [fact.id for fact in engine.memory().list()] == ["fact_one"]
    assert (root / "memory.json.v1.bak").is_file()


def test_a_users_raw_id_is_kept_where_it_is_known(engine, root):
    """The trap of `--all-users`: a folder's name is no user id."""
    folder = engine.memory("user@x").scope.user_folder
    place(root / "users" / folder / "memory.json", v1({**ONE, "scope": {"userId": "user@x"}}, TWO))
    assert engine.migrate().ok
    assert {fact.user_id for fact in engine.memory("user@x").list()} == {"user@x"}
    assert len(engine.memory(folder).list()) == 2


def test_check_names_an_old_store_and_changes_nothing(engine, root, home, old):
    """68: what waits, and what would stop."""
    place(root / "users/bob/memory.json", "{")
    before = tree(root)
    findings = {finding.code for finding in engine.check("alice")}
    assert "not-migrated" in findings
    assert any(finding.severity == "error" for finding in engine.check("bob"))
    assert tree(root) == before


def stops(engine):
    """What check says of bob, whose store can't be migrated: code and path."""
    return [(finding.code, finding.path) for finding in engine.check("bob")]


def test_check_says_why_a_store_can_not_be_migrated(engine, root):
    """68: the checks of a dry run, each reason once, of every document."""
    bob = root / "users/bob"
    shared = place(bob / "memory.json", v1({**ONE, "confidence": "high"}, TWO))
    writer = place(bob / "agents/writer/memory.json", '{"version": "1.0",\n"facts": [')
    before = tree(root)
    findings = engine.check("bob")
    assert [(finding.severity, finding.code, finding.path) for finding in findings] == [
        ("error", "cannot-migrate", str(writer)),
        ("error", "cannot-migrate", str(shared)),
    ]
    assert "line 2 column 11" in findings[0].message
    assert "facts[0] (id 'fact_one'): confidence 'high'" in findings[1].message
    assert tree(root) == before
    shared.write_text(v1(ONE))
    coder = place(bob / "agents/coder/memory.json", v1(TWO, {**TWO, "content": "Zwei"}))
    assert stops(engine) == [("cannot-migrate", str(coder)), ("cannot-migrate", str(writer))]
    assert "agents/coder/memory.json holds the id 'fact_two' twice" in engine.check("bob")[0].message
    coder.unlink()
    writer.unlink()
    assert stops(engine) == [("not-migrated", str(bob))]


def test_a_broken_document_is_listed_once_with_its_position(engine, root):
    for text, code in (('{"version": "1.0",\n"facts": [', "summaries-unreadable"), ("{\n", "summaries-unreadable")):
        path = place(root / "users/bob/memory.json", text)
        (finding,) = engine.check("bob")
        assert (finding.code, finding.path, finding.line) == (code, str(path), 2)


def test_an_old_document_is_judged_by_the_migration_alone(engine, root):
    path = place(root / "users/bob/memory.json", v1(ONE).replace("{", '{"revision": "seven", ', 1))
    assert [code for code, _ in stops(engine)] == ["not-migrated"]
    assert engine.memory("bob").get("fact_one").content == "One"
    path.write_text('{"version": "9.0"}')
    assert [code for code, _ in stops(engine)] == ["summaries-unreadable"]


def test_stats_count_facts_that_wait_and_facts_that_can_not_be_migrated(engine, root, old):
    assert [(item.agent, item.facts, item.unreadable) for item in engine.stats("alice").buckets] == [
        ("__default__", 2, 0)
    ]
    place(root / "users/bob/agents/coder/memory.json", v1(TWO, {**TWO, "content": "Zwei"}))
    place(root / "users/bob/agents/writer/memory.json", '{"facts": [')
    assert [(item.agent, item.facts, item.unreadable) for item in engine.stats("bob").buckets] == [
        ("coder", 0, 2),
        ("writer", 0, 1),
    ]
    engine.memory("alice").list()
    assert (engine.stats("alice").facts, engine.stats("alice").unreadable) == (2, 0)


def test_the_no_user_roots_documents_are_told_apart(engine, root):
    place(root / "memory.json", v1({**ONE, "confidence": "high"}))
    coder = place(root / "agents/coder/memory.json", '{"facts": [')
    assert [finding.path for finding in engine.check()] == [str(coder), str(root / "memory.json")]
