"""The view of a bucket: what it reads, what it spares, and that neither changes an answer."""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from builders_store import edit, facts_of, place, tree

from deermem import DeerMem, Settings
from deermem.index.catalogue import Catalogue
from deermem.index.rows import Row
from deermem.model.fact import Fact
from deermem.model.scope import Scope
from deermem.service import view as view_module
from deermem.service.view import UserView
from deermem.store.files import Files, Seen
from deermem.store.fingerprints import clock_ns, is_local
from deermem.store.layout import Layout

NUMBER = 48
UNLIMITED = Settings(max_facts=0)


class CountingFiles(Files):
    """The real files, and which of them were read."""

    def __init__(self) -> None:
        self.looks: Counter[str] = Counter()

    def look(self, path: str) -> Seen | None:
        if path.endswith(".md"):
            self.looks[os.path.basename(path)] += 1
        return super().look(path)

    def taken(self) -> dict[str, int]:
        """How often each fact file was read since the last call."""
        found = dict(self.looks)
        self.looks.clear()
        return found


@pytest.fixture
def files() -> CountingFiles:
    return CountingFiles()


@pytest.fixture
def facts(root: Path) -> Path:
    folder = facts_of(root)
    for number in range(NUMBER):
        place(folder / f"{number % 16:02x}" / f"note{number:03}.md", f"Note number {number}\n")
    settle(folder)
    return folder


def settle(folder: Path) -> None:
    """All times in the past, so that a signature proves what it says, whatever the clock's tick."""
    newest = max(path.stat().st_ctime_ns for path in folder.rglob("*.md"))
    while clock_ns(folder.stat().st_dev) <= newest:
        os.sched_yield()


def opened(root: Path, clock, files: Files | None = None, *, indexed: bool = True) -> UserView:
    paths = Layout(root).of(Scope.of("alice"))
    return UserView(files or Files(), paths, "alice", clock, indexed=indexed)


def contents(view: UserView) -> dict[str, str]:
    return {fact.id: fact.content for fact in view.sweep("coder").facts}


@pytest.fixture(params=["sweep", "watch"])
def told(request, monkeypatch, facts) -> str:
    """By which way changes are learned: a comparison of all files, or the kernel's word."""
    if request.param == "sweep":
        monkeypatch.setattr(view_module, "_WATCHED_FROM", 10**9)
    elif not is_local(facts.stat().st_dev):
        pytest.skip("the kernel's word is not certain on this file system")
    return request.param


# --- what is read


def test_one_edit_among_500_costs_one_read(root, clock, files, facts, told):
    for number in range(NUMBER, 500):
        place(facts / f"{number % 16:02x}" / f"note{number:03}.md", f"Note number {number}\n")
    settle(facts)
    view = opened(root, clock, files)
    view.sweep("coder")
    assert files.taken() == {f"note{number:03}.md": 1 for number in range(500)}
    view.sweep("coder")
    view.sweep("coder")
    assert files.taken() == {}
    edit(facts / "07" / "note007.md", "number 7", "number seven")
    assert contents(view)["note007"] == "Note number seven"
    assert files.taken() == {"note007.md": 1}
    settle(facts)
    view.sweep("coder")
    view.sweep("coder")
    # Once more where the edit was as fresh as the look at it; then never again.
    assert files.taken() in ({}, {"note007.md": 1})
    view.sweep("coder")
    assert files.taken() == {}


def test_a_new_process_reads_nothing_that_is_known(root, clock, files, facts):
    """The catalogue's rows are used while their signatures prove them."""
    opened(root, clock).sweep("coder")
    settle(facts)
    opened(root, clock).sweep("coder")
    view = opened(root, clock, files)
    assert len(contents(view)) == NUMBER
    assert files.taken() == {}
    edit(facts / "08" / "note008.md", "number 8", "number eight")
    assert contents(opened(root, clock, files))["note008"] == "Note number eight"
    assert files.taken() == {"note008.md": 1}


def test_without_an_index_a_process_reads_everything_once(root, clock, files, facts):
    view = opened(root, clock, files, indexed=False)
    view.sweep("coder")
    view.sweep("coder")
    assert files.taken() == {f"note{number:03}.md": 1 for number in range(NUMBER)}
    assert not (root / "users" / "alice" / ".retrieval").exists()


