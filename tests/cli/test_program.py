"""The program as a whole: options, exit codes, pipes, signals, what it loads."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from deermem.cli import facts
from deermem.cli.main import program as program_command
from deermem.cli.main import run

NAMES = {
    *("add", "search", "list", "show", "update", "delete", "clear", "context", "summaries", "import", "export"),
    *("init", "edit", "migrate", "reindex", "check", "doctor", "stats", "watch", "demo", "evictions"),
    *("capture", "queue"),
}


def test_the_commands_are_these():
    assert set(program_command.commands) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_command_explains_itself(call, name):
    answer = call(name, "--help")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"Usage: deermem {name} ")
    for option in ("--root", "--user", "--agent", "--json"):
        assert option in answer.out


def test_the_list_of_commands_says_each_first_sentence_to_its_end(call):
    listed = " ".join(call("--help").out.partition("Commands:")[2].split())
    for command in program_command.commands.values():
        sentence = " ".join((command.help or "").split("\n\n")[0].split()).partition(". ")[0]
        assert sentence.rstrip(".") in listed


def test_without_a_command_the_help_goes_to_standard_error(program):
    done = program()
    assert (done.returncode, done.stdout) == (2, "")
    assert "Commands:" in done.stderr


def test_without_a_command_json_says_so(call):
    answer = call("--json")
    assert answer.code == 2
    assert answer.json["error"]["message"] == "no command is given"


def test_the_version_is_that_of_the_package(call):
    try:
        number = version("deermem")
    except PackageNotFoundError:
        number = "(not installed)"
    assert call("--version").out == f"deermem {number}\n"
    assert call("--version", "--json").json == {"version": number}


def test_the_entry_point_is_declared():
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["scripts"] == {"deermem": "deermem.cli.main:main"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--root", "{root}", "--user", "alice", "--agent", "coder", "--json", "list"],
        ["list", "--root", "{root}", "--user", "alice", "--agent", "coder", "--json"],
        ["--user", "bob", "--root", "{root}", "--json", "list", "--user", "alice", "--agent", "coder"],
    ],
)
def test_the_options_stand_before_or_after_the_command(add, root, capsys, arguments):
    fact_id = add("Type hints in every module", "--agent", "coder")
    capsys.readouterr()
    assert run([argument.format(root=root) for argument in arguments]) == 0
    assert [fact["id"] for fact in json.loads(capsys.readouterr().out)] == [fact_id]


def test_the_options_stand_after_a_nested_command(root, capsys):
    assert run(["summaries", "set", "workContext", "Engineer.", "--root", str(root), "--user", "alice", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["revision"] > 0
    assert (root / "users/alice/memory.json").is_file()


def test_a_text_may_look_like_an_option(call):
    assert call("--json", "add", "--", "--json").json["content"] == "--json"
    answer = call("add", "--", "--json")
    assert answer.code == 2
    assert answer.out == ""


def test_a_closed_pipe_is_no_error(call, root, environment):
    document = {"facts": [{"content": f"Fact {number} {'x' * 5000}"} for number in range(60)]}
    assert call("import", "-", user="alice", stdin=json.dumps(document).encode()).code == 0
    command = [sys.executable, "-m", "deermem", "--root", str(root), "--user", "alice", "list", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=30) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
@pytest.mark.parametrize("options", [["list"], ["list", "--json"], ["context"], ["--version"]])
def test_an_output_that_can_not_be_written_is_one_line(add, root, environment, options):
    add("A fact")
    command = [sys.executable, "-m", "deermem", "--root", str(root), "--user", "alice", *options]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, env=environment, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 1
    said = done.stderr.decode()
    assert said.startswith("deermem: standard output can't be written: No space left on device; ")
    assert said.count("\n") == 1


def test_an_interrupt_ends_quietly(root, environment):
    command = [sys.executable, "-c", "import sys; print('ready', file=sys.stderr, flush=True)\n" + INTERRUPTIBLE]
    with subprocess.Popen(
        [*command, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"ready\n"
        assert process.stderr.readline() == b"reading\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, b"", b"")
    assert not root.exists()


INTERRUPTIBLE = """
import io
from deermem.cli.main import run

class Slow(io.RawIOBase):
    def readable(self):
        return True
    def readinto(self, buffer):
        print("reading", file=sys.stderr, flush=True)
        return terminal.readinto(buffer)

terminal = sys.stdin.buffer.raw
sys.stdin = io.TextIOWrapper(io.BufferedReader(Slow()))
sys.exit(run(["--root", sys.argv[1], "add", "-"]))
"""


def test_what_nobody_foresaw_is_one_line(call, monkeypatch):
    def fail(text: str) -> str:
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr(facts, "text_or_stdin", fail)
    answer = call("--json", "add", "x")
    assert answer.code == 1
    assert answer.complaint.startswith("unexpected ZeroDivisionError: by zero; set DEERMEM_DEBUG=1")
    assert answer.json["error"]["type"] == "ZeroDivisionError"
    assert "Traceback" not in answer.err


def test_the_traceback_is_there_on_demand(call, monkeypatch):
    def fail(text: str) -> str:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(facts, "text_or_stdin", fail)
    monkeypatch.setenv("DEERMEM_DEBUG", "1")
    answer = call("add", "x")
    assert answer.code == 1
    assert answer.err.startswith("Traceback")
    assert answer.err.splitlines()[-1].startswith("deermem: unexpected ZeroDivisionError")


def test_the_disk_that_refuses_is_one_line(call, monkeypatch):
    def fail(text: str) -> str:
        raise OSError(28, "No space left on device", "/store/x.md")

    monkeypatch.setattr(facts, "text_or_stdin", fail)
    answer = call("add", "x")
    assert answer.code == 1
    assert answer.complaint.startswith("/store/x.md: No space left on device; free some space")


def test_an_output_without_unicode_is_still_json(call, add, root, environment):
    add("回答时先给结论 😀")
    command = [sys.executable, "-m", "deermem", "--root", str(root), "--user", "alice", "list"]
    ascii_only = {**environment, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    said = subprocess.run([*command, "--json"], env=ascii_only, capture_output=True, check=True, timeout=60)
    assert json.loads(said.stdout.decode("ascii"))[0]["content"] == "回答时先给结论 😀"
    assert subprocess.run(command, env=ascii_only, capture_output=True, check=True, timeout=60).stderr == b""


def loaded_by(arguments: list[str], environment: dict[str, str]) -> set[str]:
    probe = "import sys\nfrom deermem.cli.main import run\nrun(sys.argv[1:])\nprint(*sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", probe, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return {name.partition(".")[0] for name in done.stderr.split()}


HEAVY = {"jieba", "rjieba", "watchdog", "pydantic", "rich", "langchain", "tiktoken", "asyncio", "fastapi", "requests"}


def test_help_loads_no_engine(environment):
    loaded = loaded_by(["--help"], environment)
    assert loaded & (HEAVY | {"yaml", "sqlite3", "filelock"}) == set()
    assert "deermem" in loaded


def test_a_warm_english_search_loads_nothing_heavy(call, add, root, environment):
    add("User prefers TypeScript")
    assert len(call("--json", "search", "typescript", user="alice").json) == 1
    loaded = loaded_by(["--root", str(root), "--user", "alice", "search", "typescript"], environment)
    assert loaded & (HEAVY | {"yaml"}) == set()
    assert "sqlite3" in loaded
