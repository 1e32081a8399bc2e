"""A migration whose commit the storage refuses: before the seal nothing of it stays, after it nothing is lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from builders_store import place, tree
from builders_v1 import as_json, v1_document, v1_fact

from deermem import DeerMem, StoreUnavailable
from deermem.store.files import Files
from deermem.store.journal import parse_record

SHARED = as_json(v1_document(v1_fact(), work="Ann tunes cellos."))
CODERS = as_json(v1_document(v1_fact("fact_2", "Prefers tabs.")))
MENDED = as_json(v1_document(v1_fact("fact_9", "Another.")))
MANY = as_json(v1_document(*(v1_fact(f"fact_{number}", f"Number {number}.") for number in range(9))))
BACKUPS = ["users/ann/agents/coder/memory.json.v1.bak", "users/ann/memory.json.v1.bak"]
Hits = Callable[[str, str], bool]


class Refusing(Files):
    """Refuses the calls that `hits` names, by method and path; `late`: after they took effect."""

    def __init__(self, hits: Hits, *, late: bool = False, code: int = errno.ENOSPC) -> None:
        self.hits = hits
        self.late = late
        self.code = code
        self.before: Callable[[], object] = lambda: None

    def _refuse(self, name: str, path: str) -> None:
        if self.hits(name, path):
            self.before()
            raise OSError(self.code, os.strerror(self.code), path)

    def create(self, path: str, data: bytes, *, flush: bool = True) -> None:
        self._refuse("create", path)
        super().create(path, data, flush=flush)

    def rewrite(self, path: str, data: bytes) -> None:
        if not self.late:
            self._refuse("rewrite", path)
        super().rewrite(path, data)
        self._refuse("rewrite", path)

    def rename_new(self, source: str, target: str) -> None:
        if not self.late:
            self._refuse("rename new", target)
        super().rename_new(source, target)
        self._refuse("rename new", target)

    def flush_folder(self, path: str) -> None:
        self._refuse("flush folder", path)
        super().flush_folder(path)

    def flush_all(self, descriptor: int, folder: str) -> None:
        self._refuse("flush all", folder)

    def open_for_all(self, folder: str) -> int | None:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


def at(name: str, part: str) -> Hits:
    """Every call of a method on a path that holds this."""
    return lambda called, path: called == name and part in path


@pytest.fixture
def home(root: Path) -> Path:
    """Ann, with two documents."""
    home = root / "users/ann"
    place(home / "memory.json", SHARED)
    place(home / "agents/coder/memory.json", CODERS)
    return home


def backups(root: Path) -> list[str]:
    return [path for path in tree(root) if path.endswith(".v1.bak")]


REFUSED: dict[str, tuple[Hits, bool]] = {
    "the second backup": (at("rename new", "coder/memory.json.v1.bak"), False),
    "the second backup, late": (at("rename new", "coder/memory.json.v1.bak"), True),
    "the names of the backups": (at("flush folder", "agents/coder"), False),
    "a staged fact": (at("create", "/.journal/s."), False),
    "the record": (at("rewrite", "/.journal/record"), False),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("door", ["migrate", "list"])
def test_a_commit_that_did_not_happen_leaves_no_backup(root, home, clock, name, door):
    """Else the document, once it is mended, would differ from its copy, and its user would stop for that."""
    hits, late = REFUSED[name]
    before = tree(root)
    with DeerMem(root, clock=clock, files=Refusing(hits, late=late)) as engine:
        if door == "migrate":
            (user,) = engine.migrate().users
            assert (user.outcome, user.backups) == ("failed", ())
            assert "No space left" in user.problems[0]
        else:
            with pytest.raises(StoreUnavailable, match="No space left"):
                engine.memory("ann", "coder").list()
    assert tree(root) == before
    (home / "memory.json").write_bytes(MENDED)
    with DeerMem(root, clock=clock) as engine:
        assert engine.migrate(verify=True).ok
        assert [fact.id for fact in engine.memory("ann").list()] == ["fact_9"]
    assert backups(root) == BACKUPS


def test_many_facts_that_can_not_be_flushed_leave_no_backup(root, home, clock):
    (home / "memory.json").write_bytes(MANY)
    before = tree(root)
    with DeerMem(root, clock=clock, files=Refusing(at("flush all", ""))) as engine:
        assert engine.migrate().count("failed") == 1
    assert tree(root) == before


def test_a_backup_that_was_there_before_stays(root, home, clock):
    """Of a run that was killed: the same bytes, which the next run goes on with."""
    place(home / "memory.json.v1.bak", SHARED)
    with DeerMem(root, clock=clock, files=Refusing(at("rewrite", "/.journal/record"))) as engine:
        assert engine.migrate().count("failed") == 1
    assert backups(root) == BACKUPS[1:]
    with DeerMem(root, clock=clock) as engine:
        assert engine.migrate(verify=True).ok
    assert backups(root) == BACKUPS


def test_a_copy_that_somebody_else_made_in_that_instant_stays(root, home, clock):
    def hits(name: str, path: str) -> bool:
        if (name, path) == ("rename new", str(home / "memory.json.v1.bak")):
            place(home / "memory.json.v1.bak", SHARED)
        return name == "rewrite"

    with DeerMem(root, clock=clock, files=Refusing(hits)) as engine:
        assert engine.migrate().count("failed") == 1
    assert backups(root) == BACKUPS[1:]


def test_a_backup_stays_where_a_record_may_be_sealed(root, home, clock):
    """The call failed, and took effect all the same: whoever comes next finishes that commit."""
    files = Refusing(at("rewrite", "/.journal/record"), late=True)
    with DeerMem(root, clock=clock, files=files) as engine:
        (user,) = engine.migrate().users
    assert "may stand on disk already" in user.problems[0]
    assert backups(root) == BACKUPS
    with DeerMem(root, clock=clock) as engine:
        assert {fact.id for agent in (None, "coder") for fact in engine.memory("ann", agent).list()} == {
            "fact_1",
            "fact_2",
        }
        assert (home / "memory.json.v1.bak").read_bytes() == SHARED


def test_a_backup_stays_where_its_source_is_gone(root, home, clock):
    """At every instant there is the source or its copy, whatever a person does meanwhile."""
    files = Refusing(at("create", "/.journal/s."))
    files.before = (home / "memory.json").unlink
    with DeerMem(root, clock=clock, files=files) as engine:
        assert engine.migrate().count("failed") == 1
    assert (home / "memory.json.v1.bak").read_bytes() == SHARED
    assert backups(root) == BACKUPS[1:]


# --- sealed, and not in its place


def mounted() -> Refusing:
    """Nothing can be renamed into the facts' folders."""
    return Refusing(at("rename new", "/facts/"), code=errno.EXDEV)


