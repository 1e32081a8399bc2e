"""The durable queue: what waits lies on disk, each conversation has its own time, and nothing is lost or done twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from deermem import ExtractionFailed, QueueFull
from deermem.extract import items
from deermem.extract.dropped import beyond_dropped
from deermem.extract.items import Item
from deermem.extract.messages import Turn, read_turns
from deermem.extract.queue import Queue, QueueRules
from deermem.model.scope import Scope
from deermem.store.files import Files
from deermem.store.layout import Layout
from deermem.store.spool import Spool, new_id

PASSED_OVER = partial(beyond_dropped, max_keys=4096)
ANN = Scope.of("ann@example.com", "coder")
BOB = Scope.of("bob", "coder")


def said(*texts: str) -> tuple[Turn, ...]:
    """A conversation, the person first."""
    return read_turns([("user" if number % 2 == 0 else "assistant", text) for number, text in enumerate(texts)])


@dataclass
class Recorder:
    """Stands for extraction: notes what came up, and fails or waits on demand."""

    seen: list[Item] = field(default_factory=list)
    fail: Exception | None = None
    gate: threading.Event | None = None
    begun: threading.Event = field(default_factory=threading.Event)

    def __call__(self, item: Item, *, keep: Callable[[Item], None], is_wanted: Callable[[], bool]) -> None:
        self.begun.set()
        if self.gate is not None:
            assert self.gate.wait(20)
        if self.fail is not None:
            raise self.fail
        if is_wanted():
            self.seen.append(item)

    def texts(self) -> list[list[str]]:
        """What was said in each, in the order it came up."""
        return [[turn.text for turn in item.turns] for item in self.seen]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def opened(root, clock, recorder) -> Iterator[Callable[..., Queue]]:
    """Makes queues over one root, as several engines would have."""
    made: list[Queue] = []

    def make(extract: Recorder = recorder, **rules: float) -> Queue:
        made.append(Queue(Files(), Layout(root), clock, QueueRules(**rules), extract))
        return made[-1]

    yield make
    for queue in made:
        queue.stop()


@pytest.fixture
def queue(opened) -> Queue:
    return opened()


def put(queue: Queue, clock, *texts: str, scope: Scope = ANN, thread: str = "t1", **more) -> Item:
    """Captures a conversation, as the engine does."""
    urgent = more.get("urgent", False)
    item = Item(
        id=new_id(),
        user_id=scope.user_id,
        agent=scope.agent,
        thread=thread,
        turns=said(*texts),
        first_at=clock(),
        due_at=queue.due_at(urgent=urgent),
        **more,
    )
    queue.put(scope, item)
    return item


def names(root: Path, scope: Scope = ANN) -> list[str]:
    """The states of what lies in a user's spool."""
    return [entry.state for entry in Spool(Files(), Layout(root).of(scope)).entries()]


def test_a_conversation_waits_on_disk_until_it_is_due(queue, clock, recorder, root):
    put(queue, clock, "I live in Ghent.", "Noted.")
    assert names(root) == ["waiting"]
    assert recorder.seen == []
    assert queue.flush(20)
    assert recorder.texts() == [["I live in Ghent.", "Noted."]]
    assert names(root) == []


def test_it_runs_by_itself_when_its_time_comes(queue, clock, recorder):
    put(queue, clock, "I live in Ghent.", "Noted.")
    clock.advance(seconds=31)
    put(queue, clock, "I play chess.", "Nice.", scope=BOB)
    assert recorder.begun.wait(20)


def test_captures_of_one_conversation_become_one_with_all_signals(queue, clock, recorder):
    """149: the whole conversation replaces what was captured before; what only an older capture says is kept."""
    put(queue, clock, "One.", "Yes.", signals=frozenset({"goal"}))
    put(queue, clock, "One.", "Yes.", "Two.", "Right.", signals=frozenset({"identity"}))
    put(queue, clock, "Three.", "Good.")
    assert queue.flush(20)
    assert recorder.texts() == [["One.", "Yes.", "Two.", "Right.", "Three.", "Good."]]
    assert recorder.seen[0].signals == {"goal", "identity"}


def test_users_agents_and_threads_stay_apart(queue, clock, recorder):
    """149."""
    for scope, thread in ((ANN, "t1"), (ANN, "t2"), (BOB, "t1"), (Scope.of("bob", "writer"), "t1")):
        put(queue, clock, "Hello there.", "Hi.", scope=scope, thread=thread)
    assert queue.flush(20)
    assert len(recorder.seen) == 4


def test_steady_traffic_puts_nobody_off_for_ever(queue, clock, recorder):
    """Each conversation has a longest wait of its own, whoever else talks."""
    first = put(queue, clock, "Message 0.", "Yes.")
    for number in range(1, 40):
        clock.advance(seconds=20)
        item = put(queue, clock, f"Message {number}.", "Yes.")
        put(queue, clock, f"Other {number}.", "Yes.", scope=BOB, thread=f"t{number}")
        if recorder.begun.is_set():
            break
    waited = clock() - first.first_at
    assert recorder.begun.wait(20)
    assert waited.total_seconds() <= 320
    assert item.thread == first.thread


