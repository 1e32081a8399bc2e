"""A user or agent that is not there: reads stay empty and say so, writes say whom they made."""

from __future__ import annotations

import json

import pytest

from deermem import DeerMem

READS = [
    ["list"],
    ["list", "--all-agents"],
    ["search", "tabs"],
    ["search", "tabs", "--explain"],
    ["context"],
    ["context", "--explain"],
    ["summaries"],
    ["evictions"],
    ["export"],
    ["clear", "--yes"],
]
OF_A_USER = [["stats"], ["check"], ["reindex"], ["queue"]]


@pytest.mark.parametrize("command", [*READS, *OF_A_USER], ids=" ".join)
def test_a_mistyped_user_is_named_and_nothing_is_made(call, add, root, memory_files, command):
    add("Prefers tabs")
    before = memory_files(root)
    for form in ([], ["--json"]):
        answer = call(*form, *command, user="alcie")
        assert (answer.code, answer.complaint) == (0, f"there is no user 'alcie' in {root}; did you mean alice?")
    assert json.loads(answer.out) is not None
    assert memory_files(root) == before


@pytest.mark.parametrize("command", [command for command in READS if "--all-agents" not in command], ids=" ".join)
def test_a_mistyped_agent_is_named(call, add, command):
    add("Prefers tabs", "--agent", "coder")
    answer = call("--agent", "codr", *command, user="alice")
    assert (answer.code, answer.complaint) == (0, "user 'alice' has no agent 'codr'; did you mean coder?")


@pytest.mark.parametrize("command", [["show", "x"], ["update", "x", "--content", "y"], ["delete", "x"], ["edit", "x"]])
def test_a_fact_of_a_mistyped_user_is_said_to_be_one(call, add, root, command):
    add("Prefers tabs")
    answer = call(*command, user="alcie")
    assert answer.code == 1
    assert answer.complaint.endswith(f"; there is no user 'alcie' in {root}; did you mean alice?")
    assert call(*command).complaint.endswith("; no --user is given, and the store has the user alice")


def test_who_is_there_is_named_where_nobody_is_meant(call, add, root):
    add("Prefers tabs")
    add("Prefers blanks", user="bob")
    asked = f"there is no user 'zoe' in {root}; it has "
    assert call("list", user="zoe").complaint == asked + "the users alice and bob"
    assert call("list").err == "no facts; no --user is given, and the store has the users alice and bob\n"
    assert call("list", "--agent", "coder", user="alice").complaint == (
        "user 'alice' has no agent 'coder'; only the default one is there, without --agent"
    )
    for number in range(4):
        add("Something", user=f"user-{number}")
    assert call("list", user="zoe").complaint == asked + "6 users, which `deermem stats` lists"


def test_ids_that_are_no_folder_names_and_other_cases_are_understood(call, add):
    add("Prefers tabs", user="alice@example.org")
    assert "did you mean alice-example-org-" in call("list", user="alcie@example.org").complaint
    assert "did you mean alice-example-org-" in call("list", user="ALICE@example.org").complaint
    assert call("list", user="alice@example.org").err == ""


def test_the_first_fact_says_whose_it_is(call, add):
    assert " for the new user alice: Prefers tabs" in call("add", "Prefers tabs", user="alice").out
    assert "new" not in call("add", "Prefers pears", user="alice").out
    assert " for the new agent coder: " in call("add", "Prefers blanks", "--agent", "coder", user="alice").out
    assert "new" not in call("add", "Nobody's").out


def test_an_empty_store_says_only_that(call, root):
    assert call("list", user="alice").complaint == f"there is no store at {root} yet"


def test_an_engine_and_a_memory_say_what_they_are(root):
    with DeerMem(root) as engine:
        assert repr(engine) == f"DeerMem({str(root)!r})"
        assert repr(engine.memory("alice", "coder")) == "Memory(user_id='alice', agent_name='coder')"
