"""What keeps memory of the no-user root from moving, all of it or one thing: named, with nothing lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from builders_isolation import STORE, below, everything, moved, problem
from builders_store import fact_text, place, tree
from builders_v1 import as_json, v1_document, v1_fact, write_store

from deermem import DeerMem
from deermem.errors import DeerMemError, InvalidInput, LockTimeout, StoreUnavailable
from deermem.store.files import Files
from deermem.store.layout import Layout


@pytest.mark.parametrize("form", ["file", "document", "agent document"])
def test_a_fact_of_somebody_else_stops_everything_before_it_moves(root: Path, form: str) -> None:
    document = as_json(v1_document(v1_fact("f_bob", user_id="bob")))
    given = {
        "file": {"agents/coder/facts/f_bob.md": fact_text("f_bob", user_id="bob").encode()},
        "document": {"memory.json": document},
        "agent document": {"agents/coder/memory.json": document},
    }[form]
    write_store(root, STORE | given)
    before = tree(root)
    for dry_run in (True, False):
        problem(moved(root, dry_run=dry_run), next(iter(given)), "'f_bob'", "'bob'", "nothing was moved")
    assert tree(root) == before
    assert not (root / "users").exists()


def test_facts_that_name_the_user_move_and_are_served(root: Path) -> None:
    write_store(root, {"agents/coder/facts/f_own.md": fact_text("f_own", user_id="a@b.org").encode()})
    assert moved(root, "a@b.org").ok
    with DeerMem(root) as engine:
        assert [fact.id for fact in engine.memory("a@b.org", "coder").list()] == ["f_own"]


def test_unreadable_facts_and_documents_move_as_they_are(root: Path) -> None:
    given = {"memory.json": b'{"facts": [', "agents/coder/facts/odd.md": b"---\nid: [\n---\n"}
    write_store(root, given)
    assert moved(root).ok
    assert tree(root) == below("users/ann", given)


def test_links_are_named_and_neither_moved_nor_followed(root: Path, tmp_path: Path) -> None:
    outside = write_store(tmp_path / "outside", {"a.txt": b"a"})
    write_store(root, STORE)
    (root / "agents/coder/skills").symlink_to(outside)
    (root / "agents/writer").symlink_to(outside)
    result = moved(root)
    assert [line.split(" stays")[0] for line in result.problems] == ["agents/coder/skills", "agents/writer"]
    assert (root / "agents/coder/skills").is_symlink()
    assert tree(root / "users/ann") == STORE
    assert tree(outside) == {"a.txt": b"a"}


@pytest.mark.parametrize("name", ["memory.json", "agents"])
def test_a_link_in_the_place_of_the_memory_is_named(root: Path, tmp_path: Path, name: str) -> None:
    root.mkdir()
    (root / name).symlink_to(tmp_path)
    problem(moved(root), f"{name} stays", "link")
    assert not (root / "users").exists()


def test_a_memory_json_that_is_a_folder_stays(root: Path) -> None:
    write_store(root, {"memory.json/a": b"a"})
    problem(moved(root), "memory.json stays", "folder")


@pytest.mark.parametrize("kind", ["link", "file", "root"])
def test_a_users_folder_that_is_none_stops_everything(root: Path, tmp_path: Path, kind: str) -> None:
    write_store(root, STORE)
    if kind == "link":
        (root / "users").mkdir()
        (root / "users/ann").symlink_to(tmp_path)
    elif kind == "file":
        place(root / "users/ann", "x")
    else:
        (root / "users").symlink_to(root.parent)
    before = everything(root)
    with pytest.raises(DeerMemError, match=r"is a link|is no folder|is the root itself"):
        moved(root, root.name if kind == "root" else "ann")
    assert everything(root) == before


def test_two_file_systems_are_refused_until_a_copy_is_there(root: Path) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == root.parent.stat().st_dev:
        pytest.skip("there is no second file system")
    elsewhere = memory / f"deermem-isolation-{os.getpid()}"
    write_store(root, STORE)
    (root / "users").symlink_to(elsewhere)
    elsewhere.mkdir()
    try:
        problem(moved(root), "two file systems", "cp -a")
        assert tree(root) == STORE
        write_store(elsewhere / "ann", STORE)
        assert moved(root).ok
        assert not (root / "memory.json").exists()
        assert not (root / "agents").exists()
        assert tree(elsewhere / "ann") == STORE
    finally:
        shutil.rmtree(elsewhere)


def test_a_folder_that_a_mount_shows_in_both_places_is_left_alone(root: Path) -> None:
    write_store(root, STORE | below("users/ann", STORE))

    class Mounted(Files):
        """What the system says of a folder that is mounted in a second place."""

        def stat(self, path: str) -> os.stat_result | None:
            return super().stat(path.replace("/users/ann/agents/coder", "/agents/coder"))

    problem(moved(root, files=Mounted()), "agents/coder stays", "mounted twice")
    assert tree(root / "agents") == tree(root / "users/ann/agents")


@pytest.mark.parametrize(
    ("closed", "words"),
    [
        ("", "store is not writable"),
        ("agents", "agents is not writable"),
        ("agents/coder", "agents/coder is not writable"),
        (".memory.lock", ".memory.lock can't be opened"),
        ("users/ann", "users/ann is not writable"),
        ("users/ann/agents", "users/ann/agents is not writable"),
    ],
)
def test_where_the_storage_would_refuse_is_said_before_anything_moves(
    root: Path, monkeypatch: pytest.MonkeyPatch, closed: str, words: str
) -> None:
    write_store(root, STORE | {".memory.lock": b"", "users/ann/agents/writer/config.yaml": b"w"})
    before = everything(root)
    target, granted = os.path.normpath(root / closed), os.access

    def access(path: str | Path, mode: int) -> bool:
        return not (os.fspath(path) == target and mode & os.W_OK) and granted(path, mode)

    monkeypatch.setattr(os, "access", access)
    for dry_run in (True, False):
        problem(moved(root, dry_run=dry_run), words)
        assert everything(root) == before


HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("holder", [None, "ann"])
def test_a_store_that_is_in_use_is_left_alone(root: Path, holder: str | None) -> None:
    write_store(root, STORE | below("users/ann", {"agents/coder/notes.txt": b"n"}))
    before = tree(root)
    command = [sys.executable, "-c", HOLDER, str(Layout(root).user(holder).lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(LockTimeout, match=r"memory\.lock is held by"):
            moved(root)
        process.communicate(b"")
    assert tree(root) == before
    assert moved(root).ok


@pytest.mark.parametrize("user", ["", "a" * 129])
def test_an_id_that_no_folder_can_have_is_refused(root: Path, user: str) -> None:
    write_store(root, STORE)
    with pytest.raises(InvalidInput, match="user_id"):
        moved(root, user)


def test_a_store_that_is_not_there_is_not_made(root: Path) -> None:
    with pytest.raises(StoreUnavailable, match="there is no store"):
        moved(root)
    assert not root.exists()
