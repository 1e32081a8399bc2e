"""Standard streams that are full or closed, folders that may not be read or written: one line, the right exit code."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from builders_program import Nobody

from deermem.cli.main import run

Done = subprocess.CompletedProcess[str]
Shell = Callable[..., Done]
pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell and file modes"),
    pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device"),
]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody may write in: to nobody, the test's usual one can't be reached."""
    folder = Path(tempfile.mkdtemp(prefix="deermem-test-"))
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        for path, _, _ in os.walk(folder):
            os.chmod(path, 0o700)
        shutil.rmtree(folder)


@pytest.fixture
def shell(place: Path, environment: dict[str, str]) -> Shell:
    """Runs `deermem --root ROOT …` with redirections of the shell."""
    return partial(in_shell, place, environment, ["-m", "deermem"])


@pytest.fixture(scope="module")
def nobody() -> Iterator[Nobody | None]:
    if os.geteuid() != 0:
        yield None
        return
    with Nobody() as process:
        yield process


@pytest.fixture
def ordinary(place: Path, environment: dict[str, str], nobody: Nobody | None) -> Shell:
    """Runs `deermem --root ROOT …` as a user to whom file modes apply."""
    if nobody is None:
        return partial(in_shell, place, environment, ["-m", "deermem"])

    def run_it(*arguments: str, at: Path | None = None, **extra: str) -> Done:
        return nobody(place, {**environment, **extra}, ["--root", str(at or place / "s"), *arguments])

    return run_it


@pytest.fixture
def tea(place: Path) -> None:
    """A store with one fact."""
    with contextlib.redirect_stdout(io.StringIO()):
        assert run(["--root", str(place / "s"), "add", "Likes tea"]) == 0


