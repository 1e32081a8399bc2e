"""Migrations of many users that are held up in the middle, so that a signal comes then."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def old_users(root: Path, names: Iterable[str]) -> Path:
    """A store of version 1 with three facts a user; gives the root."""
    for number, name in enumerate(names):
        home = root / "users" / name
        home.mkdir(parents=True)
        facts = [{"id": f"f{fact}", "content": f"Fact {fact} of {number}"} for fact in range(3)]
        (home / "memory.json").write_text(json.dumps({"version": "1.0", "facts": facts}))
    return root


@contextmanager
def waiting(store: Path, environment: dict[str, str], code: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The program `code`, which migrates all users, from when it says that it waits; killed at the end."""
    command = [sys.executable, "-c", code, "migrate", "--all-users", "--root", str(store), *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            while process.stderr.readline() != "waiting\n":
                assert process.poll() is None
            yield process
        finally:
            process.kill()
