"""The cap on facts as the command line sets it and tells of it; places that can't be what they are given as."""

from __future__ import annotations

import pytest

RAISED = "--max-facts N or $DEERMEM_MAX_FACTS raise it, 0 is no limit"


@pytest.fixture
def full(add) -> list[str]:
    """Ten facts, the first of the lowest confidence."""
    return [add(f"Fact number {number}", "--confidence", f"0.{number + 2}") for number in range(8)] + [
        add(f"Sure fact {number}", "--confidence", "1") for number in range(2)
    ]


def ids(call) -> set[str]:
    return {fact["id"] for fact in call("--json", "list", user="alice").json}


def test_an_eviction_is_said(call, full):
    answer = call("--max-facts", "10", "add", "One more", "--confidence", "0.9", user="alice")
    assert answer.code == 0
    assert answer.err == f"deermem: fact {full[0]} was removed to keep the cap of 10 facts; {RAISED}\n"
    assert len(ids(call)) == 10
    assert full[0] not in ids(call)


def test_an_eviction_is_in_the_json_document(call, full):
    answer = call("add", "One more", "--confidence", "0.9", "--json", "--max-facts", "10", user="alice")
    assert answer.json["evicted"] == [full[0]]
    assert full[0] in answer.err
    assert call("--json", "add", "Another", user="alice").json["evicted"] == []


def test_an_eviction_by_a_fact_from_the_editor_is_said(call, full, monkeypatch, tmp_path):
    script = tmp_path / "editor"
    script.write_text("#!/bin/sh\nprintf 'Written by hand.\\n' >> \"$1\"\n")
    script.chmod(0o700)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", str(script))
    answer = call("--json", "--max-facts", "10", "add", "--edit", "--confidence", "0.9", user="alice")
    assert (answer.json["content"], answer.json["evicted"]) == ("Written by hand.", [full[0]])
    assert answer.err == f"deermem: fact {full[0]} was removed to keep the cap of 10 facts; {RAISED}\n"


def test_an_update_evicts_nothing(call, full):
    answer = call("--max-facts", "10", "update", full[3], "--confidence", "0.1", user="alice")
    assert (answer.code, answer.err) == (0, "")
    assert ids(call) == set(full)


def test_a_fact_that_would_go_at_once_says_how_to_raise_the_cap(call, full):
    answer = call("--max-facts", "10", "add", "Hardly sure", "--confidence", "0.1", user="alice")
    assert answer.code == 1
    assert answer.complaint.endswith(RAISED)
    assert ids(call) == set(full)


def test_zero_is_no_limit(call):
    document = b'{"facts": [' + b", ".join(b'{"content": "Fact %d"}' % number for number in range(120)) + b"]}"
    answer = call("--max-facts", "0", "import", "-", user="alice", stdin=document)
    assert (answer.out, answer.err) == ("imported 120 facts for the new user alice\n", "")
    assert len(ids(call)) == 120


def test_the_environment_sets_the_cap_and_the_option_wins(call, full, monkeypatch):
    monkeypatch.setenv("DEERMEM_MAX_FACTS", "10")
    assert call("--json", "add", "One", "--confidence", "0.9", user="alice").json["evicted"] == [full[0]]
    assert call("--json", "--max-facts", "0", "add", "Two", user="alice").json["evicted"] == []
    monkeypatch.setenv("DEERMEM_MAX_FACTS", "")
    assert call("--json", "add", "Three", user="alice").json["evicted"] == []


@pytest.mark.parametrize("word", ["many", "5", "-1", "1e3", "100001"])
def test_a_wrong_cap_is_named(call, root, monkeypatch, word):
    answer = call("--max-facts", word, "add", "x")
    assert answer.code == 2
    assert word in answer.complaint
    monkeypatch.setenv("DEERMEM_MAX_FACTS", word)
    answer = call("add", "x")
    assert answer.code == 2
    assert answer.complaint.startswith(f"$DEERMEM_MAX_FACTS is {word!r}; give 0 (no limit) or a whole number from 10")
    assert not root.exists()


READING = [["list"], ["search", "x"], ["check"], ["stats"], ["context"], ["summaries"], ["export"], ["reindex"]]


@pytest.mark.parametrize("command", READING, ids=lambda command: command[0])
def test_a_store_that_is_not_there_is_said(call, root, command):
    for options in ([], ["--json"]):
        answer = call(*command, *options)
        assert (answer.code, answer.err) == (0, f"deermem: there is no store at {root} yet\n")
    assert not root.exists()


@pytest.mark.parametrize("below", ["", "/deeper"])
def test_an_index_root_that_is_a_file_is_named(call, add, tmp_path, below):
    add("User prefers TypeScript")
    (tmp_path / "file").write_text("mine")
    answer = call("--index-root", f"{tmp_path / 'file'}{below}", "search", "typescript", user="alice")
    assert answer.code == 2
    assert answer.complaint == (
        f"--index-root {tmp_path / 'file'}{below} can't be a folder: {tmp_path / 'file'} is a file; give a folder"
    )


def test_an_index_root_that_is_not_there_is_made(call, add, tmp_path):
    add("User prefers TypeScript")
    answer = call("--json", "--index-root", tmp_path / "a" / "b", "search", "typescript", user="alice")
    assert len(answer.json) == 1
    assert len(list((tmp_path / "a" / "b").rglob("index.sqlite3"))) == 1
