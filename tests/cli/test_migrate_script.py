"""scripts/migrate_memory_markdown.py: the command under a name of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "migrate_memory_markdown.py"


@pytest.fixture
def store(root: Path) -> Path:
    """One user who can be migrated, and one who can't."""
    for user, content in (("ana", "Likes tea"), ("zed", 17)):
        home = root / "users" / user
        home.mkdir(parents=True)
        facts = [{"id": "f1", "content": content}]
        (home / "memory.json").write_text(json.dumps({"version": "1.0", "facts": facts}))
    return root


def script(*arguments: object, python: tuple[str, ...] = (), **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *python, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


def test_it_is_the_command_in_options_output_and_exit_codes(store, program, tmp_path):
    dry = script("--all-users", "--storage-path", store, "--dry-run", cwd=tmp_path)
    same = program("migrate", "--all-users", "--storage-path", store, "--dry-run")
    assert (dry.returncode, dry.stdout, dry.stderr) == (1, same.stdout, same.stderr)
    assert not (store / "users/ana/memory.json.v1.bak").exists()
    done = script("--user-id", "ana", "--storage-path", store, "--verify", "--json")
    assert (done.returncode, json.loads(done.stdout)["users"][0]["verified"]["facts"]) == (0, 1)
    assert script("--restore", "ana", "--storage-path", store).stdout.startswith("ana: put back 1 document")
    wrong = script("--storage-path", store)
    assert (wrong.returncode, "--all-users" in wrong.stderr) == (2, True)
    assert "--restore USER" in script("--help").stdout


def test_a_python_that_lacks_what_it_needs_is_told_what_to_do(store):
    # Without site packages there is the checkout, but nothing that it rests on.
    done = script("--all-users", "--storage-path", store, python=("-I", "-S"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("migrate_memory_markdown.py: deermem can't be loaded (No module named ")
    assert f"{sys.executable} -m pip install" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(store.rglob("*.v1.bak"))
