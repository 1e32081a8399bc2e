"""Whose memory lies where, and which names are refused."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
from contextlib import contextmanager
from pathlib import Path

import pytest
from builders_store import facts_of, shard, tree

from deermem import ABSENT, ChangeSet, DeerMem, Draft, FactConflict, InvalidInput, Settings, Upsert
from deermem.service.upkeep import warm_each


def test_root_is_given_or_from_the_environment_or_the_home(guarded_home, monkeypatch, tmp_path):
    """1: configured path absolute or relative; else $DEERMEM_DATA_DIR, else ~/.deermem."""
    assert DeerMem().root == guarded_home / "data"
    monkeypatch.delenv("DEERMEM_DATA_DIR")
    assert DeerMem().root == guarded_home / ".deermem"
    assert DeerMem(settings=Settings(root=str(tmp_path / "set"))).root == tmp_path / "set"
    assert DeerMem(tmp_path / "given", Settings(root=str(tmp_path / "set"))).root == tmp_path / "given"
    monkeypatch.chdir(tmp_path)
    assert DeerMem("relative/store").root == tmp_path / "relative" / "store"
    assert DeerMem("~/mine").root == guarded_home / "mine"


@pytest.mark.parametrize("name", ["root", "index_root", "manifest_filename", "patterns_dir"])
@pytest.mark.parametrize("given", [5, ["x"], b"x", "a\0b", " "])
def test_a_setting_that_is_no_path_is_named(name, given):
    with pytest.raises(InvalidInput, match=f"setting {name} is "):
        Settings(**{name: given})


def test_a_user_and_the_no_user_root_never_share(engine, root):
    """2: users/{id}/memory.json and the legacy {root}/memory.json are two memories."""
    engine.memory("alice").update_summaries({"workContext": "Alice's work"})
    engine.memory().update_summaries({"workContext": "Nobody's work"})
    engine.memory("alice").add("Alice's fact")
    engine.memory().add("Nobody's fact")
    assert (
        json.loads((root / "users/alice/memory.json").read_text())["user"]["workContext"]["summary"] == "Alice's work"
    )
    assert json.loads((root / "memory.json").read_text())["user"]["workContext"]["summary"] == "Nobody's work"
    assert [fact.content for fact in engine.memory("alice").list()] == ["Alice's fact"]
    assert [hit.fact.content for hit in engine.memory().search("fact")] == ["Nobody's fact"]


def test_agents_share_one_document(engine, root):
    """3: no memory.json of an agent's own."""
    engine.memory("alice", "coder").update_summaries({"topOfMind": "Release"})
    engine.memory("alice", "writer").add("Short sentences.")
    assert engine.memory("alice", "writer").summaries().top_of_mind.summary == "Release"
    assert [path for path in tree(root) if path.endswith("memory.json")] == ["users/alice/memory.json"]


def test_a_fact_lies_in_the_folder_of_its_hash(memory, root):
    """4: agents/{agent}/facts/{first 2 hex of SHA-256(id)}/{id}.md."""
    fact = memory.add("Likes tea")
    expected = facts_of(root) / hashlib.sha256(fact.id.encode()).hexdigest()[:2] / f"{fact.id}.md"
    assert memory.path(fact.id) == expected
    assert expected.is_file()


def test_user_ids_that_differ_never_share_a_folder(engine, root):
    """5, P12: characters outside the grammar become '-' and a hash; ids inside it stay."""
    digest = hashlib.sha256(b"user@x").hexdigest()[:16]
    engine.memory("user@x").add("From the address")
    engine.memory("user-x").add("From the plain id")
    engine.memory("用户").add("From the Chinese id")
    assert {"user-x", f"user-x-{digest}"} < set(engine.users())
    assert [fact.content for fact in engine.memory("user@x").list()] == ["From the address"]
    assert [fact.content for fact in engine.memory("user-x").list()] == ["From the plain id"]
    assert engine.memory("user@x").list()[0].user_id == "user@x"
    for folder in engine.users():
        assert len(engine.memory(folder).list()) == 1, folder


def test_case_keeps_two_users_apart_where_the_file_system_does(engine):
    """P6."""
    engine.memory("Alice").add("Upper case")
    engine.memory("alice").add("Lower case")
    assert [fact.content for fact in engine.memory("Alice").list()] == ["Upper case"]
    assert engine.users() == ["Alice", "alice"]