def test_own_commits_are_read_once(root, clock, files, facts):
    with DeerMem(root, UNLIMITED, clock=clock, files=files) as engine:
        memory = engine.memory("alice", "coder")
        memory.list()
        files.taken()
        fact = memory.add("A new one")
        assert files.taken() == {f"{fact.id}.md": 1}
        settle(facts)
        memory.list()
        memory.list()
        assert sum(files.taken().values()) <= 1
        memory.list()
        assert files.taken() == {}


def test_what_is_too_fresh_is_read_until_its_tick_has_passed(root, clock, files, facts, monkeypatch):
    """A signature as fresh as the look at it proves nothing; a sweep does not believe it."""
    monkeypatch.setattr(view_module, "_WATCHED_FROM", 10**9)
    view = opened(root, clock, files)
    view.sweep("coder")
    files.taken()
    now = [(facts / "03" / "note003.md").stat().st_ctime_ns]
    monkeypatch.setattr("deermem.store.repository.clock_ns", lambda _: now[0])
    edit(facts / "03" / "note003.md", "number 3", "number x")
    now[0] = (facts / "03" / "note003.md").stat().st_ctime_ns
    for _ in range(3):
        assert contents(view)["note003"] == "Note number x"
        assert files.taken() == {"note003.md": 1}
    now[0] += 1
    view.sweep("coder")
    assert files.taken() == {"note003.md": 1}
    view.sweep("coder")
    assert files.taken() == {}


def test_a_save_through_a_second_name_made_elsewhere_is_seen_at_once(root, clock, facts, tmp_path):
    """No event tells of it, so a small bucket is compared at each read."""
    view = opened(root, clock)
    for _ in range(4):
        view.sweep("coder")
    os.link(facts / "03" / "note003.md", tmp_path / "elsewhere.md")
    view.sweep("coder")
    (tmp_path / "elsewhere.md").write_text("Note number three\n")
    assert contents(view)["note003"] == "Note number three"


# --- one answer, whichever way


def test_the_kernel_and_the_comparison_give_the_same_answers(root, clock, facts, tmp_path, monkeypatch):
    """A script of everything that people and programs do to files, each step seen by both."""
    monkeypatch.setattr(view_module, "_SMALL", 0)
    watched = opened(root, clock)
    for _ in range(3):
        watched.sweep("coder")
    bucket = watched._buckets["coder"]
    if not is_local(facts.stat().st_dev):
        pytest.skip("the kernel's word is not certain on this file system")
    assert bucket.watch is not None
    note = facts / "01" / "note001.md"
    other = facts / "02" / "note002.md"
    steps = [
        lambda: note.write_text("in place\n"),
        lambda: place(facts / "01" / "t.tmp", "renamed over\n").replace(note),
        lambda: os.truncate(note, 5),
        lambda: note.write_bytes(b""),
        lambda: note.write_bytes(b"---\nx: [\n---\n"),
        note.unlink,
        lambda: place(note, "back again\n"),
        lambda: note.rename(facts / "05" / "moved.md"),
        lambda: shutil.copy2(other, facts / "05" / "copy.md"),
        lambda: os.utime(other, (1, 1)),
        lambda: place(facts / "new" / "deep" / "er" / "x.md", "in new folders\n"),
        lambda: (facts / "new").rename(facts / "renamed"),
        lambda: place(facts / "new" / "deep" / "y.md", "in its old place\n"),
        lambda: (facts / "renamed").rename(tmp_path / "outside"),
        lambda: (tmp_path / "outside").rename(facts / "inside"),
        lambda: shutil.rmtree(facts / "04"),
        lambda: place(facts / "04" / "z.md", "folder made anew\n"),
        lambda: os.symlink(other, facts / "05" / "link.md"),
        lambda: os.symlink(facts / "06", facts / "linked"),
        (facts / "dir.md").mkdir,
        lambda: place(facts / "dir.md" / "inside.md", "a folder with that ending\n"),
        lambda: place(facts / ".hidden" / "h.md", "no fact\n"),
        lambda: os.mkfifo(facts / "05" / "pipe.md"),
        lambda: facts.rename(facts.with_name("aside")),
        lambda: place(facts / "only.md", "all others are aside\n"),
        lambda: (shutil.rmtree(facts), facts.with_name("aside").rename(facts)),
    ]
    for number, step in enumerate(steps):
        step()
        seen = contents(watched)
        assert seen == contents(opened(root, clock, indexed=False)), number
    assert seen["y"] == "in its old place"
    watched.close()


