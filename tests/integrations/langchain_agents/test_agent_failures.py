"""A memory that fails costs the memory, never the agent's answer."""

from __future__ import annotations

import json
import logging

import pytest

from deermem import Corruption, DeerMem, FactConflict, LockTimeout, Settings, StoreUnavailable
from deermem.integrations import tool_answers
from deermem.testing import scripted_chat_model, tool_call

pytest.importorskip("langchain")

from langchain.agents import create_agent

from deermem.integrations.langchain import DeerMemMiddleware

FROM_THE_FUTURE = '{"version": "9.0"}'


@pytest.fixture
def unreadable(root):
    """The store of a newer program."""
    home = root / "users" / "alice"
    home.mkdir(parents=True)
    (home / "memory.json").write_text(FROM_THE_FUTURE)
    return home


def answers(engine, *script, text="I live in Graz", **options):
    """The messages of one run."""
    agent = create_agent(
        scripted_chat_model(*script), middleware=[DeerMemMiddleware(engine, user_id="alice", **options)]
    )
    return agent.invoke({"messages": [("user", text)]}, {"configurable": {"thread_id": "t1"}})["messages"]


@pytest.mark.parametrize("recall", ["context", "search"])
def test_a_memory_that_can_not_be_read_is_logged_and_the_agent_answers(root, unreadable, clock, caplog, recall):
    with DeerMem(root, clock=clock) as engine, caplog.at_level(logging.WARNING, "deermem"):
        assert answers(engine, "Hello.", recall=recall)[-1].text == "Hello."
    assert "the memory could not be read, and the agent goes on without it" in caplog.text
    assert (unreadable / "memory.json").read_text() == FROM_THE_FUTURE


def test_a_conversation_that_can_not_be_written_is_logged_and_the_agent_answers(root, clock, caplog):
    settings = Settings(close_timeout_seconds=0)
    with DeerMem(root, settings, lambda messages: "", clock=clock) as engine:
        root.write_text("a file where the store should be")
        with caplog.at_level(logging.WARNING, "deermem"):
            assert answers(engine, "Hello.")[-1].text == "Hello."
    assert "the conversation could not be captured, and the agent goes on" in caplog.text


def test_a_tool_that_fails_says_so_to_the_model_and_no_path_with_it(root, unreadable, clock, caplog):
    with DeerMem(root, clock=clock) as engine, caplog.at_level(logging.WARNING, "deermem"):
        messages = answers(engine, tool_call("memory_search", query="Graz"), "Sorry.", tools=True, recall=None)
    told = json.loads(messages[-2].text)
    assert list(told) == ["error"]
    assert told["error"].startswith("memory_search failed: this memory can't be read as it is, and nothing was changed")
    assert str(root) not in told["error"]
    assert "memory_search failed" in caplog.text


def test_a_write_that_the_disk_refused_says_that_nothing_was_changed(root, clock, caplog):
    with DeerMem(root, clock=clock) as engine:
        root.write_text("a file where the store should be")
        messages = answers(engine, tool_call("memory_add", content="Likes tea"), "Sorry.", tools=True, recall=None)
    assert json.loads(messages[-2].text) == {
        "error": "memory_add failed: the storage refused it, and nothing was changed; go on without it"
    }
    assert "memory_add failed" in caplog.text


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (StoreUnavailable("/m/x: no space"), "memory_delete failed: the storage refused it, and nothing was changed"),
        (StoreUnavailable("/m/x", outcome_unknown=True), "memory_delete failed: nothing is known of the outcome"),
        (LockTimeout("/m/.lock is held"), "memory_delete failed: another program is writing to this memory, and noth"),
        (FactConflict("/m/x is being edited"), "a person edits this memory right now, and nothing was changed"),
        (
            Corruption("/m/x: no title"),
            "memory_delete failed: this memory can't be read as it is, and nothing was chan",
        ),
        (RuntimeError("/m/x"), "memory_delete failed: nothing is known of the outcome"),
    ],
)
def test_a_tool_is_as_precise_as_the_error_and_names_no_path(problem, told):
    class Failing:
        def delete(self, fact_id):
            raise problem

    answer = tool_answers.delete(Failing(), "fact_1")
    assert answer.refused
    assert json.loads(answer.text)["error"].startswith(told)
    assert "/m" not in answer.text


def test_what_fails_in_the_agent_itself_is_not_swallowed(engine):
    with pytest.raises(ConnectionError, match="the provider is away"):
        answers(engine, ConnectionError("the provider is away"))
