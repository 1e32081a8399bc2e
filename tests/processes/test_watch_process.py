"""The watcher over real files: other programs save, folders come and go, threads die, processes fork."""

from __future__ import annotations

import errno
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from process_tools import engine
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

import deermem
from deermem.watch import Change, Store, Watcher
from deermem.watch.events import Pace

PATIENCE = 20.0
USER = "users/ann/agents/coder/facts"


class Told(queue.SimpleQueue[Change]):
    """What a watcher tells; waits for it, but not for ever."""

    def until(self, found: Callable[[set[str]], bool]) -> set[str]:
        """The paths that were told, as soon as they are those that are looked for; "" for all of an agent's."""
        seen: set[str] = set()
        while not found(seen):
            try:
                change = self.get(timeout=PATIENCE)
            except queue.Empty:
                raise AssertionError(f"only told of {sorted(seen)[:20]}") from None
            seen.update(change.paths or [""])
        return seen


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root below a folder whose name begins with a dot."""
    return tmp_path / ".deermem" / "store"


@pytest.fixture
def opened(root: Path) -> Iterator[deermem.DeerMem]:
    with engine(root) as opened:
        yield opened


@pytest.fixture
def fact(opened: deermem.DeerMem) -> Path:
    memory = opened.memory("ann", "coder")
    return memory.path(memory.add("tea, never coffee").id)


def brisk(opened: deermem.DeerMem) -> Watcher:
    """A watcher, not started, that looks about more often than the engine's, so that tests wait less."""
    return Watcher(Store(opened._layout, opened._visit), pace=Pace(look=0.1, poll=0.1))


@pytest.fixture
def watcher(opened: deermem.DeerMem, fact: Path) -> Iterator[Watcher]:
    with brisk(opened) as watcher:
        watcher.start()
        assert watcher.mode == "events"
        yield watcher


@pytest.fixture
def told(watcher: Watcher) -> Told:
    told = Told()
    watcher.subscribe(told.put)
    return told


def watch_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if isinstance(t, BaseObserver) or t.name.startswith("deermem-watch")]


def save_in_place(fact: Path) -> None:
    with fact.open("a") as file:
        file.write("\nor cocoa\n")


def save_by_rename(fact: Path) -> None:
    new = fact.with_name(".new.tmp")
    new.write_text("cocoa")
    os.replace(new, fact)


def save_with_backup(fact: Path) -> None:
    text = fact.read_text()
    os.rename(fact, f"{fact}~")
    fact.write_text(f"{text}\nor cocoa\n")
    os.unlink(f"{fact}~")


def save_with_sed(fact: Path) -> None:
    subprocess.run(["sed", "-i", "s/tea/cocoa/", str(fact)], check=True, timeout=PATIENCE)


@pytest.mark.parametrize("save", [save_in_place, save_by_rename, save_with_backup, save_with_sed])
def test_a_save_of_another_program_is_told(opened, fact, told, save):
    if save is save_with_sed and (shutil.which("sed") is None or not sys.platform.startswith("linux")):
        pytest.skip("no sed that edits in place")
    save(fact)
    path = f"{fact.parent.name}/{fact.name}"
    assert told.until(lambda seen: path in seen) == {path}
    # Our own index writes tell nothing: the next to be told is the next save.
    fact.with_name("other.md").write_text("cake")
    other = f"{fact.parent.name}/other.md"
    assert told.until(lambda seen: other in seen) == {other}
    assert "coc" in opened.memory("ann", "coder").get(fact.stem).content


def test_a_user_who_appears_is_followed(root, told):
    facts = root / "users/bob/agents/writer/facts"
    facts.mkdir(parents=True)
    (facts / "x.md").write_text("prose")
    told.until(lambda seen: "x.md" in seen)
    (facts / "y.md").write_text("verse")
    told.until(lambda seen: "y.md" in seen)