def test_all_steps_are_seen_after_the_watch_came_late(root, clock, facts, monkeypatch):
    """What changes between the start of the watch and the scan is seen by one of them."""
    if not is_local(facts.stat().st_dev):
        pytest.skip("the kernel's word is not certain on this file system")
    view = opened(root, clock)
    view.sweep("coder")
    real = view_module.scan_facts

    def scan(folder):
        found = real(folder)
        edit(facts / "09" / "note009.md", "number 9", "number nine")
        monkeypatch.setattr(view_module, "scan_facts", real)
        return found

    monkeypatch.setattr(view_module, "scan_facts", scan)
    view.sweep("coder")
    assert contents(view)["note009"] == "Note number nine"


def test_a_memory_map_is_seen_within_seconds(root, clock, facts, monkeypatch):
    """No event tells of it: the next comparison of all files does."""
    import mmap

    now = [1000.0]
    monkeypatch.setattr(view_module.time, "monotonic", lambda: now[0])
    view = opened(root, clock)
    for _ in range(3):
        view.sweep("coder")
    with (facts / "0a" / "note010.md").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:4] = b"Text"
        mapped.flush()
    now[0] += 11
    assert contents(view)["note010"] == "Text number 10"


def test_an_interrupted_sweep_loses_nothing(root, clock, facts, told):
    """Ctrl-C after the kernel told and before the file was read."""

    class Interrupted(CountingFiles):
        strike = False

        def look(self, path: str) -> Seen | None:
            if self.strike and path.endswith("note011.md"):
                raise KeyboardInterrupt
            return super().look(path)

    files = Interrupted()
    view = opened(root, clock, files)
    for _ in range(3):
        view.sweep("coder")
    edit(facts / "0b" / "note011.md", "number 11", "number eleven")
    edit(facts / "0c" / "note012.md", "number 12", "number twelve")
    files.strike = True
    with pytest.raises(KeyboardInterrupt):
        view.sweep("coder")
    files.strike = False
    seen = contents(view)
    assert (seen["note011"], seen["note012"]) == ("Note number eleven", "Note number twelve")
    assert len(seen) == NUMBER


def test_a_touched_note_has_the_same_times_for_everyone(root, clock, facts, told):
    """A hand-made file without dates takes its own time; a new time with the same text is a new date."""
    with DeerMem(root, clock=clock) as engine, DeerMem(root, Settings(retrieval_adapter=""), clock=clock) as other:
        memory = engine.memory("alice", "coder")
        for _ in range(3):
            memory.list()
        os.utime(facts / "0d" / "note013.md", (1_000_000_000, 1_000_000_000))
        seen = [memory.get("note013"), *(fact for fact in memory.list() if fact.id == "note013")]
        seen += [hit.fact for hit in memory.search("number 13") if hit.fact.id == "note013"]
        seen += [other.memory("alice", "coder").get("note013")]
        with DeerMem(root, clock=clock) as fresh:
            seen += [fact for fact in fresh.memory("alice", "coder").list() if fact.id == "note013"]
        assert len(seen) == 5
        assert {fact.updated_at.year for fact in seen} == {2001}


# --- what can't be read


