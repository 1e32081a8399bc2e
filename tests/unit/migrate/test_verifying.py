"""verify: each fact and summary of the backups is proved from the files, or told of as changed, or missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from builders_v1 import NOW, V2, as_json, old_fact_file, v1_document, v1_fact, write_store

from deermem import DeerMem, InvalidInput, Settings
from deermem.format import markdown
from deermem.format.paths import fact_path
from deermem.model.fact import Fact
from deermem.model.reports import UserMigration
from deermem.store.transaction import Transaction

CELLO = "Ann plays the cello."


@pytest.fixture
def engine(root: Path, clock) -> Iterator[DeerMem]:
    with DeerMem(root, Settings(max_facts=0), clock=clock) as opened:
        yield opened


@pytest.fixture
def home(root: Path) -> Path:
    """Ann's folder: a shared document of three facts and a summary, one of coder's."""
    bare = {"content": "  No id, no time, blank space around.\n"}
    shared = v1_document(v1_fact(), v1_fact("fact_2", "Two.", pinned=True, topics=["a"]), bare, work="Cellist.")
    own = v1_document(v1_fact("fact_3", "Prefers tabs.", confidence="0.9", expected_valid_days=30))
    files = {"memory.json": as_json(shared), "agents/coder/memory.json": as_json(own)}
    return write_store(root / "users/ann", files)


def verified(engine: DeerMem) -> UserMigration:
    (user,) = engine.migrate(["ann"], verify=True).users
    return user


def proof(user: UserMigration) -> tuple[int, int, int, int]:
    """Facts, summaries, changed, problems."""
    assert user.verified is not None
    return user.verified.facts, user.verified.summaries, len(user.verified.changed), len(user.problems)


def rewrite(home: Path, fact_id: str, change: Callable[[Fact], Fact], agent: str = "__default__") -> None:
    """A fact file as an engine would write it, with another fact in it."""
    path = home / fact_path(agent, fact_id)
    fact = markdown.decode(path.read_bytes(), stem=fact_id, when=NOW).fact
    path.write_bytes(markdown.encode(change(fact)))


def test_a_migration_is_proved_and_so_is_a_user_who_is_current(engine, home):
    first, second = verified(engine), verified(engine)
    assert (first.outcome, second.outcome) == ("migrated", "current")
    assert proof(first) == proof(second) == (4, 1, 0, 0)
    assert first.verified == second.verified
    assert first.verified.backups == 2


def test_verify_reads_neither_cache_nor_index(engine, home):
    engine.migrate()
    memory = engine.memory("ann")
    assert len(memory.list()) == 3
    path = home / fact_path("__default__", "fact_1")
    path.write_bytes(path.read_bytes().replace(b"cello", b"viola"))
    (home / ".retrieval").rename(home / ".elsewhere")
    assert verified(engine).verified.changed == (
        "fact 'fact_1' of __default__ was changed since: content, title, revision",
    )


def test_a_store_without_backups_has_nothing_to_prove(engine, root):
    engine.memory("ann").add("New.")
    before = sorted(root.rglob("*"))
    user = verified(engine)
    assert (user.outcome, user.verified.backups) == ("current", 0)
    assert sorted(root.rglob("*")) == before


def test_verify_and_dry_run_exclude_each_other(engine, home):
    with pytest.raises(InvalidInput, match="verify and dry_run"):
        engine.migrate(verify=True, dry_run=True)
    assert not (home / ".memory.lock").exists()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda fact: replace(fact, content="Three.", title="Three.", revision=2), "content, title, revision"),
        (lambda fact: replace(fact, category="goal", revision=2), "category, revision"),
        (lambda fact: replace(fact, updated_at=fact.updated_at.replace(year=2027)), "updated_at"),
    ],
)
def test_a_higher_revision_or_a_later_time_tells_of_a_change(engine, home, change, told):
    engine.migrate()
    rewrite(home, "fact_2", change)
    user = verified(engine)
    assert (user.outcome, proof(user)) == ("current", (3, 1, 1, 0))
    assert user.verified.changed == (f"fact 'fact_2' of __default__ was changed since: {told}",)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda fact: replace(fact, content="Tw.", title="Tw."), "content, title"),
        (lambda fact: replace(fact, category="goal"), "category"),
        (lambda fact: replace(fact, confidence=0.7), "confidence"),
        (lambda fact: replace(fact, topics=()), "topics"),
        (lambda fact: replace(fact, extra={}), "extra"),
        (lambda fact: replace(fact, created_at=fact.created_at.replace(year=2020)), "created_at"),
    ],
)
def test_a_difference_that_nothing_tells_of_is_missing(engine, home, change, named):
    engine.migrate()
    rewrite(home, "fact_2", change)
    user = verified(engine)
    assert (user.outcome, proof(user)) == ("failed", (3, 1, 0, 1))
    assert "fact 'fact_2' of __default__ is missing" in user.problems[0]
    assert f"differs in {named}, and nothing tells of a change" in user.problems[0]


@pytest.mark.parametrize("revision", [1, 9])
def test_a_fact_that_names_another_owner_is_missing_since_nobody_reads_it(engine, home, revision):
    engine.migrate()
    rewrite(home, "fact_2", lambda fact: replace(fact, user_id="bob", revision=revision))
    user = verified(engine)
    assert (user.outcome, proof(user)) == ("failed", (3, 1, 0, 1))
    assert "fact 'fact_2' of __default__ is missing: users/ann/agents" in user.problems[0]
    assert "names another owner" in user.problems[0]


def test_own_keys_of_memory_json_are_looked_for_too(engine, root):
    shared = v1_document(v1_fact(), mine={"a": [1.10]}, theirs="x")
    home = write_store(root / "users/ann", {"memory.json": as_json(shared)})
    assert proof(verified(engine)) == (1, 0, 0, 0)
    manifest = json.loads((home / "memory.json").read_bytes())
    del manifest["mine"]
    (home / "memory.json").write_bytes(as_json({**manifest, "theirs": "y"}))
    user = verified(engine)
    assert (user.outcome, proof(user)) == ("failed", (1, 0, 1, 1))
    assert user.problems[0].startswith("'mine' of users/ann/memory.json.v1.bak is not in users/ann/memory.json")
    assert user.verified.changed == ("'theirs' in users/ann/memory.json was changed since",)
    (home / "memory.json").write_bytes(as_json({**manifest, "revision": 9}))
    assert proof(verified(engine)) == (1, 0, 1, 0)


def test_a_backup_that_is_no_file_proves_nothing_and_is_said(engine, home):
    engine.migrate()
    backup = home / "memory.json.v1.bak"
    backup.rename(home / "kept")
    backup.symlink_to("kept")
    user = verified(engine)
    assert user.outcome == "failed"
    assert "users/ann/memory.json.v1.bak is no regular file" in user.problems[0]
    assert "is no regular file" in engine.restore("ann").problems[0]


def test_a_copy_that_nobody_reads_proves_nothing(engine, home):
    """Of two files of one id the one at its own place is read, whatever stands in the other."""
    engine.migrate()
    write_store(home, {"agents/__default__/facts/00/copy.md": (home / fact_path("__default__", "fact_2")).read_bytes()})
    assert proof(verified(engine)) == (4, 1, 0, 0)
    rewrite(home, "fact_2", lambda fact: replace(fact, content="Tw.", title="Tw."))
    user = verified(engine)
    assert (user.outcome, proof(user)) == ("failed", (3, 1, 0, 1))


def test_a_deletion_is_told_where_a_commit_was_counted_and_missing_where_none_was(engine, home):
    engine.migrate()
    (home / fact_path("coder", "fact_3")).unlink()
    user = verified(engine)
    assert (user.outcome, proof(user)) == ("failed", (3, 1, 0, 1))
    assert "fact 'fact_3' of coder is missing: no file holds it" in user.problems[0]
    engine.memory("ann").delete("fact_2")
    user = verified(engine)
    assert (user.outcome, proof(user)) == ("current", (2, 1, 2, 0))
    assert all("it was deleted, evicted or expired since" in line for line in user.verified.changed)


def test_a_file_that_can_not_be_read_is_missing_and_named(engine, home):
    engine.migrate()
    (home / fact_path("__default__", "fact_1")).write_bytes(b"---\nid: [\n---\n")
    user = verified(engine)
    assert proof(user) == (3, 1, 0, 1)
    assert f"users/ann/{fact_path('__default__', 'fact_1')} can't be read" in user.problems[0]


def test_summaries_are_changed_where_an_engine_changed_them_else_missing(engine, home, clock):
    engine.migrate()
    document = json.loads((home / "memory.json").read_bytes())
    document["user"]["workContext"]["summary"] = ""
    (home / "memory.json").write_text(json.dumps(document))
    user = verified(engine)
    assert (user.outcome, proof(user)) == ("failed", (4, 0, 0, 1))
    assert user.problems[0].startswith("summary workContext of users/ann/memory.json.v1.bak is not in")
    clock.advance(days=1)
    engine.memory("ann").update_summaries({"workContext": "Violist."})
    user = verified(engine)
    assert (user.outcome, user.verified.changed) == ("current", ("summary workContext was changed since",))


def test_a_fact_that_was_there_already_keeps_its_own_and_is_told(engine, root):
    stored = {fact_path("__default__", "fact_1"): old_fact_file("fact_1", CELLO, agent="__default__")}
    one = v1_document(v1_fact(category="goal"), v1_fact("fact_2", "Two."))
    home = write_store(root / "users/ann", {"memory.json": as_json(one), **stored})
    user = verified(engine)
    assert (user.outcome, proof(user)) == ("migrated", (1, 0, 1, 0))
    assert user.verified.changed[0].startswith("fact 'fact_1' of __default__ was there already and kept its own: ")
    assert (home / fact_path("__default__", "fact_1")).read_bytes() == stored[fact_path("__default__", "fact_1")]


def test_a_map_of_paths_is_proved_by_id_and_hash(engine, root):
    path, other = fact_path("coder", "fact_1"), fact_path("coder", "fact_2")
    data = old_fact_file("fact_1", CELLO, agent="coder")
    entries = {"fact_1": {"path": path, "contentHash": markdown.content_hash(data)}, "fact_2": {"path": other}}
    document = {**v1_document(), "facts": entries}
    files = {"memory.json": as_json(document), path: data, other: old_fact_file("fact_2", "Two.", agent="coder")}
    home = write_store(root / "users/ann", files)
    assert proof(verified(engine)) == (2, 0, 0, 0)
    (home / path).write_bytes(data.replace(b"cello", b"viola"))
    (home / other).unlink()
    user = verified(engine)
    assert (proof(user), "another hash" in user.verified.changed[0]) == ((0, 0, 1, 1), True)
    assert "fact 'fact_2' of coder is missing" in user.problems[0]


def test_facts_of_buckets_that_stopped_are_not_asked_for(engine, home):
    write_store(home, {"agents/writer/memory.json": as_json(v1_document(v1_fact("w", "W.", confidence=7)))})
    user = verified(engine)
    assert (user.outcome, proof(user)) == ("failed", (4, 1, 0, 1))
    assert "writer" in user.problems[0]
    (home / "agents/coder/memory.json").write_bytes(as_json(v1_document(v1_fact("c", "C."))))
    stuck = verified(engine)
    assert any("memory.json.v1.bak is there already and differs" in line for line in stuck.problems)
    assert not any("is missing" in line for line in stuck.problems)


def test_a_backup_that_can_not_be_what_was_migrated_is_said(engine, home):
    engine.migrate()
    backup = home / "agents/coder/memory.json.v1.bak"
    backup.write_bytes(backup.read_bytes().replace(b'"0.9"', b'"9.0"'))
    user = verified(engine)
    assert user.outcome == "failed"
    assert "agents/coder/memory.json.v1.bak: facts[0] (id 'fact_3'): confidence 9.0 is out of range" in user.problems[0]
    backup.write_bytes(b"{")
    assert "agents/coder/memory.json.v1.bak" in verified(engine).problems[0]


def test_a_store_that_was_current_before_an_agents_document_came(engine, root):
    own = as_json(v1_document(v1_fact("c", "Tabs."), work="Coder."))
    home = write_store(root / "users/ann", {"memory.json": V2, "agents/coder/memory.json": own})
    assert proof(verified(engine)) == (1, 1, 0, 0)
    (home / fact_path("coder", "c")).unlink()
    # Where the count began nobody knows: a deletion can't be ruled out.
    assert proof(verified(engine)) == (0, 1, 1, 0)


def test_what_this_run_wrote_must_be_there(engine, home, monkeypatch):
    """A migration that loses a fact, or writes another one, is found in the same run, whatever its revision says."""
    commit = Transaction.commit

    def faulty(self, changes, *rest):
        done = commit(self, changes, *rest)
        (home / fact_path("coder", "fact_3")).unlink()
        rewrite(home, "fact_2", lambda fact: replace(fact, category="goal", revision=9))
        return done

    monkeypatch.setattr(Transaction, "commit", faulty)
    user = verified(engine)
    assert (user.outcome, user.facts, proof(user)) == ("failed", 4, (2, 1, 0, 2))
    assert "'fact_2'" in user.problems[0]
    assert "'fact_3'" in user.problems[1]
