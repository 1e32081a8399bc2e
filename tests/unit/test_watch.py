"""The watcher's decisions, driven by hand: events as watchdog reports them, a clock that stands still, no thread."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from watchdog import events

import deermem
from deermem.watch import Change, Store, Watcher
from deermem.watch import digests as digests_module
from deermem.watch.events import MAX_PATHS, Burst, Bursts, Pace, Place, locate
from deermem.watch.observer import overflow_limit

PACE = Pace()
ROOT = "/data/.deermem/users"
FACTS = f"{ROOT}/ann/agents/coder/facts"
ANN = Place("ann", "coder")


class FileReadEvent(events.FileSystemEvent):
    """As newer releases of watchdog tell it."""

    event_type = "closed_no_write"


class FilePermissionsEvent(events.FileSystemEvent):
    """As newer releases of watchdog tell it."""

    event_type = "attrib"


def made(name: str) -> events.FileSystemEvent:
    return events.FileCreatedEvent(f"{FACTS}/{name}")


def written(name: str) -> events.FileSystemEvent:
    return events.FileModifiedEvent(f"{FACTS}/{name}")


def closed(name: str) -> events.FileSystemEvent:
    return events.FileClosedEvent(f"{FACTS}/{name}")


def gone(name: str) -> events.FileSystemEvent:
    return events.FileDeletedEvent(f"{FACTS}/{name}")


def moved(old: str, new: str) -> events.FileSystemEvent:
    return events.FileMovedEvent(f"{FACTS}/{old}", f"{FACTS}/{new}")


def folder() -> events.FileSystemEvent:
    return events.DirModifiedEvent(FACTS)


def play(timed: Sequence[tuple[float, events.FileSystemEvent]], *, limit: int = 4096) -> list[tuple[float, Burst]]:
    """Feeds events at their times; every burst with the time when it was over."""
    bursts = Bursts(PACE, limit)
    bursts.follow({ROOT: "users", "/data/.deermem/agents": "agents"})
    found: list[tuple[float, Burst]] = []

    def pop_until(end: float, now: float) -> None:
        while (wait := bursts.wait(now)) is not None and now + wait <= end:
            now += wait
            burst = bursts.pop(now)
            # Adding floats may stop a hair before the end of the burst.
            while burst is None:
                now += 1e-9
                burst = bursts.pop(now)
            found.append((round(now, 3), burst))

    before = 0.0
    for at, event in timed:
        pop_until(at, before)
        bursts.take(event, at)
        before = at
    pop_until(before + 60.0, before)
    return found


def paths(timed: Sequence[tuple[float, events.FileSystemEvent]]) -> list[tuple[float, list[str]]]:
    """The bursts of ann's coder: when over, and what they touched."""
    return [(at, sorted(burst.paths.get(ANN, ()))) for at, burst in play(timed)]


