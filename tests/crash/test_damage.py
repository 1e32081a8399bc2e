"""Operational files that are empty, cut, garbage, folders, links or gone; disks that are full, locked or leave."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from faults import Fault, FaultyFiles, QuickFiles
from operations import BASE, OPERATIONS, State, base, opened, six
from scenes import Scene, state, tree

from deermem import DeerMem
from deermem.errors import Corruption, DeerMemError, StoreUnavailable
from deermem.model.changes import ChangeSet
from deermem.model.fact import Draft
from deermem.store.files import Seen

GARBAGE = b"\x00\xff\xfe not what it should be \r\n{[" * 9
FACTS = {key: text for key, text in BASE.items() if not key.startswith("summary/")}
NAMES = {
    "staged": ".journal/s.f_a.0123456789abcdef.0123456789abcdef.01234567",
    "displaced": ".journal/d.f_a.0123456789abcdef.0123456789abcdef.01234567",
    "staged document": ".journal/m.0123456789abcdef.0123456789abcdef.01234567",
    "displaced document": ".journal/x.0123456789abcdef.0123456789abcdef.01234567",
    "torn": ".journal/t.0123456789abcdef",
    "folder mark": ".journal/f.01234567",
    "record": ".journal/record",
    "journal": ".journal",
    "epoch": ".journal/epoch",
    "turnstile": ".journal/turnstile",
    "lock": ".memory.lock",
    "undo journal": ".memory.journal.json",
    "undo backups": ".recovery",
    "document": "memory.json",
    "usage": "agents/__default__/.metadata/fact-usage.json",
    "audit": "agents/__default__/.metadata/eviction-audit.json",
    "sidecars": "agents/__default__/.metadata",
    "index folder": ".retrieval",
    "index": ".retrieval/index.sqlite3",
    "index log": ".retrieval/index.sqlite3-wal",
    "index shared memory": ".retrieval/index.sqlite3-shm",
}
MAY_REFUSE = {("document", how) for how in ("empty", "cut", "garbage", "folder", "link")}
MAY_REFUSE |= {(what, how) for what in ("lock", "turnstile") for how in ("folder", "link")}


def removed(path: Path) -> None:
    """Nothing at this path any more."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def damage(path: Path, how: str, elsewhere: Path) -> None:
    """Puts something wrong at a path."""
    old = path.read_bytes() if path.is_file() else b'{"state": "prepared", "operationId": "o"}'
    removed(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if how == "folder":
        path.mkdir()
        (path / "inside").write_bytes(GARBAGE)
    elif how == "link":
        elsewhere.write_bytes(GARBAGE)
        path.symlink_to(elsewhere)
    elif how != "missing":
        path.write_bytes({"empty": b"", "cut": old[: len(old) // 2], "garbage": GARBAGE}[how])


def asked(call: Callable[[], object]) -> DeerMemError | None:
    """The error it came to, which is one of ours, in one line, with a hint what to do."""
    found: DeerMemError | None = None
    try:
        call()
    except DeerMemError as error:
        found = error
    assert found is None or ("\n" not in str(found) and found.hint)
    return found


def listed(engine: DeerMem) -> State:
    """All facts of ann's two buckets."""
    found: State = {}
    for agent in ("__default__", "coder"):
        memory = engine.memory("ann", None if agent == "__default__" else agent)
        found |= {f"{agent}/{fact.id}": fact.content for fact in memory.list()}
    return found


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The base store with an index, an epoch and an emptied record."""
    root = tmp_path_factory.mktemp("made") / "store"
    base(root)
    with opened(root, retrieval="fts5") as engine:
        engine.memory("ann", "writer").apply(ChangeSet([Draft(content="Gone soon.", id="w_0")]))
        engine.memory("ann", "writer").clear()
        engine.memory("ann").search("coffee")
    return root


@pytest.fixture
def template(made_once: Path, place: Path) -> Path:
    """A copy of it to be damaged."""
    return Path(shutil.copytree(made_once, place / "store"))


@pytest.mark.parametrize("how", ["empty", "cut", "garbage", "folder", "link", "missing"])
@pytest.mark.parametrize("what", NAMES)
def test_damaged(what: str, how: str, template: Path) -> None:
    before = tree(template)
    elsewhere = template.parent / "elsewhere"
    damage(template / "users/ann" / NAMES[what], how, elsewhere)
    with opened(template, retrieval="fts5", timeout=0.2) as engine:
        assert listed(engine) == FACTS, "reading goes on"
        assert {hit.fact.id for hit in engine.memory("ann").search("coffee")} == {"f_a"}
        memory = engine.memory("ann")
        refusals = [
            asked(lambda: memory.apply(ChangeSet([Draft(content="A new one.", id="g_1")]))),
            asked(lambda: memory.update("g_1", "A newer one.")),
            asked(lambda: memory.delete("g_1")),
            asked(lambda: engine.memory("ann", "writer").clear()),
            asked(lambda: memory.apply(ChangeSet([Draft(content=f"Many {i}.", id=f"g_{i}") for i in range(2, 5)]))),
        ]
        said = [str(error) for error in refusals if error is not None]
        assert not said or (what, how) in MAY_REFUSE, said
        assert all(NAMES[what] in text for text in said if "does not exist" not in text), said
        engine.check("ann")
        for fact_id in ("g_2", "g_3", "g_4"):
            asked(lambda fact_id=fact_id: memory.delete(fact_id))
        assert listed(engine) == FACTS
    unchanged = {name: data for name, data in before.items() if not name.endswith("memory.json")}
    after = tree(template)
    assert {name: after.get(name) for name in unchanged} == unchanged
    assert not elsewhere.exists() or elsewhere.read_bytes() == GARBAGE, "what a link points at is not ours"


def test_a_damaged_document_is_named_and_left_alone(template: Path) -> None:
    path = template / "users/ann/memory.json"
    path.write_bytes(GARBAGE)
    with opened(template) as engine:
        with pytest.raises(Corruption) as caught:
            engine.memory("ann").update("f_a", "Something else.")
        assert str(path) in str(caught.value)
        assert [finding.path for finding in engine.check("ann") if finding.severity == "error"] == [str(path)]
    assert path.read_bytes() == GARBAGE


def test_a_sealed_record_of_another_version_is_set_aside_with_its_texts(place: Path) -> None:
    scene = Scene(OPERATIONS["unswapped"], place)
    root = scene.copy("newer")
    record = root / "users/ann/.journal/record"
    record.write_bytes(record.read_bytes().replace(b"deermem-record 1 ", b"deermem-record 9 "))
    with opened(root) as engine:
        assert state(engine) == BASE, "a record that says nothing to us is no commit"
        engine.memory("ann", "writer").apply(ChangeSet([Draft(content="The next write.", id="w_1")]))
        assert {key: text for key, text in state(engine).items() if not key.startswith("writer/")} == BASE
        found = engine.check("ann")
    aside = [finding for finding in found if finding.code == "set-aside"]
    copies = {Path(finding.path).read_bytes() for finding in found if finding.code == "conflict-copy"}
    assert len(aside) == 1
    new = {data for name, data in scene.trees[1].items() if data not in scene.trees[0].values() and name[-3:] == ".md"}
    assert new - copies == {data for data in new if b"id: g_9" in data}
    assert "conflict-copy" not in {finding.code for finding in found if finding.severity == "error"}


class Refusing(QuickFiles):
    """A disk on which nothing can be written, or one file can't be read."""

    def __init__(self, code: int, unreadable: str = "") -> None:
        self.code = code
        self.unreadable = unreadable

    def _refuse(self, path: str) -> None:
        raise OSError(self.code, os.strerror(self.code), path)

    def look(self, path: str) -> Seen | None:
        if self.unreadable and path.endswith(self.unreadable):
            self._refuse(path)
        return super().look(path)

    def create(self, path: str, data: bytes, *, flush: bool = True) -> None:
        if not self.unreadable:
            self._refuse(path)
        super().create(path, data, flush=flush)

    def mkdir(self, path: str) -> bool:
        if not self.unreadable and not os.path.lexists(path):
            self._refuse(path)
        return super().mkdir(path)


@pytest.mark.parametrize(
    ("code", "hint"),
    [(errno.ENOSPC, "free some space"), (errno.EROFS, "read-only"), (errno.EACCES, "owner and permissions")],
)
@pytest.mark.parametrize(
    "act",
    [six, lambda e: e.memory("ann").clear(), OPERATIONS["create"].act],
    ids=["several files", "clear", "create"],
)
def test_a_disk_that_takes_nothing(act: Callable[[DeerMem], object], code: int, hint: str, template: Path) -> None:
    before = tree(template)
    with opened(template, Refusing(code)) as engine:
        error = asked(lambda: act(engine))
        assert isinstance(error, StoreUnavailable)
        assert not error.outcome_unknown
        assert hint in error.hint
        assert "nothing was changed" in error.hint
        assert state(engine) == BASE
    assert tree(template) == before


@pytest.mark.parametrize("unreadable", ["memory.json", "/record", "/epoch", "fact-usage.json"])
def test_files_without_permission(unreadable: str, template: Path) -> None:
    before = tree(template)
    with opened(template, Refusing(errno.EACCES, unreadable)) as engine:
        read = asked(lambda: listed(engine))
        written = asked(lambda: engine.memory("ann").delete("f_d"))
        assert read is None or (unreadable in ("/record", "memory.json") and unreadable in str(read))
        assert written is None or unreadable in str(written)
    after = tree(template)
    gone = {name for name in before if name not in after}
    assert len(gone) == (written is None)


def test_a_fact_without_permission_is_named_and_the_others_are_served(template: Path) -> None:
    with opened(template, Refusing(errno.EACCES, "/f_a.md")) as engine:
        assert {fact.id for fact in engine.memory("ann").list()} == {"f_b", "f_c", "f_d", "note"}
        with pytest.raises(Corruption, match="f_a"):
            engine.memory("ann").get("f_a")
        with pytest.raises(Corruption, match="f_a"):
            engine.memory("ann").update("f_a", "Over it.")
        assert [finding.code for finding in engine.check("ann") if finding.severity == "error"] == ["unreadable"] * 2


@pytest.mark.parametrize("gone", ["users/ann", "users/ann/.journal", "users/ann/agents/__default__/facts"])
@pytest.mark.parametrize("name", ["update", "six", "clear"])
def test_a_folder_that_goes_away_in_mid_flight(name: str, gone: str, place: Path) -> None:
    scene = Scene(OPERATIONS[name], place)
    for at in range(0, len(scene.dry.calls), 4):
        root = scene.copy(f"gone-{at}")
        aside = root.parent / f"aside-{at}"

        def hook(number: int, at: int = at, root: Path = root, aside: Path = aside) -> None:
            if number == at:
                os.rename(root / gone, aside)

        with opened(root, FaultyFiles(hook=hook)) as engine:
            asked(lambda engine=engine: scene.operation.act(engine))
        if (root / gone).exists():
            shutil.rmtree(root / gone)
        os.rename(aside, root / gone)
        with opened(root) as engine:
            engine.memory("ann", "writer").apply(ChangeSet([Draft(content="The next write.", id="w_1")]))
            assert [finding for finding in engine.check("ann") if finding.severity == "error"] == []
        scene.compare_files(root)


def test_no_space_for_the_index_is_no_reason_to_refuse(template: Path) -> None:
    removed(template / "users/ann/.retrieval")
    (template / "users/ann/.retrieval").write_bytes(b"in the way")
    with opened(template, FaultyFiles(Fault(10_000, "error")), retrieval="fts5") as engine:
        assert listed(engine) == FACTS
        assert engine.memory("ann").apply(ChangeSet([Draft(content="A new one.", id="g_1")])).facts
        assert [hit.match for hit in engine.memory("ann").search("coffee")] == ["substring"]
    document = json.loads((template / "users/ann/memory.json").read_bytes())
    assert document["revision"] > 0
