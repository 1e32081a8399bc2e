"""A real DeerFlow with our manager in it: a script that prints what happened as JSON.

Arguments: an empty folder; then, where the gateway is to be driven too, the folder that holds its package `app`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

USERS = ("alice", "alice@example.com", "ou_7d8a:b/c", "用户", "a b", "..")
NAME = "deermem.integrations.deerflow:DeerMemManager"
CONFIG = """
config_version: 34
models:
  - name: scripted
    display_name: scripted
    use: deerflow_model:Scripted
    model: scripted
sandbox:
  use: deerflow.sandbox.local:LocalSandboxProvider
memory:
  enabled: true
  mode: MODE
  injection_enabled: true
  manager_class: NAME
  backend_config:
    token_counting: char
    debounce_seconds: 300
"""


def main(folder: Path, gateway: str | None) -> dict[str, Any]:
    config = folder / "config.yaml"
    write_config(config, "middleware")
    os.environ.update(DEER_FLOW_CONFIG_PATH=str(config), DEER_FLOW_HOME=str(folder / "home"))
    os.chdir(folder)
    from deerflow.agents.memory import get_memory_manager, reset_memory_manager
    from deerflow.client import DeerFlowClient

    client = DeerFlowClient(config_path=str(config))
    told: dict[str, Any] = {"contract": contract(), "chat": chat(client)}
    told["tools"] = tools()
    told["turns"] = turns(folder / "shared")
    told["client"] = documents(client)
    get_memory_manager().close()
    write_config(config, "tool")
    reset_memory_manager()
    told["agent"] = tool_mode()
    told["gateway"] = None if gateway is None else routes(gateway)
    engine = get_memory_manager().engine
    told["root"] = engine.root == folder / "home"
    told["findings"] = [str(finding) for finding in engine.check()]
    told["left"] = {user: len(engine.memory(user).list()) for user in engine.users()}
    get_memory_manager().close()
    return told


def write_config(config: Path, mode: str) -> None:
    text = CONFIG.replace("NAME", NAME).replace("MODE", mode)
    config.write_text(text, encoding="utf-8")


def contract() -> dict[str, Any]:
    """The signatures of the real base, and whether the class that the host resolves is of it."""
    from deerflow.agents.memory import manager
    from deerflow.config.paths import make_safe_user_id

    resolved = manager._resolve_manager_class(NAME)
    return {
        "subclass": issubclass(resolved, manager.MemoryManager),
        "signatures": signatures(manager.MemoryManager),
        "callbacks": signatures(manager.MemoryCallbacks),
        "folders": {user: make_safe_user_id(user) for user in USERS},
    }


def signatures(kind: type) -> dict[str, list[str]]:
    """The public methods that a class itself defines; of each parameter name, kind, and whether it has a default."""
    return {
        name: [f"{item.name} {item.kind.name} {item.default is not item.empty}" for item in parameters(kind, name)]
        for name, found in vars(kind).items()
        if not name.startswith("_") and (inspect.isfunction(found) or isinstance(found, classmethod))
    }


def parameters(kind: type, name: str) -> list[inspect.Parameter]:
    return list(inspect.signature(inspect.getattr_static(kind, name).__get__(None, kind)).parameters.values())


def chat(client: Any) -> dict[str, Any]:
    """A turn teaches something, and a new conversation knows it; what the model is shown of it."""
    import deerflow_model
    from deerflow.agents.memory import get_memory_manager

    manager = get_memory_manager()
    client.chat("I like green tea, please remember", thread_id="t1")
    flushed = manager.shutdown_flush(60)
    extracted = [prompt for prompt in deerflow_model.SEEN if "newFacts" in prompt]
    deerflow_model.SEEN.clear()
    client.chat("What do you know of me?", thread_id="t2")
    again = manager.shutdown_flush(60)
    prompts = [prompt for prompt in deerflow_model.SEEN if "newFacts" not in prompt]
    reread = [prompt for prompt in deerflow_model.SEEN if "newFacts" in prompt]
    return {
        "flushed": flushed and again,
        "asked": len(extracted),
        "taught": "green tea, please remember" in extracted[0],
        "known": any("Likes green tea" in prompt for prompt in prompts),
        "reread": [line for prompt in reread for line in conversation(prompt).splitlines()],
        "echoed": any("Likes green tea" in conversation(prompt) for prompt in reread),
        "configs": [config.get("run_name") for config in deerflow_model.CONFIGS],
    }


def conversation(prompt: str) -> str:
    """The part of an extraction's prompt that holds what was said."""
    return "\n".join(line for line in prompt.splitlines() if line.startswith(("User:", "Assistant:")))


def tools() -> list[dict[str, Any]]:
    """The four tools of tool mode, one after the other."""
    from deerflow.agents.memory.tools import get_memory_tools

    runtime = SimpleNamespace(context={"user_id": "alice@example.com", "agent_name": "Coder"})
    search, add, update, delete = (tool.func for tool in get_memory_tools())
    told = [add(runtime, "Likes jazz", "preference", 0.9), add(runtime, "likes JAZZ"), add(runtime, "x", confidence=3)]
    found = search(runtime, "jazz")
    fact_id = json.loads(found)["results"][0]["id"]
    told += [found, update(runtime, fact_id, content="Likes free jazz"), update(runtime, "nope", content="x")]
    told += [delete(runtime, fact_id), delete(runtime, fact_id)]
    return [json.loads(each) for each in told]