EDITORS = {
    "vim": (
        [
            *[(0.0, made("e5/.x.md.swp")), (0.0, written("e5/.x.md.swp"))],
            *[(2.0, made("e5/4913")), (2.0, closed("e5/4913")), (2.001, gone("e5/4913"))],
            *[(2.002, moved("e5/x.md", "e5/x.md~")), (2.003, made("e5/x.md")), (2.003, written("e5/x.md"))],
            *[(2.004, closed("e5/x.md")), (2.004, folder()), (2.005, gone("e5/x.md~")), (2.1, gone("e5/.x.md.swp"))],
        ],
        [(2.054, ["e5/x.md"])],
    ),
    "VS Code": (
        [(0.0, written("x.md")), (0.001, written("x.md")), (0.002, closed("x.md")), (0.002, folder())],
        [(0.052, ["x.md"])],
    ),
    "JetBrains": (
        [
            *[(0.0, made("x.md___jb_tmp___")), (0.0, written("x.md___jb_tmp___")), (0.0, closed("x.md___jb_tmp___"))],
            *[(0.01, moved("x.md", "x.md___jb_old___")), (0.011, moved("x.md___jb_tmp___", "x.md"))],
            (0.012, gone("x.md___jb_old___")),
        ],
        [(0.061, ["x.md"])],
    ),
    "Emacs": (
        [
            *[(0.0, made(".#x.md")), (0.5, made("#x.md#")), (0.5, closed("#x.md#"))],
            *[(1.0, moved("x.md", "x.md~")), (1.1, made("x.md")), (1.1, written("x.md")), (1.1, closed("x.md"))],
            *[(1.11, gone("#x.md#")), (1.11, gone(".#x.md"))],
        ],
        # One burst, though the file is away for longer than a burst is quiet.
        [(1.15, ["x.md"])],
    ),
    "sed -i": (
        [(0.0, made("sedK1x2y3")), (0.0, written("sedK1x2y3")), (0.001, moved("sedK1x2y3", "x.md")), (0.001, folder())],
        [(0.051, ["x.md"])],
    ),
    "a new file by rename from outside": ([(0.0, made("x.md")), (0.0, folder())], [(0.05, ["x.md"])]),
    "Syncthing": (
        [
            (0.0, made(".syncthing.x.md.tmp")),
            (0.2, closed(".syncthing.x.md.tmp")),
            (0.2, moved(".syncthing.x.md.tmp", "x.md")),
        ],
        [(0.25, ["x.md"])],
    ),
    "Dropbox": (
        [
            *[(0.0, made(".dropbox.cache/new/x.md")), (0.1, moved(".dropbox.cache/new/x.md", "x.md"))],
            *[(0.11, made("x (Ann's conflicted copy 2026-11-30).md")), (0.12, made(".~x.md"))],
        ],
        [(0.16, ["x (Ann's conflicted copy 2026-11-30).md", "x.md"])],
    ),
    "a rename to another fact": ([(0.0, moved("x.md", "y.md"))], [(0.3, ["x.md", "y.md"])]),
    "a removal": ([(0.0, gone("x.md"))], [(0.3, ["x.md"])]),
    "only reading": (
        [(0.0, events.FileOpenedEvent(f"{FACTS}/x.md")), (0.0, FileReadEvent(f"{FACTS}/x.md"))],
        [],
    ),
    "a change of permissions": ([(0.0, FilePermissionsEvent(f"{FACTS}/x.md"))], [(0.05, ["x.md"])]),
    "our own index and journal": (
        [
            *[(0.0, events.FileModifiedEvent(f"{ROOT}/ann/.retrieval/index.sqlite3-wal"))],
            *[(0.0, events.FileCreatedEvent(f"{ROOT}/ann/.journal/staged.md"))],
            *[(0.0, events.FileModifiedEvent(f"{ROOT}/ann/.memory.lock"))],
            *[(0.0, events.FileModifiedEvent(f"{ROOT}/ann/memory.json"))],
            *[(0.0, events.FileModifiedEvent(f"{ROOT}/ann/agents/coder/.metadata/x.md"))],
            *[(0.0, events.FileModifiedEvent(f"{ROOT}/ann/agents/coder/notes.md"))],
        ],
        [],
    ),
}


@pytest.mark.parametrize("program", EDITORS)
def test_what_a_program_does_is_one_burst_on_the_fact(program):
    timed, expected = EDITORS[program]
    assert paths(timed) == expected


def test_a_save_as_bytes_paths_is_understood():
    assert paths([(0.0, events.FileModifiedEvent(f"{FACTS}/x.md".encode()))]) == [(0.05, ["x.md"])]


def test_a_burst_ends_though_events_go_on():
    timed = [(step / 50, written("x.md")) for step in range(120)]
    found = play(timed)
    assert [at for at, _ in found] == [1.0, 2.0, 2.43]
    assert [burst.unfinished for _, burst in found] == [True, True, False]


