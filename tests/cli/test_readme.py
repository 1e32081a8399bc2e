"""The README's examples, run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import deermem

README = Path(__file__).resolve().parents[2] / "README.md"


def examples(language: str) -> list[str]:
    """The examples of that language which the README marks as tested."""
    marked = re.findall(rf"<!-- tested -->\n```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert marked
    return marked


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """One where `deermem` is the package under test, installed or not."""
    package_parent = Path(deermem.__file__).resolve().parent.parent
    commands = tmp_path / "bin"
    commands.mkdir()
    command = commands / "deermem"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m deermem "$@"\n')
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(package_parent)}


def run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def facts_below(folder: Path) -> list[Path]:
    return list(folder.glob("memory/users/alice/agents/*/facts/**/*.md"))


def test_the_examples_of_the_readme_run(tmp_path, environment):
    said = run([sys.executable, "-c", examples("python")[0]], tmp_path, environment)
    found, *block = said.splitlines()
    assert found.endswith("Prefers TypeScript for new services")
    assert any("[preference | 0.95] Prefers TypeScript for new services" in line for line in block)
    assert (tmp_path / "memory/users/alice/memory.json").is_file()
    (first,) = facts_below(tmp_path)

    said = run(["bash", "-euo", "pipefail", "-c", *examples("sh")], tmp_path, environment)
    assert said.splitlines()[0] == f"{first.stem}  preference  0.95  Prefers TypeScript for new services"
    assert "deploy-day" in said
    assert "Deploys go out on Tuesdays." in said
    assert "] Deploys go out on Wednesdays." in said
    assert sorted(path.read_text().splitlines()[-1] for path in facts_below(tmp_path)) == [
        "Prefers TypeScript for new services",
        "Prefers tabs over spaces",
    ]
    assert said.splitlines()[-1] == "everything is in order"


def test_the_example_of_a_conversation_runs(tmp_path, environment):
    (_, conversation) = examples("python")
    assert run([sys.executable, "-W", "error", "-c", conversation], tmp_path, environment) == "Works in Ghent\n"
    assert len(facts_below(tmp_path)) == 1
