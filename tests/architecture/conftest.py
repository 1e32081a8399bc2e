"""The parsed sources of the package under test, and the files of the checkout."""

from __future__ import annotations

import ast
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

import deermem

PACKAGE = Path(deermem.__file__).resolve().parent
CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Source:
    """One module: its path below the package, its text, its syntax tree."""

    path: str
    text: str
    tree: ast.Module


@pytest.fixture(scope="session")
def sources() -> list[Source]:
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        found.append(Source(file.relative_to(PACKAGE).as_posix(), text, ast.parse(text)))
    assert any(source.path == "model/fact.py" for source in found)
    return found


@pytest.fixture(scope="session")
def checkout() -> Path:
    return CHECKOUT


@pytest.fixture(scope="session")
def repository_files(checkout: Path) -> list[str]:
    """What is tracked or would be: paths below the checkout, with forward slashes."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=checkout, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    names = [name for name in listed.decode().split("\0") if name and (checkout / name).is_file()]
    assert "pyproject.toml" in names
    return names