def test_a_git_checkout_is_one_burst_of_files_and_folders():
    timed = [(0.0, events.DirCreatedEvent(f"{FACTS}/a{number}")) for number in range(20)]
    timed += [(0.001 * number, made(f"a{number % 20}/f{number}.md")) for number in range(500)]
    ((_, burst),) = play(timed)
    assert burst.paths == {ANN: {*(f"a{n}/" for n in range(20)), *(f"a{n % 20}/f{n}.md" for n in range(500))}}
    assert not burst.lost


def test_users_and_agents_that_come_and_go_are_looked_at_as_a_whole():
    timed = [
        (0.0, events.DirCreatedEvent(f"{ROOT}/bob")),
        (0.0, events.DirDeletedEvent(f"{ROOT}/eve/agents")),
        (0.0, events.DirMovedEvent(f"{ROOT}/ann/agents/coder", f"{ROOT}/ann/agents/writer")),
        (0.0, events.DirCreatedEvent("/data/.deermem/agents/coder")),
    ]
    ((_, burst),) = play(timed)
    assert burst.users == {"bob", "eve"}
    assert burst.paths == {place: {""} for place in (ANN, Place("ann", "writer"), Place(None, "coder"))}
    assert burst.removing == {"eve", "ann"}


def test_more_paths_than_a_burst_may_hold_mean_all_of_them():
    bursts = Bursts(PACE, 1_000_000)
    bursts.follow({ROOT: "users"})
    for number in range(MAX_PATHS + 500):
        bursts.take(gone(f"{number}.md"), 0.0)
    burst = bursts.pop(0.3)
    assert burst is not None
    assert len(burst.paths[ANN]) == MAX_PATHS + 1
    assert "" in burst.paths[ANN]


def test_as_many_events_as_the_queue_may_hold_mean_that_some_are_lost():
    timed = [(0.0, made(f"{number}.md")) for number in range(99)]
    assert [burst.lost for _, burst in play(timed, limit=100)] == [False]
    # Whatever the events were about: those of the index fill the same queue.
    timed += [(0.0, events.FileModifiedEvent(f"{ROOT}/ann/.retrieval/x"))]
    ((_, burst),) = play(timed, limit=100)
    assert (burst.lost, burst.doubtful) == (True, {ANN})
    # A pause in between has let the queue run empty.
    spread = [(number / 100 + (5 if number > 50 else 0), made("x.md")) for number in range(101)]
    assert [burst.lost for _, burst in play(spread, limit=100)] == [False, False]


def test_the_limit_is_below_what_the_kernel_keeps():
    assert 16 <= overflow_limit() <= 8192


@pytest.mark.parametrize(
    ("path", "is_folder", "found"),
    [
        ("users/ann/agents/coder/facts/e5/x.md", False, ("ann", "coder", "e5/x.md")),
        ("agents/__default__/facts/x.md", False, (None, "__default__", "x.md")),
        ("users/ann/agents/coder/facts/e5", True, ("ann", "coder", "e5/")),
        ("users/ann/agents/coder/facts", True, ("ann", "coder", "")),
        ("users/ann/agents/coder", True, ("ann", "coder", "")),
        ("users/ann/agents", True, ("ann", None, "")),
        ("users/ann", True, ("ann", None, "")),
        ("agents", True, (None, None, "")),
        ("users", True, None),
        ("users/ann/agents/coder/facts/.x.md", False, None),
        ("users/ann/agents/coder/facts/.git/x.md", False, None),
        ("users/ann/agents/coder/facts/x.md~", False, None),
        ("users/ann/agents/coder/facts/x.MD", False, None),
        ("users/ann/agents/co der/facts/x.md", False, None),
        ("users/a n n/agents/coder/facts/x.md", False, None),
        ("users/ann/agents/coder/other/x.md", False, None),
        ("users/ann/threads/1/x.md", False, None),
        ("users/ann/threads", True, None),
        ("users/ann/agents/coder/facts", False, None),
        ("other/x.md", False, None),
        ("", True, None),
    ],
)
def test_where_a_path_belongs(path, is_folder, found):
    assert locate(path, is_folder) == found


