"""The command line as a program: its environment, and its runs as a user to whom file modes apply."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Self

import deermem

NOBODY = 65534
# Nobody may not be able to read Python's own library: so whatever a command loads is loaded before, and once for all.
FORKING = f"""
import contextlib, difflib, importlib, io, json, os, pkgutil, shutil, signal, subprocess, sys, tempfile, traceback
import urllib.parse
import deermem
from deermem.cli.main import main, run

def become_nobody(order):
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    sys.argv = ["deermem", *order["arguments"]]
    tempfile.tempdir = None
    os.setgroups([])
    os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
    try:
        main()
    except SystemExit as end:
        return end.code or 0
    finally:
        sys.stdout.flush()

for part in pkgutil.iter_modules(deermem.__path__, "deermem."):
    if part.name not in ("deermem.integrations", "deermem.testing", "deermem.__main__"):
        folder = vars(importlib.import_module(part.name)).get("__path__", [])
        for module in pkgutil.walk_packages(folder, part.name + "."):
            importlib.import_module(module.name)
with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(io.StringIO()):
    for call in (["add", "tea"], ["search", "tea"], ["--json", "check"], ["export"], ["stats"], ["clear", "--yes"]):
        assert run(["--root", scratch, *call]) == 0
for line in sys.stdin:
    child = os.fork()
    if not child:
        code = 70
        try:
            code = become_nobody(json.loads(line))
        finally:
            os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def program_environment() -> dict[str, str]:
    """An environment where `python -m deermem` is the package under test."""
    package_parent = Path(deermem.__file__).resolve().parent.parent
    return {**os.environ, "PYTHONPATH": str(package_parent), "PYTHONIOENCODING": "utf-8"}


class Nobody:
    """Runs `deermem ARGUMENTS` as nobody, each in a process of its own that the superuser's one is forked to."""

    def __init__(self) -> None:
        self._forking = subprocess.Popen(
            [sys.executable, "-c", FORKING],
            env=program_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._forking.communicate(timeout=60)

    def __call__(
        self, folder: Path, environment: dict[str, str], arguments: list[str]
    ) -> subprocess.CompletedProcess[str]:
        """Runs it in `folder`, which everybody must be able to enter."""
        out, err = folder.with_name(folder.name + ".out"), folder.with_name(folder.name + ".err")
        order = {"folder": str(folder), "environment": environment, "arguments": arguments}
        assert self._forking.stdin is not None
        assert self._forking.stdout is not None
        self._forking.stdin.write(json.dumps({**order, "out": str(out), "err": str(err)}) + "\n")
        self._forking.stdin.flush()
        code = int(self._forking.stdout.readline())
        try:
            return subprocess.CompletedProcess(arguments, code, out.read_text(), err.read_text())
        finally:
            out.unlink()
            err.unlink()
