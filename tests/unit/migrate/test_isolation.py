"""Memory of the no-user root becomes a user's: what moves, what stays and is named, and what is never touched."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from builders_isolation import FACT, HOST, STORE, TABS, V1, below, everything, moved, problem, said
from builders_store import fact_text, tree
from builders_v1 import V2, as_json, v1_document, v1_fact, write_store

from deermem import DeerMem, Settings
from deermem.migrate.isolation import isolate
from deermem.store.journal import Record, digest, encode_record, step_of

# --- what moves


def test_everything_moves_and_a_second_run_has_nothing_to_do(root: Path) -> None:
    write_store(root, STORE | HOST)
    assert said(root) == [
        "moved memory.json -> users/ann/memory.json",
        "moved agents/coder/ -> users/ann/agents/coder/",
        "moved 2 things to users/ann",
    ]
    assert tree(root) == below("users/ann", STORE) | HOST
    assert not (root / "agents").exists()
    before = everything(root)
    assert said(root) == ["already current"]
    assert everything(root) == before
    with DeerMem(root) as engine:
        assert [fact.content for fact in engine.memory("ann", "coder").list()] == ["Prefers tabs."]
        assert [finding for finding in engine.check() if finding.severity != "info"] == []


def test_a_dry_run_says_the_same_and_changes_no_byte(root: Path) -> None:
    write_store(root, STORE | HOST)
    before = everything(root)
    assert said(root, dry_run=True) == [
        "would move memory.json -> users/ann/memory.json",
        "would move agents/coder/ -> users/ann/agents/coder/",
        "would move 2 things to users/ann",
    ]
    assert everything(root) == before


def test_an_old_store_moves_and_then_migrates(root: Path) -> None:
    old = {"memory.json": V1, "agents/coder/memory.json": as_json(v1_document(v1_fact("fact_2", "Prefers tabs.")))}
    write_store(root, old)
    assert moved(root, "a@b.org").ok
    with DeerMem(root) as engine:
        assert engine.migrate(["a@b.org"]).ok
        assert [fact.content for fact in engine.memory("a@b.org").list()] == ["Ann plays the cello."]
        assert [fact.user_id for fact in engine.memory("a@b.org", "coder").list()] == ["a@b.org"]
        assert engine.memory("a@b.org").summaries().section("work_context").summary == "Ann tunes cellos."
        assert engine.memory().list() == []


def test_the_real_stores_of_another_engine_move(shared: Path, root: Path) -> None:
    shutil.copytree(shared / "fixtures" / "deerflow-v2", root / "from")
    users = [path for path in (root / "from").rglob("users/*") if path.is_dir()]
    for number, user in enumerate(users):
        store = root / f"store-{number}"
        shutil.copytree(user, store, symlinks=True)
        wanted = tree(store)
        assert moved(store, user.name).ok
        assert tree(store) == below(f"users/{user.name}", wanted)
    assert users


def test_folders_keep_their_modes_and_empty_ones_move_too(root: Path) -> None:
    write_store(root, STORE)
    (root / "agents/coder/assets").mkdir()
    (root / "agents/coder").chmod(0o750)
    assert moved(root).ok
    assert (root / "users/ann/agents/coder").stat().st_mode & 0o777 == 0o750
    assert (root / "users/ann/agents/coder/assets").is_dir()


def test_backups_and_texts_that_wait_for_a_person_move_along(root: Path) -> None:
    texts = {".journal/conflict.f_a.0a1b2c3d.md": b"Mine.\n", ".journal/kept.f_a.0a1b2c3d.md": b"Was.\n"}
    write_store(root, STORE | texts | {"memory.json.v1.bak": V1})
    assert moved(root).moved == 5
    assert tree(root / "users/ann", operational=True).keys() >= {*texts, "memory.json.v1.bak"}
    with DeerMem(root) as engine:
        assert [finding.path for finding in engine.check("ann") if "conflict." in finding.path]
    assert said(root) == ["already current"]


def test_the_index_of_the_root_stays_and_the_user_gets_one_of_its_own(root: Path) -> None:
    write_store(root, STORE)
    with DeerMem(root) as engine:
        assert engine.memory(None, "coder").search("tabs")
    assert moved(root).ok
    assert (root / ".retrieval").is_dir()
    with DeerMem(root) as engine:
        assert [hit.fact.id for hit in engine.memory("ann", "coder").search("tabs")] == ["f_tabs"]
        assert engine.memory(None, "coder").search("tabs") == []


def test_a_sealed_commit_is_finished_before_anything_moves(root: Path) -> None:
    after = fact_text("f_tabs", "Prefers spaces.").encode()
    step = step_of(TABS, digest(FACT), digest(after))
    sealed = encode_record(Record(7, "sealed", (step,)))
    write_store(root, STORE | {".journal/record": sealed, f".journal/{step.staged}": after})
    lines: list[str] = []
    before = everything(root)
    isolate(Settings(root=str(root)), "ann", tell=lines.append, dry_run=True)
    assert "interrupted" in lines[0]
    assert everything(root) == before
    assert moved(root).ok
    assert (root / "users/ann" / TABS).read_bytes() == after


def test_a_sealed_commit_of_the_user_is_finished_before_two_sides_are_compared(root: Path) -> None:
    before = fact_text("f_tabs", "Prefers spaces.").encode()
    step = step_of(TABS, digest(before), digest(FACT))
    journal = {".journal/record": encode_record(Record(7, "sealed", (step,))), f".journal/{step.staged}": FACT}
    write_store(root, STORE | below("users/ann", journal | {TABS: before}))
    assert moved(root).ok
    assert tree(root) == below("users/ann", STORE)


def test_an_undo_journal_is_rolled_back_before_anything_moves(root: Path) -> None:
    undo = {
        "operationId": "op1",
        "state": "prepared",
        "expectedRevision": 3,
        "agentName": "coder",
        "factIds": ["f_tabs"],
        "oldEntries": {"f_tabs": {"path": TABS}},
    }
    half = fact_text("f_tabs", "Half a thou").encode()
    backups = {".memory.journal.json": as_json(undo), ".recovery/op1/f_tabs.md": FACT, ".recovery/op1/memory.json": V2}
    write_store(root, STORE | {TABS: half} | backups)
    assert moved(root).ok
    assert tree(root) == below("users/ann", STORE)
    assert half in tree(root / "users/ann", operational=True).values()


# --- two sides meet


def test_what_the_user_lacks_moves_into_folders_that_are_there(root: Path) -> None:
    there = {
        "agents/coder/facts/zz/other.md": fact_text("other").encode(),
        "agents/coder/SOUL.md": STORE["agents/coder/SOUL.md"],
    }
    write_store(root, STORE | below("users/ann", there))
    lines = said(root)
    assert "removed agents/coder/SOUL.md, equal to users/ann/agents/coder/SOUL.md" in lines
    assert tree(root) == below("users/ann", STORE | there)
    assert not (root / "agents").exists()


def test_what_differs_stays_and_the_rest_moves(root: Path) -> None:
    there = below("users/ann", {"agents/coder/config.yaml": b"model: other\n"})
    write_store(root, STORE | there)
    result = moved(root)
    problem(result, "agents/coder/config.yaml stays", "users/ann/agents/coder/config.yaml", "keep one of the two")
    rest = {path: data for path, data in STORE.items() if path != "agents/coder/config.yaml"}
    assert tree(root) == below("users/ann", rest) | there | {"agents/coder/config.yaml": b"model: none\n"}
    assert moved(root).problems == result.problems


def test_two_documents_that_differ_stay_and_the_named_command_joins_them(root: Path) -> None:
    write_store(root, {"memory.json": V1} | below("users/ann", {"memory.json": V2}))
    result = moved(root)
    problem(result, "memory.json stays", "users/ann/memory.json", f"--user ann --max-facts 0 import {root}/memory.json")
    assert (root / "memory.json").read_bytes() == V1
    with DeerMem(root, Settings(max_facts=0)) as engine:
        engine.memory("ann").import_document(json.loads(V1))
        assert [fact.content for fact in engine.memory("ann").list()] == ["Ann plays the cello."]
    (root / "memory.json").rename(root.parent / "done.json")
    assert said(root) == ["already current"]


def test_equal_documents_are_one(root: Path) -> None:
    write_store(root, {"memory.json": V1} | below("users/ann", {"memory.json": V1}))
    assert moved(root).ok
    assert tree(root) == {"users/ann/memory.json": V1}


def test_one_id_never_comes_to_stand_in_two_files(root: Path) -> None:
    there = below("users/ann", {"agents/coder/facts/mine.md": fact_text("F_TABS", "Other.").encode()})
    write_store(root, STORE | there)
    problem(moved(root), f"{TABS} stays", "users/ann/agents/coder/facts/mine.md", "'f_tabs'")
    assert (root / TABS).read_bytes() == FACT
    assert (root / "users/ann/agents/coder/SOUL.md").exists()


def test_names_that_differ_in_case_only_are_not_mixed(root: Path) -> None:
    write_store(root, {"agents/Coder/config.yaml": b"a"} | below("users/ann", {"agents/coder/config.yaml": b"b"}))
    problem(moved(root), "agents/Coder stays", "users/ann/agents/coder", "upper and lower case")


@pytest.mark.parametrize("there", ["agents/coder", "agents/coder/facts", "agents"])
def test_a_file_in_a_folders_place_is_named(root: Path, there: str) -> None:
    write_store(
        root, {path: data for path, data in STORE.items() if path != "memory.json"} | {f"users/ann/{there}": b"x"}
    )
    result = moved(root)
    problem(result, f"{there} stays", f"users/ann/{there}")
    assert (root / TABS).read_bytes() == FACT


def test_a_backup_that_would_stop_the_users_own_migration_stays(root: Path) -> None:
    other = as_json(v1_document(v1_fact("fact_9", "Another one.")))
    write_store(root, {"memory.json.v1.bak": V1} | below("users/ann", {"memory.json": other}))
    problem(moved(root), "memory.json.v1.bak stays", "version 1", "migrate it first")
    with DeerMem(root) as engine:
        assert engine.migrate(["ann"]).ok