# --- the watcher, its clock and observer played


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Observer:
    """Plays the observer: follows, dies and refuses as it is told."""

    def __init__(self) -> None:
        self.followed: list[list[str]] = []
        self.refuse: OSError | None = None
        self.alive = True
        self.take: Callable[[events.FileSystemEvent], None] = lambda event: None

    def __call__(self, folders: Sequence[str], take: Callable[[events.FileSystemEvent], None]) -> Observer:
        if self.refuse is not None:
            raise self.refuse
        self.followed.append(sorted(os.path.basename(folder) for folder in folders))
        self.take, self.alive = take, True
        return self

    def stop(self, timeout: float) -> None:
        self.alive = False


class Scene:
    """A store, its watcher, and what was swept and told."""

    def __init__(self, root: Path, engine: deermem.DeerMem) -> None:
        self.root = root
        self.clock = Clock()
        self.observer = Observer()
        self.swept: list[str | None] = []
        self.told: list[Change] = []
        self._engine = engine
        self.store = Store(engine._layout, self._visit)
        self.watcher = Watcher(self.store, self.observer, PACE, self.clock)
        self.watcher.subscribe(self.told.append)

    @contextmanager
    def _visit(self, user: str | None) -> Iterator[object]:
        self.swept.append(user)
        with self._engine._visit(user) as context:
            yield context

    def begin(self) -> None:
        self.watcher.begin()
        assert self.told == []

    def pass_time(self, seconds: float) -> list[Change]:
        """Goes on in small steps, as the thread would; what was told meanwhile."""
        del self.told[:], self.swept[:]
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.clock.now += 0.05
            self.watcher.step()
        return list(self.told)

    def event(self, kind: type[events.FileSystemEvent], path: Path) -> None:
        self.observer.take(kind(str(path)))


@pytest.fixture
def engine(root: Path) -> Iterator[deermem.DeerMem]:
    with deermem.DeerMem(root, deermem.Settings(max_facts=0)) as engine:
        yield engine


@pytest.fixture
def fact(engine: deermem.DeerMem) -> Path:
    """The file of one fact of ann's coder."""
    memory = engine.memory("ann", "coder")
    return memory.path(memory.add("tea, never coffee").id)


@pytest.fixture
def scene(root: Path, engine: deermem.DeerMem, fact: Path) -> Scene:
    return Scene(root, engine)


def below_facts(path: Path) -> str:
    return path.as_posix().partition("/facts/")[2]


def test_an_edit_is_swept_and_told_once(scene, fact):
    scene.begin()
    fact.write_text("coffee after all")
    scene.event(events.FileModifiedEvent, fact)
    scene.clock.now += 0.04
    scene.watcher.step()
    assert scene.told == []
    assert scene.pass_time(1.0) == [Change("ann", "coder", (below_facts(fact),))]
    assert scene.swept == ["ann"]
    assert scene.pass_time(100.0) == []


def test_the_catalogue_is_warm_when_the_listener_is_called(scene, engine, fact):
    scene.begin()
    fact.write_text("coffee after all")
    seen: list[object] = []

    def look(change: Change) -> None:
        with closing(sqlite3.connect(engine.context("ann").paths.index)) as index:
            seen.extend(index.execute("SELECT size FROM files").fetchone())

    scene.watcher.subscribe(look)
    scene.event(events.FileModifiedEvent, fact)
    scene.pass_time(1.0)
    assert seen == [len("coffee after all")]


def test_a_listener_that_raises_harms_nobody(scene, fact, caplog):
    later: list[Change] = []

    def fail(change: Change) -> None:
        raise ZeroDivisionError("by zero")

    scene.watcher.subscribe(fail)
    scene.watcher.subscribe(later.append)
    scene.begin()
    for _ in range(2):
        scene.event(events.FileModifiedEvent, fact)
        scene.pass_time(1.0)
    assert len(later) == 2
    assert caplog.text.count("ZeroDivisionError: by zero") == 2