def in_shell(
    place: Path,
    environment: dict[str, str],
    start: list[str],
    *arguments: str,
    streams: str = "",
    at: Path | None = None,
    **extra: str,
) -> Done:
    command = shlex.join([sys.executable, *start, "--root", str(at or place / "s"), *arguments])
    return subprocess.run(
        ["sh", "-c", f"exec {command} {streams}"],
        stdin=subprocess.DEVNULL,
        env={**environment, **extra},
        cwd=place,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def stored(place: Path) -> Callable[[], list[str]]:
    """The contents of the facts that are stored."""

    def contents() -> list[str]:
        with contextlib.redirect_stdout(io.StringIO()) as answer:
            assert run(["--root", str(place / "s"), "list", "--json"]) == 0
        return [fact["content"] for fact in json.loads(answer.getvalue())]

    return contents


def fact_file(place: Path) -> Path:
    (path,) = (place / "s").rglob("fact*.md")
    return path


def one_line(done: Done) -> str:
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("deermem: ")
    return done.stderr.removeprefix("deermem: ").rstrip("\n")


OUTPUT_REFUSED = {">/dev/full": "No space left on device", ">&-": "it is closed", "1</dev/null": "it is closed"}
ANSWERS = (
    ["list"],
    ["list", "--json"],
    ["search", "tea", "--json"],
    ["context"],
    ["context", "--json"],
    ["export"],
    ["stats"],
    ["stats", "--json"],
    ["check"],
    ["check", "--json"],
    ["--help"],
    ["list", "--help"],
    ["--version"],
)


def in_turn(commands):
    """Each command with one way in which the output is refused, the first with all of them: each run is a process."""
    first, *others = commands
    pairs = [(first, streams) for streams in OUTPUT_REFUSED]
    pairs += zip(others, itertools.cycle(OUTPUT_REFUSED), strict=False)
    return [pytest.param(list(command), streams, id=f"{' '.join(command)} {streams}") for command, streams in pairs]


@pytest.mark.parametrize(("command", "streams"), in_turn(ANSWERS))
def test_an_answer_that_can_not_be_printed_is_one_line(shell, command, streams, tea):
    done = shell(*command, streams=streams)
    assert done.returncode == 1
    assert one_line(done).startswith(f"standard output can't be written: {OUTPUT_REFUSED[streams]}; ")


@pytest.mark.parametrize("streams", OUTPUT_REFUSED)
def test_a_change_that_can_not_be_told_is_done(shell, stored, streams):
    done = shell("add", "Likes tea", streams=streams)
    assert done.returncode == 0
    assert one_line(done).startswith(f"standard output can't be written: {OUTPUT_REFUSED[streams]}; ")
    assert stored() == ["Likes tea"]


def test_a_change_whose_json_can_not_be_printed_fails(shell, stored):
    done = shell("add", "Likes tea", "--json", streams=">&-")
    assert done.returncode == 1
    assert "nothing that was changed is undone" in one_line(done)
    assert stored() == ["Likes tea"]


@pytest.mark.parametrize("streams", [">/dev/full", ">&-"])
def test_a_migration_that_can_not_be_told_goes_on(shell, place, streams):
    for user in ("ana", "ben"):
        document = place / "s" / "users" / user / "memory.json"
        document.parent.mkdir(parents=True)
        document.write_text(json.dumps({"version": "1.0", "facts": [{"id": "a", "content": f"About {user}"}]}))
    done = shell("migrate", "--all-users", streams=streams)
    assert done.returncode == 0
    one_line(done)
    assert "About ben" in shell("--user", "ben", "list").stdout


FAILURES = {("show", "nope"): 1, ("bogus",): 2, ("add", ""): 2, ("list", "--limit", "x"): 2}


@pytest.mark.parametrize(("command", "streams"), in_turn(FAILURES))
def test_an_error_whose_json_can_not_be_printed_is_one_line(shell, command, streams):
    done = shell("--json", *command, streams=streams)
    assert done.returncode == FAILURES[tuple(command)]
    assert "standard output" not in one_line(done)


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full"])
def test_without_standard_error_the_code_and_the_document_stay(shell, streams):
    done = shell("--json", "show", "nope", streams=streams)
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["error"]["type"] == "FactNotFound"
    assert shell("list", streams=streams).returncode == 0
    assert shell("bogus", streams=streams, DEERMEM_DEBUG="1").returncode == 2


def test_without_any_stream_the_code_is_right(shell, stored):
    every = "<&- >&- 2>&-"
    assert shell("add", "Likes tea", streams=every).returncode == 0
    assert shell("list", streams=every).returncode == 1
    assert shell("add", "-", streams=every).returncode == 2
    assert stored() == ["Likes tea"]


@pytest.mark.parametrize("streams", ["<&-", "0>/dev/null"])
@pytest.mark.parametrize("command", [["add", "-"], ["import", "-"], ["summaries", "set", "topOfMind", "-"]])
def test_standard_input_that_can_not_be_read_is_one_line(shell, place, command, streams):
    done = shell(*command, streams=streams)
    assert done.returncode == 2
    assert one_line(done).startswith("standard input can't be read: it is closed; ")
    assert not (place / "s").exists()


def test_clear_asks_nobody_where_standard_input_is_closed(shell, stored, tea):
    done = shell("clear", streams="<&-")
    assert done.returncode == 2
    assert "--yes" in one_line(done)
    assert stored() == ["Likes tea"]


def test_an_editor_gets_no_file_of_the_store_in_the_place_of_a_closed_stream(shell, stored, place):
    editor = place / "editor"
    editor.write_text('#!/bin/sh\necho noise\necho noise >&2\necho "Likes tea" >> "$1"\n')
    editor.chmod(0o755)
    assert shell("add", "--edit", streams="<&- >&- 2>&-", VISUAL=str(editor)).returncode == 0
    assert stored() == ["Likes tea"]
    assert not any(b"noise" in path.read_bytes() for path in (place / "s").rglob("*") if path.is_file())


def test_the_help_says_that_it_is_no_json(shell):
    done = shell("--json", "list", "--help")
    assert done.returncode == 0
    assert "--help stays text" in " ".join(done.stdout.split())


# --- what the operating system refuses


@pytest.mark.parametrize("command", [["list"], ["stats"], ["search", "tea"], ["add", "x"], ["migrate", "--all-users"]])
def test_a_store_that_may_not_be_entered_is_named(ordinary, place, command):
    ordinary("add", "Likes tea")
    (place / "s").chmod(0)
    done = ordinary(*command)
    assert done.returncode == 1
    assert one_line(done).startswith(f"{place / 's'}")
    assert "Permission denied; check its owner and permissions" in done.stderr


def test_a_root_in_a_place_that_may_not_be_entered_is_named(ordinary, place):
    (place / "closed").mkdir(mode=0o700)
    (place / "closed").chmod(0)
    done = ordinary("add", "x", at=place / "closed" / "s")
    assert done.returncode == 1
    assert one_line(done).startswith(f"{place / 'closed'}")
    assert "Permission denied; check its owner and permissions" in done.stderr


def test_clear_names_a_fact_that_may_not_be_read(ordinary, place):
    ordinary("add", "Likes tea")
    path = fact_file(place)
    path.chmod(0)
    done = ordinary("clear", "--yes")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"deermem: {path}: Permission denied; check its owner and permissions")
    assert "DEERMEM_DEBUG" not in done.stderr
    assert path.exists()


