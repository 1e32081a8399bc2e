"""What check finds around the facts: file systems, links, folders that are closed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders_store import facts_of, ordinary_user, place

from deermem import DeerMem, Settings
from deermem.model.scope import Scope
from deermem.store import fingerprints
from deermem.store.network import unsafe_file_system


@pytest.fixture
def engine(root: Path, clock) -> Iterator[DeerMem]:
    with DeerMem(root, clock=clock) as opened:
        opened.memory("alice", "coder").add("In order.")
        yield opened


def found(engine: DeerMem, user: str | None = None) -> dict[str, tuple[str, str]]:
    """Path → severity and code."""
    return {finding.path: (finding.severity, finding.code) for finding in engine.check(user)}


# --- file systems


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "fuse.sshfs", "fuse.rclone"])
def test_a_store_on_a_network_file_system_is_a_warning(engine, root, monkeypatch, kind):
    monkeypatch.setattr(fingerprints, "file_system", lambda device: kind)
    for user in (None, "alice"):
        (finding,) = engine.check(user)
        assert (finding.severity, finding.code, finding.path) == ("warning", "network-file-system", str(root))
        assert kind in finding.message
        assert "local disk" in finding.hint


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "apfs", ""])
def test_other_file_systems_are_nothing_to_speak_of(engine, monkeypatch, kind):
    monkeypatch.setattr(fingerprints, "file_system", lambda device: kind)
    assert engine.check() == []


def test_an_index_elsewhere_is_judged_where_it_lies(root, tmp_path, monkeypatch):
    index = tmp_path / "index"
    index.mkdir()
    devices = {root: 1, index: 2}
    real = os.stat

    def stat(path, *rest, **named):
        status = real(path, *rest, **named)
        if path not in devices:
            return status
        return os.stat_result((*status[:2], devices[path], *status[3:10]))

    with DeerMem(root, Settings(index_root=str(index))) as engine:
        engine.memory("alice").add("A fact.")
        monkeypatch.setattr("deermem.store.network.os.stat", stat)
        monkeypatch.setattr(fingerprints, "file_system", {1: "ext4", 2: "nfs4"}.get)
        assert [(finding.code, finding.path) for finding in engine.check("alice")] == [
            ("network-file-system", str(index))
        ]


def test_a_folder_that_is_not_there_yet_is_judged_by_the_one_above(tmp_path):
    device = os.stat(tmp_path).st_dev
    seen = []
    kind = unsafe_file_system(tmp_path / "a" / "b", lambda number: seen.append(number) or "cifs")
    assert (kind, seen) == ("cifs", [device])


# --- links


def test_links_are_named_because_they_are_passed_over(engine, root, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    place(elsewhere / "linked.md", "Not served.\n")
    facts = facts_of(root)
    links = [root / "users/bob", root / "users/alice/agents/writer", facts / "more", facts / "one.md"]
    for link in links[:3]:
        link.symlink_to(elsewhere, target_is_directory=True)
    links[3].symlink_to(elsewhere / "linked.md")
    (root / "users/alice/agents/coder/SOUL.md").symlink_to(elsewhere / "linked.md")
    assert found(engine) == {str(link): ("info", "link") for link in links}
    assert found(engine, "alice") == {str(link): ("info", "link") for link in links[1:]}
    assert found(engine, "bob") == {str(links[0]): ("info", "link")}
    assert [fact.content for fact in engine.memory("alice", "coder").list()] == ["In order."]


def test_a_document_that_is_a_link_is_named(engine, root, tmp_path):
    document = root / "users/alice/memory.json"
    document.rename(tmp_path / "memory.json")
    document.symlink_to(tmp_path / "memory.json")
    assert found(engine) == {str(document): ("info", "link")}


def test_the_root_itself_may_be_a_link(engine, root, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(root, target_is_directory=True)
    with DeerMem(link) as other:
        other.memory().add("Of nobody.")
        other.memory("alice").add("More.")
        assert other.check() == []
        assert other.check("alice") == []


# --- folders that no name leads to


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Coder", "move what it holds into 'coder'"),
        ("Writer", "rename it to 'writer'"),
        ("my agent", "letters, digits and hyphens"),
    ],
)
def test_facts_in_a_folder_that_is_no_agents_are_named(engine, root, name, hint):
    folder = root / "users/alice/agents" / name
    place(folder / "facts/ab/fact_x.md", "Nobody sees this.\n")
    for user in (None, "alice"):
        (finding,) = engine.check(user)
        assert (finding.severity, finding.code, finding.path) == ("warning", "unreachable-folder", str(folder))
        assert hint in finding.hint
        assert "move it away" in finding.hint
    assert engine.check(fix=True) == engine.check()
    assert engine.agents("alice") == ["coder"]
    assert (folder / "facts/ab/fact_x.md").is_file()


def test_an_old_document_in_a_folder_that_is_no_agents_is_named(engine, root):
    folder = root / "users/alice/agents/Coder"
    place(folder / "memory.json", '{"facts": [{"content": "Nobody sees this."}]}')
    (finding,) = engine.check("alice")
    assert (finding.severity, finding.code, finding.path) == ("warning", "unreachable-folder", str(folder))


@pytest.mark.skipif(os.name != "posix", reason="needs mkdir and rm")
def test_folders_may_nest_deeper_than_python_recurses(engine, root):
    memory = engine.memory("alice", "coder")
    before = len(memory.list())
    facts = root / "users/alice/agents/coder/facts"
    deep = "/".join("d" * 1100)
    subprocess.run(["mkdir", "-p", deep], cwd=facts, check=True)
    (facts / deep / "x.md").touch()
    try:
        assert len(memory.list()) == before
        assert [finding.code for finding in engine.check("alice")] == ["empty-file"]
    finally:
        # Python's own way to remove them recurses too.
        subprocess.run(["rm", "-r", "d"], cwd=facts, check=True)


@pytest.mark.parametrize("inside", ["agents/coder/facts/ab/fact_x.md", "agents/Any/facts/x.md", "memory.json"])
def test_memory_in_a_folder_that_no_id_maps_to_is_named(engine, root, inside):
    folder = root / "users/bad name"
    place(folder / inside, "{}")
    right = Scope("bad name").user_folder
    for user in (None, "bad name"):
        (finding,) = engine.check(user)
        assert (finding.severity, finding.code, finding.path) == ("warning", "unreachable-folder", str(folder))
        assert f"rename it to {right!r}" in finding.hint
    assert engine.check("alice") == []
    assert engine.users() == ["alice"]
    engine.memory("bad name").add("In the right place.")
    (finding,) = engine.check()
    assert f"move what it holds into {right!r}" in finding.hint


def test_a_user_folder_whose_name_is_too_long_is_named(engine, root):
    folder = root / "users" / ("n" * 129)
    place(folder / "memory.json", "{}")
    assert found(engine) == {str(folder): ("warning", "unreachable-folder")}


def test_other_folders_of_the_host_are_nothing_to_speak_of(engine, root):
    for path in ("users/bad name/notes.txt", "users/.old/memory.json", "users/alice/agents/My Tools/SOUL.md"):
        place(root / path, "The host's.")
    (root / "users/alice/agents/My Tools/facts/ab").mkdir(parents=True)
    place(root / "users/alice/agents/.old/facts/a.md", "Put away.")
    assert engine.check() == []


# --- folders without permission


@pytest.mark.parametrize("closed", ["users/alice/agents/coder/facts/zz", "users/alice/agents/coder/facts"])
def test_a_closed_folder_is_a_warning(engine, root, closed):
    folder = root / closed
    folder.mkdir(exist_ok=True)
    for path in [root.parent, *(path for path in root.rglob("*")), root]:
        path.chmod(0o777 if path.is_dir() else 0o666)
    _open_the_way(root)
    folder.chmod(0)
    try:
        with ordinary_user():
            assert found(engine, "alice")[str(folder)] == ("warning", "no-permission")
    finally:
        folder.chmod(0o700)


@pytest.mark.parametrize("closed", ["users/alice/agents", "users/alice", "users"])
def test_the_other_users_are_looked_at_all_the_same(engine, root, closed):
    engine.memory("bob", "coder").add("Bob's.")
    place(facts_of(root, "bob") / "broken.md", b"")
    for path in [root, *root.rglob("*")]:
        path.chmod(0o777 if path.is_dir() else 0o666)
    _open_the_way(root)
    (root / closed).chmod(0)
    try:
        with ordinary_user():
            findings = found(engine)
    finally:
        (root / closed).chmod(0o700)
    assert findings[str(root / closed)] == ("warning", "no-permission")
    bobs = str(facts_of(root, "bob") / "broken.md")
    assert (findings.get(bobs) == ("error", "empty-file")) is (closed != "users")


def _open_the_way(root: Path) -> None:
    """The folders that the test framework made for its own user alone."""
    for folder in root.parents:
        if folder == root.parent or folder.name.startswith("pytest-"):
            folder.chmod(folder.stat().st_mode | 0o711)
    with ordinary_user():
        reachable = os.access(root, os.R_OK, effective_ids=True)
    if not reachable:
        pytest.skip("the folder for temporary files is closed to ordinary users")