def test_an_emergency_stands_beside_what_waits(queue, clock, recorder, root):
    """150: two of them for one conversation are both done, and what waits goes on waiting."""
    recorder.gate = threading.Event()
    put(queue, clock, "Waits.", "Yes.")
    put(queue, clock, "First.", "Yes.", urgent=True)
    put(queue, clock, "Second.", "Yes.", urgent=True)
    assert recorder.begun.wait(20)
    recorder.gate.set()
    assert queue.flush(20)
    assert sorted(recorder.texts()) == [["First.", "Yes."], ["Second.", "Yes."], ["Waits.", "Yes."]]


def test_a_full_queue_takes_only_what_matters(opened, clock, root):
    """151: what carries a signal, an emergency, and more of a conversation that waits always get in."""
    queue = opened(max_depth=2)
    put(queue, clock, "One.", "Yes.", thread="a")
    put(queue, clock, "Two.", "Yes.", thread="b", scope=BOB)
    with pytest.raises(QueueFull):
        put(queue, clock, "Three.", "Yes.", thread="c")
    put(queue, clock, "One.", "Yes.", "More.", "Yes.", thread="a")
    put(queue, clock, "Four.", "Yes.", thread="d", signals=frozenset({"correction"}))
    assert names(root) == ["waiting", "waiting"]
    assert queue.flush(20)


def test_only_what_is_new_is_extracted_again(queue, clock, recorder):
    """156: the same messages ask no model; of more, only the end counts, also after the front was removed."""
    put(queue, clock, "One.", "Yes.", "Two.", "Right.")
    assert queue.flush(20)
    put(queue, clock, "One.", "Yes.", "Two.", "Right.")
    assert queue.flush(20)
    put(queue, clock, "One.", "Yes.", "Two.", "Right.", "Three.", "Good.")
    assert queue.flush(20)
    put(queue, clock, "Two.", "Right.", "Three.", "Good.", "Four.", "Fine.")
    assert queue.flush(20)
    assert recorder.texts() == [["One.", "Yes.", "Two.", "Right."], ["Three.", "Good."], ["Four.", "Fine."]]


def test_an_emergency_neither_heeds_nor_moves_the_watermark(queue, clock, recorder):
    """156."""
    put(queue, clock, "One.", "Yes.")
    assert queue.flush(20)
    put(queue, clock, "One.", "Yes.", "Two.", "Right.", urgent=True)
    assert queue.flush(20)
    put(queue, clock, "One.", "Yes.", "Two.", "Right.")
    assert queue.flush(20)
    assert recorder.texts() == [["One.", "Yes."], ["One.", "Yes.", "Two.", "Right."], ["Two.", "Right."]]


def test_the_next_process_takes_up_what_waits_and_where_it_stopped(opened, clock, recorder):
    queue = opened()
    put(queue, clock, "One.", "Yes.")
    assert queue.flush(20)
    put(queue, clock, "One.", "Yes.", "Two.", "Right.")
    queue.stop()
    other = opened()
    assert other.take_up() == 1
    assert other.flush(20)
    assert recorder.texts() == [["One.", "Yes."], ["Two.", "Right."]]


def test_the_least_recently_used_watermark_goes(opened, clock, recorder):
    """156: an eviction only means that a conversation is extracted once more."""
    queue = opened(max_watermarks=2)
    for thread in ("a", "b", "c", "a"):
        put(queue, clock, "One.", "Yes.", thread=thread)
        assert queue.flush(20)
    assert [item.thread for item in recorder.seen] == ["a", "b", "c", "a"]


def test_a_failure_waits_longer_each_time_and_loses_nothing(queue, clock, recorder, root):
    """A flush tries at once whatever the back-off; false while anything failed."""
    recorder.fail = ExtractionFailed("no answer")
    put(queue, clock, "One.", "Yes.")
    waits = []
    for _ in range(3):
        assert not queue.flush(20)
        spool = Spool(Files(), Layout(root).of(ANN))
        (entry,) = spool.entries()
        waits.append((items.decode(spool.read(entry)).due_at - clock()).total_seconds())
    assert waits == [30, 60, 120]
    recorder.fail = None
    assert queue.flush(20)
    assert recorder.texts() == [["One.", "Yes."]]


def test_what_fails_again_and_again_is_set_aside(queue, clock, recorder, root, caplog):
    recorder.fail = ExtractionFailed("no answer")
    put(queue, clock, "One.", "Yes.")
    for _ in range(items.MAX_ATTEMPTS):
        assert not queue.flush(20)
    assert names(root) == ["failed"]
    assert "set aside" in caplog.text
    assert queue.flush(20)


