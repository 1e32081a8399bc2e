"""Whose memory a run uses, and what becomes of a run that doesn't say."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass

import pytest

from deermem import DeerMem, InvalidInput, Settings
from deermem.testing import answer, scripted_chat_model

pytest.importorskip("langchain")

from langchain.agents import create_agent

from deermem.integrations.langchain import DeerMemMiddleware, FromRun, Run, memory_tools


@dataclass
class Context:
    user_id: object = None
    agent_name: str | None = None


def shown(engine, *, context=None, configurable=None, **options):
    """What the model is told of the memory in a run of its own."""
    model = scripted_chat_model("ok")
    agent = create_agent(model, middleware=[DeerMemMiddleware(engine, capture=False, **options)])
    agent.invoke({"messages": [("user", "hi")]}, {"configurable": configurable or {}}, context=context)
    return str(model.prompts[0])


@pytest.fixture
def memories(engine):
    for user, agent in ((None, None), ("alice", None), ("alice", "coder"), ("42", None), ("a@b.example", None)):
        engine.memory(user, agent).add(f"Is {user} with {agent}")
    return engine


@pytest.mark.parametrize(
    ("context", "configurable", "options", "expected"),
    [
        (Context("alice"), None, {}, "Is alice with None"),
        ({"user_id": "alice"}, None, {}, "Is alice with None"),
        (None, {"user_id": "alice"}, {}, "Is alice with None"),
        (Context(), {"user_id": "alice"}, {}, "Is alice with None"),
        (Context("alice", "Coder"), None, {}, "Is alice with coder"),
        (Context("alice"), {"agent_name": "coder"}, {}, "Is alice with coder"),
        (Context("alice"), {"user_id": "42"}, {}, "Is alice with None"),
        (Context(42), None, {}, "Is 42 with None"),
        (Context("a@b.example"), None, {}, "Is a@b.example with None"),
        (None, None, {"user_id": "alice"}, "Is alice with None"),
        (Context("42"), None, {"user_id": None}, "Is None with None"),
        (None, {"owner": "alice"}, {"user_id": FromRun("owner")}, "Is alice with None"),
        (Context("ALICE"), None, {"user_id": lambda run: run.context.user_id.lower()}, "Is alice with None"),
        (Context("alice"), None, {"agent_name": "coder"}, "Is alice with coder"),
    ],
)
def test_user_and_agent_come_from_where_they_are_said_to(memories, context, configurable, options, expected):
    told = shown(memories, context=context, configurable=configurable, **options)
    assert expected in told
    assert told.count("Is ") == 1


def test_a_run_without_a_user_ends_before_the_model_is_asked_and_says_what_to_do(engine):
    model = scripted_chat_model("never")
    agent = create_agent(model, middleware=[DeerMemMiddleware(engine)])
    for call in (agent.invoke, lambda state: asyncio.run(agent.ainvoke(state))):
        with pytest.raises(InvalidInput, match=r"says no user_id; pass context with user_id or config=.*user_id=…"):
            call({"messages": [("user", "hi")]})
    assert model.prompts == []


@pytest.mark.parametrize(
    ("context", "options", "message"),
    [
        (Context(True), {}, "user_id is bool; give text, a whole number or a UUID"),
        (Context(1.5), {}, "user_id is float"),
        (Context(""), {}, "user_id is empty"),
        (Context("alice", "no agent"), {}, "agent name 'no agent' is not valid"),
        (None, {"user_id": lambda run: None}, "user_id is None for this run"),
    ],
)
def test_a_name_that_can_not_be_ends_the_run(engine, context, options, message):
    with pytest.raises(InvalidInput, match=message):
        shown(engine, context=context, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recall": "all"}, "recall is 'all'"),
        ({"top_k": 0}, "top_k is 0"),
        ({"user_id": ""}, "user_id is empty"),
        ({"user_id": "alice", "agent_name": "no agent"}, "agent name"),
        ({"capture": "no"}, "capture is 'no'; give True, False or None"),
        ({"tools": []}, r"tools is \[\]"),
        ({"name": ""}, "name is ''; give letters"),
        ({"name": "a:b"}, "name is 'a:b'"),
        ({"name": "</memory>"}, "name is '</memory>'"),
        ({"name": 7}, "name is 7"),
    ],
)
def test_what_can_not_be_is_refused_when_the_middleware_is_made(engine, options, message):
    with pytest.raises(InvalidInput, match=message):
        DeerMemMiddleware(engine, **options)


def test_a_middleware_has_the_name_of_its_class_unless_it_is_given_one(engine):
    class Ours(DeerMemMiddleware):
        pass

    made = [DeerMemMiddleware(engine), Ours(engine), Ours(engine, name="team-2 notes")]
    assert [middleware.name for middleware in made] == ["DeerMemMiddleware", "Ours", "team-2 notes"]


@pytest.mark.parametrize("make", [DeerMemMiddleware, memory_tools])
def test_what_is_no_engine_is_named(make):
    with pytest.raises(InvalidInput, match="engine is str; give a DeerMem"):
        make("memory", user_id="alice")


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_a_thread_that_can_not_be_ends_the_run_before_the_model_is_asked(engine):
    model = scripted_chat_model("never")
    agent = create_agent(model, middleware=[DeerMemMiddleware(engine, user_id="a")])
    with pytest.raises(InvalidInput, match="thread_id is float"):
        agent.invoke({"messages": [("user", "hi")]}, {"configurable": {"thread_id": 1.5}})
    assert model.prompts == []


def test_no_user_is_refused_at_once_where_the_engine_wants_one(root):
    with DeerMem(root, Settings(strict_user_scope=True)) as engine, pytest.raises(InvalidInput, match="user_id"):
        memory_tools(engine, user_id=None)


def test_a_uuid_is_a_user_as_its_text_is(engine):
    user = uuid.UUID(int=7)
    engine.memory(str(user)).add("Likes tea")
    assert "Likes tea" in shown(engine, context=Context(user))


def test_the_mode_of_the_engine_decides_on_tools_and_capture(root, clock):
    for mode, names in (("tool", 4), ("middleware", 0)):
        with DeerMem(root, Settings(mode=mode), lambda messages: answer(), clock=clock) as engine:
            engine.memory("alice").clear()
            engine.memory("alice").add("Likes tea")
            model = scripted_chat_model("Noted.")
            memory = DeerMemMiddleware(engine, user_id="alice")
            config = {"configurable": {"thread_id": mode}}
            create_agent(model, middleware=[memory]).invoke({"messages": [("user", "I moved to Graz")]}, config)
            assert (len(model.tools), "Likes tea" in str(model.prompts)) == (names, mode == "middleware")
            assert engine.cancel("alice") == (mode == "middleware")
    with (
        DeerMem(root, Settings(mode="tool")) as engine,
        pytest.raises(InvalidInput, match='mode "tool" shows no facts'),
    ):
        DeerMemMiddleware(engine, recall="search")


def test_a_conversation_without_a_thread_is_named_by_its_first_message(engine, extractor):
    agent = create_agent(
        scripted_chat_model("Noted.", "Still noted."), middleware=[DeerMemMiddleware(engine, user_id="a")]
    )
    extractor.add(answer(facts=["Lives in Graz"]), answer())
    state = agent.invoke({"messages": [("user", "I live in Graz")]})
    assert engine.flush(30)
    (fact,) = engine.memory("a").list()
    assert fact.source.thread_id == state["messages"][0].id
    agent.invoke({"messages": [*state["messages"], ("user", "Remember that I cycle")]})
    assert engine.flush(30)
    assert "I live in Graz" not in extractor.prompts[1][1]["content"]
    assert "Remember that I cycle" in extractor.prompts[1][1]["content"]


def test_what_a_run_says_is_read_from_its_context_before_what_is_configurable():
    run = Run({"user_id": "a"}, {"user_id": "b", "thread_id": 7})
    assert (run.value("user_id"), run.value("gone"), run.thread_id) == ("a", None, "7")
    assert FromRun("gone", required=False)(run) is None
    with pytest.raises(InvalidInput, match="says no gone"):
        FromRun("gone")(run)
