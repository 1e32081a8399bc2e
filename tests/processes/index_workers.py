"""What the worker processes of the index tests do. Not a test: `python index_workers.py VERB ROOT [NUMBER]`."""

from __future__ import annotations

import json
import os
import select
import sqlite3
import sys

from deermem import DeerMem

USER, AGENT = "ann", "coder"


def say(**said: object) -> None:
    """One line, in one write: a kill can't tear it."""
    os.write(1, f"{json.dumps(said)}\n".encode())


def reindex(root: str, turns: int) -> None:
    """Builds the index again and again."""
    with DeerMem(root) as engine:
        for turn in range(turns):
            report = engine.reindex(USER)
            say(turn=turn, indexed=report.indexed, failed=report.failed, supported=report.supported)


def search(root: str, turns: int) -> None:
    """Searches until it was done often enough and the test has closed its standard input."""
    counts, kinds = set(), set()
    with DeerMem(root) as engine:
        memory = engine.memory(USER, AGENT)
        say(ready=True)
        while turns > 0 or not select.select([sys.stdin], [], [], 0)[0]:
            hits = memory.search("docker", 100)
            counts.add(len(hits))
            kinds.update(hit.match for hit in hits)
            turns -= 1
    say(counts=sorted(counts), kinds=sorted(kinds))


def spill(root: str, _: int) -> None:
    """Stops in the middle of a large transaction with a rollback journal, its pages in the database already."""
    connection = sqlite3.connect(f"{root}/users/{USER}/.retrieval/index.sqlite3", isolation_level=None)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE files SET fact = '{}', hash = zeroblob(9000)")
    connection.execute("DELETE FROM words")
    say(ready=True)
    sys.stdin.read()


def opens(root: str, _: int) -> None:
    """Does everything there is to do, and tells which files Python itself opened below the index's folder."""
    seen: list[str] = []

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in ("open", "os.open") and ".retrieval" in str(arguments[0]):
            seen.append(os.path.basename(str(arguments[0])))

    sys.addaudithook(hook)
    with open(f"{root}/users/{USER}/.retrieval/probe", "w", encoding="utf-8"):
        pass
    with DeerMem(root) as engine:
        memory = engine.memory(USER, AGENT)
        fact = memory.add("Docker in the audit")
        memory.search("docker")
        memory.update(fact.id, "Podman in the audit")
        memory.explain("podman", why=fact.id)
        engine.check(fix=True)
        engine.stats()
        engine.reindex()
        memory.delete(fact.id)
        memory.clear()
    say(opened=sorted(set(seen)))


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