@pytest.mark.parametrize("error", [PermissionError, OSError])
def test_a_folder_that_cannot_be_listed_is_not_empty(root, clock, facts, monkeypatch, error):
    """Its facts are not deleted; check names the folder; the others are served."""
    with DeerMem(root, clock=clock) as engine:
        memory = engine.memory("alice", "coder")
        memory.list()
        real = os.scandir

        def refuse(path):
            if str(path).endswith("/0e"):
                raise error(13, "refused", path)
            return real(path)

        monkeypatch.setattr(os, "scandir", refuse)
        edit(facts / "0f" / "note015.md", "number 15", "number fifteen")
        for _ in range(3):
            seen = {fact.id: fact.content for fact in memory.list()}
            assert len(seen) == NUMBER
            assert seen["note015"] == "Note number fifteen"
        named = [finding for finding in engine.check("alice") if finding.severity == "error"]
        assert [finding.path for finding in named] == [f"{facts}/0e/"]
        with DeerMem(root, Settings(retrieval_adapter=""), clock=clock) as fresh:
            assert len(fresh.memory("alice", "coder").list()) == NUMBER - 3
        monkeypatch.undo()
        (facts / "0e" / "note014.md").unlink()
        assert "note014" not in {fact.id for fact in memory.list()}
        assert not [finding for finding in engine.check("alice") if finding.severity == "error"]


class RefusingFiles(CountingFiles):
    """A file that the system refuses to open, and to stat, for a while."""

    refused: tuple[str, ...] = ()
    no_stat = False

    def look(self, path: str) -> Seen | None:
        if path.endswith(self.refused) and self.refused:
            raise OSError(24, "Too many open files", path)
        return super().look(path)

    def stat(self, path: str) -> os.stat_result | None:
        if self.no_stat and self.refused and path.endswith(self.refused):
            raise PermissionError(13, "Permission denied", path)
        return super().stat(path)


@pytest.mark.parametrize("no_stat", [False, True])
def test_a_refused_read_hides_no_other_and_is_tried_again(root, clock, facts, told, no_stat):
    """Nothing of the refusal is believed later on: not here, not in another process."""
    files = RefusingFiles()
    files.refused, files.no_stat = ("note001.md",), no_stat
    view = opened(root, clock, files)
    for _ in range(3):
        assert len(contents(view)) == NUMBER - 1
    (named,) = view.sweep("coder").unreadable
    assert (named.path, named.problem.code) == ("01/note001.md", "unreadable")
    assert len(contents(opened(root, clock))) == NUMBER
    files.refused = ()
    assert len(contents(view)) == NUMBER
    assert not view.sweep("coder").unreadable


# --- a catalogue that fails


def harm_delete(index: Path) -> None:
    shutil.rmtree(index.parent)


def harm_replace(index: Path) -> None:
    other = index.with_name("other.sqlite3")
    Catalogue(other).close()
    for suffix in ("-wal", "-shm"):
        Path(f"{index}{suffix}").unlink(missing_ok=True)
    os.replace(other, index)


def harm_garbage(index: Path) -> None:
    for suffix in ("-wal", "-shm"):
        Path(f"{index}{suffix}").unlink(missing_ok=True)
    index.write_bytes(b"this is no database " * NUMBER)


def harm_old_copy(index: Path) -> None:
    for suffix in ("-wal", "-shm"):
        Path(f"{index}{suffix}").unlink(missing_ok=True)
    os.replace(index.with_name("old.sqlite3"), index)


def harm_rows(index: Path) -> None:
    with sqlite3.connect(index) as connection:
        connection.execute("UPDATE files SET fact = '{}', looked_ns = looked_ns + 1, rev = rev + 100")
        connection.execute("UPDATE meta SET value = value + 100 WHERE key = 'rev'")
    connection.close()


def harm_tables(index: Path) -> None:
    with sqlite3.connect(index) as connection:
        connection.execute("DROP TABLE words")
    connection.close()


HARMS = [harm_delete, harm_replace, harm_garbage, harm_old_copy, harm_rows, harm_tables]


