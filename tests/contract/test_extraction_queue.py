"""The queue as a host meets it: threads, forks, closing, no model, too much, and what an earlier engine left."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator

import pytest
from builders_extraction import Scripted, all_of, contents, flushed, names_of, owns, silence, spool_names, states, talk

from deermem import DeerMem, DeerMemError, ExtractionFailed, Hooks, QueueFull, Settings, StoreUnavailable
from deermem.extract import items
from deermem.store.files import Files
from deermem.store.layout import Layout
from deermem.store.spool import Spool


@pytest.fixture
def opened(root, clock) -> Iterator[Callable[..., DeerMem]]:
    """Makes engines over one root; each is closed."""
    made: list[DeerMem] = []

    def make(model: object = None, files: Files | None = None, hooks: Hooks | None = None, **settings) -> DeerMem:
        given = Settings(**{"close_timeout_seconds": 0, **settings})
        made.append(DeerMem(root, given, model, hooks=hooks, clock=clock, files=files))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


class Gate:
    """A model's `act` that waits to be opened."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.reached = threading.Event()

    def __call__(self, number: int) -> None:
        self.reached.set()
        assert self.open.wait(30)


def waiting_items(root, user: str = "alice") -> list[items.Item]:
    spool = Spool(Files(), Layout(root).user(user))
    return [items.decode(spool.read(entry)) for entry in spool.entries()]


def test_eight_threads_capture_and_every_word_is_read_once(opened):
    """Of their own conversations, and of one that all of them add to; no user waits for another."""
    model = Scripted()
    engine = opened(model, max_facts=0)
    done: list[int] = []

    def work(thread: int) -> None:
        memory = engine.memory(f"user{thread % 2}", "coder")
        for turn in range(4):
            memory.capture(talk(f"own{thread}x{turn}"), f"t{thread}")
            memory.capture_now(talk(f"now{thread}x{turn}"), f"t{thread}")
            memory.capture(talk(f"all{thread}x{turn}"), "shared")
        done.append(thread)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    flushed(engine)
    marks = [f"{kind}{thread}x{turn}" for kind in ("own", "now", "all") for thread in range(8) for turn in range(4)]
    assert sorted(done) == list(range(8))
    assert sorted(name for names in model.seen for name in names) == sorted(names_of(*marks))
    assert all_of(engine.memory(f"user{number}", "coder") for number in range(2)) == {owns(mark) for mark in marks}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_captures_and_the_parent_goes_on(opened):
    """The child's threads are its own; what the parent had before it stays the parent's."""
    gate = Gate()
    model = Scripted(act=gate)
    engine = opened(model)
    memory = engine.memory("alice", "coder")
    memory.capture_now(talk("running"), "t1")
    memory.capture(talk("waits"), "t2")
    assert gate.reached.wait(30)
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if memory.capture(talk("child"), "t3") and memory.capture(talk("waits", "more"), "t2") else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    gate.open.set()
    flushed(engine)
    assert contents(memory) == sorted(map(owns, ["running", "waits", "more", "child"]))
    assert sorted(name for names in model.seen for name in names) == sorted(
        names_of("running", "waits", "more", "child")
    )


def test_closing_waits_no_longer_than_it_may(opened, root, caplog):
    """155: a warning, and everything stays for the next engine."""
    gate = Gate()
    engine = opened(Scripted(act=gate), close_timeout_seconds=0.05)
    engine.memory("alice", "coder").capture_now(talk(1), "t1")
    engine.memory("alice", "coder").capture(talk(2), "t2")
    assert gate.reached.wait(30)
    engine.close()
    assert "not extracted yet" in caplog.text
    assert sorted(states(root)) == ["running", "waiting"]
    gate.open.set()
    other = opened(Scripted())
    flushed(other)
    assert contents(other.memory("alice", "coder")) == [owns(1), owns(2)]


def test_closing_extracts_what_it_can_in_time(opened, root):
    """155."""
    model = Scripted()
    engine = opened(model, close_timeout_seconds=30)
    engine.memory("alice", "coder").capture(talk(1), "t")
    engine.close()
    assert (model.names(), states(root)) == (names_of(1), [])