def test_a_sealed_commit_that_can_not_be_finished_is_told_and_finished_by_the_next_run(root, home, clock):
    with DeerMem(root, clock=clock, files=mounted()) as engine:
        report = engine.migrate(verify=True)
    (user,) = report.users
    assert (report.ok, user.outcome, user.facts, user.verified) == (False, "failed", 2, None)
    (problem,) = user.problems
    assert problem.startswith(f"the migration is sealed and not in its place yet: {home / 'agents'}")
    assert problem.endswith("; mend that, then run the same again to finish it")
    with DeerMem(root, clock=clock) as engine:
        assert engine.migrate(verify=True).ok
        assert [fact.id for fact in engine.memory("ann").list()] == ["fact_1"]
    assert backups(root) == BACKUPS


def test_one_agent_that_can_not_be_finished_ends_the_user(root, home, clock):
    """The others' plans would rest on files that are about to change."""
    place(home / "agents/writer/memory.json", b'{"facts": [')
    with DeerMem(root, clock=clock, files=mounted()) as engine:
        (user,) = engine.migrate(verify=True).users
    assert (user.outcome, user.facts) == ("failed", 1)
    (problem,) = user.problems
    assert "sealed and not in its place yet" in problem
    with DeerMem(root, clock=clock) as engine:
        engine.migrate()
        assert [fact.id for fact in engine.memory("ann").list()] == ["fact_1"]
        assert [fact.id for fact in engine.memory("ann", "coder").list()] == ["fact_2"]


def test_a_write_behind_a_sealed_commit_does_not_take_its_record(root, home, clock):
    """The first write migrates under the same lock: its own record would be the end of the other's facts."""
    with DeerMem(root, clock=clock, files=mounted()) as engine:
        memory = engine.memory("ann")
        with pytest.raises(StoreUnavailable, match=r"is sealed and waits: .*nothing was changed"):
            memory.update_summaries({"topOfMind": "The strait."})
    record = parse_record((home / ".journal/record").read_bytes())
    assert record is not None
    assert record.state == "sealed"
    with DeerMem(root, clock=clock) as engine:
        memory = engine.memory("ann")
        memory.update_summaries({"topOfMind": "The strait."})
        assert [fact.id for fact in memory.list()] == ["fact_1"]
        assert memory.summaries().work_context.summary == "Ann tunes cellos."


def test_folders_that_are_to_come_are_looked_at_too(root, home, clock, monkeypatch):
    """What is mounted at `agents` shows before anything is staged, also where the facts' folders are not there yet."""
    real, agents = os.stat, str(home / "agents")

    def stat(path: object, **named: object) -> os.stat_result:
        found = real(path, **named)
        if str(path) != agents:
            return found
        return os.stat_result((*found[:2], found.st_dev + 1, *found[3:]))

    with DeerMem(root, clock=clock) as engine:
        engine.migrate()
        before = tree(root)
        monkeypatch.setattr(os, "stat", stat)
        with pytest.raises(StoreUnavailable, match=f"{agents} lies on another file system"):
            engine.memory("ann", "writer").add("Something new.")
        monkeypatch.undo()
    assert tree(root) == before
    assert not (home / "agents/writer").exists()