@pytest.mark.parametrize("harm", HARMS)
def test_a_harmed_catalogue_changes_no_answer(root, clock, facts, harm):
    """Deleted, replaced, garbage, an old copy put back, rows or tables that nobody here wrote."""
    index = root / "users" / "alice" / ".retrieval" / "index.sqlite3"
    with DeerMem(root, UNLIMITED, clock=clock) as engine:
        memory = engine.memory("alice", "coder")
        memory.list()
        copy = sqlite3.connect(index.with_name("old.sqlite3"))
        source = sqlite3.connect(index)
        source.backup(copy)
        copy.close()
        source.close()
        edit(facts / "01" / "note001.md", "number 1", "walnut")
        assert [hit.fact.id for hit in memory.search("walnut")] == ["note001"]
        harm(index)
        edit(facts / "02" / "note002.md", "number 2", "hazel")
        (facts / "03" / "note003.md").unlink()
        seen = {fact.id: fact.content for fact in memory.list()}
        assert (len(seen), seen["note001"], seen["note002"]) == (NUMBER - 1, "Note walnut", "Note hazel")
        assert [hit.fact.id for hit in memory.search("hazel walnut")] in (
            ["note002", "note001"],
            ["note001", "note002"],
        )
        assert memory.search("note003") == []
        with DeerMem(root, clock=clock) as fresh:
            assert {fact.id: fact.content for fact in fresh.memory("alice", "coder").list()} == seen
            assert len(fresh.memory("alice", "coder").search("hazel walnut")) == 2
        added = memory.add("A juniper note")
        assert [hit.fact.id for hit in memory.search("juniper")] == [added.id]


