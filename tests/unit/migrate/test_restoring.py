"""restore: the old documents come back where nothing else would be lost, and else nothing is touched."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders_store import tree
from builders_v1 import LEAD, V2, as_json, old_fact_file, v1_document, v1_fact, write_store

from deermem import ChangeSet, DeerMem, Draft, InvalidInput, Memory, RevisionConflict, Settings
from deermem.format import markdown
from deermem.format.paths import fact_path
from deermem.service import read

ONE, TWO = fact_path("__default__", "fact_1"), fact_path("__default__", "fact_2")
THREE = fact_path("coder", "fact_3")


@pytest.fixture
def engine(root: Path, clock) -> Iterator[DeerMem]:
    with DeerMem(root, Settings(max_facts=0), clock=clock) as opened:
        yield opened


@pytest.fixture
def sources() -> dict[str, bytes]:
    """A shared document with a summary, keys of its own and a byte-order mark; one of coder's; a host's file."""
    bare = {"content": "No id, no time."}
    shared = v1_document(v1_fact(), v1_fact("fact_2", "Two."), bare, work="Cellist.", mine={"n": 1.5}, revision=7)
    own = v1_document(v1_fact("fact_3", "Prefers tabs."))
    return {
        "memory.json": b"\xef\xbb\xbf" + as_json(shared),
        "agents/coder/memory.json": as_json(own),
        "agents/coder/config.yaml": b"model: none\n",
    }


@pytest.fixture
def home(root: Path, sources: dict[str, bytes], engine: DeerMem) -> Path:
    """Ann, migrated."""
    home = write_store(root / "users/ann", sources)
    assert engine.migrate().ok
    return home


def without_backups(home: Path) -> dict[str, bytes]:
    return {name: data for name, data in tree(home).items() if not name.endswith(".v1.bak")}


def refused(engine: DeerMem, home: Path, *words: str) -> tuple[str, ...]:
    """Asserts that it is refused in words, dry and for real, with nothing touched; gives the problems."""
    before = tree(home)
    dry, real = engine.restore("ann", dry_run=True), engine.restore("ann")
    assert (dry.outcome, real.outcome) == ("failed", "failed")
    assert dry.problems == real.problems
    assert all(any(word in line for line in real.problems) for word in words), real.problems
    assert tree(home) == before
    return real.problems


def test_the_documents_come_back_byte_for_byte(engine, home, sources):
    done = engine.restore("ann")
    assert (done.outcome, done.facts, done.problems) == ("restored", 4, ())
    assert done.documents == (str(home / "memory.json"), str(home / "agents/coder/memory.json"))
    assert without_backups(home) == sources
    assert not (home / "agents/__default__").exists()
    assert (home / "memory.json.v1.bak").read_bytes() == sources["memory.json"]


def test_a_migration_afterwards_ends_in_the_same_store(engine, home):
    before = tree(home)
    engine.restore("ann")
    (user,) = engine.migrate(["ann"], verify=True).users
    assert (user.outcome, user.backups, user.verified.facts) == ("migrated", (), 4)
    assert tree(home) == before
    assert engine.check() == []


def test_a_dry_run_says_what_and_writes_nothing(engine, home):
    before = tree(home, operational=True)
    dry = engine.restore("ann", dry_run=True)
    assert dry.outcome == "planned"
    assert dry.steps == (
        "would put back memory.json from memory.json.v1.bak",
        "would put back agents/coder/memory.json from agents/coder/memory.json.v1.bak",
        "would remove 3 fact files of __default__",
        "would remove 1 fact file of coder",
    )
    assert tree(home, operational=True) == before


def test_a_second_restore_finds_nothing_to_do(engine, home):
    engine.restore("ann")
    before = tree(home)
    assert [engine.restore("ann", dry_run=dry).outcome for dry in (True, False)] == ["current", "current"]
    assert tree(home) == before


def test_an_open_handle_finds_its_facts_again(engine, home):
    memory = engine.memory("ann")
    ids = {fact.id for fact in memory.list()}
    engine.restore("ann")
    assert {fact.id for fact in memory.list()} == ids
    assert memory.search("cello")[0].fact.id == "fact_1"


def test_what_was_decided_before_is_not_written_afterwards(engine, home):
    memory = engine.memory("ann")
    epoch = memory.epoch()
    engine.restore("ann")
    with pytest.raises(RevisionConflict):
        memory.apply(ChangeSet([Draft(content="Decided on version 2.")], epoch=epoch))


def edit(home: Path, path: str, old: bytes, new: bytes) -> None:
    data = (home / path).read_bytes()
    assert old in data
    (home / path).write_bytes(data.replace(old, new))


CHANGES: dict[str, tuple[Callable[[DeerMem, Path], object], list[str]]] = {
    "a fact was added": (
        lambda engine, home: engine.memory("ann").apply(ChangeSet([Draft(content="New.", id="new_1")])),
        ["fact 'new_1' of __default__ is in no backup"],
    ),
    "a fact of an agent without a document was added": (
        lambda engine, home: engine.memory("ann", "writer").apply(ChangeSet([Draft(content="New.", id="new_1")])),
        ["fact 'new_1' of writer is in no backup"],
    ),
    "a fact was changed": (
        lambda engine, home: engine.memory("ann").update("fact_2", "Deux."),
        ["fact 'fact_2' of __default__ was changed since: content"],
    ),
    "a fact was changed by hand": (
        lambda engine, home: edit(home, THREE, b"Prefers tabs.\n", b"Prefers blanks.\n"),
        ["fact 'fact_3' of coder was changed since: content"],
    ),
    "a comment was written by hand": (
        lambda engine, home: edit(home, ONE, b"category:", b"# seen\ncategory:"),
        ["fact 'fact_1' of __default__ was changed since: revision"],
    ),
    "a fact was deleted": (
        lambda engine, home: engine.memory("ann").delete("fact_1"),
        ["fact 'fact_1' of __default__ was deleted since, and would come back"],
    ),
    "two things were": (
        lambda engine, home: (engine.memory("ann").delete("fact_1"), engine.memory("ann", "coder").add("New.")),
        ["'fact_1' of __default__", "of coder is in no backup"],
    ),
    "a file can not be read": (
        lambda engine, home: (home / ONE).write_bytes(b"---\nid: [\n---\n"),
        [f"users/ann/{ONE}, of __default__, can't be read"],
    ),
    "a note lies there": (
        lambda engine, home: (home / "agents/coder/facts/note.md").write_text("By hand.\n"),
        ["fact 'note' of coder is in no backup"],
    ),
    "a second file of an id lies there": (
        lambda engine, home: (home / "agents/__default__/facts/copy.md").write_bytes((home / ONE).read_bytes()),
        ["fact 'fact_1' of __default__ is in no backup"],
    ),
    "no engine wrote a file": (
        lambda engine, home: (home / ONE).write_bytes(
            b"".join(line for line in (home / ONE).read_bytes().splitlines(True) if not line.startswith(b"digest:"))
        ),
        ["fact 'fact_1' of __default__ lies in"],
    ),
    "a summary was changed": (
        lambda engine, home: engine.memory("ann").update_summaries({"workContext": "Violist."}),
        ["summary workContext was changed since"],
    ),
    "a summary was written": (
        lambda engine, home: engine.memory("ann").update_summaries({"topOfMind": "Oboe."}),
        ["summary topOfMind was changed since"],
    ),
    "an own key was changed": (
        lambda engine, home: edit(home, "memory.json", b'"n": 1.5', b'"n": 2'),
        ["mine in users/ann/memory.json was changed since"],
    ),
    "an own key was written into a section": (
        lambda engine, home: edit(home, "memory.json", b'"summary": "Cellist."', b'"by": "me", "summary": "Cellist."'),
        ["user in users/ann/memory.json was changed since"],
    ),
    "memory.json was removed": (
        lambda engine, home: (home / "memory.json").unlink(),
        ["summary workContext was changed since", "mine in users/ann/memory.json"],
    ),
    "memory.json can not be read": (
        lambda engine, home: (home / "memory.json").write_text("{"),
        ["users/ann/memory.json"],
    ),
    "memory.json is of a later version": (
        lambda engine, home: edit(home, "memory.json", b'"2.0"', b'"3.0"'),
        ["users/ann/memory.json"],
    ),
    "an agent has a document again": (
        lambda engine, home: (home / "agents/coder/memory.json").write_text('{"facts": []}'),
        ["users/ann/agents/coder/memory.json is there already and differs"],
    ),
    "a backup can not be read": (
        lambda engine, home: (home / "agents/coder/memory.json.v1.bak").write_text("{"),
        ["users/ann/agents/coder/memory.json.v1.bak"],
    ),
    "a backup was changed": (
        lambda engine, home: edit(home, "memory.json.v1.bak", b"plays the cello", b"plays the viola"),
        ["fact 'fact_1' of __default__ was changed since: content"],
    ),
    "the backups are gone": (
        lambda engine, home: [path.unlink() for path in home.rglob("*.v1.bak")],
        ["there is no backup of a version 1 document"],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_would_be_lost_is_named_and_nothing_is_touched(engine, home, name):
    change, words = CHANGES[name]
    change(engine, home)
    assert len(refused(engine, home, *words)) >= len(words)


def test_every_loss_is_named(engine, home):
    for number in range(30):
        engine.memory("ann").apply(ChangeSet([Draft(content=f"New {number}.", id=f"new_{number}")]))
    assert len(refused(engine, home)) == 30


def test_an_agents_document_comes_back_into_a_store_of_version_2(engine, root):
    own = as_json(v1_document(v1_fact("c", "Tabs."), work="Coder."))
    other = old_fact_file("d", "Other.", agent="__default__")
    home = write_store(root / "users/ann", {"memory.json": V2, "agents/coder/memory.json": own})
    write_store(home, {fact_path("__default__", "d"): other})
    engine.migrate()
    done = engine.restore("ann")
    assert (done.outcome, done.facts) == ("restored", 1)
    assert (home / "agents/coder/memory.json").read_bytes() == own
    assert (home / fact_path("__default__", "d")).read_bytes() == other
    document = json.loads((home / "memory.json").read_bytes())
    assert (document["version"], document["revision"]) == ("2.0", 5)
    assert document["user"]["workContext"]["summary"] == "Coder."
    assert engine.migrate(verify=True).users[0].verified.facts == 1


def test_adopted_facts_of_the_old_default_bucket_have_no_backup(engine, root):
    files = {"memory.json": as_json(v1_document(v1_fact())), LEAD: old_fact_file("fact_u1", "Adopted.")}
    home = write_store(root / "users/ann", files)
    engine.migrate()
    assert len(refused(engine, home, "fact 'fact_u1' of __default__ is in no backup")) == 1


def test_files_that_a_map_of_paths_names_stay_where_they_are(engine, root):
    path = fact_path("coder", "fact_1")
    data = old_fact_file("fact_1", "Cello.", agent="coder")
    document = as_json(
        {**v1_document(), "facts": {"fact_1": {"path": path, "contentHash": markdown.content_hash(data)}}}
    )
    home = write_store(root / "users/ann", {"memory.json": document, path: data})
    engine.migrate()
    assert engine.restore("ann").outcome == "restored"
    assert without_backups(home) == {"memory.json": document, path: data}
    engine.migrate()
    (home / path).write_bytes(data.replace(b"Cello", b"Viola"))
    assert refused(engine, home, f"{path}, of coder, was changed since")


def test_the_no_user_root_and_a_manifest_of_another_name_go_back_too(root, clock):
    document = as_json(v1_document(v1_fact(), work="Cellist."))
    write_store(root, {"index.json": document})
    with DeerMem(root, Settings(manifest_filename="index.json"), clock=clock) as engine:
        assert engine.migrate().count("migrated") == 1
        assert engine.restore(None).user == "(no user)"
        assert (root / "index.json").read_bytes() == document
        assert len(engine.memory().list()) == 1


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_user_who_is_not_there_is_said(engine, home, root, dry_run):
    assert "there is no folder" in engine.restore("bob", dry_run).problems[0]
    (root / "users/eve").symlink_to(home)
    assert "is a link" in engine.restore("eve", dry_run).problems[0]
    with pytest.raises(InvalidInput):
        engine.restore("", dry_run)
    assert not (root / "users/bob").exists()


READS: dict[str, Callable[[Memory], object]] = {
    "list": lambda memory: sorted(fact.id for fact in memory.list()),
    "search": lambda memory: sorted(hit.fact.id for hit in memory.search("cello two id", top_k=9)),
    "get": lambda memory: memory.get("fact_1").content,
    "document": lambda memory: len(memory.document()["facts"]),
    "summaries": lambda memory: memory.summaries().work_context.summary,
}


@pytest.mark.parametrize("name", READS)
def test_a_restore_in_the_middle_of_a_read_empties_no_answer(engine, home, root, clock, monkeypatch, name):
    """It comes after the reader found nothing old, and before it looks at the files."""
    memory = engine.memory("ann")
    expected = READS[name](memory)
    ready, restored = read.make_ready, []

    def then_restore(*given: object) -> None:
        ready(*given)
        if not restored:
            with DeerMem(root, clock=clock) as other:
                restored.append(other.restore("ann").outcome)

    monkeypatch.setattr(read, "make_ready", then_restore)
    assert READS[name](memory) == expected
    assert restored == ["restored"]
