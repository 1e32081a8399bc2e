"""docs/integrations/deerflow.md: its configurations open, its examples run, its keys are those that there are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import deerflow_double
import pytest
import yaml
from deerflow_stage import Manager

import deermem
import deermem.integrations.deerflow

PAGE = (Path(__file__).resolve().parents[2] / "docs/integrations/deerflow.md").read_text(encoding="utf-8")


def examples(language: str) -> list[str]:
    return re.findall(rf"<!-- tested -->\n```{language}\n(.*?)```", PAGE, re.DOTALL)


CONFIGURATIONS = [yaml.safe_load(text)["memory"] for text in examples("yaml")]


def started(memory: dict[str, Any], home: Path) -> Any:
    """What DeerFlow makes of a configuration: a manager below its home."""
    given = dict(memory.get("backend_config") or {})
    given["storage_path"] = str(home / given.get("storage_path", ""))
    return Manager.from_config(given, mode=memory.get("mode", "middleware"), host_llm_factory=lambda: None)


@pytest.fixture
def deerflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A DeerFlow that consists of its memory contract, with a manager in it."""
    manager = started(CONFIGURATIONS[0], tmp_path / "home")
    memory = types.ModuleType("deerflow.agents.memory")
    config = types.ModuleType("deerflow.config")
    loaded: list[Any] = []
    config.get_app_config = lambda: loaded.append(manager)  # type: ignore[attr-defined]
    # Before its configuration is loaded, DeerFlow has another manager.
    memory.get_memory_manager = lambda: loaded[0]  # type: ignore[attr-defined]
    for module in (types.ModuleType("deerflow"), types.ModuleType("deerflow.agents"), memory, config):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, "deerflow.agents.memory.manager", deerflow_double)
    monkeypatch.delitem(vars(deermem.integrations.deerflow), "DeerMemManager", raising=False)
    yield manager
    manager.close()


def test_each_configuration_opens_without_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    assert len(CONFIGURATIONS) == 2
    for number, memory in enumerate(CONFIGURATIONS):
        manager = started(memory, tmp_path / str(number))
        assert manager.get_memory(user_id="default")["facts"] == []
        manager.close()
    assert caplog.messages == []


def test_each_configuration_names_a_class_that_is_there(deerflow: Any):
    for memory in CONFIGURATIONS:
        module, _, name = memory["manager_class"].partition(":")
        assert issubclass(getattr(sys.modules[module], name), deerflow_double.MemoryManager)


def test_the_examples_run(deerflow: Any, tmp_path: Path):
    (python,) = examples("python")
    exec(compile(python, "example", "exec", dont_inherit=True), {"__name__": "__main__"})
    deerflow.create_fact("Likes tea", user_id="default")
    commands = tmp_path / "bin"
    commands.mkdir()
    command = commands / "deermem"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m deermem "$@"\n')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(Path(deermem.__file__).resolve().parents[1]),
        "DEER_FLOW_HOME": str(tmp_path / "home"),
    }
    (shell,) = examples("sh")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", shell], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Likes tea" in done.stdout
    assert "Deploys go out on Tuesdays." in done.stdout
    assert done.stdout.splitlines()[-1] == "everything is in order"