def test_a_locked_catalogue_changes_no_answer(root, clock, facts, monkeypatch):
    """Another program holds it: reads go on without waiting, searches run over the facts."""
    monkeypatch.setattr("deermem.index.schema.BUSY_SECONDS", 0.05)
    index = root / "users" / "alice" / ".retrieval" / "index.sqlite3"
    with DeerMem(root, UNLIMITED, clock=clock) as engine:
        memory = engine.memory("alice", "coder")
        memory.list()
        holder = sqlite3.connect(index, isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        edit(facts / "01" / "note001.md", "number 1", "walnut")
        (facts / "03" / "note003.md").unlink()
        assert {fact.id: fact.content for fact in memory.list()}["note001"] == "Note walnut"
        assert [hit.fact.id for hit in memory.search("walnut")] == ["note001"]
        assert memory.search("note003") == []
        fact = memory.add("Written meanwhile")
        assert memory.get(fact.id).content == "Written meanwhile"
        with DeerMem(root, clock=clock) as fresh:
            assert len(fresh.memory("alice", "coder").list()) == NUMBER
        holder.execute("ROLLBACK")
        holder.close()
        assert [hit.match for hit in memory.search("walnut")] == ["fts5"]
        assert [hit.fact.id for hit in memory.search("meanwhile")] == [fact.id]


def test_a_catalogue_that_cannot_be_written_changes_no_answer(root, clock, facts, monkeypatch):
    """A read-only medium: slower, the same answer, and the files untouched."""
    opened(root, clock).sweep("coder")
    real = sqlite3.connect

    def read_only(path, uri=False, **options):
        return real(f"{path}&immutable=1" if uri else f"file:{path}?mode=ro&immutable=1", uri=True, **options)

    monkeypatch.setattr(sqlite3, "connect", read_only)
    before = tree(root)
    edit(facts / "01" / "note001.md", "number 1", "walnut")
    with DeerMem(root, clock=clock) as engine:
        memory = engine.memory("alice", "coder")
        assert {fact.id: fact.content for fact in memory.list()}["note001"] == "Note walnut"
        assert [hit.fact.id for hit in memory.search("walnut")] == ["note001"]
        assert len(memory.list()) == NUMBER
    changed = {path for path, data in tree(root).items() if before.get(path) != data}
    assert changed == {"users/alice/agents/coder/facts/01/note001.md"}


def stray_row(path: str, content: str, clock) -> Row:
    fact = Fact(id="ghost", content=content, title=content, created_at=clock(), updated_at=clock(), version="1-x")
    return Row("coder", path, (1, 2, 3, 4, 5), 10**18 * 2, b"x" * 32, fact, complete=True)


def test_rows_of_a_file_that_is_gone_are_not_served(root, clock, facts, told):
    """Another process read a file, wrote its row, and the file was deleted before we looked."""
    with DeerMem(root, clock=clock) as engine:
        memory = engine.memory("alice", "coder")
        for _ in range(3):
            memory.list()
        index = Catalogue(root / "users" / "alice" / ".retrieval" / "index.sqlite3")
        index.push([stray_row("07/ghost.md", "A ghostly text", clock)])
        index.push([stray_row("01/note001.md", "A ghostly text", clock)])
        for _ in range(2):
            assert memory.search("ghostly") == []
            assert "ghost" not in {fact.id for fact in memory.list()}
            assert memory.get("note001").content == "Note number 1"
        index.close()
        with DeerMem(root, clock=clock) as fresh:
            assert fresh.memory("alice", "coder").search("ghostly") == []
            assert len(fresh.memory("alice", "coder").list()) == NUMBER


def test_what_sqlite_cannot_hold_is_no_obstacle(root, clock):
    """A name that is no UTF-8, times and inode numbers beyond 64 bits: read, found, removed like any other."""
    place(facts_of(root) / "plain.md", "Plain walnut\n")
    with DeerMem(root, clock=clock, files=OddStats()) as engine:
        memory = engine.memory("alice", "coder")
        place(facts_of(root) / os.fsdecode(b"caf\xe9.md"), "Walnut coffee\n")
        assert len(memory.list()) == 2
        assert {hit.match for hit in memory.search("walnut")} == {"fts5"}
        assert len(memory.search("walnut")) == 2
        (cafe,) = memory.search("coffee")
        assert memory.get(cafe.fact.id).updated_at.year == 9999
        with DeerMem(root, clock=clock) as other:
            assert len(other.memory("alice", "coder").search("walnut")) == 2
            other.memory("alice", "coder").delete(cafe.fact.id)
        assert [fact.content for fact in memory.list()] == ["Plain walnut"]
        assert len(memory.search("walnut")) == 1
        assert engine.reindex("alice").indexed == 1


class OddStats(Files):
    """Files of a system whose inode numbers fill 64 bits and whose times lie in the year 33658."""

    def look(self, path: str) -> Seen | None:
        seen = super().look(path)
        return seen if seen is None or not path.endswith(".md") else Seen(seen.data, odd(seen.before), odd(seen.after))


def odd(status: os.stat_result) -> os.stat_result:
    return SimpleNamespace(  # type: ignore[return-value]
        st_dev=status.st_dev,
        st_ino=status.st_ino | 1 << 63,
        st_size=status.st_size,
        st_mtime_ns=10**21,
        st_ctime_ns=status.st_ctime_ns,
        st_nlink=status.st_nlink,
    )


# --- many users


def test_closing_the_least_used_user_ends_its_watch(root, clock, monkeypatch):
    monkeypatch.setattr("deermem.service.open_users._OPEN_USERS", 2)
    gc.collect()
    before = open_watches()
    with DeerMem(root, clock=clock) as engine:
        users = ["one", "two", "three", "four"]
        for user in users:
            memory = engine.memory(user, "coder")
            memory.add(f"Fact of {user}")
            for _ in range(4):
                memory.list()
        assert open_watches() - before <= 2
        for user in users:
            assert [fact.content for fact in engine.memory(user, "coder").list()] == [f"Fact of {user}"]
            assert open_watches() - before <= 2
    assert open_watches() == before


def open_watches() -> int:
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return sum(os.readlink(link) == "anon_inode:inotify" for link in links if os.path.islink(link))


def test_a_closed_view_goes_on_without_watches(root, clock, facts):
    """A thread may still hold it: its answers stay right and nothing is left open."""
    before = open_watches()
    view = opened(root, clock)
    view.sweep("coder")
    view.close()
    for _ in range(4):
        view.sweep("coder")
        view.sweep("writer")
    edit(facts / "01" / "note001.md", "number 1", "walnut")
    assert contents(view)["note001"] == "Note walnut"
    assert open_watches() == before


def test_a_view_that_nobody_holds_leaves_nothing_open(root, clock, facts):
    """W7: engines that were never closed cost no descriptors, however many there were."""
    before = open_watches()
    for _ in range(3):
        view = opened(root, clock)
        for _ in range(3):
            view.sweep("coder")
        del view
    gc.collect()
    assert open_watches() == before