@pytest.mark.parametrize("user", ["con", "nul", "a..b", "..", ".", "../x", "a/b", "a\\b", "x\n", "-", "_"])
def test_odd_user_ids_work_inside_the_users_folder(engine, root, user):
    """P2, P3, P7: whatever the id, its folder lies directly below users/."""
    engine.memory(user).add("A fact.")
    assert [fact.content for fact in engine.memory(user).list()] == ["A fact."]
    (folder,) = os.listdir(root / "users")
    assert [path.parent.name for path in root.rglob("memory.json")] == [folder]
    assert os.listdir(root.parent) == [root.name]


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("", "is empty"),
        ("u" * 129, "129 characters"),
        ("é" * 120, "137 characters"),
        ("\ud800", "not valid Unicode"),
        ("a\0b", "holds a NUL character"),
        ("\0", "holds a NUL character"),
        (5, "user_id is 5; it must be text"),
        (0, "user_id is 0; it must be text"),
        (b"ann", "user_id is b'ann'; it must be text"),
    ],
)
def test_impossible_user_ids_are_refused(engine, root, user, words):
    """6: no text, empty, NUL, too long, not encodable."""
    with pytest.raises(InvalidInput, match=f"user_id.*{words}|{words}"):
        engine.memory(user)
    assert not root.exists()


def test_strict_user_scope_asks_for_a_user_everywhere(root):
    """6: the message names user_id."""
    engine = DeerMem(root, Settings(strict_user_scope=True))
    calls = [engine.memory, engine.agents, engine.clear, lambda: engine.search(None, "x")]
    for call in calls:
        with pytest.raises(InvalidInput, match="user_id"):
            call()
    assert engine.memory("alice").add("A fact.").user_id == "alice"


def test_strict_user_scope_lets_maintenance_pass_over_the_no_user_root(root):
    """6: nothing of the no-user root is read or changed."""
    with DeerMem(root) as loose:
        loose.memory().add("Nobody's")
        loose.memory("alice").add("Alice's")
    strict = DeerMem(root, Settings(strict_user_scope=True))
    assert strict.stats().facts == 1
    assert strict.check() == []
    assert strict.reindex().indexed == 1
    assert strict.warm() is True
    assert strict.migrate().ok


def test_a_user_who_can_not_be_read_is_passed_over_by_warm(root, caplog):
    with DeerMem(root) as engine:
        for user in ("alice", "bob", "carol"):
            engine.memory(user).add(f"{user}'s")

        @contextmanager
        def visit(folder):
            if folder == "bob":
                raise PermissionError(errno.EACCES, "Permission denied", str(root / "users" / "bob"))
            with engine._visit(folder) as user:
                warmed.append(folder)
                yield user

        warmed: list[str] = []
        assert not warm_each(["alice", "bob", "carol"], visit)
        assert warm_each(["alice"], visit)
    assert warmed == ["alice", "carol", "alice"]
    (line,) = caplog.messages
    assert line.startswith("the index of user bob could not be made whole: ")


@pytest.mark.parametrize(
    "agent", ["", "../etc/passwd", "agent/name", "agent\\name", "a b", "a@b", "a_b", "..", "x\n", "é", "a" * 129, 7]
)
def test_agent_names_outside_the_grammar_are_refused(engine, root, agent):
    """7, P3, P4."""
    with pytest.raises(InvalidInput, match="agent name"):
        engine.memory("alice", agent)
    assert not root.exists()


def test_the_default_bucket_is_reserved(engine, root):
    """8: None and `__default__` are the same; no other name with underscores is taken."""
    fact = engine.memory("alice").add("In the default bucket")
    assert engine.memory("alice", "__default__").get(fact.id) == fact
    assert (facts_of(root, agent="__default__") / shard(fact.id)).is_dir()
    with pytest.raises(InvalidInput):
        engine.memory("alice", "__other__")
    with pytest.raises(InvalidInput):
        engine.memory("alice", "__DEFAULT__")


def test_agent_names_have_no_case(engine):
    """9."""
    fact = engine.memory("alice", "Lead-Agent").add("Same bucket")
    assert engine.memory("alice", "LEAD-AGENT").get(fact.id).agent_name == "lead-agent"
    assert engine.agents("alice") == ["lead-agent"]


@pytest.mark.parametrize(
    "fact_id", ["", "../x", "a/b", "a.b", "a b", "é", "x\n", "a\0b", "v1..2", "f" * 129, "f" * 253]
)
def test_fact_ids_outside_the_grammar_are_refused_everywhere(memory, root, fact_id):
    """10, P3; an id too long for a file name is found before anything is written."""
    calls = [
        lambda: memory.get(fact_id),
        lambda: memory.update(fact_id, "x"),
        lambda: memory.delete(fact_id),
        lambda: memory.path(fact_id),
        lambda: memory.apply(ChangeSet([Draft(id=fact_id, content="x")])),
    ]
    for call in calls:
        with pytest.raises(InvalidInput):
            call()
    assert not root.exists()


def test_the_longest_id_can_be_written_read_and_removed(memory):
    """10: 128 characters, and nothing of that user is stuck afterwards."""
    fact_id = "f" * 128
    memory.apply(ChangeSet([Draft(id=fact_id, content="Long name")]))
    assert memory.update(fact_id, "Longer").revision == 2
    memory.delete(fact_id)
    assert memory.list() == []
    assert memory.add("Next").content == "Next"


