"""migrate beside what lies in its way: a dry run says what the run does, and who stops keeps every byte."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders_store import ordinary_user
from builders_v1 import as_json, v1_document, v1_fact

from deermem.format.paths import fact_path

PLACE = fact_path("__default__", "fact_1")
SHARD = PLACE.rpartition("/")[0]
Obstacle = Callable[[Path], None]


def folder(path: str) -> Obstacle:
    return lambda home: (home / path).mkdir(parents=True)


def file(path: str, text: str = "x") -> Obstacle:
    def make(home: Path) -> None:
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)

    return make


def link(path: str, target: str = "nowhere") -> Obstacle:
    def make(home: Path) -> None:
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).symlink_to(target)

    return make


def pipe(path: str) -> Obstacle:
    def make(home: Path) -> None:
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(home / path)

    return make


OBSTACLES: dict[str, tuple[Obstacle, str]] = {
    "a folder for a backup": (folder("memory.json.v1.bak"), "memory.json.v1.bak is there already"),
    "a link for a backup": (link("memory.json.v1.bak", "memory.json"), "memory.json.v1.bak is there already"),
    "a dangling link for a backup": (link("memory.json.v1.bak"), "memory.json.v1.bak is there already"),
    "a pipe for a backup": (pipe("memory.json.v1.bak"), "memory.json.v1.bak is there already"),
    "a folder for a fact": (folder(PLACE), f"{PLACE} is there already"),
    "a link for a fact": (link(PLACE), f"{PLACE} already and can't be read"),
    "a file for agents": (file("agents"), "agents is no folder"),
    "a link for agents": (link("agents", ".."), "agents is a link"),
    "a file for an agent": (file("agents/__default__"), "agents/__default__ is no folder"),
    "a file for facts": (file("agents/__default__/facts"), "agents/__default__/facts is no folder"),
    "a file for a folder of facts": (file(SHARD), f"{SHARD} is no folder"),
    "a link for a lock": (link(".memory.lock"), ".memory.lock is no regular file"),
    "a folder for a lock": (folder(".memory.lock"), ".memory.lock is no regular file"),
}

MODES: dict[str, int] = {
    "": 0o500,
    "memory.json": 0,
    "agents": 0,
    "agents/coder": 0o300,
    "agents/coder/memory.json": 0o200,
    ".memory.lock": 0o400,
    ".journal": 0o500,
    ".journal/record": 0,
}


def contents(home: Path) -> dict[str, bytes | str]:
    """Everything below a folder but the lock and the journal: bytes of files, targets of links, "" for the rest."""
    found: dict[str, bytes | str] = {}
    for path in sorted(home.rglob("*")):
        name = path.relative_to(home).as_posix()
        if name.startswith((".journal", ".memory.lock")):
            continue
        found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
    return found


@pytest.fixture
def users(root: Path) -> dict[str, Path]:
    """Ana and zoe, in whose way nothing is, and mia between them."""
    homes = {name: root / "users" / name for name in ("ana", "mia", "zoe")}
    for home in homes.values():
        (home / "agents" / "coder").mkdir(parents=True)
        (home / "memory.json").write_bytes(as_json(v1_document(v1_fact())))
    return homes


def outcomes(answer) -> dict[str, tuple[str, list[str]]]:
    return {user["user"]: (user["outcome"], user["problems"]) for user in answer.json["users"]}


def judged(call, mia: Path) -> str:
    """Mia's only reason; a dry run, the run and a second one all give it, nothing of hers changes, others go on."""
    before = contents(mia)
    dry = outcomes(call("migrate", "--all-users", "--dry-run", "--json"))
    done = outcomes(call("migrate", "--all-users", "--json"))
    again = outcomes(call("migrate", "--all-users", "--json"))
    assert dry["ana"] == dry["zoe"] == ("planned", [])
    assert done["ana"] == done["zoe"] == ("migrated", [])
    assert again["ana"] == again["zoe"] == ("current", [])
    assert dry["mia"] == done["mia"] == again["mia"]
    outcome, problems = done["mia"]
    assert (outcome, len(problems)) == ("failed", 1)
    assert contents(mia) == before
    return problems[0]


@pytest.mark.parametrize("name", OBSTACLES)
def test_what_stands_in_the_way_stops_a_user_before_a_byte_is_written(call, users, name):
    make, expected = OBSTACLES[name]
    if name.endswith("for agents"):
        (users["mia"] / "agents" / "coder").rmdir()
        (users["mia"] / "agents").rmdir()
    make(users["mia"])
    problem = judged(call, users["mia"])
    assert f"users/mia/{expected}" in problem
    assert "; " in problem or ", move it away" in problem
    assert "being edited" not in problem