def test_who_unsubscribed_is_not_called(scene, fact):
    others: list[Change] = []
    unsubscribe = scene.watcher.subscribe(others.append)
    unsubscribe()
    scene.begin()
    scene.event(events.FileModifiedEvent, fact)
    assert len(scene.pass_time(1.0)) == 1
    assert others == []


def test_folders_are_followed_when_they_appear_and_again_when_they_return(scene, root):
    shutil.rmtree(root)
    scene.begin()
    assert scene.observer.followed == []
    facts = root / "users/bob/agents/coder/facts"
    facts.mkdir(parents=True)
    (facts / "x.md").write_text("tea")
    assert scene.pass_time(1.1) == [Change("bob", "coder", ("x.md",))]
    assert scene.observer.followed == [["users"]]
    (root / "agents").mkdir()
    scene.pass_time(1.1)
    assert scene.observer.followed[1:] == [["agents", "users"]]
    shutil.rmtree(root / "users")
    scene.observer.alive = False
    assert scene.pass_time(1.1) == [Change("bob", "coder", ("x.md",))]
    assert scene.observer.followed[2:] == [["agents"]]
    facts.mkdir(parents=True)
    (facts / "y.md").write_text("coffee")
    assert scene.pass_time(1.1) == [Change("bob", "coder", ("y.md",))]
    assert scene.observer.followed[3:] == [["agents", "users"]]


def test_a_folder_that_is_replaced_between_two_looks_is_followed_anew(scene, root, fact):
    scene.begin()
    os.rename(root / "users", root / "old")
    shutil.copytree(root / "old", root / "users")
    assert scene.pass_time(1.1) == [Change("ann", "coder", (below_facts(fact),))]
    assert len(scene.observer.followed) == 2


def test_a_dead_observer_is_noticed_and_what_it_missed_is_told(scene, fact, caplog):
    scene.begin()
    scene.observer.alive = False
    fact.write_text("coffee after all")
    assert scene.pass_time(1.1) == [Change("ann", "coder", (below_facts(fact),))]
    assert len(scene.observer.followed) == 2
    assert "the observer ended" in caplog.text


def test_a_deaf_observer_costs_a_delay_and_is_replaced(scene, fact):
    scene.begin()
    for turn in range(2):
        fact.write_text(f"coffee {turn}")
        assert scene.pass_time(28.0) == []
        assert scene.pass_time(2.5) == [Change("ann", "coder", (below_facts(fact),))]
        assert scene.swept == ["ann"]
    assert len(scene.observer.followed) == 2


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC])
def test_where_the_limits_are_reached_files_are_compared(scene, fact, number, caplog):
    scene.observer.refuse = OSError(number, "inotify limit reached")
    scene.begin()
    assert scene.watcher.mode == "polling"
    assert caplog.text.count("inotify limit reached") == 1
    fact.write_text("coffee after all")
    new = fact.with_name("new.md")
    new.write_text("tea")
    expected = tuple(sorted([below_facts(fact), below_facts(new)]))
    assert scene.pass_time(2.1) == [Change("ann", "coder", expected)]
    assert scene.pass_time(28.0) == []
    # Tried again now and then, more rarely each time, and without a word until it works.
    scene.pass_time(120.0)
    assert caplog.text.count("inotify limit reached") == 1
    scene.observer.refuse = None
    scene.pass_time(200.0)
    assert (scene.watcher.mode, scene.observer.followed) == ("events", [["users"]])


def test_an_overflow_is_followed_by_one_look_at_everything(scene, fact, caplog):
    caplog.set_level("INFO", "deermem")
    scene.begin()
    new = fact.with_name("new.md")
    new.write_text("tea")
    for number in range(overflow_limit()):
        scene.event(events.FileModifiedEvent, scene.root / f"users/ann/.retrieval/{number}")
    assert scene.pass_time(1.0) == [Change("ann", "coder", (below_facts(new),))]
    assert len(scene.observer.followed) == 2
    assert caplog.text.count("more events than their queue may hold") == 1
    assert scene.pass_time(100.0) == []