def test_a_failure_goes_into_what_was_said_meanwhile(queue, clock, recorder):
    recorder.fail, recorder.gate = ExtractionFailed("no answer"), threading.Event()
    put(queue, clock, "One.", "Yes.")
    flushing = threading.Thread(target=queue.flush, args=(20,))
    flushing.start()
    assert recorder.begun.wait(20)
    put(queue, clock, "Two.", "Right.")
    recorder.gate.set()
    flushing.join(20)
    recorder.fail = None
    assert queue.flush(20)
    assert recorder.texts() == [["One.", "Yes.", "Two.", "Right."]]


def test_cancel_drops_what_waits_in_one_scope(queue, clock, recorder, root):
    writer, nobody = Scope.of("ann@example.com", "writer"), Scope.of(None)
    for scope in (ANN, writer, BOB, nobody):
        put(queue, clock, "One.", "Yes.", scope=scope)
    assert queue.cancel(ANN.user_folder, "coder") == 1
    assert queue.cancel(None, None) == 1
    assert queue.flush(20)
    assert sorted(item.agent for item in recorder.seen) == ["coder", "writer"]
    assert {item.user_id for item in recorder.seen} == {"ann@example.com", "bob"}


def test_cancel_leaves_what_runs_alone(queue, clock, recorder):
    recorder.gate = threading.Event()
    put(queue, clock, "One.", "Yes.", urgent=True)
    assert recorder.begun.wait(20)
    assert queue.cancel(ANN.user_folder, None) == 0
    recorder.gate.set()
    assert queue.flush(20)
    assert len(recorder.seen) == 1


def test_a_clear_overtakes_what_waits_and_what_runs(queue, clock, recorder, root):
    recorder.gate = threading.Event()
    put(queue, clock, "Runs.", "Yes.", urgent=True)
    put(queue, clock, "Waits.", "Yes.")
    assert recorder.begun.wait(20)
    Spool(Files(), Layout(root).of(ANN)).clear(["coder"], PASSED_OVER)
    recorder.gate.set()
    assert queue.flush(20)
    assert recorder.seen == []
    assert names(root) == []


def test_a_flush_is_bounded(queue, clock, recorder):
    """153: false on time-out; what runs goes on."""
    recorder.gate = threading.Event()
    put(queue, clock, "One.", "Yes.")
    assert not queue.flush(0.05)
    recorder.gate.set()
    assert queue.flush(20)
    assert queue.flush(0)


def test_two_processes_share_the_work(opened, clock, root):
    """One of them extracts for a user at a time, and each conversation once."""
    recorders = [Recorder(), Recorder()]
    queues = [opened(recorder) for recorder in recorders]
    for number in range(6):
        put(queues[0], clock, f"Message {number}.", "Yes.", thread=f"t{number}")
    assert queues[1].take_up() == 6
    flushes = [threading.Thread(target=queue.flush, args=(20,)) for queue in queues]
    for flush in flushes:
        flush.start()
    for flush in flushes:
        flush.join(30)
    done = [item.thread for recorder in recorders for item in recorder.seen]
    assert sorted(done) == [f"t{number}" for number in range(6)]
    assert names(root) == []


def test_what_lies_there_otherwise_is_in_nobodys_way(queue, clock, recorder, root, caplog):
    put(queue, clock, "One.", "Yes.")
    folder = Layout(root).of(ANN).queue
    for name in ("w.coder.0000.1111.json", "notes.txt", "w.coder.json", "t.0123", "r.coder.2222.3333.json"):
        (folder / name).write_bytes(b"\xff no item")
    queue.take_up()
    (folder / "watermarks.json").write_text('{"coder/t1": 5, "x": ["a"]')
    queue.flush(20)
    assert recorder.texts() == [["One.", "Yes."]]
    put(queue, clock, "Two.", "Yes.")
    assert queue.flush(20)
    assert (folder / "notes.txt").exists()


def test_another_users_item_is_never_taken_for_this_one(queue, clock, recorder, root):
    """A file that somebody moved must not tell one user's words to another."""
    put(queue, clock, "Secret.", "Yes.", scope=BOB)
    (file,) = [path for path in Layout(root).of(BOB).queue.iterdir() if path.name.startswith("w.")]
    target = Layout(root).of(ANN).queue
    target.mkdir(parents=True)
    file.rename(target / file.name)
    assert queue.take_up() == 1
    queue.flush(20)
    assert recorder.seen == []


def test_nothing_is_made_where_nothing_waits(queue, root):
    assert queue.take_up() == 0
    assert queue.flush(20)
    assert queue.cancel("ann", None) == 0
    assert not root.exists()


def test_what_a_clear_dropped_does_not_come_back_with_the_whole_conversation(queue, clock, recorder, root):
    """Most hosts give all of a conversation each time."""
    put(queue, clock, "Secret.", "Yes.", thread="a")
    put(queue, clock, "Other.", "Yes.", thread="b", scope=Scope.of("ann@example.com", "writer"))
    Spool(Files(), Layout(root).of(ANN)).clear(["coder"], PASSED_OVER)
    put(queue, clock, "Secret.", "Yes.", "Fresh.", "Right.", thread="a")
    assert queue.flush(20)
    assert sorted(recorder.texts()) == [["Fresh.", "Right."], ["Other.", "Yes."]]