@pytest.fixture
def closed(users: dict[str, Path], request: pytest.FixtureRequest) -> Iterator[Path]:
    """Mia's folder, of a user to whom modes apply, with the one place closed that the test is about."""
    mia = users["mia"]
    file(".memory.lock", "")(mia)
    file(".journal/record", "")(mia)
    file("agents/coder/memory.json", json.dumps(v1_document(v1_fact("fact_2", "Types."))))(mia)
    store = mia.parents[1]
    if os.geteuid() == 0:
        for path in [store, *store.rglob("*")]:
            os.chown(path, 65534, 65534)
        # pytest's own folders are root's alone.
        for above in store.parents[:4]:
            if above.stat().st_mode & 0o011 != 0o011:
                above.chmod(above.stat().st_mode | 0o011)
    place = mia / request.param
    mode = place.stat().st_mode
    place.chmod(MODES[request.param])
    yield place
    place.chmod(mode)


@pytest.mark.parametrize("closed", MODES, indirect=True)
def test_a_closed_place_stops_its_user_alone_and_is_named(call, users, closed):
    mia = users["mia"]
    with ordinary_user():
        dry = outcomes(call("migrate", "--all-users", "--dry-run", "--json"))
        done = outcomes(call("migrate", "--all-users", "--json"))
    assert dry["zoe"] == ("planned", [])
    assert done["ana"] == done["zoe"] == ("migrated", [])
    assert dry["mia"] == done["mia"]
    assert done["mia"][0] == "failed"
    assert all(str(mia) in problem and "check its owner and permissions" in problem for problem in done["mia"][1])
    assert not list(mia.rglob("*.v1.bak")) or closed == mia / "agents" / "coder" / "memory.json"


def test_facts_behind_a_link_do_not_pass_for_the_users_own(call, users):
    """They hold the same fact, and would make its document one that is migrated already."""
    assert call("migrate", "--user-id", "ana").code == 0
    mia = users["mia"]
    (mia / "agents" / "coder").rmdir()
    (mia / "agents").rmdir()
    (mia / "agents").symlink_to("../ana/agents")
    before = contents(mia)
    for options in (["--dry-run"], []):
        answer = outcomes(call("migrate", "--user-id", "mia", "--json", *options))
        assert answer["mia"] == (
            "failed",
            [f"{mia / 'agents'} is a link; links below the root are not followed, move it away"],
        )
    assert contents(mia) == before


def test_a_journal_that_is_no_folder_is_set_aside_as_a_dry_run_says(call, users):
    file(".journal", "mine")(users["mia"])
    assert outcomes(call("migrate", "--all-users", "--dry-run", "--json"))["mia"] == ("planned", [])
    assert outcomes(call("migrate", "--all-users", "--json"))["mia"] == ("migrated", [])
    assert [path.read_text() for path in users["mia"].glob(".journal.set-aside-*")] == ["mine"]


def test_a_mended_document_goes_although_it_was_stopped_before(call, users):
    """A try that failed leaves no backup which the mended document would differ from."""
    mia = users["mia"]
    (mia / PLACE).mkdir(parents=True)
    assert call("migrate", "--user-id", "mia").code == 1
    (mia / "memory.json").write_bytes(as_json(v1_document(v1_fact("fact_9", "Another."))))
    (mia / PLACE).rmdir()
    assert call("migrate", "--user-id", "mia").code == 0


@pytest.mark.parametrize("time", ["", "  ", None])
def test_a_blank_time_is_no_time(call, users, clock, time):
    """It gets the time of the run, which later must not pass for a change."""
    document = json.dumps(v1_document({"id": "fact_1", "content": "Likes tea", "createdAt": time, "updatedAt": time}))
    (users["mia"] / "memory.json").write_text(document)
    assert call("migrate", "--user-id", "mia").code == 0
    later = call("migrate", "--user-id", "mia", "--verify")
    assert (later.code, later.out.splitlines()[0]) == (0, "mia: already current, verified 1 fact and 0 summaries")
    assert call("migrate", "--restore", "mia").code == 0


def test_folders_that_no_user_has_are_named(call, users, root):
    (root / "users" / "a@b.c").mkdir()
    (root / "users" / "a@b.c" / "memory.json").write_bytes(as_json(v1_document(v1_fact())))
    (root / "users" / "away").symlink_to(users["ana"])
    answer = call("migrate", "--all-users", "--dry-run")
    assert answer.code == 0
    hint = "; `deermem check --all` says what to do"
    assert answer.err.splitlines() == [
        f"deermem: passed over in users/, a link: 'away'{hint}",
        f"deermem: passed over in users/, a folder whose name no user id has: 'a@b.c'{hint}",
    ]
    assert call("migrate", "--user-id", "ana", "--dry-run").err == ""
    checked = call("check", "--all").out
    assert "a@b.c" in checked
    assert "away" in checked


def test_root_is_told_that_the_stores_owner_could_not_read_what_it_writes(call, users, root, monkeypatch):
    if os.geteuid() == 0:
        os.chown(root, 65534, 65534)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert call("migrate", "--user-id", "ana", "--dry-run").err == ""
    assert (
        f"{root} belongs to the user with the number {root.stat().st_uid}"
        in call("migrate", "--user-id", "ana").complaint
    )
