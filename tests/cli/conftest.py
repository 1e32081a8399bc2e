"""A command line to call: in this process, or as a program of its own."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from builders_program import program_environment
from builders_store import ordinary_user

from deermem.cli.main import run


@dataclass(frozen=True)
class Answer:
    """What a call printed and ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        """Standard output, which must be one JSON document."""
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """Standard error, which must be one line that begins as every error does."""
        assert self.err.count("\n") == 1, self.err
        assert self.err.startswith("deermem: ")
        return self.err.removeprefix("deermem: ").rstrip("\n")


class Terminal(io.TextIOWrapper):
    """Standard input as a terminal would be."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def default_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEERMEM_MAX_FACTS", raising=False)
    monkeypatch.delenv("DEERMEM_SETTINGS", raising=False)


@pytest.fixture
def call(root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    """Calls the command line on the test's own root: `call("list", user="alice")`."""

    def call(
        *arguments: object, user: str | None = None, stdin: bytes = b"", terminal: bool = False, at: Path = root
    ) -> Answer:
        kind = Terminal if terminal else io.TextIOWrapper
        monkeypatch.setattr(sys, "stdin", kind(io.BytesIO(stdin), encoding="utf-8"))
        aim = ["--root", str(at), *(["--user", user] if user else [])]
        code = run([*aim, *map(str, arguments)])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture
def add(call: Callable[..., Answer]) -> Callable[..., str]:
    """Adds a fact and gives its id."""

    def add(text: str, *options: object, user: str | None = "alice") -> str:
        answer = call("--json", "add", text, *options, user=user)
        assert answer.code == 0, answer.err
        return answer.json["id"]

    return add


@pytest.fixture
def program() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line as a program of its own."""

    def program(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "deermem", *map(str, arguments)],
            env=program_environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            **options,
        )

    return program


@pytest.fixture
def environment() -> dict[str, str]:
    return program_environment()


@pytest.fixture
def unprivileged():
    return ordinary_user


def files_of(folder: Path) -> dict[str, bytes]:
    """Every memory file below a folder, operational ones left out, with its bytes."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    named = {path.relative_to(folder).as_posix(): path for path in paths}
    return {name: path.read_bytes() for name, path in named.items() if not any(p[0] == "." for p in name.split("/"))}


@pytest.fixture
def memory_files() -> Callable[[Path], dict[str, bytes]]:
    return files_of
