"""Bad input: one line that says what, where and what to do; an exit code; nothing changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

WRONG_CALLS = {
    "a confidence that is a word": (["add", "x", "--confidence", "high"], "'high' is not a number"),
    "a confidence out of range": (["add", "x", "--confidence", "95"], "95"),
    "a confidence that is no number": (["add", "x", "--confidence", "nan"], "nan"),
    "no content": (["add", ""], "content is empty"),
    "blank content": (["add", " \n\t"], "content is empty"),
    "invisible content": (["add", "\u200b"], "content is empty"),
    "content that no file can hold": (["add", "a\udcffb"], "Unicode"),
    "content that is too long": (["add", "x" * 70_000], "70000 bytes"),
    "a blank topic": (["add", "x", "--topic", " "], "topic"),
    "a category of two lines": (["add", "x", "--category", "a\nb"], "category"),
    "a wrong number of days": (["add", "x", "--valid-days", "soon"], "'soon'"),
    "no days": (["add", "x", "--valid-days", "0"], "0"),
    "an agent that is a path": (["list", "--agent", "../x"], "'../x'"),
    "an agent with an underscore": (["add", "x", "--agent", "my_agent"], "'my_agent'"),
    "an empty agent": (["list", "--agent", ""], "--agent"),
    "an empty user": (["list", "--user", ""], "--user"),
    "an empty root": (["list", "--root", ""], "--root"),
    "a user that is too long": (["add", "x", "--user", "u" * 200], "128"),
    "an id that is a path": (["show", "../../x"], "'../../x'"),
    "an id that is too long": (["delete", "f" * 300], "300 characters"),
    "no change": (["update", "fact_1"], "nothing to change"),
    "a confidence that is a word, in an update": (["update", "fact_1", "--confidence", "low"], "'low'"),
    "a time that is none": (["search", "x", "--since", "tomorrow"], "'tomorrow' is not a time"),
    "an end that is none": (["search", "x", "--until", "2026-13-45"], "'2026-13-45' is not a time"),
    "no hits at all": (["search", "x", "-k", "0"], "0"),
    "why without an explanation": (["search", "x", "--why", "y"], "--why goes with --explain"),
    "an explanation over all agents": (["search", "x", "--explain", "--all-agents"], "--explain looks at one agent"),
    "one agent and all": (["search", "x", "--all-agents", "--agent", "coder"], "--all-agents"),
    "clear of one agent and all": (["clear", "--all-agents", "--agent", "coder", "--yes"], "--all-agents"),
    "a token for two facts": (["delete", "a", "b", "--expected", "3"], "--expected"),
    "an agent's stats": (["stats", "--agent", "coder"], "--agent"),
    "a negative limit": (["list", "--limit", "-1"], "-1"),
    "an unknown command": (["lst"], "lst"),
    "an unknown option": (["list", "--jason"], "--jason"),
    "no text": (["search"], "TEXT"),
    "a text that looks like an option": (["add", "-- dash"], "put -- before a text that begins with a dash"),
    "a text without quotes": (["add", "two", "words"], "put quotes around a text of several words"),
    "a limit that is a word": (["list", "--limit", "x"], "'x' is not a number"),
    "an end before the start": (["search", "x", "--since", "2026-02-01", "--until", "2026-01-01"], "--since is later"),
    "a NUL in a text": (["search", "a\0b"], "argument 4 holds a NUL character"),
    "a NUL in an option": (["list", "--category", "a\0b"], "--category holds a NUL character"),
    "a NUL in an option with a sign": (["list", "--user=a\0b"], "--user holds a NUL character"),
    "a revision that is none": (["summaries", "set", "workContext", "x", "--expected", "new"], "'new'"),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_a_wrong_call_is_named_and_makes_nothing(call, root, name):
    arguments, named = WRONG_CALLS[name]
    answer = call(*arguments)
    assert answer.code == 2
    assert named in answer.complaint
    assert answer.out == ""
    assert not root.exists()


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_a_wrong_call_is_one_json_document_too(call, name):
    arguments, _ = WRONG_CALLS[name]
    answer = call(*arguments, "--json")
    assert answer.code == 2
    error = answer.json["error"]
    assert answer.json.keys() == {"error"}
    assert error.keys() == {"type", "message", "hint"}
    assert error["hint"]
    assert answer.complaint == f"{error['message']}; {error['hint']}"


@pytest.mark.parametrize("option", ["--user", "--agent", "--root", "--index-root", "--max-facts"])
def test_an_option_whose_value_is_missing_is_not_passed_over(call, add, root, memory_files, option):
    """Else `clear --user $WHO` with nothing in WHO would clear another memory."""
    add("Nobody's fact", user=None)
    before = memory_files(root)
    answer = call("clear", "--yes", option)
    assert (answer.code, f"'{option}' requires an argument" in answer.complaint) == (2, True)
    assert memory_files(root) == before


def test_standard_input_that_is_no_text_is_refused(call, root):
    answer = call("add", "-", stdin=b"ab\xff")
    assert answer.code == 2
    assert "UTF-8 at byte 2" in answer.complaint
    assert not root.exists()


@pytest.mark.parametrize(
    "command", [["show", "fact_9"], ["update", "fact_9", "--content", "x"], ["delete", "fact_9"]], ids=lambda c: c[0]
)
def test_an_unknown_id_is_named(call, add, root, memory_files, command):
    add("A fact")
    before = memory_files(root)
    answer = call("--json", *command, user="alice")
    assert answer.code == 1
    assert "fact_9" in answer.complaint
    assert answer.json["error"]["type"] == "FactNotFound"
    assert memory_files(root) == before


COMMANDS = [["list"], ["add", "x"], ["search", "x"], ["stats"], ["check"], ["context"], ["export"], ["clear", "--yes"]]


@pytest.mark.parametrize("user", [None, "alice"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
def test_a_root_that_is_a_file_is_named(call, tmp_path, command, user):
    root = tmp_path / "file"
    root.write_text("mine")
    answer = call(*command, user=user, at=root)
    assert answer.code in (1, 2)
    assert str(root) in answer.complaint
    assert "unexpected" not in answer.complaint
    assert root.read_text() == "mine"


def test_a_root_below_a_file_is_named(call, tmp_path):
    (tmp_path / "file").write_text("mine")
    answer = call("add", "x", user="alice", at=tmp_path / "file" / "store")
    assert answer.code in (1, 2)
    assert str(tmp_path / "file") in answer.complaint
    assert "unexpected" not in answer.complaint


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
def test_a_root_that_may_not_be_read_is_named(call, add, root, unprivileged, memory_files, command):
    add("A fact")
    call(*command, user="warm")
    before = memory_files(root)
    mode = root.stat().st_mode
    root.chmod(0)
    try:
        with unprivileged():
            answer = call(*command, user="alice")
    finally:
        root.chmod(mode)
    assert answer.code == 1
    assert str(root) in answer.complaint
    assert "unexpected" not in answer.complaint
    assert memory_files(root) == before


def test_one_user_and_the_no_user_root_do_not_mix(call, add):
    add("Alice's fact")
    fact_id = call("--json", "list", user="alice").json[0]["id"]
    assert call("show", fact_id).code == 1
    assert call("show", fact_id, user="bob").code == 1


def test_a_broken_file_does_not_hide_the_others(call, add):
    kept = add("A fact")
    broken = Path(call("--json", "show", add("Another fact"), user="alice").json["path"])
    broken.write_bytes(b"\x00\xff")
    answer = call("--json", "list", user="alice")
    assert answer.code == 0
    assert kept in [fact["id"] for fact in answer.json]


def test_without_a_home_the_default_root_is_used(add, call, program):
    data = Path(os.environ["DEERMEM_DATA_DIR"])
    done = program("--user", "alice", "add", "A fact")
    assert (done.returncode, done.stderr) == (0, "")
    assert (data / "users" / "alice" / "memory.json").is_file()
