"""migrate --verify and --restore: what is said, and what the call ends with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

FACTS = [{"id": "a1", "content": "Likes tea"}, {"id": "a2", "content": "Works at night", "category": "goal"}]


@pytest.fixture
def home(root) -> Path:
    """ana, in version 1: two facts, a summary, and a document of coder's."""
    home = root / "users/ana"
    (home / "agents/coder").mkdir(parents=True)
    shared = {"version": "1.0", "user": {"workContext": {"summary": "Paints."}}, "history": {}, "facts": FACTS}
    (home / "memory.json").write_text(json.dumps(shared))
    own = {"version": "1.0", "facts": [{"id": "c1", "content": "Types"}]}
    (home / "agents/coder/memory.json").write_text(json.dumps(own))
    return home


def fact_file(home: Path, fact_id: str) -> Path:
    return next((home / "agents").rglob(f"{fact_id}.md"))


def migrate(call, *options: object):
    return call("migrate", *options, "--user-id", "ana")


def test_a_migration_is_verified_and_so_is_a_user_who_is_current(call, home):
    first = migrate(call, "--verify")
    assert (first.code, first.out.splitlines()[0]) == (0, "ana: migrated 3 facts, verified 3 facts and 1 summary")
    again = migrate(call, "--verify")
    assert (again.code, again.out.splitlines()[0]) == (0, "ana: already current, verified 3 facts and 1 summary")
    found = migrate(call, "--verify", "--json").json["users"][0]["verified"]
    assert found == {"facts": 3, "summaries": 1, "changed": [], "backups": 2}
    assert migrate(call, "--json").json["users"][0]["verified"] is None


def test_what_somebody_changed_since_is_told_and_fails_nothing(call, home):
    migrate(call)
    call("update", "a1", "--content", "Likes coffee", user="ana")
    call("delete", "a2", user="ana")
    answer = migrate(call, "--verify")
    assert answer.code == 0
    assert answer.out.splitlines() == [
        "ana: already current, verified 1 fact and 1 summary, 2 changed since",
        "  fact 'a1' of __default__ was changed since: content, title, updated_at, revision",
        "  fact 'a2' of __default__ is gone: it was deleted, evicted or expired since",
        "migrated=0 planned=0 current=1 failed=0",
    ]


def test_a_long_list_of_changes_is_cut_where_it_is_text(call, root):
    home = root / "users/ana"
    home.mkdir(parents=True)
    facts = [{"id": f"f{number}", "content": f"Fact {number}"} for number in range(25)]
    (home / "memory.json").write_text(json.dumps({"version": "1.0", "facts": facts}))
    migrate(call)
    call("clear", "--yes", user="ana")
    lines = migrate(call, "--verify").out.splitlines()
    assert len(lines) == 23
    assert lines[21] == "  and 5 more were changed since; --json names them all"
    assert len(migrate(call, "--verify", "--json").json["users"][0]["verified"]["changed"]) == 25


def test_a_missing_fact_fails_the_call_by_its_id(call, home):
    migrate(call)
    fact_file(home, "a2").unlink()
    answer = migrate(call, "--verify")
    assert answer.code == 1
    lines = answer.out.splitlines()
    assert lines[0] == "ana: failed, verified 2 facts and 1 summary"
    assert lines[1].startswith("  fact 'a2' of __default__ is missing: ")
    assert "users/ana/memory.json.v1.bak" in lines[1]
    assert lines[-1] == "migrated=0 planned=0 current=0 failed=1"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--all-users", "--verify", "--dry-run"], "--dry-run"),
        (["--restore", "ana", "--verify"], "--restore"),
        (["--restore", "ana", "--all-users"], "--all-users"),
        (["--restore", "ana", "--user-id", "ben"], "--user-id"),
        (["--restore", "ana", "--user", "ben"], "--user"),
        (["--restore", "ana", "--agent", "coder"], "--agent"),
        (["--restore", "ana", "--restore", ""], "user_id"),
    ],
)
def test_options_that_exclude_each_other_are_refused(call, home, root, memory_files, options, named):
    migrate(call)
    before = memory_files(root)
    answer = call("migrate", *options)
    assert (answer.code, named in answer.complaint) == (2, True)
    assert memory_files(root) == before


def test_a_restore_brings_the_documents_back_and_a_migration_the_same_facts(call, home, root, memory_files):
    before = memory_files(root)
    migrate(call)
    migrated = memory_files(root)
    dry = call("migrate", "--restore", "ana", "--dry-run")
    assert dry.code == 0
    assert dry.out.splitlines() == [
        "ana: would go back to version 1",
        "  would put back memory.json from memory.json.v1.bak",
        "  would put back agents/coder/memory.json from agents/coder/memory.json.v1.bak",
        "  would remove 2 fact files of __default__",
        "  would remove 1 fact file of coder",
        "restored=0 planned=1 current=0 failed=0",
    ]
    assert memory_files(root) == migrated
    done = call("migrate", "--restore", "ana")
    assert (done.code, done.out.splitlines()) == (
        0,
        ["ana: put back 2 documents, removed 3 fact files", "restored=1 planned=0 current=0 failed=0"],
    )
    kept = {name: data for name, data in memory_files(root).items() if not name.endswith(".v1.bak")}
    assert kept == before
    again = call("migrate", "--restore", "ana")
    assert (again.code, again.out.splitlines()[0]) == (0, "ana: is of version 1 already")
    assert migrate(call, "--verify").out.splitlines()[0] == "ana: migrated 3 facts, verified 3 facts and 1 summary"
    assert memory_files(root).keys() == migrated.keys()


def test_a_restore_that_would_lose_something_names_it_and_changes_nothing(call, home, root, memory_files):
    migrate(call)
    call("update", "c1", "--content", "Types fast", "--agent", "coder", user="ana")
    call("add", "Sleeps at noon", user="ana")
    call("summaries", "set", "topOfMind", "Oils", user="ana")
    before = memory_files(root)
    answer = call("migrate", "--restore", "ana", "--restore", "nobody", "--json")
    assert answer.code == 1
    assert (answer.json["failed"], answer.json["restored"], answer.json["dry_run"]) == (2, 0, False)
    problems = answer.json["users"][0]["problems"]
    assert problems[0] == "summary topOfMind was changed since"
    assert any(line.startswith("fact 'fact_") and "__default__ is in no backup" in line for line in problems)
    assert any(line.startswith("fact 'c1' of coder was changed since: ") for line in problems)
    assert len(problems) == 3
    assert "there is no folder" in answer.json["users"][1]["problems"][0]
    assert "ana: not restored, nothing was changed" in answer.err
    assert memory_files(root) == before