def test_a_closed_engine_takes_nothing_more(opened, root):
    engine = opened(Scripted())
    memory = engine.memory("alice", "coder")
    engine.close()
    for act in (
        lambda: memory.capture(talk(1), "t"),
        lambda: memory.capture_now(talk(1), "t"),
        lambda: memory.extract(talk(1), "t"),
        engine.flush,
    ):
        with pytest.raises(DeerMemError, match="the engine is closed"):
            act()
    assert not root.exists()


def test_without_a_model_nothing_is_queued_and_that_is_said_once(opened, root, caplog):
    engine = opened()
    memory = engine.memory("alice", "coder")
    for number in range(3):
        assert memory.capture(talk(number), "t") is False
        assert memory.capture_now(talk(number), "t") is False
    assert caplog.text.count("there is no model") == 1
    with pytest.raises(ExtractionFailed, match="no model"):
        memory.extract(talk(1), "t")
    assert engine.flush(5)
    assert not root.exists()


def test_an_engine_without_a_model_leaves_alone_what_waits(opened, root, clock):
    """It may flush as often as it likes: no attempt is counted, nothing is set aside."""
    engine = opened(Scripted())
    engine.memory("alice", "coder").capture(talk(1), "t")
    engine.close()
    clock.advance(hours=1)
    before = waiting_items(root)
    without = opened()
    for _ in range(items.MAX_ATTEMPTS + 1):
        assert not without.flush(5)
    assert waiting_items(root) == before
    without.close()
    flushed(opened(Scripted()))
    assert states(root) == []


def test_a_full_queue_says_so_and_takes_what_matters(opened, root):
    """151."""
    engine = opened(Scripted(), queue_max_depth=1)
    memory = engine.memory("alice", "coder")
    assert memory.capture(talk(1), "t1")
    with pytest.raises(QueueFull, match="1 conversations wait"):
        memory.capture(talk(2), "t2")
    assert memory.capture([("user", "No, that is wrong. Use gadget-3."), ("assistant", "Fixed.")], "t3")
    flushed(engine)
    assert memory.capture(talk(2), "t2")


def test_the_next_engine_takes_up_by_itself_what_is_due(opened, root, clock):
    """Nobody need call anything."""
    engine = opened(Scripted())
    engine.memory("alice", "coder").capture(talk(1), "t")
    engine.memory(None).capture(talk(2), "t")
    engine.close()
    clock.advance(seconds=31)
    gate = Gate()
    gate.open.set()
    other = opened(Scripted(act=gate))
    assert gate.reached.wait(30)
    flushed(other)
    assert contents(other.memory("alice", "coder")) == [owns(1)]
    assert contents(other.memory(None)) == [owns(2)]


@pytest.mark.parametrize("direction", [1, -1])
def test_what_a_process_left_behind_is_found_by_one_that_is_at_work(opened, clock, direction):
    """It died, and no other one begins: the first capture after ten minutes looks, also where a clock is set back."""
    working, died = opened(Scripted()), opened(Scripted())
    working.memory("bob", "coder").capture(talk(2), "t")
    died.memory("alice", "coder").capture(talk(1), "t")
    died.conversations._made._queue.stop()
    queue = working.conversations._made._queue
    for minutes, found in ((9, []), (2, [owns(1)])):
        clock.advance(seconds=direction * 60 * minutes)
        working.memory("bob", "coder").capture(talk(3, minutes), "t")
        for thread in threading.enumerate():
            if thread.name == "deermem-take-up":
                thread.join(30)
        assert queue.flush(30)
        assert contents(working.memory("alice", "coder")) == found


@pytest.mark.parametrize("due", ["9999-12-31T23:59:59Z", "2199-01-01T00:00:00Z"])
def test_a_date_that_a_wrong_clock_wrote_holds_up_nothing(opened, root, clock, due):
    """Nor does it end the threads: what is due in thousands of years is more than they can sleep."""
    clock.advance(days=36_500)
    engine = opened(Scripted())
    engine.memory("alice", "coder").capture(talk(1), "t")
    engine.close()
    (path,) = (root / "users/alice/.queue").glob("w.*")
    text = path.read_text()
    path.write_text(text.replace(text.partition('"dueAt":"')[2].partition('"')[0], due))
    clock.advance(days=-36_500)
    gate = Gate()
    gate.open.set()
    other = opened(Scripted(act=gate))
    other.conversations._made._queue.take_up()
    assert not gate.reached.is_set()
    clock.advance(hours=2)
    other.memory("alice", "coder").capture(talk(2), "t2")
    assert gate.reached.wait(30)
    flushed(other)
    assert contents(other.memory("alice", "coder")) == [owns(1), owns(2)]


