"""The four tools, as a model sees and calls them."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from deermem import DeerMem, InvalidInput, Settings
from deermem.testing import scripted_chat_model, tool_call

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from deermem.integrations.langchain import DeerMemMiddleware, memory_tools

NAMES = ["memory_search", "memory_add", "memory_update", "memory_delete"]


@pytest.fixture
def ask(engine):
    """Lets a model call tools, all at once, and gives what each answered; `user` None gives no user."""

    def ask(*calls, user="alice", through=None, thread="t1"):
        options = {"tools": memory_tools(engine)} if through is None else {"middleware": [through]}
        agent = create_agent(scripted_chat_model(list(calls), "done"), **options)
        config = {"configurable": {"thread_id": thread} if thread else {}}
        state = agent.invoke(
            {"messages": [("user", "hi")]}, config, context=None if user is None else {"user_id": user}
        )
        told = [message for message in state["messages"] if message.type == "tool"]
        answers = [json.loads(message.text) for message in told]
        assert [message.status for message in told] == ["error" if "error" in item else "success" for item in answers]
        return answers

    return ask


def test_the_model_is_offered_four_tools_and_no_word_of_users(engine):
    tools = memory_tools(engine)
    assert [tool.name for tool in tools] == NAMES
    offered = {tool.name: convert_to_openai_tool(tool)["function"] for tool in tools}
    parameters = {name: sorted(tool["parameters"]["properties"]) for name, tool in offered.items()}
    assert parameters == {
        "memory_search": ["category", "limit", "query"],
        "memory_add": ["category", "confidence", "content"],
        "memory_update": ["category", "confidence", "content", "fact_id"],
        "memory_delete": ["fact_id"],
    }
    needed = [tool["parameters"]["required"] for tool in offered.values()]
    assert needed == [["query"], ["content"], ["fact_id"], ["fact_id"]]
    assert "runtime" not in json.dumps(offered)
    assert all(tool["description"] for tool in offered.values())


@pytest.mark.parametrize("way", ["alone", "middleware"])
def test_a_fact_is_added_found_changed_and_deleted(engine, ask, way):
    through = None if way == "alone" else DeerMemMiddleware(engine, tools=True, recall=None, capture=False)
    (added,) = ask(tool_call("memory_add", content="Likes tea", category="preference", confidence=0.8), through=through)
    assert added == {"fact_id": added["fact_id"], "status": "added"}
    fact = engine.memory("alice").get(added["fact_id"])
    assert (fact.content, fact.category, fact.confidence) == ("Likes tea", "preference", 0.8)
    assert (fact.source.type, fact.source.thread_id) == ("conversation", "t1")
    (found,) = ask(tool_call("memory_search", query="tea"), through=through)
    assert (list(found), found["count"]) == (["results", "count"], 1)
    assert found["results"] == [
        {
            "fact_id": fact.id,
            "content": "Likes tea",
            "category": "preference",
            "confidence": 0.8,
            "updated": "2026-11-30",
        }
    ]
    (updated,) = ask(tool_call("memory_update", fact_id=fact.id, content="Likes coffee"), through=through)
    assert updated == {"fact_id": fact.id, "status": "updated"}
    assert engine.memory("alice").get(fact.id).content == "Likes coffee"
    (deleted,) = ask(tool_call("memory_delete", fact_id=fact.id), through=through)
    assert deleted == {"fact_id": fact.id, "status": "deleted"}
    assert engine.memory("alice").list() == []


def test_a_search_has_ten_results_unless_told_and_may_be_narrowed(engine, ask):
    for number in range(12):
        engine.memory("alice").add(f"Tea number {number}", category="preference" if number < 3 else "context")
    ten, three, two = ask(
        tool_call("memory_search", query="tea"),
        tool_call("memory_search", query="tea", category="preference"),
        tool_call("memory_search", query="tea", limit=2),
    )
    assert [found["count"] for found in (ten, three, two)] == [10, 3, 2]
    assert {fact["category"] for fact in three["results"]} == {"preference"}


def test_what_can_not_be_done_is_an_error_in_json(engine, ask):
    known = engine.memory("alice").add("Likes tea")
    told = ask(
        tool_call("memory_add", content="  likes TEA "),
        tool_call("memory_add", content="   "),
        tool_call("memory_update", fact_id="fact_gone", content="x"),
        tool_call("memory_update", fact_id=known.id),
        tool_call("memory_update", fact_id=known.id, content=" "),
        tool_call("memory_delete", fact_id="fact_gone"),
        tool_call("memory_delete", fact_id="../no"),
        tool_call("memory_search", query="tea", limit=0),
        tool_call("memory_add", content="Likes jam", confidence=7),
        tool_call("memory_add"),
    )
    assert all(list(answer) == ["error"] for answer in told)
    duplicate, blank, gone, nothing, blanked, deleted, bad, limit, sure, missing = (answer["error"] for answer in told)
    assert duplicate == f"Duplicate fact: {known.id} says so already"
    assert "content" in blank
    assert "content" in blanked
    assert gone == deleted == "there is no fact fact_gone; memory_search shows the ids"
    assert "nothing is to be changed" in nothing
    assert "../no" in bad
    assert limit.startswith("limit: ")
    assert sure.startswith("confidence: ")
    assert missing.startswith("content: ")
    assert engine.memory("alice").list() == [known]


@pytest.mark.parametrize("way", ["sync", "async"])
def test_what_is_refused_has_the_status_error_however_the_tool_is_called(engine, way):
    tools = memory_tools(engine, user_id="alice")
    message = tool_call("memory_delete", fact_id="fact_gone")
    (call,) = message.tool_calls
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "tools")
    node, delete, state = graph.compile(), tools[3], {"messages": [message]}
    if way == "sync":
        told = [node.invoke(state)["messages"][-1], delete.invoke(call)]
        bare = delete.invoke(call["args"])
    else:
        told = [asyncio.run(node.ainvoke(state))["messages"][-1], asyncio.run(delete.ainvoke(call))]
        bare = asyncio.run(delete.ainvoke(call["args"]))
    assert [(answer.status, answer.text) for answer in told] == [("error", bare)] * 2
    assert json.loads(bare) == {"error": "there is no fact fact_gone; memory_search shows the ids"}


def test_null_is_what_is_left_out(engine, ask):
    added, found = ask(
        tool_call("memory_add", content="Likes tea", category=None, confidence=None),
        tool_call("memory_search", query="jam", limit=None, category=None),
    )
    fact = engine.memory("alice").get(added["fact_id"])
    assert (fact.category, fact.confidence, found["count"]) == ("context", 0.5, 0)


def test_a_credential_is_refused_and_a_person_may_still_write_it(engine, ask):
    secret = "The Wi-Fi password is hunter2-Vx9qLw"
    by_hand = engine.memory("alice").add(secret)
    told = ask(
        tool_call("memory_add", content=secret + "!"),
        tool_call("memory_add", content="Likes tea", category="password=hunter2-Vx9qLw"),
        tool_call("memory_update", fact_id=by_hand.id, content=secret + ", at home"),
        tool_call("memory_add", content="Wants shorter password resets; may deploy on Fridays"),
        tool_call("memory_update", fact_id=by_hand.id, confidence=0.9),
    )
    refused = {"error": "this holds a credential (password), which no tool stores; leave it out, a person can still "}
    assert all(answer["error"].startswith(refused["error"]) for answer in told[:3])
    assert "hunter2" not in str(told)
    assert [answer["status"] for answer in told[3:]] == ["added", "updated"]
    assert engine.memory("alice").get(by_hand.id).content == secret


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("thread", ["a\0b", "a\ud800b"])
def test_a_thread_that_no_file_can_name_costs_the_source_and_not_the_fact(engine, caplog, thread):
    add = memory_tools(engine, user_id="alice")[1]
    told = add.invoke({"content": "Likes tea"}, {"configurable": {"thread_id": thread}})
    assert json.loads(told)["status"] == "added"
    assert engine.memory("alice").list()[0].source.type == "unknown"
    assert "stored without the conversation that it is from: thread_id " in caplog.text


def test_a_fact_that_the_cap_would_evict_at_once_is_an_error(root, clock):
    with DeerMem(root, Settings(max_facts=10), clock=clock) as engine:
        for number in range(10):
            engine.memory("alice").add(f"Fact {number}", confidence=0.9)
        agent = create_agent(
            scripted_chat_model(tool_call("memory_add", content="Unsure", confidence=0.1), "ok"),
            tools=memory_tools(engine, user_id="alice"),
        )
        answer = json.loads(agent.invoke({"messages": [("user", "hi")]})["messages"][-2].text)
    assert list(answer) == ["error"]


def test_tools_without_a_user_end_the_run_and_say_what_to_do(ask):
    with pytest.raises(InvalidInput, match="says no user_id; pass context"):
        ask(tool_call("memory_add", content="Likes tea"), user=None)


def test_without_a_thread_nobody_is_named_as_the_source(engine, ask):
    ask(tool_call("memory_add", content="Likes tea"), thread=None)
    assert engine.memory("alice").list()[0].source.type == "unknown"


def test_tools_of_two_users_in_one_agent_never_meet(engine, ask):
    ask(tool_call("memory_add", content="Likes tea"), user="alice")
    (found,) = ask(tool_call("memory_search", query="tea"), user="bob")
    assert found == {"results": [], "count": 0}
    fact = engine.memory("alice").list()[0]
    told = ask(
        tool_call("memory_update", fact_id=fact.id, content="x"),
        tool_call("memory_delete", fact_id=fact.id),
        user="bob",
    )
    assert [list(answer) for answer in told] == [["error"], ["error"]]
    assert engine.memory("alice").list() == [fact]


def test_calls_that_are_made_at_once_lose_nothing(engine, ask):
    told = ask(*(tool_call("memory_add", content=f"Fact {number}") for number in range(12)))
    ids = [fact.id for fact in engine.memory("alice").list()]
    assert sorted(answer["fact_id"] for answer in told) == sorted(ids)
    assert len(set(ids)) == 12


def test_async_calls_that_are_made_at_once_lose_nothing_and_free_the_loop(engine):
    calls = [tool_call("memory_add", content=f"Fact {number}") for number in range(12)]
    loops = []
    memory = engine.memory

    def watched(*names):
        loops.append(threading.current_thread() is threading.main_thread())
        return memory(*names)

    engine.memory = watched
    agent = create_agent(scripted_chat_model(calls, "done"), tools=memory_tools(engine))
    loops.clear()
    asyncio.run(agent.ainvoke({"messages": [("user", "hi")]}, context={"user_id": "alice"}))
    assert loops == [False] * 12
    assert len(memory("alice").list()) == 12


def test_two_agents_that_write_at_once_lose_nothing(root, clock):
    def run(engine, name):
        calls = [[tool_call("memory_add", content=f"{name} {number}")] for number in range(5)]
        agent = create_agent(scripted_chat_model(*calls, "done"), tools=memory_tools(engine, user_id="alice"))
        agent.invoke({"messages": [("user", "hi")]})

    with DeerMem(root, clock=clock) as one, DeerMem(root, clock=clock) as two:
        threads = [threading.Thread(target=run, args=pair) for pair in ((one, "one"), (two, "two"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        stored = {fact.content for fact in one.memory("alice").list()}
    assert stored == {f"{name} {number}" for name in ("one", "two") for number in range(5)}


def test_a_hand_edit_between_a_search_and_an_update_keeps_what_the_update_does_not_name(engine, ask):
    memory = engine.memory("alice")
    fact = memory.add("Likes tea", category="preference")
    path = memory.path(fact.id)
    path.write_text(path.read_text().replace("preference", "behavior") + "\nWith milk.\n")
    ask(tool_call("memory_update", fact_id=fact.id, confidence=0.9))
    now = memory.get(fact.id)
    assert (now.content, now.category, now.confidence) == ("Likes tea\n\nWith milk.", "behavior", 0.9)


def test_a_loop_of_ones_own_calls_them_without_an_agent(engine):
    config = {"configurable": {"thread_id": "t1", "user_id": "alice"}}
    search, add, *_ = memory_tools(engine)
    (call,) = tool_call("memory_add", content="Likes tea").tool_calls
    added = json.loads(add.invoke(call, config).text)
    assert added["status"] == "added"
    assert engine.memory("alice").get(added["fact_id"]).source.thread_id == "t1"
    for found in (search.invoke({"query": "tea"}, config), asyncio.run(search.ainvoke({"query": "tea"}, config))):
        assert json.loads(found)["count"] == 1
    with pytest.raises(InvalidInput, match="says no user_id"):
        search.invoke({"query": "tea"})
    assert json.loads(memory_tools(engine, user_id="alice")[0].invoke({"query": "tea"}))["count"] == 1
