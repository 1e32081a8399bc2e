"""The script that moves memory to a user, as a process of its own: killed for real, run twice at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from builders_isolation import HOST, STORE, V1, below, everything
from builders_store import fact_text, tree
from builders_v1 import write_store

from deermem import DeerMem

CHECKOUT = Path(__file__).resolve().parents[2]
SCRIPT = CHECKOUT / "scripts" / "migrate_user_isolation.py"
MORTAL = """
import os, signal, sys
from deermem.config import Settings
from deermem.migrate.isolation import isolate
from deermem.store.files import Files

left = int(sys.argv[2])
for name in ("mkdir", "rename", "rename_new", "unlink", "rmdir", "flush_folder"):
    def call(self, *arguments, method=getattr(Files, name)):
        global left
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return method(self, *arguments)
    setattr(Files, name, call)
isolate(Settings(root=sys.argv[1]), "default", tell=print)
"""


def run(*arguments: object, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The script to its end."""
    command = [sys.executable, "-W", "error", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def merged(root: Path) -> Path:
    """A root with things to move one by one."""
    facts = {f"agents/coder/facts/{number}.md": fact_text(f"f_{number}").encode() for number in range(20)}
    there = {"agents/coder/facts/old.md": fact_text("old").encode()}
    return write_store(root, STORE | HOST | facts | below("users/default", there))


def by_name(files: dict[str, bytes]) -> set[tuple[str, bytes]]:
    """What there is, whichever of the two places it is in."""
    return {(path.removeprefix("users/default/"), data) for path, data in files.items()}


def test_a_dry_run_a_run_and_a_second_one(root: Path) -> None:
    write_store(root, STORE | HOST)
    before = everything(root)
    dry = run("--dry-run", "--storage-path", root)
    assert (dry.returncode, dry.stderr) == (0, "")
    assert everything(root) == before
    real = run("--storage-path", root)
    assert (real.returncode, real.stderr) == (0, "")
    assert real.stdout == dry.stdout.replace("would move", "moved")
    assert tree(root) == below("users/default", STORE) | HOST
    again = run("--storage-path", root)
    assert (again.returncode, again.stdout, again.stderr) == (0, "already current\n", "")


def test_the_store_of_the_environment_and_a_named_user(root: Path) -> None:
    write_store(root, {"memory.json": V1})
    done = run("--user-id", "ann", environment={**os.environ, "DEERMEM_DATA_DIR": str(root)})
    assert done.returncode == 0, done.stderr
    program = [sys.executable, "-m", "deermem", "--root", str(root)]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    for arguments, words in ((["migrate", "--user-id", "ann"], "ann"), (["--user", "ann", "list"], "plays the cello")):
        said = subprocess.run([*program, *arguments], capture_output=True, text=True, env=environment, check=True)
        assert words in said.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--user-id", ""], 2, "user_id is empty"),
        (["--storage-path", ""], 2, "--storage-path is empty"),
        (["--storage-path", "/nowhere/at/all"], 1, "there is no store"),
    ],
)
def test_a_call_that_is_wrong_says_so(arguments: Sequence[str], code: int, words: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_what_stays_is_named_on_standard_error(root: Path) -> None:
    write_store(root, STORE | {"users/default/agents/coder/SOUL.md": b"another"})
    done = run("--storage-path", root)
    assert done.returncode == 1
    assert done.stderr.startswith("migrate_user_isolation: agents/coder/SOUL.md stays: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout.endswith("moved 3 things to users/default; 1 in the way\n")


def test_killed_for_real_and_run_again(root: Path) -> None:
    wanted = by_name(tree(merged(root / "whole")))
    store = merged(root / "store")
    killed = subprocess.run([sys.executable, "-c", MORTAL, str(store), "17"], capture_output=True, check=False)
    assert killed.returncode == -9, killed.stderr
    assert by_name(tree(store)) == wanted
    assert (store / "agents").exists()
    done = run("--storage-path", store)
    assert done.returncode == 0, done.stderr
    assert by_name(tree(store)) == wanted
    assert not (store / "agents").exists()


def test_two_at_once_come_to_one_result(root: Path) -> None:
    wanted = by_name(tree(merged(root)))
    command = [sys.executable, str(SCRIPT), "--storage-path", str(root)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    for process in both:
        _, complaints = process.communicate(timeout=60)
        assert process.returncode == 0, complaints
    assert by_name(tree(root)) == wanted
    with DeerMem(root) as engine:
        assert len(engine.memory("default", "coder").list()) == 22
