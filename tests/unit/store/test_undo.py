"""DeerFlow's undo journal, well-formed and odd: the memory opens, nothing else changes, and no text is lost."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from builders_store import fact_text, place, shard
from hypothesis import given, settings
from hypothesis import strategies as st

from deermem import DeerMem, StoreUnavailable
from deermem.store.files import Files

A = f"agents/coder/facts/{shard('a')}/a.md"
MANIFEST = {"version": "2.0", "revision": 3, "lastUpdated": "", "user": {"workContext": {"summary": "Digs tunnels."}}}
GOOD = {
    "state": "prepared",
    "operationId": "op",
    "expectedRevision": 3,
    "nextRevision": 4,
    "agentName": "coder",
    "factIds": ["a"],
    "oldEntries": {"a": {"path": A}},
}


def note(fact_id: str, text: str) -> str:
    return fact_text(fact_id, text, user_id="alice", agent_name="coder")


def made(root: Path) -> Path:
    """A user with two facts, a summary, a file of the host's and a backup of fact a; a neighbour beside."""
    home = root / "users/alice"
    place(home / "memory.json", json.dumps(MANIFEST))
    place(home / A, note("a", "Half of a write"))
    place(home / f"agents/coder/facts/{shard('b')}/b.md", note("b", "Not in the journal"))
    place(home / "agents/coder/SOUL.md", "The host's own")
    place(home / ".recovery/op/a.md", note("a", "Before the write"))
    place(root / "users/bob/memory.json", json.dumps(MANIFEST))
    return home


@pytest.fixture
def home(root: Path) -> Path:
    return made(root)


def files_of(root: Path) -> dict[str, bytes]:
    """What people and the host see, and the backups; without our own operational files."""
    own = {".journal", ".retrieval", ".memory.lock", ".memory.journal.json"}
    found = (path for path in root.rglob("*") if path.is_file() and not own & set(path.relative_to(root).parts))
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


def journal(home: Path, said: object) -> bytes:
    data = said if isinstance(said, bytes) else json.dumps(said).encode()
    place(home / ".memory.journal.json", data)
    return data


def kept(home: Path, start: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((home / ".journal").iterdir()) if path.name.startswith(start)]


def contents(root: Path, agent: str = "coder") -> dict[str, str]:
    with DeerMem(root) as engine:
        return {fact.id: fact.content for fact in engine.memory("alice", agent).list()}


def expect_set_aside(home: Path, data: bytes, shown: dict[str, str] | None = None) -> None:
    """The memory opens and takes a new fact; the journal is kept byte for byte; nothing else has changed."""
    root = home.parent.parent
    before = files_of(root)
    shown = {"a": "Half of a write", "b": "Not in the journal"} if shown is None else shown
    with DeerMem(root) as engine:
        memory = engine.memory("alice", "coder")
        assert {fact.id: fact.content for fact in memory.list()} == shown
        assert files_of(root) == before
        assert kept(home, "set-aside.undo-journal.") == [data]
        assert [finding.code for finding in engine.check("alice") if "undo-journal" in finding.path] == ["set-aside"]
        new = memory.add("Added afterwards.")
        assert {fact.id: fact.content for fact in memory.list()} == {**shown, new.id: new.content}
    after = files_of(root)
    changed = {name for name in after | before if after.get(name) != before.get(name)}
    assert changed == {"users/alice/memory.json", f"users/alice/agents/coder/facts/{shard(new.id)}/{new.id}.md"}
    assert kept(home, "t.") == kept(home, "conflict.") == []


def without(key: str) -> dict[str, object]:
    return {name: value for name, value in GOOD.items() if name != key}


def old(path: object, fact_id: str = "a") -> dict[str, object]:
    return {**GOOD, "oldEntries": {fact_id: {"path": path}}}


