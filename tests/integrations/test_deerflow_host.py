"""A real DeerFlow drives the manager: chat, tools, client and gateway. Its source is named by $DEERMEM_DEERFLOW_SRC."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import deerflow_double
import pytest
from deerflow_drive import USERS, signatures

import deermem
from deermem.model.scope import safe_user_id

HERE = Path(__file__).resolve().parent
VARIABLE = "DEERMEM_DEERFLOW_SRC"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What happened when the host was driven; a process of its own, for it sets up much that would stay."""
    source = os.environ.get(VARIABLE)
    if not source:
        pytest.skip(f"no DeerFlow here; name its checkout with {VARIABLE}")
    backend = Path(source, "backend")
    packages = [str(backend / "packages" / name) for name in ("harness", "extension-api")]
    ours = [str(HERE), str(HERE.parent), str(Path(deermem.__file__).resolve().parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*ours, *packages])}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=100
        )

    probe = run("-c", "import deerflow.client")
    if probe.returncode != 0:
        pytest.skip(f"this Python can't load that DeerFlow: {probe.stderr.strip().splitlines()[-1]}")
    web = all(importlib.util.find_spec(name) for name in ("fastapi", "httpx"))
    folder = tmp_path_factory.mktemp("host")
    done = run(str(HERE / "deerflow_drive.py"), str(folder), *([str(backend)] if web else []))
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_the_contract_is_the_one_that_the_double_tells(told: dict[str, Any]):
    assert told["contract"]["subclass"] is True
    assert told["contract"]["signatures"] == signatures(deerflow_double.MemoryManager)
    assert told["contract"]["callbacks"] == signatures(deerflow_double.MemoryCallbacks)


def test_a_chat_teaches_something_and_the_next_one_knows_it(told: dict[str, Any]):
    chat = told["chat"]
    assert (chat["flushed"], chat["asked"], chat["taught"], chat["known"]) == (True, 1, True, True)
    assert any("What do you know of me?" in line for line in chat["reread"])
    assert chat["echoed"] is False
    assert chat["configs"] == ["memory_agent", "memory_agent"]


def test_a_users_folder_has_the_name_that_the_host_gives_it(told: dict[str, Any]):
    """179"""
    folders = told["contract"]["folders"]
    assert folders == {user: safe_user_id(user) for user in USERS}


def test_the_lead_agent_keeps_its_memory_by_tools(told: dict[str, Any]):
    """165, 167"""
    assert told["agent"] == {
        "mode": "tool",
        "answers": ["added", 1],
        "stored": ["Sails on Sundays"],
        "context": "",
        "left": 0,
    }


def test_the_tools_answer_as_the_host_words_them(told: dict[str, Any]):
    """167-170"""
    added, twice, unsure, found, updated, unknown, deleted, gone = told["tools"]
    fact_id = added["fact_id"]
    assert added == {"fact_id": fact_id, "status": "added"}
    assert twice == {"error": "Duplicate fact"}
    assert "confidence" in unsure["error"]
    assert (found["count"], found["results"][0]["content"], found["results"][0]["id"]) == (1, "Likes jazz", fact_id)
    assert updated == {"fact_id": fact_id, "status": "updated"}
    assert unknown == {"error": "Fact not found: nope"}
    assert deleted == {"fact_id": fact_id, "status": "deleted"}
    assert gone == {"error": f"Fact not found: {fact_id}"}


def test_deerflows_own_memory_and_ours_take_turns_on_one_store(told: dict[str, Any]):
    turns = told["turns"]
    assert turns["seen"] == ["Deploys on Tuesdays", "Likes tea"]
    assert turns["back"] == ["Deploys on Tuesdays", "Likes green tea", "Likes jazz"]
    assert turns["revision"] == 2
    assert turns["left"] == ["Deploys on Tuesdays", "Likes jazz"]


def test_the_client_edits_facts(told: dict[str, Any]):
    assert told["client"] == {"reloaded": True, "deleted": 1}


def test_the_store_lies_in_the_hosts_home_and_is_in_order(told: dict[str, Any]):
    assert told["root"] is True
    assert told["findings"] == []
    assert told["left"]["alice"] == 1


def test_the_gateway_maps_every_error(told: dict[str, Any]):
    """172, 174, 175"""
    gateway = told["gateway"]
    if gateway is None:
        pytest.skip("needs fastapi and httpx")
    assert gateway["codes"] == [200, 409, 200, 400, 404, 404, 200, 200, 200, 200]
    assert "fact_gone" in gateway["detail"]
    assert (gateway["imported"], gateway["walking"]) == (True, True)
    assert gateway["cleared"] == [[], True]
