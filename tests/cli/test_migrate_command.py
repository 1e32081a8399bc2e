"""migrate: users are selected, taken one by one, and told of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def titles(call, *options: str, user: str = "alice") -> list[str]:
    return sorted(fact["content"] for fact in call("--json", "list", *options, user=user).json)


def old_store(root: Path, user: str, facts: list[dict[str, object]]) -> Path:
    path = root / "users" / user / "memory.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"version": "1.0", "user": {}, "history": {}, "facts": facts}))
    return path


@pytest.fixture
def old_stores(root):
    """Two users that can be migrated."""
    old_store(root, "ana", [{"id": "a1", "content": "Likes tea"}, {"id": "a2", "content": "Works at night"}])
    old_store(root, "ben", [{"id": "b1", "content": "先给结论"}])


def test_a_dry_run_says_what_would_be_done_and_does_nothing(call, old_stores, root, memory_files):
    before = memory_files(root)
    answer = call("migrate", "--all-users", "--dry-run")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert [line for line in lines if line[0] != " "] == [
        "ana: would migrate 2 facts",
        "ben: would migrate 1 fact",
        "migrated=0 planned=2 current=0 failed=0",
    ]
    assert "  would back up memory.json as memory.json.v1.bak" in lines
    assert "  would migrate 2 facts" not in lines
    assert memory_files(root) == before


def test_all_users_are_migrated_and_then_current(call, old_stores, root):
    source = (root / "users/ana/memory.json").read_bytes()
    answer = call("migrate", "--all-users")
    assert answer.code == 0
    assert answer.out.splitlines() == [
        "ana: migrated 2 facts",
        "ben: migrated 1 fact",
        "migrated=2 planned=0 current=0 failed=0",
    ]
    assert (root / "users/ana/memory.json.v1.bak").read_bytes() == source
    again = call("migrate", "--all-users")
    assert again.out.splitlines()[:2] == ["ana: already current", "ben: already current"]
    assert again.out.splitlines()[2] == "migrated=0 planned=0 current=2 failed=0"
    assert titles(call, user="ana") == ["Likes tea", "Works at night"]


def test_migration_takes_the_users_that_are_named(call, old_stores, root):
    answer = call("migrate", "--user-id", "ben", "--json")
    assert answer.code == 0
    assert answer.json.keys() == {"users", "dry_run", "interrupted", "migrated", "planned", "current", "failed"}
    assert answer.json["interrupted"] is False
    assert (answer.json["migrated"], answer.json["users"][0]["user"]) == (1, "ben")
    assert "ben: migrated 1 fact" in answer.err
    assert not (root / "users/ana/memory.json.v1.bak").exists()


def test_the_global_user_is_a_selection(call, old_stores, root):
    assert call("migrate", user="ben").out.splitlines()[0] == "ben: migrated 1 fact"


def test_the_storage_path_is_the_root(old_stores, root, program):
    done = program("migrate", "--all-users", "--storage-path", root, "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "migrated=0 planned=2 current=0 failed=0"


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_a_user_who_stops_fails_the_call_and_no_other_user(call, old_stores, root, options):
    broken = old_store(root, "zed", [{"id": "z1", "content": 17}])
    source = broken.read_bytes()
    answer = call("migrate", "--all-users", *options)
    assert answer.code == 1
    lines = answer.out.splitlines()
    assert "zed: failed" in lines
    assert any(line.startswith("  ") and "z1" in line for line in lines)
    assert lines[-1].endswith("failed=1")
    assert broken.read_bytes() == source
    assert (root / "users/ana/memory.json.v1.bak").exists() is (options == [])


def test_an_agent_who_stops_does_not_stop_the_user(call, old_stores, root):
    broken = root / "users/ana/agents/coder/memory.json"
    broken.parent.mkdir(parents=True)
    broken.write_text('{"version": "1.0", "facts": [{"id": "c1", "content": 17}]}')
    answer = call("migrate", "--user-id", "ana")
    assert answer.code == 1
    assert answer.out.splitlines()[0] == "ana: failed, but 2 facts migrated"
    assert "coder" in answer.out.splitlines()[1]
    assert titles(call, user="ana") == ["Likes tea", "Works at night"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ([], "--all-users"),
        (["--all-users", "--user-id", "ana"], "--all-users"),
        (["--all-users", "--storage-path", "/elsewhere"], "--storage-path"),
        (["--all-users", "--agent", "coder"], "--agent"),
        (["--all-users", "--storage-path", ""], "--storage-path"),
    ],
)
def test_a_wrong_selection_is_refused(call, old_stores, root, memory_files, options, named):
    before = memory_files(root)
    answer = call("migrate", *options)
    assert answer.code == 2
    assert named in answer.complaint
    assert memory_files(root) == before


def test_a_store_that_is_not_there_is_named(call, root):
    answer = call("migrate", "--all-users")
    assert answer.code == 1
    assert str(root) in answer.complaint
    assert not root.exists()


def test_progress_goes_where_the_answer_is_not(call, old_stores):
    answer = call("migrate", "--all-users", "--dry-run", "--json")
    assert [user["problems"] for user in answer.json["users"]] == [[], []]
    assert "would back up memory.json as memory.json.v1.bak" in answer.json["users"][0]["steps"]
    assert answer.err == "ana: would migrate 2 facts\nben: would migrate 1 fact\n"
    answer = call("migrate", "--all-users")
    assert answer.err == ""
    assert answer.out.count("ana: ") == 1


@pytest.mark.parametrize("command", [["delete", "a1"], ["clear", "--yes"], ["clear", "--all-agents", "--yes"]])
def test_a_deletion_names_the_backup_that_still_tells(call, old_stores, root, command):
    backup = root / "users/ana/memory.json.v1.bak"
    answer = call(*command, user="ana")
    assert answer.code == 0
    assert answer.err == (
        f"deermem: {backup} still holds what was known before the migration; remove it to erase that too\n"
    )
    assert "Likes tea" in backup.read_text()
    backup.unlink()
    assert call("clear", "--all-agents", "--yes", user="ana").err == ""


def test_a_deletion_of_one_agent_names_its_own_backup(call, old_stores, root):
    source = root / "users/ana/agents/coder/memory.json"
    source.parent.mkdir(parents=True)
    source.write_text('{"version": "1.0", "facts": [{"id": "c1", "content": "Types"}]}')
    assert call("migrate", user="ana").code == 0
    assert call("clear", "--agent", "coder", "--yes", user="ana").err.count("agents/coder/memory.json.v1.bak") == 1
    assert call("clear", "--all-agents", "--yes", user="ana").err.count(".v1.bak still holds") == 2


def test_a_hint_at_other_agents_migrates_none_of_them(call, root):
    source = root / "users/ana/agents/coder/memory.json"
    source.parent.mkdir(parents=True)
    source.write_text('{"version": "1.0", "facts": [{"id": "c1", "content": "Types"}]}')
    assert "coder (1 fact)" in call("list", user="ana").err
    assert source.is_file()
    source.write_text('{"version": "1.0", "facts": [{"id": "c1", "content": 17}]}')
    assert (call("list", user="ana").code, call("list", user="ana").err) == (0, "no facts\n")


def test_a_list_of_all_agents_shows_facts_that_nobody_migrated_yet(call, old_stores):
    """Of a user who has no folder of an agent so far."""
    assert [line.split()[:2] for line in call("list", "--all-agents", user="ana").out.splitlines()] == [
        ["__default__", "a1"],
        ["__default__", "a2"],
    ]