def test_the_followed_folder_goes_and_comes_back(root, fact, told, watcher):
    shutil.rmtree(root / "users")
    told.until(lambda seen: f"{fact.parent.name}/{fact.name}" in seen or "" in seen)
    facts = root / USER
    facts.mkdir(parents=True)
    (facts / "x.md").write_text("again")
    told.until(lambda seen: "x.md" in seen)
    (facts / "y.md").write_text("and again")
    told.until(lambda seen: "y.md" in seen)
    assert watcher.alive


def test_two_thousand_files_at_once(root, opened, told):
    facts = root / USER
    names = {f"f{number}.md" for number in range(2000)}
    before = len(os.listdir("/proc/self/fd")) if sys.platform.startswith("linux") else 0
    for name in names:
        (facts / name).write_text(f"fact {name}")
    # Where the queue may have overflowed, all files are compared: that names the same paths.
    told.until(lambda seen: names <= seen or "" in seen)
    assert len(opened.memory("ann", "coder").list()) == 2001
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 8


def test_a_user_who_is_removed_stays_removed(root, fact, told):
    facts = root / USER
    for number in range(500):
        (facts / f"f{number}.md").write_text("not for long")
    told.until(lambda seen: len(seen) >= 500 or "" in seen)
    subprocess.run(["rm", "-r", str(root / "users/ann")], check=True, timeout=PATIENCE)
    told.until(lambda seen: f"{fact.parent.name}/{fact.name}" in seen or "" in seen)
    facts = root / "users/bob/agents/coder/facts"
    facts.mkdir(parents=True)
    (facts / "x.md").write_text("the next to come")
    told.until(lambda seen: "x.md" in seen)
    assert os.listdir(root / "users") == ["bob"]


def test_git_takes_files_away_and_brings_them_back(root, told):
    if shutil.which("git") is None:
        pytest.skip("no git")
    facts = root / USER
    own = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]

    def git(*arguments: str) -> None:
        subprocess.run(["git", *own, *arguments], cwd=root, check=True, capture_output=True, timeout=PATIENCE)

    git("init")
    git("add", "-A")
    git("commit", "-m", "before")
    names = {f"n{number % 7}/f{number}.md" for number in range(70)}
    for name in names:
        (facts / name).parent.mkdir(exist_ok=True)
        (facts / name).write_text("kept in git")
    told.until(lambda seen: names <= seen or "" in seen)
    git("add", "-A")
    git("commit", "-m", "after")
    git("checkout", "HEAD~1")
    told.until(lambda seen: names <= seen or "" in seen)
    git("checkout", "main")
    told.until(lambda seen: names <= seen or "" in seen)


def test_a_watcher_outlives_its_observer(fact, told, watcher):
    (observer,) = [thread for thread in threading.enumerate() if isinstance(thread, BaseObserver)]
    observer.stop()
    observer.join(PATIENCE)
    assert not watcher.alive
    save_in_place(fact)
    told.until(lambda seen: f"{fact.parent.name}/{fact.name}" in seen)
    save_by_rename(fact)
    told.until(lambda seen: f"{fact.parent.name}/{fact.name}" in seen)
    assert watcher.alive


class NoInstance:
    """Plays an observer on a system that has no inotify instance left."""

    def __init__(self, *, timeout: float) -> None:
        raise OSError(errno.EMFILE, "inotify instance limit reached")


class NoRoom(Observer):  # type: ignore[misc,valid-type]
    """A real observer on a system where the first one took the last watch."""

    def schedule(self, *arguments: object, recursive: bool, **options: object) -> object:
        if not recursive:
            raise OSError(errno.ENOSPC, "inotify watch limit reached")
        return super().schedule(*arguments, recursive=recursive, **options)