TYPES = {
    "number": 7,
    "true": True,
    "text": "x y/",
    "list": [["a"], {}],
    "object": {"a": ["b"]},
    "null": None,
    "half": 0.5,
}
NULLABLE = {("agentName", "null")}
ODD: dict[str, object] = {
    f"{key} is {kind}": {**GOOD, key: value}
    for key in ("state", "operationId", "expectedRevision", "agentName", "factIds", "oldEntries")
    for kind, value in TYPES.items()
    if (key, kind) not in NULLABLE and not (key == "expectedRevision" and kind == "number")
}
ODD |= {f"no {key}": without(key) for key in GOOD if key not in ("nextRevision", "agentName")}
ODD |= {
    "no agentName and a new fact": {**without("agentName"), "factIds": ["a", "b"]},
    "empty": b"",
    "cut": json.dumps(GOOD).encode()[:90],
    "binary": b"\xff\xfe\x00{",
    "only a list": [GOOD],
    "only null": b"null",
    "deep list": b"[" * 50_000,
    "deep value": json.dumps(GOOD).replace('["a"]', "[" * 20_000 + "]" * 20_000).encode(),
    "long number": json.dumps(GOOD).replace("3", "3" * 5000).encode(),
    "negative revision": {**GOOD, "expectedRevision": -1},
    "key twice": json.dumps(GOOD)[:-1].encode() + b', "factIds": ["b"]}',
    "NaN": json.dumps(GOOD).replace(": 3", ": NaN").encode(),
}
ODD |= {
    f"operation {name!r:.30}": {**GOOD, "operationId": name}
    for name in (
        "",
        ".",
        "..",
        "../op",
        "op/",
        "/op",
        "a\\b",
        "op\0",
        "op\n",
        "\ud800",
        "ö",
        "o" * 300,
        ".hidden",
        " op",
    )
}
ODD |= {
    f"committed, operation {name!r:.30}": {"state": "committed", "operationId": name}
    for name in ("", "..", "a/b", "\ud800", "op\0", "o" * 300, None, 5)
}
ODD |= {
    f"id {name!r:.30}": {**GOOD, "factIds": [name]}
    for name in ("", "../x", "a/b", "a\0", "\ud800", "a\n", "x" * 300, 5, None, ["a"], {})
}
ODD |= {f"old id {name!r:.30}": old(A, name) for name in ("", "../x", "a/b", "a\0", "\ud800", "x" * 300)}
ODD |= {
    f"agent {name!r:.30}": {**GOOD, "agentName": name}
    for name in ("", "..", "a/b", "BAD NAME", "x" * 300, "a\0", "\ud800")
}
ODD |= {
    f"path {path!r:.60}": old(path)
    for path in (
        "", None, 5, ["x"], {}, "memory.json", "/etc/a.md", f"/{A}", f"./{A}", f"{A}/", "agents//facts/a.md",
        "agents/coder/facts//a.md", "agents/coder/facts/./a.md", "agents/coder/facts/../SOUL.md", "../bob/memory.json",
        "agents/../../bob/facts/a.md", "agents/coder/facts/..", "agents/coder/facts/../../../../bob/a.md",
        "agents/coder/SOUL.md", "agents/coder/facts", "agents/coder/facts.md", "agents/coder/facts/.md",
        "agents/coder/facts/.hidden/a.md", "agents/coder/.metadata/a.md", "agents/BAD NAME/facts/ca/a.md",
        "agents/Coder/facts/ca/a.md", "agents/./facts/a.md", "users/x/facts/a.md", "agents\\coder\\facts\\a.md",
        "agents/coder/facts/a\\b.md", "agents/coder/facts/a\0.md", "agents/coder/facts/\ud800.md",
        "agents/coder/facts/a\n.md", "agents/coder/facts/a.json", "agents/coder/facts/" + "x" * 300 + ".md",
        "agents/" + "x" * 200 + "/facts/a.md", "agents/coder/facts/" + "x/" * 3000 + "a.md",
        "agents/coder/facts/x.md/a.md",
    )
}  # fmt: skip
ODD |= {
    "entry is a path": {**GOOD, "oldEntries": {"a": A}},
    "entry without a path": {**GOOD, "oldEntries": {"a": {}}},
    "two entries, one path": {**GOOD, "oldEntries": {"a": {"path": A}, "b": {"path": A}}},
    "new and old, one path": {**GOOD, "factIds": ["a"], "oldEntries": {"b": {"path": A}}},
    "good entry, then a bad one": {**GOOD, "oldEntries": {"a": {"path": A}, "b": {"path": "agents/coder/SOUL.md"}}},
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_journal_is_set_aside_before_anything_is_touched(name: str, home: Path) -> None:
    for fact_id in ("a", "b"):
        place(home / f".recovery/op/{fact_id}.md", note(fact_id, "Before the write"))
    expect_set_aside(home, journal(home, ODD[name]))


def folder(path: Path) -> None:
    """A folder with something in it, where a file was or nothing."""
    path.unlink(missing_ok=True)
    place(path / "inside.txt", "A person's")


def link(path: Path) -> None:
    """A link to what was there, moved out of the store."""
    store = next(parent for parent in path.parents if parent.name == "users").parent
    elsewhere = store.with_name("elsewhere")
    if path.exists():
        shutil.move(path, elsewhere)
    else:
        place(elsewhere / "outside.md", "Outside")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(elsewhere)


@pytest.mark.parametrize(
    ("what", "how", "shown"),
    [
        (A, folder, {"b": "Not in the journal"}),
        (A, link, {"b": "Not in the journal"}),
        (str(Path(A).parent), link, {"b": "Not in the journal"}),
        (".recovery", link, None),
        (".recovery/op", link, None),
        (".recovery/op/a.md", link, None),
        (".recovery/op/a.md", folder, None),
        (".recovery/op/memory.json", link, None),
    ],
)
def test_a_link_or_a_folder_in_the_way(what: str, how: Callable[[Path], None], shown: object, home: Path) -> None:
    """Nothing is written or removed beyond it, and a folder is not moved away."""
    how(home / what)
    root = home.parent.parent
    outside = {
        path: path.read_bytes() for path in root.parent.rglob("*") if path.is_file() and "elsewhere" in str(path)
    }
    expect_set_aside(home, journal(home, GOOD), shown)
    assert {path: path.read_bytes() for path in outside} == outside


def test_a_file_where_a_folder_is_needed(home: Path) -> None:
    place(home / "agents/coder/facts/zz", "A person's")
    expect_set_aside(home, journal(home, old("agents/coder/facts/zz/a.md")))


@pytest.mark.parametrize("name", [".recovery", ".recovery/op"])
def test_clean_up_of_a_committed_write_follows_no_link(name: str, home: Path) -> None:
    link(home / name)
    expect_set_aside(home, journal(home, {"state": "committed", "operationId": "op"}))
    assert (home / name).is_symlink()


def test_a_good_journal_is_rolled_back(home: Path) -> None:
    journal(home, {**GOOD, "factIds": ["a", "b"]})
    assert contents(home.parent.parent) == {"a": "Before the write"}
    assert sorted(kept(home, "conflict.")) == sorted(
        note(*said).encode() for said in (("a", "Half of a write"), ("b", "Not in the journal"))
    )
    assert not (home / ".recovery").exists()
    assert not (home / ".memory.journal.json").exists()


@pytest.mark.parametrize(
    "backup", ["", note("a", "Torn")[:40], note("z", "Another fact"), "\0", "---\nid: [\n---\n"], ids=range(5)
)
def test_a_backup_that_can_not_be_used_replaces_nothing_and_is_kept(backup: str, home: Path) -> None:
    place(home / ".recovery/op/a.md", backup)
    journal(home, GOOD)
    root = home.parent.parent
    assert contents(root) == {"a": "Half of a write", "b": "Not in the journal"}
    assert kept(home, "conflict.") == [backup.encode()]
    assert not (home / ".recovery").exists()
    with DeerMem(root) as engine:
        assert engine.memory("alice", "coder").add("Added afterwards.").revision == 1
        assert "conflict-copy" in [finding.code for finding in engine.check("alice")]


def test_a_missing_backup_leaves_the_fact_alone(home: Path) -> None:
    shutil.rmtree(home / ".recovery")
    journal(home, GOOD)
    assert contents(home.parent.parent) == {"a": "Half of a write", "b": "Not in the journal"}
    assert kept(home, "conflict.") == kept(home, "set-aside.") == []


def test_files_beside_the_backups_are_not_thrown_away(home: Path) -> None:
    """A backup that the journal does not name becomes a conflict copy; a folder stays."""
    place(home / ".recovery/op/q.md", note("q", "Nobody named it"))
    place(home / ".recovery/op/deep/inside.md", "A person's")
    journal(home, GOOD)
    assert contents(home.parent.parent)["a"] == "Before the write"
    assert note("q", "Nobody named it").encode() in kept(home, "conflict.")
    assert (home / ".recovery/op/deep/inside.md").read_text() == "A person's"


def test_a_torn_backup_of_the_document_does_not_replace_it(home: Path) -> None:
    place(home / ".recovery/op/memory.json", '{"version": "2.0", ')
    journal(home, {**GOOD, "expectedRevision": 0})
    assert contents(home.parent.parent)["a"] == "Before the write"
    assert json.loads((home / "memory.json").read_bytes()) == MANIFEST
    assert b'{"version": "2.0", ' in kept(home, "conflict.")


@pytest.mark.parametrize(
    "document",
    [
        MANIFEST,
        {"version": "1.0", "facts": [{"id": "v", "content": "Of version 1"}]},
        {**MANIFEST, "user": {}, "facts": [{"id": "v", "content": "Of version 1"}]},
        {**MANIFEST, "user": {}, "history": {"earlierContext": {"summary": "Sailed."}}},
        {**MANIFEST, "user": {}, "mine": "A key that nobody knows"},
    ],
    ids=["summary", "version 1", "facts in version 2", "history", "unknown key"],
)
def test_a_document_that_says_something_is_not_taken_for_a_half_written_one(document: object, home: Path) -> None:
    place(home / "memory.json", json.dumps(document))
    journal(home, {**GOOD, "expectedRevision": 0})
    root = home.parent.parent
    with DeerMem(root) as engine:
        summaries = engine.memory("alice").summaries()
    said = document if isinstance(document, dict) else {}
    assert summaries.work_context.summary == ("Digs tunnels." if said.get("user") else "")
    assert summaries.earlier_context.summary == ("Sailed." if "history" in said else "")
    assert ("v" in contents(root, "__default__")) == ("facts" in said)
    assert ("mine" in json.loads((home / "memory.json").read_bytes())) == ("mine" in said)


def test_the_first_document_of_a_user_is_rolled_back_when_it_says_nothing(home: Path) -> None:
    empty = json.dumps({**MANIFEST, "revision": 1, "user": {}})
    place(home / "memory.json", empty)
    journal(home, {**GOOD, "expectedRevision": 0})
    assert contents(home.parent.parent)["a"] == "Before the write"
    assert not (home / "memory.json").exists()
    assert empty.encode() in kept(home, "conflict.")


class Refusing(Files):
    """A disk without space at the nth call that needs some."""

    def __init__(self, name: str) -> None:
        self.name = name

    def _ask(self, name: str) -> None:
        if name == self.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def create(self, path: str, data: bytes, *, flush: bool = True) -> None:
        super().create(path, data[:5] if self.name == "create" else data, flush=flush)
        self._ask("create")

    def mkdir(self, path: str) -> bool:
        if path.endswith(shard("a")):
            self._ask("mkdir")
        return super().mkdir(path)

    def rename_new(self, source: str, target: str) -> None:
        self._ask("rename_new")
        super().rename_new(source, target)


@pytest.mark.parametrize("name", ["create", "mkdir", "rename_new"])
def test_a_full_disk_leaves_one_state_to_try_again_from(name: str, home: Path) -> None:
    journal(home, GOOD)
    root = home.parent.parent
    with DeerMem(root, files=Refusing(name)) as engine:
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                engine.memory("alice", "coder").list()
            assert kept(home, "t.") == []
    texts = [*kept(home, "conflict."), *files_of(root).values()]
    assert note("a", "Half of a write").encode() in texts
    assert note("a", "Before the write").encode() in texts
    assert contents(root) == {"a": "Before the write", "b": "Not in the journal"}
    assert kept(home, "conflict.") == [note("a", "Half of a write").encode()]


@pytest.mark.parametrize("said", [GOOD, b"["], ids=["good", "odd"])
def test_something_else_stands_where_our_journal_folder_belongs(said: object, home: Path) -> None:
    place(home / ".journal", "A person's")
    journal(home, said)
    shown = "Before the write" if said is GOOD else "Half of a write"
    assert contents(home.parent.parent)["a"] == shown
    assert [path.read_text() for path in home.glob(".journal.set-aside-*")] == ["A person's"]


NAMES = st.sampled_from(["a", "b", "q", "../x", "", "a/b", "x" * 200, "\ud800", "a\0"]) | st.text(max_size=5)
PATHS = st.sampled_from([A, f"agents/coder/facts/{shard('b')}/b.md", "agents/coder/SOUL.md", "memory.json"])
PATHS |= st.lists(st.sampled_from(["agents", "coder", "facts", "..", "", "a.md", "x", "SOUL.md", "X Y"])).map("/".join)
ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.lists(NAMES, max_size=2)
JOURNALS = st.fixed_dictionaries(
    {"state": st.sampled_from(["prepared"] * 8 + ["committed", "x"]), "operationId": st.just("op") | NAMES},
    optional={
        "expectedRevision": st.integers(0, 3) | ANYTHING,
        "agentName": st.sampled_from(["coder", None]) | ANYTHING,
        "factIds": st.lists(NAMES, max_size=3) | ANYTHING,
        "oldEntries": st.dictionaries(NAMES, st.fixed_dictionaries({"path": PATHS}) | ANYTHING, max_size=3) | ANYTHING,
    },
)


@settings(max_examples=40)
@given(JOURNALS)
def test_whatever_a_journal_says_no_text_is_lost(said: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as place_for_it:
        root = Path(place_for_it) / "store"
        home = made(root)
        journal(home, said)
        before = files_of(root)
        contents(root)
        with DeerMem(root) as engine:
            assert engine.memory("alice", "coder").add("Added afterwards.").revision == 1
        assert not (home / ".memory.journal.json").exists()
        everything = {path.read_bytes() for path in root.rglob("*") if path.is_file()}
        after = files_of(root)
        backup = "users/alice/.recovery/op/a.md"
        for name, data in before.items():
            gone_for_good = name == backup and said["state"] == "committed"
            assert name.endswith("memory.json") or gone_for_good or data in everything, name
        outside = [name for name in before if "/facts/" not in name and name not in (backup, "users/alice/memory.json")]
        assert {name: after.get(name) for name in outside} == {name: before[name] for name in outside}
        summaries = [data for data in everything if b"Digs tunnels." in data]
        assert len(summaries) >= 2, "alice's and bob's"
