"""docs/migration.md: its rehearsal is run as it stands, its commands can be parsed, its reasons are the real ones."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builders_store import fact_text
from builders_v1 import LEAD, V2, as_json, v1_document, v1_fact, write_store

import deermem
from deermem.cli.invocation import Invocation
from deermem.cli.main import program
from deermem.format.paths import fact_path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "migration.md").read_text(encoding="utf-8")
HERE = "agents/__default__/facts/aa/fact_1.md"
CODER = "agents/coder/memory.json"


def marked(name: str) -> str:
    """The one fenced block behind a mark."""
    found = re.findall(rf"<!-- {name} -->\n```(?:sh)?\n(.*?)```", PAGE, re.DOTALL)
    assert len(found) == 1
    return found[0]


@pytest.fixture
def person(tmp_path: Path) -> dict[str, str]:
    """An environment with `deermem` on the PATH, of the package under test, and no settings of the host."""
    package_parent = Path(deermem.__file__).resolve().parent.parent
    command = tmp_path / "bin" / "deermem"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m deermem "$@"\n')
    command.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DEERMEM_")}
    return {**kept, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(package_parent)}


def test_the_rehearsal_prints_what_the_page_shows(tmp_path, person):
    folder = tmp_path / "empty"
    folder.mkdir()
    done = subprocess.run(
        ["bash", "-uo", "pipefail", "-c", marked("rehearsal")],
        cwd=folder,
        env=person,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, marked("printed").splitlines())
    backups = [path.relative_to(folder / "store/users").as_posix() for path in folder.glob("store/**/*.v1.bak")]
    assert sorted(backups) == [
        "ana/memory.json.v1.bak",
        "ben/agents/coder/memory.json.v1.bak",
        "ben/memory.json.v1.bak",
        "cleo/memory.json.v1.bak",
    ]


def test_every_command_can_be_parsed():
    calls = re.findall(r"(?:^|`|\| |xargs |&& )(deermem (?:-|[a-z])[^`|>&\n]*)", PAGE, re.MULTILINE)
    assert len(calls) > 20
    for line in calls:
        words = shlex.split(line, comments=True)[1:]
        place = next(number for number, word in enumerate(words) if word in program.commands)
        program.make_context("deermem", words[: place + 1], obj=Invocation())
        context = program.commands[words[place]].make_context(words[place], words[place + 1 :], obj=Invocation())
        assert context.args == [], line


def test_every_link_leads_to_a_heading():
    docs = Path(__file__).resolve().parents[2] / "docs"
    targets = re.findall(r"\]\(([a-z-]*(?:\.md)?)(?:#([a-z0-9-]+))?\)", PAGE)
    assert len(targets) > 5
    for name, heading in targets:
        text = (docs / name).read_text(encoding="utf-8") if name else PAGE
        slugs = [re.sub(r"[^a-z0-9 -]", "", line.lower()).strip().replace(" ", "-") for line in headings(text)]
        assert not heading or heading in slugs, (name, heading)


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ (.+)$", text, re.MULTILINE)


# --- the reasons


def mapping(**entry: object) -> bytes:
    return as_json({"version": "1.0", "facts": {"fact_1": {"path": HERE, **entry}}})


ONE = as_json(v1_document(v1_fact()))
TEXT = fact_text("fact_1", "Ann plays the cello.")
STORES: dict[str, dict[str, bytes | str]] = {
    "facts[": {"memory.json": as_json(v1_document(v1_fact(confidence=9)))},
    "it is not valid JSON": {"memory.json": ONE[:90]},
    "it is not UTF-8 at byte": {"memory.json": '{"facts": [{"content": "Grüße"}]}'.encode("latin-1")},
    "it holds NUL bytes": {"memory.json": ONE.decode().encode("utf-16")},
    "it holds a JSON list": {"memory.json": as_json([v1_fact()])},
    "give a list of facts": {"memory.json": as_json({"version": "1.0", "facts": 7})},
    "newer than the": {"memory.json": as_json(v1_document(v1_fact(), version="3.0"))},
    "which is none": {"memory.json": as_json(v1_document(v1_fact(), version="new"))},
    "twice": {"memory.json": as_json(v1_document(v1_fact(), v1_fact(content="Other.")))},
    "ids have no case": {"memory.json": as_json(v1_document(v1_fact("One"), v1_fact("onE")))},
    "holds another content": {"memory.json": ONE, HERE: fact_text("fact_1", "Other.")},
    "already and differs in": {
        "memory.json": V2,
        LEAD: fact_text("fact_u1", "Old.", agent_name="lead-agent", mood="good"),
        fact_path("__default__", "fact_u1"): fact_text("fact_u1", "Old."),
    },
    "already and can't be read": {"memory.json": ONE, HERE: "---\nid: [\n---\n"},
    "holds a fact of another id": {
        "memory.json": ONE,
        fact_path("__default__", "fact_1"): fact_text("fact_2", "Other."),
    },
    "holds a fact of another owner": {
        "memory.json": ONE,
        fact_path("__default__", "fact_1"): fact_text("fact_1", "Ann plays the cello.", user_id="eve"),
    },
    "who is not this one": {"memory.json": as_json(v1_document(v1_fact(userId="eve")))},
    "has other summaries": {
        "memory.json": as_json(v1_document(v1_fact(), work="One.")),
        CODER: as_json(v1_document(v1_fact("fact_2"), work="Other.")),
    },
    "is there already and differs": {"memory.json": ONE, "memory.json.v1.bak": "{}"},
    "is no regular file": {"memory.json": ONE, "memory.json.v1.bak/inside": "x"},
    "holds unexpected files": {
        "memory.json": V2,
        LEAD: fact_text("fact_u1", "Old.", agent_name="lead-agent"),
        "agents/lead-agent/notes.txt": "x",
    },
    "contentHash": {"memory.json": mapping(contentHash="sha256:00"), HERE: TEXT},
    "escapes the user's fact folders": {"memory.json": mapping(path="../x.md")},
    "which does not exist": {"memory.json": mapping()},
}
ELSEWHERE = {
    "is a link": "tests/cli/test_migrate_obstacles.py",
    "is not writable": "tests/cli/test_migrate_obstacles.py",
    "Permission denied": "tests/cli/test_migrate_obstacles.py",
    "is sealed and not in its place yet": "tests/unit/migrate/test_stopped_commits.py",
    "lies on another file system": "nothing that a test may mount",
    "is being edited right now": "tests/crash",
}


def reasons() -> list[str]:
    """What the table says that a message says."""
    table = PAGE.split("<!-- reasons -->")[1].split("\n## ")[0]
    return re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE)


def test_every_reason_of_the_table_is_held_against_a_store():
    known = [*STORES, *ELSEWHERE]
    assert len(reasons()) > 20
    assert [reason for reason in reasons() if sum(key in reason for key in known) != 1] == []
    assert [key for key in known if not any(key in reason for reason in reasons())] == []


@pytest.mark.parametrize("key", STORES)
def test_a_store_stops_with_the_words_of_the_table(call: Callable[..., object], root, key):
    files = {path: data.encode() if isinstance(data, str) else data for path, data in STORES[key].items()}
    write_store(root / "users" / "ann", files)
    (reason,) = (reason for reason in reasons() if key in reason)
    (user,) = json.loads(call("migrate", "--user-id", "ann", "--dry-run", "--json").out)["users"]
    assert user["outcome"] == "failed"
    words = ".*".join(re.escape(part) for part in reason.split("…"))
    assert [problem for problem in user["problems"] if re.search(words, problem)] == user["problems"]