def test_an_editor_that_leaves_a_folder_is_named(ordinary, place):
    ordinary("add", "Likes tea")
    editor = place / "editor"
    editor.write_text('#!/bin/sh\nrm "$1"\nmkdir "$1"\n')
    editor.chmod(0o755)
    done = ordinary("edit", fact_file(place).stem, VISUAL=str(editor), TMPDIR=str(place))
    assert done.returncode == 1
    assert f"{fact_file(place).name}: Is a directory; " in one_line(done)
    assert "DEERMEM_DEBUG" not in done.stderr


# --- a store that may only be read


def make_read_only(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)


READS = (["search", "tea"], ["check"])


@pytest.mark.parametrize("command", READS, ids=" ".join)
def test_a_store_that_may_only_be_read_costs_one_line(ordinary, place, command):
    ordinary("add", "Likes tea")
    ordinary("--user", "bob", "add", "Likes tea as well")
    index = place / "s" / ".retrieval" / "index.sqlite3"
    expected = ordinary(*command).stdout
    before = index.read_bytes()
    make_read_only(place / "s")
    done = ordinary(*command)
    assert (done.returncode, done.stdout) == (0, expected)
    assert one_line(done).startswith(f"the index {index} can't be written (")
    assert "removed" not in done.stderr
    assert index.read_bytes() == before


def test_an_index_that_may_only_be_read_is_read(ordinary, place):
    ordinary("add", "Likes tea")
    index = place / "s" / ".retrieval" / "index.sqlite3"
    # Without a write-ahead log, as on a network file system: that needs no second file to be read.
    import sqlite3

    with sqlite3.connect(index) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    make_read_only(index.parent)
    done = ordinary("search", "tea")
    assert "Likes **tea**" in done.stdout
    assert one_line(done).endswith("it is only read")
    assert ordinary("add", "Drinks tea").returncode == 0
    assert {"Likes **tea**", "Drinks **tea**"} <= {
        line.strip() for line in ordinary("search", "tea").stdout.splitlines()
    }
    assert ordinary("reindex").returncode == 1
    assert index.exists()


# --- files that are not served


@pytest.fixture
def unserved(place: Path, tea: None) -> Path:
    """A file of the store that no fact can be read from."""
    bad = fact_file(place).with_name("bad.md")
    bad.write_text("---\nid: bad\nconfidence: high\n---\nText\n")
    return bad


@pytest.mark.parametrize("command", [["list"], ["search", "tea"], ["context"], ["export"], ["stats"]], ids=" ".join)
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_a_file_that_is_not_served_is_named_once(call, place, command, options, unserved):
    answer = call(*command, *options, at=place / "s")
    assert answer.code == 0
    assert answer.complaint.startswith(f"{unserved}:3 is not served: confidence is 'high'")


def test_check_names_it_in_its_answer_alone(call, place, unserved):
    for command in ("check", "doctor"):
        answer = call(command, at=place / "s")
        assert (answer.code, answer.err) == (1, "")
        assert str(unserved) in answer.out
