"""Layers, public names, and what an import may cost: counted in modules, because seconds depend on the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import deermem
from deermem import errors

HEAVY = {
    "yaml",
    "click",
    "filelock",
    "watchdog",
    "jieba",
    "rjieba",
    "pydantic",
    "detect_secrets",
    "requests",
    "rich",
    "asyncio",
    "tiktoken",
    "langchain",
    "langchain_core",
    "langgraph",
}
NEVER_FOR_THE_ENGINE = HEAVY - {"yaml", "filelock"}
MAX_MODULES_OF_A_BARE_IMPORT = 40

DOCUMENTED = {
    "DeerMem",
    "Fact",
    "Summaries",
    "ChangeSet",
    "Commit",
    "SearchHit",
    "Settings",
    "Draft",
    "Source",
    "Finding",
}


def loaded_by(code: str) -> set[str]:
    """The modules that `code` loads into a fresh interpreter which the interpreter had not loaded by itself."""
    probe = f"import sys\nbefore = set(sys.modules)\n{code}\nprint(*(set(sys.modules) - before))"
    environment = {**os.environ, "PYTHONPATH": str(Path(deermem.__file__).resolve().parent.parent)}
    done = subprocess.run([sys.executable, "-c", probe], env=environment, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def public_names() -> list[str]:
    if "__all__" not in vars(deermem):
        pytest.skip("deermem declares no public names yet")
    return list(deermem.__all__)


def test_a_bare_import_loads_nothing_heavy():
    loaded = loaded_by("import deermem")
    assert "deermem" in loaded
    assert {name.partition(".")[0] for name in loaded} & HEAVY == set()
    assert len(loaded) <= MAX_MODULES_OF_A_BARE_IMPORT


def test_the_engine_loads_no_door_and_no_framework():
    public_names()
    loaded = loaded_by("from deermem import DeerMem")
    assert {name.partition(".")[0] for name in loaded} & NEVER_FOR_THE_ENGINE == set()
    assert {name for name in loaded if name.startswith("deermem.cli")} == set()


def test_every_public_name_resolves_and_is_named_once():
    names = public_names()
    assert len(names) == len(set(names))
    assert [name for name in names if getattr(deermem, name, None) is None] == []


def test_the_documented_names_are_public():
    assert sorted(DOCUMENTED - set(public_names())) == []


def test_every_error_is_public():
    tree = {
        name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.DeerMemError)
    }
    assert sorted(tree - set(public_names())) == []


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError):
        getattr(deermem, "no_such_name")  # noqa: B009


def test_each_layer_imports_only_what_stands_below_it(checkout):
    contracts = tomllib.loads((checkout / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [name.strip() for c in contracts for line in c.get("layers", []) for name in line.split("|")]
    package = checkout / "deermem"
    missing = [name for name in layers if not (package / name).is_dir() and not (package / f"{name}.py").is_file()]
    if missing:
        pytest.skip(f"layers that are not there yet: {', '.join(missing)}")
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
