"""Ctrl-C and SIGTERM in the middle of a migration of many users; and the line that says how far it is."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from builders_stopped import old_users, waiting

USERS = 6

# Runs the command line; the commit of the third user waits for a line on standard input, so that a signal comes then.
HELD_UP = """
import sys
from deermem.cli.main import run
from deermem.store.transaction import Transaction

commit = Transaction.commit
users = []

def slow(self, *given):
    users.append(self.paths.folder.name)
    if len(users) == 3:
        print("waiting", file=sys.stderr, flush=True)
        sys.stdin.readline()
    return commit(self, *given)

Transaction.commit = slow
sys.exit(run(sys.argv[1:]))
"""


@pytest.fixture
def store(root: Path) -> Path:
    """Six users of version 1."""
    return old_users(root, [f"user{number}" for number in range(USERS)])


@contextmanager
def held_up(
    store: Path, environment: dict[str, str], *options: str, code: str = HELD_UP
) -> Iterator[subprocess.Popen[str]]:
    """A migration that has come to the middle of the third user."""
    with waiting(store, environment, code, *options) as process:
        yield process


def migrated(store: Path) -> list[str]:
    """The users whose documents hold no facts any more."""
    homes = sorted((store / "users").iterdir())
    return [home.name for home in homes if "facts" not in json.loads((home / "memory.json").read_bytes())]


def acknowledged(process: subprocess.Popen[str], number: signal.Signals) -> str:
    """Sends it, and gives the line that says that it was heard."""
    process.send_signal(number)
    assert process.stderr is not None
    return process.stderr.readline()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_after_the_user_in_work(store, environment, number):
    with held_up(store, environment) as process:
        assert acknowledged(process, number) == "deermem: stopping after the users in work; once more stops at once\n"
        out, err = process.communicate("go\n", timeout=60)
    assert process.returncode == 130
    assert out.splitlines() == [
        "user0: migrated 3 facts",
        "user1: migrated 3 facts",
        "user2: migrated 3 facts",
        "migrated=3 planned=0 current=0 failed=0",
    ]
    assert err == "deermem: stopped after 3 of 6 users; the next run goes on from there\n"
    assert migrated(store) == ["user0", "user1", "user2"]


def test_the_json_document_says_that_it_was_interrupted(store, environment, call):
    with held_up(store, environment, "--json", "--verify") as process:
        acknowledged(process, signal.SIGINT)
        out, _ = process.communicate("go\n", timeout=60)
    report = json.loads(out)
    assert (process.returncode, report["interrupted"], report["migrated"]) == (130, True, 3)
    assert [user["verified"]["facts"] for user in report["users"]] == [3, 3, 3]
    again = call("migrate", "--all-users", "--json").json
    assert (again["interrupted"], again["current"], again["migrated"]) == (False, 3, 3)


def test_a_second_signal_ends_it_at_once_and_the_next_run_goes_on(store, environment, call):
    with held_up(store, environment) as process:
        acknowledged(process, signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "user2" not in out
    assert migrated(store) == ["user0", "user1"]
    again = call("migrate", "--all-users", "--verify")
    assert (again.code, again.out.splitlines()[-1]) == (0, "migrated=4 planned=0 current=2 failed=0")


def test_a_signal_that_is_switched_off_stays_off(store, environment):
    deaf = HELD_UP.replace("import sys\n", "import sys, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n", 1)
    with held_up(store, environment, code=deaf) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate("go\n", timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[-1] == "migrated=6 planned=0 current=0 failed=0"


# --- the live line


def on_terminal(
    arguments: list[str], environment: dict[str, str], *, both: bool, term: str = "xterm"
) -> tuple[int, str, str]:
    """Exit code, what went to a terminal as standard error, and standard output where that is a pipe."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
    settings = {key: value for key, value in environment.items() if key not in ("NO_COLOR", "TTY_COMPATIBLE")}
    process = subprocess.Popen(
        [sys.executable, "-m", "deermem", *arguments],
        stdout=slave if both else subprocess.PIPE,
        stderr=slave,
        env={**settings, "TERM": term, "COLUMNS": "160"},
        text=True,
    )
    os.close(slave)
    shown = b""
    while chunk := read_terminal(master):
        shown += chunk
    os.close(master)
    out = "" if process.stdout is None else process.stdout.read()
    if process.stdout is not None:
        process.stdout.close()
    return process.wait(60), re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()), out


def read_terminal(master: int) -> bytes:
    # EIO is what a terminal says when the last of its programs is gone.
    with suppress(OSError):
        return os.read(master, 65_536)
    return b""


Arguments = Callable[..., list[str]]


@pytest.fixture
def arguments(store: Path) -> Arguments:
    return lambda *options: ["migrate", "--all-users", "--root", str(store), *options]


def test_a_terminal_gets_one_live_line_and_the_answer_stays_clean(arguments, environment):
    code, shown, out = on_terminal(arguments(), environment, both=False)
    assert code == 0
    assert re.search(r"6/6 users +18 facts +\d+ facts/s +\S+ +left", shown), shown
    assert "migrated 3 facts" not in shown
    assert out.splitlines() == [
        *(f"user{number}: migrated 3 facts" for number in range(USERS)),
        "migrated=6 planned=0 current=0 failed=0",
    ]


def test_where_the_answer_goes_to_the_same_terminal_it_stands_above_the_line(arguments, environment):
    code, shown, _ = on_terminal(arguments("--dry-run"), environment, both=True)
    assert code == 0
    lines = [line.strip() for line in re.split(r"[\r\n]+", shown) if line.strip()]
    assert [line for line in lines if line.endswith("would migrate 3 facts")] == [
        f"user{number}: would migrate 3 facts" for number in range(USERS)
    ]
    assert any("users" in line and "facts/s" in line for line in lines)
    assert lines[-1] == "migrated=0 planned=6 current=0 failed=0"


@pytest.mark.parametrize(("options", "term"), [(["--json"], "xterm"), ([], "dumb")])
def test_json_and_a_dumb_terminal_get_no_live_line(arguments, environment, options, term):
    code, shown, out = on_terminal(arguments(*options), environment, both=False, term=term)
    assert code == 0
    assert "facts/s" not in shown
    assert ("user0: migrated 3 facts" in shown) is (options == ["--json"])
    assert "migrated" in out


def test_nothing_draws_where_there_is_no_terminal(arguments, environment):
    probe = "import sys\nfrom deermem.cli.main import run\ncode = run(sys.argv[1:])\nassert 'rich' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", probe, *arguments()], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("migrated 3 facts") == USERS
