"""The store under real graphs and agents, with a model that follows a script."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from builders_store import edit

pytest.importorskip("langgraph.store.base")
pytest.importorskip("langchain.agents")

from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from typing_extensions import TypedDict

from deermem.integrations.langgraph_store import DeerMemStore, namespace_label

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")


class State(TypedDict):
    said: str
    known: list[str]


@dataclass
class Who:
    user_id: str


def place_of(runtime: Runtime[Who]) -> tuple[str, str]:
    return ("memories", namespace_label(runtime.context.user_id))


def remember(state: State, runtime: Runtime[Who]) -> dict[str, Any]:
    """Stores what is said under its first word, and says what is known."""
    assert isinstance(runtime.store, BaseStore)
    known = [item.value["text"] for item in runtime.store.search(place_of(runtime))]
    if state["said"]:
        runtime.store.put(place_of(runtime), state["said"].split()[0], {"text": state["said"]})
    return {"known": known}


async def aremember(state: State, runtime: Runtime[Who]) -> dict[str, Any]:
    assert isinstance(runtime.store, BaseStore)
    known = [item.value["text"] for item in await runtime.store.asearch(place_of(runtime))]
    await runtime.store.aput(place_of(runtime), state["said"].split()[0], {"text": state["said"]})
    return {"known": known}


def graph_of(node: Any, store: BaseStore) -> Any:
    builder = StateGraph(State, context_schema=Who)
    builder.add_node("remember", node)
    builder.add_edge(START, "remember")
    builder.add_edge("remember", END)
    return builder.compile(store=store)


def test_a_graph_remembers_for_each_user_what_people_may_edit(engine):
    graph = graph_of(remember, DeerMemStore(engine, user_at=1))
    alice, bob = Who("alice@example.com"), Who("bob@example.com")
    assert graph.invoke({"said": "tea is liked"}, context=alice)["known"] == []
    assert graph.invoke({"said": "milk is liked"}, context=bob)["known"] == []
    (agent,) = engine.agents("alice@example.com")
    edit(engine.memory("alice@example.com", agent).path("tea"), "\ntea is liked\n", "\ncocoa is liked\n")
    assert graph.invoke({"said": ""}, context=alice)["known"] == ["cocoa is liked"]
    assert graph.invoke({"said": ""}, context=bob)["known"] == ["milk is liked"]


def test_a_graph_runs_in_an_event_loop(store):
    async def both() -> list[Any]:
        graph = graph_of(aremember, store)
        told = [graph.ainvoke({"said": f"word{number} said"}, context=Who("alice")) for number in range(5)]
        await asyncio.gather(*told)
        last = await graph.ainvoke({"said": "last"}, context=Who("alice"))
        other = await graph_of(remember, store).ainvoke({"said": ""}, context=Who("alice"))
        return [sorted(last["known"]), len(other["known"])]

    assert asyncio.run(both()) == [[f"word{number} said" for number in range(5)], 6]


# --- agents


class Scripted(BaseChatModel):
    """A chat model that says what it is told to, and keeps every prompt."""

    left: list[Any]
    seen: list[Any] = []  # noqa: RUF012 - a field, which each model copies

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
        self.seen.append(list(messages))
        return ChatResult(generations=[ChatGeneration(message=self.left.pop(0))])


def scripted(*script: Any) -> Scripted:
    return Scripted(left=list(script))


def call(name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": name}])


def test_an_agents_tools_share_the_store_with_people(engine):
    @tool
    def save(text: str, runtime: ToolRuntime[Who]) -> str:
        """Stores a text."""
        assert runtime.store is not None
        runtime.store.put(("memories", runtime.context.user_id), "tea", {"text": text})
        return "saved"

    @tool
    def recall(query: str, runtime: ToolRuntime[Who]) -> str:
        """Finds texts."""
        assert runtime.store is not None
        found = runtime.store.search(("memories", runtime.context.user_id), query=query)
        return "; ".join(item.value["text"] for item in found) or "nothing"

    model = scripted(
        *(call("save", text="Likes green tea."), AIMessage("noted")),
        *(call("recall", query="green tea"), AIMessage("told")),
        *(call("recall", query="green tea"), AIMessage("told")),
    )
    store = DeerMemStore(engine, user_at=1)
    agent = create_agent(model, tools=[save, recall], context_schema=Who, store=store)
    ask = {"messages": [("user", "hello")]}
    agent.invoke(ask, context=Who("alice"))
    edit(
        engine.memory("alice", "ns-memories--alice").path("tea"),
        "\nLikes green tea.\n",
        "\nLikes green tea and cake.\n",
    )
    assert agent.invoke(ask, context=Who("alice"))["messages"][-2].content == "Likes green tea and cake."
    assert agent.invoke(ask, context=Who("bob"))["messages"][-2].content == "nothing"


def test_a_deep_agents_memory_is_a_file_that_people_edit(engine):
    deepagents = pytest.importorskip("deepagents")
    from deepagents.backends import CompositeBackend, StateBackend, StoreBackend

    store = DeerMemStore(engine, user_at=1)
    backend = CompositeBackend(
        default=StateBackend(),
        routes={
            "/memories/": StoreBackend(namespace=lambda runtime: ("files", namespace_label(runtime.context.user_id)))
        },
    )
    path, user = "/memories/AGENTS.md", Who("alice@example.com")
    model = scripted(
        *(call("write_file", file_path=path, content="- likes tea\n- likes cake\n"), AIMessage("ok"), AIMessage("ok")),
        *(call("edit_file", file_path=path, old_string="tea", new_string="cocoa"), AIMessage("ok")),
        *(call("grep", pattern="cocoa", path="/memories/"), AIMessage("ok"), AIMessage("ok")),
    )
    agent = deepagents.create_deep_agent(model, backend=backend, memory=[path], store=store, context_schema=Who)

    def told(who: Who) -> str:
        agent.invoke({"messages": [("user", "hello")]}, context=who)
        return str(model.seen[-1][0].text)

    assert "- likes tea" not in told(user)
    namespace = ("files", namespace_label(user.user_id))
    assert store.get(namespace, "/AGENTS.md").value["content"] == "- likes tea\n- likes cake\n"
    edit(
        engine.memory(user.user_id, engine.agents(user.user_id)[0]).path(store_id(engine, user)),
        "- likes tea\n",
        "- likes tea!\n",
    )
    assert "- likes tea!\n- likes cake" in told(user)
    told(user)
    assert store.get(namespace, "/AGENTS.md").value["content"] == "- likes cocoa!\n- likes cake\n"
    agent.invoke({"messages": [("user", "hello")]}, context=user)
    assert "/memories/AGENTS.md" in model.seen[-1][-1].text
    assert "likes" not in told(Who("bob@example.com"))


def store_id(engine: Any, user: Who) -> str:
    (fact,) = engine.memory(user.user_id, engine.agents(user.user_id)[0]).list()
    return str(fact.id)