def tool_mode() -> dict[str, Any]:
    """The lead agent stores a fact by its tool, and finds it again; its prompt has no facts."""
    import deerflow_model
    from deerflow.agents.lead_agent.agent import make_lead_agent
    from deerflow.agents.memory import get_memory_manager
    from langchain_core.messages import AIMessage

    def call(name: str, **arguments: Any) -> AIMessage:
        return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": name}])

    deerflow_model.SEEN.clear()
    deerflow_model.SCRIPT[:] = [
        call("memory_add", content="Sails on Sundays", category="preference"),
        call("memory_search", query="sails"),
        AIMessage("Noted."),
    ]
    context = {"thread_id": "t9", "user_id": "alice"}
    agent = make_lead_agent({"configurable": {"thread_id": "t9"}, "context": context})
    # Some of the host's middlewares are async alone.
    state = asyncio.run(agent.ainvoke({"messages": [("user", "I sail on Sundays")]}, context=context))
    answers = [json.loads(message.content) for message in state["messages"] if message.type == "tool"]
    manager = get_memory_manager()
    return {
        "mode": manager.mode,
        "answers": [answers[0]["status"], answers[1]["count"]],
        "stored": contents(manager.get_memory(user_id="alice")),
        "context": manager.get_context("alice"),
        "left": len(deerflow_model.SCRIPT),
    }


def turns(store: Path) -> dict[str, Any]:
    """DeerFlow's own DeerMem and our manager on one store, in turn: what each sees of the other."""
    from deerflow.agents.memory.backends.deermem.deer_mem import DeerMem

    from deermem.integrations.deerflow import DeerMemManager

    config = {"storage_path": str(store), "token_counting": "char"}
    whose = {"user_id": "alice@example.com", "agent_name": "Coder"}
    theirs = DeerMem.from_config(config)
    theirs.create_fact("Likes tea", "preference", 0.9, **whose)
    theirs.create_fact("Deploys on Tuesdays", "release-notes", 0.8, **whose)
    theirs.close()
    ours = DeerMemManager.from_config(config)
    seen = contents(ours.get_memory(**whose))
    found = ours.search("tea", **whose)[0]
    ours.update_fact(found["id"], content="Likes green tea", **whose)
    ours.create_fact("Likes jazz", "preference", 0.7, **whose)
    ours.close()
    theirs = DeerMem.from_config(config)
    back = theirs.get_memory(**whose)
    revisions = {fact["content"]: fact["revision"] for fact in back["facts"]}
    theirs.delete_fact(found["id"], **whose)
    theirs.close()
    ours = DeerMemManager.from_config(config)
    left = contents(ours.get_memory(**whose))
    ours.close()
    return {"seen": seen, "back": contents(back), "revision": revisions.get("Likes green tea"), "left": left}


def contents(document: dict[str, Any]) -> list[str]:
    return sorted(fact["content"] for fact in document["facts"])


def documents(client: Any) -> dict[str, Any]:
    """What the client's own calls give and raise."""
    made = client.create_memory_fact("Deploys on Tuesdays", "knowledge", 0.8)
    fact_id = next(fact["id"] for fact in made["facts"] if fact["content"] == "Deploys on Tuesdays")
    edited = client.update_memory_fact(fact_id, content="Deploys on Fridays")
    return {
        "reloaded": client.reload_memory() == client.get_memory() == edited,
        "deleted": len(made["facts"]) - len(client.delete_memory_fact(fact_id)["facts"]),
    }


def routes(gateway: str) -> dict[str, Any]:
    """The gateway's memory router, driven over HTTP."""
    # Its package imports every other router, and with them much that memory has no need of.
    for name in ("app", "app.gateway", "app.gateway.routers"):
        package = sys.modules[name] = types.ModuleType(name)
        package.__path__ = [os.path.join(gateway, *name.split("."))]
    import httpx
    from app.gateway.routers.memory import router
    from fastapi import FastAPI

    app = FastAPI()
    app.include_router(router)

    async def drive() -> dict[str, Any]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
            made = await http.post("/api/memory/facts", json={"content": "Likes hiking", "confidence": 0.9})
            twice = await http.post("/api/memory/facts", json={"content": "likes  HIKING"})
            fact_id = next(fact["id"] for fact in made.json()["facts"] if fact["content"] == "Likes hiking")
            patched = await http.patch(f"/api/memory/facts/{fact_id}", json={"content": "Likes walking"})
            blank = await http.patch(f"/api/memory/facts/{fact_id}", json={"content": "   "})
            missing = await http.delete("/api/memory/facts/fact_gone")
            odd = await http.delete("/api/memory/facts/a%20b")
            whole = (await http.get("/api/memory/export")).json()
            imported = await http.post("/api/memory/import", json=whole)
            reloaded = await http.post("/api/memory/reload")
            status = await http.get("/api/memory/status")
            cleared = await http.delete("/api/memory")
        calls = (made, twice, patched, blank, missing, odd, imported, reloaded, status, cleared)
        return {
            "codes": [call.status_code for call in calls],
            "detail": missing.json()["detail"],
            "imported": imported.json()["facts"] == whole["facts"],
            "walking": any(fact["content"] == "Likes walking" for fact in reloaded.json()["facts"]),
            "cleared": (cleared.json()["facts"], bool(cleared.json()["lastUpdated"])),
        }

    return asyncio.run(drive())


if __name__ == "__main__":
    print("\n" + json.dumps(main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)))
