"""reindex, check, stats."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def filled(add):
    add("User prefers TypeScript")
    add("Type hints in every module", "--agent", "coder")
    add("Bob's fact", user="bob")


@pytest.fixture
def broken_file(call, add, filled) -> Path:
    """A fact file of alice that a person left half-written."""
    fact_id = add("Deploys go out on Tuesdays.")
    path = Path(call("--json", "show", fact_id, user="alice").json["path"])
    path.write_text("---\nid: [\n---\n\nbroken\n", encoding="utf-8")
    return path


def test_stats_count_one_user_or_all(call, filled, root):
    everything = call("--json", "stats").json
    assert everything.keys() == {"root", "users", "facts", "unreadable", "waiting", "index_bytes", "buckets"}
    assert (everything["root"], everything["users"], everything["facts"]) == (str(root), 2, 3)
    assert everything["unreadable"] == 0
    alice = call("--json", "stats", user="alice").json
    assert {(item["user_id"], item["agent"], item["facts"]) for item in alice["buckets"]} == {
        ("alice", "__default__", 1),
        ("alice", "coder", 1),
    }
    text = call("stats").out
    assert text.startswith(f"{root}: 2 users, 3 facts\n")
    assert ["bob", "__default__"] in [line.split()[:2] for line in text.splitlines()]


def test_stats_of_nothing(call, root):
    assert call("--json", "stats").json["facts"] == 0
    assert not root.exists()


def test_reindex_builds_the_index_again(call, filled, root):
    for folder in list(root.rglob(".retrieval")):
        shutil.rmtree(folder)
    report = call("--json", "reindex", user="alice").json
    assert report == {"supported": True, "indexed": 2, "failed": 0, "users": 1}
    assert call("reindex", "--all").out == "indexed 3 facts\n"
    assert len(call("--json", "search", "typescript", user="alice").json) == 1


def test_reindex_counts_what_it_can_not_read(call, broken_file):
    answer = call("reindex", user="alice")
    assert answer.code == 0
    assert answer.out == "indexed 2 facts, 1 unreadable (see deermem check)\n"


@pytest.mark.parametrize("command", ["check", "doctor"])
def test_a_store_in_order_passes(call, filled, command):
    answer = call(command, "--all")
    assert (answer.code, answer.err) == (0, "")
    assert [item for item in call("--json", command, "--all").json if item["severity"] == "error"] == []


def test_check_of_nothing(call):
    assert call("check").out == "everything is in order\n"
    assert call("--json", "check").json == []


def test_check_names_the_file_that_can_not_be_read(call, broken_file):
    answer = call("check", user="alice")
    assert answer.code == 1
    assert any(line.startswith("error: ") and str(broken_file) in line for line in answer.out.splitlines())
    assert answer.out.splitlines()[-1].startswith("1 error, ")
    report = call("--json", "check", user="alice")
    assert report.code == 1
    (error,) = [item for item in report.json if item["severity"] == "error"]
    assert error.keys() == {"severity", "code", "path", "message", "line", "hint", "fixed"}
    assert error["path"] == str(broken_file)


def test_check_looks_at_the_user_that_is_named_or_at_all(call, broken_file):
    assert call("check", user="bob").code == 0
    assert call("check", "--all").code == 1


def test_check_changes_nothing(call, broken_file, root, memory_files):
    before = memory_files(root)
    call("check", "--all")
    assert memory_files(root) == before


@pytest.mark.parametrize("command", ["check", "reindex"])
def test_all_and_one_user_exclude_each_other(call, command):
    answer = call(command, "--all", user="alice")
    assert answer.code == 2
    assert "--all" in answer.complaint
