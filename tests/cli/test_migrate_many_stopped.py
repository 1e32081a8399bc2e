"""Ctrl-C and SIGTERM while several users are in work at once."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from builders_stopped import old_users, waiting

USERS = 12

# Runs the command line; every commit after the second waits for a line on standard input, so that the signal comes
# when as many are in work as there can be.
HELD_UP = """
import sys, threading
from deermem.cli.main import run
from deermem.store.transaction import Transaction

commit = Transaction.commit
go, counting, count = threading.Event(), threading.Lock(), 0

def slow(self, *given):
    global count
    with counting:
        count += 1
        number = count
    if number == 10:
        print("waiting", file=sys.stderr, flush=True)
    if number > 2:
        go.wait()
    return commit(self, *given)

def listen():
    if sys.stdin.readline():
        go.set()

Transaction.commit = slow
threading.Thread(target=listen, daemon=True).start()
sys.exit(run(sys.argv[1:]))
"""


@pytest.fixture
def store(root: Path) -> Path:
    """Twelve users of version 1."""
    return old_users(root, [f"user{number:02}" for number in range(USERS)])


@contextmanager
def held_up(store: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A migration of which two users are done and eight in work, after a first signal that was acknowledged."""
    with waiting(store, environment, HELD_UP) as process:
        assert process.stderr is not None
        process.send_signal(signal.SIGINT)
        line = process.stderr.readline()
        assert line == "deermem: stopping after the users in work; once more stops at once\n"
        yield process


def migrated(store: Path) -> list[str]:
    """The users whose documents hold no facts any more."""
    homes = sorted((store / "users").iterdir())
    return [home.name for home in homes if "facts" not in json.loads((home / "memory.json").read_bytes())]


def test_a_signal_ends_the_run_after_all_users_in_work(store, environment, call):
    with held_up(store, environment) as process:
        out, err = process.communicate("go\n", timeout=60)
    done = [f"user{number:02}" for number in range(10)]
    assert process.returncode == 130
    assert out.splitlines() == [
        *(f"{user}: migrated 3 facts" for user in done),
        "migrated=10 planned=0 current=0 failed=0",
    ]
    assert err == "deermem: stopped after 10 of 12 users; the next run goes on from there\n"
    assert migrated(store) == done
    assert call("migrate", "--all-users").out.splitlines()[-1] == "migrated=2 planned=0 current=10 failed=0"


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_waits_for_none_of_them(store, environment, call, second):
    with held_up(store, environment) as process:
        process.send_signal(second)
        # Nobody lets the eight go on: whoever waits for a thread waits for ever.
        assert process.wait(timeout=60) == 130
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert len(migrated(store)) == 2
    again = call("migrate", "--all-users", "--verify")
    assert (again.code, again.out.splitlines()[-1]) == (0, "migrated=10 planned=0 current=2 failed=0")