@pytest.mark.parametrize("kind", [NoInstance, NoRoom])
def test_where_inotify_refuses_files_are_compared(opened, fact, kind, monkeypatch):
    if kind is NoRoom and not sys.platform.startswith("linux"):
        pytest.skip("only inotify has such a limit")
    monkeypatch.setattr("watchdog.observers.Observer", kind)
    told = Told()
    with brisk(opened) as watcher:
        watcher.start()
        assert (watcher.mode, watcher.alive) == ("polling", True)
        for thread in watch_threads():
            if isinstance(thread, BaseObserver):
                # It was told to end, and may take as long as the machine lets it.
                thread.join(PATIENCE)
                assert not thread.is_alive()
        watcher.subscribe(told.put)
        save_in_place(fact)
        told.until(lambda seen: f"{fact.parent.name}/{fact.name}" in seen)


def test_closing_is_quick_and_may_be_repeated(opened, fact):
    release = threading.Event()
    entered = threading.Event()

    def hang(change: Change) -> None:
        entered.set()
        release.wait(PATIENCE)

    watcher = opened.watch()
    watcher.subscribe(hang)
    save_in_place(fact)
    assert entered.wait(PATIENCE)
    began = time.monotonic()
    watcher.close()
    watcher.close()
    # The promise is a second; the margin is for a machine that is busy.
    assert time.monotonic() - began < 5
    assert not watcher.alive
    release.set()
    for thread in watch_threads():
        thread.join(PATIENCE)
    assert watch_threads() == []


def test_a_listener_may_close_the_watcher(watcher, told, fact):
    watcher.subscribe(lambda change: watcher.close())
    save_in_place(fact)
    told.until(lambda seen: len(seen) > 0)
    for thread in watch_threads():
        thread.join(PATIENCE)
    assert watch_threads() == []


def test_the_engine_closes_its_watchers(root):
    with engine(root) as opened:
        opened.memory("ann").add("tea")
        watcher = opened.watch()
        assert watcher.alive
    assert not watcher.alive
    assert watch_threads() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_has_no_watcher(root):
    code = """if True:
        import os, queue, sys
        from deermem import DeerMem
        with DeerMem(sys.argv[1]) as engine:
            fact = engine.memory("ann").add("tea")
            with engine.watch() as watcher:
                child = os.fork()
                if child == 0:
                    alive = watcher.alive
                    watcher.close()
                    with engine.watch() as own:
                        os._exit(0 if own.alive and not alive else 1)
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                told = queue.SimpleQueue()
                watcher.subscribe(told.put)
                engine.memory("ann").update(fact.id, "coffee")
                told.get(timeout=20)
                print(code, watcher.alive)
    """
    environment = {**os.environ, "PYTHONPATH": str(Path(deermem.__file__).resolve().parent.parent)}
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", code, str(root)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("0 True\n", "")


def start_program(root: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(deermem.__file__).resolve().parent.parent)}
    command = [sys.executable, "-W", "error", "-m", "deermem", "--root", str(root), "watch", *arguments]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment, encoding="utf-8")
    assert process.stderr is not None
    assert process.stderr.readline() == f"watching {root} by events; Ctrl-C ends it\n"
    return process


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
def test_the_command_prints_a_line_for_each_change_until_it_is_interrupted(root, opened, fact):
    with start_program(root, "--user", "ann", "--json") as process:
        opened.memory("bob", "coder").add("not asked for")
        fact.with_name("茶.md").write_text("green tea")
        assert process.stdout is not None
        entry = json.loads(process.stdout.readline())
        assert entry.pop("time").endswith("Z")
        assert entry == {"user": "ann", "agent": "coder", "path": f"{fact.parent.name}/茶.md"}
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=PATIENCE) == ("", "")
    assert process.returncode == 130


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
def test_the_command_names_every_user_and_agent_without_a_choice(root, opened, fact):
    other = opened.memory(None).path(opened.memory(None).add("of nobody").id)
    with start_program(root) as process:
        assert process.stdout is not None
        save_in_place(fact)
        assert process.stdout.readline().split()[1:] == ["ann", "coder", f"{fact.parent.name}/{fact.name}"]
        save_by_rename(other)
        assert process.stdout.readline().split()[1:] == ["-", "__default__", f"{other.parent.name}/{other.name}"]
        process.terminate()