def test_what_came_while_a_burst_was_cut_short_is_told_after_an_overflow(scene, fact):
    """The look at the files in the middle must not make the last look overlook what had no event."""
    scene.begin()
    lost = fact.with_name("lost.md")
    lost.write_text("its event will be lost")
    told = []
    for _ in range(25):
        scene.event(events.FileModifiedEvent, fact)
        scene.clock.now += 0.045
        scene.watcher.step()
    told = list(scene.told)
    assert {path for change in told for path in change.paths} == {below_facts(fact)}
    for _ in range(overflow_limit()):
        scene.event(events.FileModifiedEvent, fact)
    assert scene.pass_time(1.0) == [Change("ann", "coder")]


def test_a_user_that_is_being_removed_is_not_opened(scene, fact):
    scene.begin()
    scene.swept.clear()
    for _ in range(40):
        scene.event(events.FileDeletedEvent, fact.with_name("gone.md"))
        scene.clock.now += 0.04
        scene.watcher.step()
        assert scene.swept == []
    scene.pass_time(1.0)
    assert scene.swept == ["ann"]


def test_a_user_folder_that_is_gone_is_told_and_not_made_again(scene, fact):
    scene.begin()
    user = scene.root / "users/ann"
    shutil.rmtree(user)
    scene.event(events.DirDeletedEvent, user)
    assert scene.pass_time(1.0) == [Change("ann", "coder", (below_facts(fact),))]
    assert not user.exists()


def test_a_new_folder_is_told_by_its_files_and_one_that_went_by_its_name(scene, fact):
    scene.begin()
    new = fact.parent.parent / "zz"
    new.mkdir()
    (new / "x.md").write_text("tea")
    scene.event(events.DirCreatedEvent, new)
    assert scene.pass_time(1.0) == [Change("ann", "coder", ("zz/x.md",))]
    shutil.rmtree(new)
    scene.event(events.DirDeletedEvent, new)
    assert scene.pass_time(1.0) == [Change("ann", "coder", ("zz/",))]


def test_beyond_the_paths_that_are_remembered_the_bucket_is_told(scene, fact, monkeypatch):
    monkeypatch.setattr(digests_module, "REMEMBERED_PATHS", 0)
    scene.watcher = Watcher(scene.store, scene.observer, PACE, scene.clock)
    scene.watcher.subscribe(scene.told.append)
    scene.begin()
    fact.write_text("coffee after all")
    assert scene.pass_time(31.0) == [Change("ann", "coder")]


def test_the_no_user_root_is_left_out_under_a_strict_scope(root):
    with deermem.DeerMem(root, deermem.Settings(strict_user_scope=True)) as engine, engine.watch() as watcher:
        (root / "agents/coder/facts").mkdir(parents=True)
        assert watcher._folders() == {}


def test_a_failing_step_is_logged_and_the_next_one_goes_on(scene, fact, caplog, monkeypatch):
    scene.begin()
    monkeypatch.setattr(scene.watcher, "_compare", lambda users=None: 1 / 0)
    scene.event(events.FileModifiedEvent, fact)
    scene.clock.now += 1.0
    scene.watcher._guarded(scene.watcher.step)
    monkeypatch.undo()
    scene.event(events.FileModifiedEvent, fact)
    assert len(scene.pass_time(1.0)) == 1
    assert "ZeroDivisionError" in caplog.text


def test_without_watchdog_it_says_what_to_install(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "watchdog.observers", None)
    with deermem.DeerMem(root) as engine, pytest.raises(deermem.InvalidInput, match="watchdog") as caught:
        engine.watch()
    assert caught.value.hint == "pip install 'deermem[watch]'"
    assert threading.active_count() == 1