def test_ids_that_differ_in_case_alone_are_one_id(memory, root):
    """A case-folding file system would hold only one of them."""
    memory.apply(ChangeSet([Draft(id="fact_a", content="First")]))
    with pytest.raises(FactConflict) as caught:
        memory.apply(ChangeSet([Upsert(Draft(id="FACT_A", content="Second"), ABSENT)]))
    assert caught.value.current is not None
    assert caught.value.current.content == "First"
    with pytest.raises((FactConflict, InvalidInput)):
        memory.apply(ChangeSet([Draft(id="FACT_A", content="Second")]))
    with pytest.raises((FactConflict, InvalidInput)):
        memory.import_document({"facts": [{"id": "Fact_A", "content": "Third"}]})
    assert [path for path in tree(root) if path.endswith(".md")] == [
        f"users/alice/agents/coder/facts/{shard('fact_a')}/fact_a.md"
    ]


def test_the_document_may_have_another_name(root):
    """11: a plain *.json name."""
    with DeerMem(root, Settings(manifest_filename="index.json")) as engine:
        engine.memory("alice").add("A fact.")
    assert (root / "users/alice/index.json").is_file()
    assert not (root / "users/alice/memory.json").exists()


@pytest.mark.parametrize("name", ["", "memory.txt", "a/b.json", "../x.json", ".json", "x.json\n", ".memory.lock"])
def test_other_document_names_are_refused(name):
    """11."""
    with pytest.raises(InvalidInput, match="manifest_filename"):
        Settings(manifest_filename=name)


def test_a_thread_is_provenance_and_no_path(memory, root):
    """12."""
    fact = memory.add("Said in a thread", source="../../thread")
    assert (fact.source.type, fact.source.thread_id) == ("conversation", "../../thread")
    assert memory.path(fact.id).parent.parent == facts_of(root)


@pytest.mark.parametrize("first", ["custom", "default"])
def test_a_custom_lead_agent_stays_apart_from_the_default_bucket(engine, root, first):
    """13: whichever is written first."""
    config = root / "users/alice/agents/lead-agent/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("name: lead-agent\n")
    order = ["lead-agent", None] if first == "custom" else [None, "lead-agent"]
    for agent in order:
        engine.memory("alice", agent).add(f"Of {agent}")
    assert [fact.content for fact in engine.memory("alice", "lead-agent").list()] == ["Of lead-agent"]
    assert [fact.content for fact in engine.memory("alice").list()] == ["Of None"]
    assert config.read_text() == "name: lead-agent\n"


def test_a_root_that_is_a_file_is_refused(tmp_path):
    """14: at construction."""
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(InvalidInput, match="is a file"):
        DeerMem(file)
    assert file.read_text() == "x"


def test_unknown_settings_are_named_once_and_null_is_the_default(caplog):
    """15."""
    with caplog.at_level(logging.WARNING, "deermem"):
        settings = Settings.from_mapping({"max_facts": 50, "mode": None, "colour": "red", "size": 3})
    assert (settings.max_facts, settings.mode) == (50, "middleware")
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["colour, size"]
    caplog.clear()
    with caplog.at_level(logging.WARNING, "deermem"):
        assert Settings.from_mapping({"max_facts": None, "retrieval_adapter": None}) == Settings()
    assert caplog.records == []


def test_an_unknown_setting_is_told_which_one_was_meant(caplog):
    with caplog.at_level(logging.WARNING, "deermem"):
        assert Settings.from_mapping({"max_fact": 50}) == Settings()
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == [
        "max_fact (did you mean max_facts?)"
    ]


def test_a_mapping_in_the_place_of_settings_is_named(root: Path):
    with pytest.raises(InvalidInput, match="settings is dict, not Settings; give Settings"):
        DeerMem(root, {"max_facts": 50})  # type: ignore[arg-type]


def test_reading_creates_nothing(engine, root: Path):
    """P11: no folder, file or lock for a root or user that is not there."""
    memory = engine.memory("alice", "coder")
    assert (memory.list(), memory.search("x"), memory.context()) == ([], [], "")
    assert memory.document()["facts"] == []
    assert memory.summaries().is_empty()
    assert engine.check() == engine.check("alice") == []
    assert engine.users() == engine.agents("alice") == engine.search("alice", "x") == []
    assert engine.stats().users == 0
    assert engine.stats("alice").facts == engine.reindex("alice").indexed == 0
    assert engine.warm()
    assert engine.migrate().users == ()
    memory.clear()
    engine.clear("alice")
    for call in (memory.get, memory.delete, memory.path, lambda name: memory.update(name, "x")):
        with pytest.raises(KeyError):
            call("fact_x")
    assert not root.exists()


def test_a_folder_that_is_no_user_is_passed_over(engine, root):
    """users() promises names that work as user_id."""
    engine.memory("alice").add("A fact.")
    (root / "users/Bob Smith/agents").mkdir(parents=True)
    (root / "users/.trash").mkdir()
    (root / "users/notes.txt").write_text("x")
    assert engine.users() == ["alice"]
    assert engine.check() == []
    assert engine.stats().users == 1