@pytest.mark.parametrize("where", ["model", "hook"])
def test_code_of_the_host_that_ends_a_thread_costs_one_try(opened, root, where, monkeypatch):
    """A flush returns, the conversation waits, and others are served."""
    silence(monkeypatch, SystemExit)
    ending = [True]

    def act(*_: object) -> None:
        if ending.pop() if ending else False:
            raise SystemExit

    hooks = Hooks(after_model_call=act) if where == "hook" else None
    model = Scripted(act=act if where == "model" else None)
    engine = opened(model, hooks=hooks)
    memory = engine.memory("alice", "coder")
    memory.capture(talk(1), "t1")
    memory.capture(talk(2), "t2")
    assert not engine.flush(30)
    flushed(engine)
    assert contents(memory) == [owns(1), owns(2)]
    assert states(root) == []


class Closed(Files):
    """One user's queue can't be read."""

    closed = True

    def listdir(self, path: str) -> list[str]:
        if self.closed and "/bob/.queue" in path:
            raise PermissionError(13, "Permission denied", path)
        return super().listdir(path)


def test_a_queue_that_cannot_be_read_is_in_nobodys_way(opened, root, caplog):
    """The engine opens, others are served, and a flush doesn't claim that all is done."""
    engine = opened(Scripted())
    for user in ("alice", "bob", "carol"):
        engine.memory(user, "coder").capture(talk(user), "t")
    engine.close()
    files = Closed()
    other = opened(Scripted(), files)
    assert not other.flush(30)
    assert "bob can't be read" in caplog.text
    assert all_of(other.memory(user, "coder") for user in ("alice", "bob", "carol")) == {owns("alice"), owns("carol")}
    with pytest.raises(StoreUnavailable, match="Permission"):
        other.memory("bob", "coder").capture(talk("more"), "t")
    files.closed = False
    flushed(other)
    assert contents(other.memory("bob", "coder")) == [owns("bob")]


class Full(Files):
    """A disk that takes half of the next file of a queue."""

    full = False

    def write(self, descriptor: int, data: bytes) -> None:
        if self.full and data.startswith(b'{"version"'):
            super().write(descriptor, data[: len(data) // 2])
            raise OSError(28, "No space left on device")
        super().write(descriptor, data)


def test_a_full_disk_is_said_in_words_and_costs_only_what_is_new(opened, root):
    files = Full()
    engine = opened(Scripted(), files)
    memory = engine.memory("alice", "coder")
    memory.capture(talk(1), "t")
    files.full = True
    before = spool_names(root)
    with pytest.raises(StoreUnavailable, match="No space left"):
        memory.capture(talk(1, 2), "t")
    assert spool_names(root) == before
    files.full = False
    flushed(engine)
    assert contents(memory) == [owns(1)]
    assert memory.capture(talk(1, 2), "t")
    flushed(engine)
    assert contents(memory) == [owns(1), owns(2)]
    assert spool_names(root) == {"watermarks.json"}


def test_a_file_in_the_queues_place_is_said_in_words(opened, root):
    folder = root / "users/alice"
    folder.mkdir(parents=True)
    (folder / ".queue").write_text("a file")
    engine = opened(Scripted())
    with pytest.raises(StoreUnavailable, match="queue"):
        engine.memory("alice", "coder").capture(talk(1), "t")
    assert engine.flush(5)


def test_models_that_never_answer_leave_room_for_emergencies_of_others(opened):
    """150: four users whose model hangs; a fifth one's emergency is read all the same."""
    gate = Gate()

    def act(number: int) -> None:
        if number < 4:
            gate(number)

    model = Scripted(act=act)
    engine = opened(model)
    hanging = [threading.Thread(target=engine.flush, args=(30,))]
    for number in range(4):
        engine.memory(f"slow{number}", "coder").capture(talk(number), "t")
    for flush in hanging:
        flush.start()
    while len(model.seen) < 4:
        hanging[0].join(0.01)
    engine.memory("quick", "coder").capture_now(talk("quick"), "t")
    while len(model.seen) < 5:
        hanging[0].join(0.01)
    assert model.seen[4] == ["gadget-quick", "reply-quick"]
    gate.open.set()
    hanging[0].join(30)
    flushed(engine)
