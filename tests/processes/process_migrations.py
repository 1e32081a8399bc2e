"""Migrating in a process that dies at a chosen call of the file layer, and reading beside it."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from pathlib import Path

from process_workers import engine, say, told, wait

import deermem
from deermem.store.files import Files


class DyingFiles(Files):
    """Kills its process right before a call: the one of this number among those of a name, or among all."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.calls: Counter[str] = Counter()
        self._counting = threading.Lock()

    def _call(self, name: str) -> None:
        with self._counting:
            if self.calls[self.name] == self.number and self.name in ("all", name):
                os.kill(os.getpid(), signal.SIGKILL)
            self.calls[name] += 1
            self.calls["all"] += 1

    def create(self, path: str, data: bytes, *, flush: bool = True) -> None:
        self._call("create")
        super().create(path, data, flush=flush)

    def write(self, descriptor: int, data: bytes) -> None:
        half = len(data) // 2
        super().write(descriptor, data[:half])
        # A record that is cut short is kept for a person; what that comes to is told in the crash tests.
        if b"deermem-record" not in data:
            self._call("write")
        super().write(descriptor, data[half:])

    def flush(self, descriptor: int, path: str) -> None:
        self._call("flush record" if path.endswith("/record") else "flush")
        super().flush(descriptor, path)

    def flush_folder(self, path: str) -> None:
        self._call("flush folder")
        super().flush_folder(path)

    def flush_all(self, descriptor: int, folder: str) -> None:
        self._call("flush all")
        super().flush_all(descriptor, folder)

    def mkdir(self, path: str) -> bool:
        self._call("mkdir")
        return super().mkdir(path)

    def rename_new(self, source: str, target: str) -> None:
        self._call("rename new")
        super().rename_new(source, target)

    def exchange(self, staged: str, target: str, displaced: str) -> None:
        self._call("exchange")
        super().exchange(staged, target, displaced)

    def rename(self, source: str, target: str) -> None:
        self._call("rename")
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._call("unlink")
        super().unlink(path)


def migrate(root: str, by: str, name: str = "all", number: int = -1) -> None:
    """Migrates by the named door, and says how many facts there are then; dies at a call where one is named."""
    files = DyingFiles(name, number)
    with deermem.DeerMem(root, deermem.Settings(max_facts=0), files=files) as opened:
        wait()
        outcome = ""
        if by == "migrate":
            report = opened.migrate(["ann"])
            assert report.ok, report
            outcome = report.users[0].outcome
        facts = len(opened.memory("ann").list())
        say(facts=facts, outcome=outcome, calls=files.calls["all"])


def migrate_all(root: str, name: str = "all", number: int = -1) -> None:
    """Migrates every user, several at once, and says what became of them; dies at a call where one is named."""
    with deermem.DeerMem(root, deermem.Settings(max_facts=0), files=DyingFiles(name, number)) as opened:
        wait()
        report = opened.migrate(verify=True)
        say(ok=report.ok, outcomes=[user.outcome for user in report.users])


def survey(root: str, count: int) -> None:
    """Reads ann's facts again and again until told to stop; each time the old ones must be there, all of them, once."""
    wait()
    looks = 0
    while not told():
        with engine(root) as opened:
            ids = [fact.id for fact in opened.memory("ann").list()]
        old = [fact_id for fact_id in ids if fact_id.startswith("fact_old")]
        assert (len(old), len(set(ids))) == (count, len(ids)), (looks, len(old))
        assert Path(root, "users", "ann", "memory.json.v1.bak").is_file()
        looks += 1
    say(looks=looks)
