"""While a model is asked the memory moves on: clears, hand edits, other writers, other engines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders_extraction import Scripted, contents, flushed, names_of, owns, silence, spool_names, states, talk
from builders_replies import answer, gone, new, told
from builders_store import edit, facts_of, place

from deermem import DeerMem, ExtractionFailed, Settings
from deermem.store.files import Files


@pytest.fixture
def opened(root, clock) -> Iterator[Callable[..., DeerMem]]:
    """Makes engines with a model over one root; each is closed."""
    made: list[DeerMem] = []

    def make(model: object, files: Files | None = None, **settings: object) -> DeerMem:
        given = Settings(**{"close_timeout_seconds": 0, **settings})
        made.append(DeerMem(root, given, model, clock=clock, files=files))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


CLEARS = {
    "agent": lambda engine: engine.memory("alice", "coder").clear(),
    "user": lambda engine: engine.clear("alice"),
    "another engine": lambda engine: DeerMem(engine.root).clear("alice"),
}


@pytest.mark.parametrize("urgent", [False, True])
@pytest.mark.parametrize("cleared", CLEARS)
def test_nothing_comes_back_after_a_clear_while_the_model_is_asked(opened, root, cleared, urgent):
    """A fault of others: an update that is under way must notice the clear, and so must what waits."""
    model = Scripted(act=lambda number: CLEARS[cleared](engine) if number == 0 else None)
    engine = opened(model)
    memory = engine.memory("alice", "coder")
    memory.add("From before")
    (memory.capture_now if urgent else memory.capture)(talk("runs"), "t")
    memory.capture(talk("waits"), "t2")
    engine.flush(30)
    flushed(engine)
    assert len(model.seen) == 1
    assert contents(memory) == []
    assert states(root) == []
    assert memory.capture(talk("later"), "t")
    flushed(engine)
    assert contents(memory) == [owns("later")]


@pytest.mark.parametrize("cleared", CLEARS)
def test_a_direct_extraction_says_that_it_was_overtaken_by_a_clear(opened, cleared):
    engine = opened(Scripted(act=lambda number: CLEARS[cleared](engine) if number == 0 else None))
    memory = engine.memory("alice", "coder")
    memory.add("From before")
    with pytest.raises(ExtractionFailed, match="cleared"):
        memory.extract(talk(1), "t")
    assert contents(memory) == []
    assert memory.extract(talk(2), "t").stored


def test_a_clear_takes_along_what_a_killed_process_left_half_written(opened, root):
    """It may be anybody's words."""
    engine = opened(Scripted())
    memory = engine.memory("alice", "coder")
    memory.capture(talk(1), "t")
    flushed(engine)
    place(root / "users/alice/.queue/t.0123456789abcdef", '{"version":1,"turns":[["user","I own')
    memory.clear()
    assert spool_names(root) == {"watermarks.json"}


def test_a_clear_of_somebody_else_stops_nothing(opened, root):
    """The epoch is that of the user: another agent's clear only means a second look."""

    def act(number: int) -> None:
        engine.memory("alice", "writer").clear()
        engine.clear("bob")

    model = Scripted(act=act)
    engine = opened(model)
    memory = engine.memory("alice", "coder")
    engine.memory("alice", "writer").add("Goes")
    engine.memory("bob").add("Goes")
    memory.capture(talk(1), "t")
    flushed(engine)
    assert contents(memory) == [owns(1)]
    assert len(model.seen) == 1
    assert contents(engine.memory("alice", "writer")) == contents(engine.memory("bob")) == []


def test_a_cancel_drops_what_waits_and_lets_go_on_what_runs(opened, root):
    """What was dropped comes again with the next capture of the whole conversation."""
    dropped: list[int] = []
    model = Scripted(act=lambda number: dropped.append(engine.cancel("alice")) if number == 0 else None)
    engine = opened(model)
    memory = engine.memory("alice", "coder")
    memory.capture(talk(1), "t1")
    assert engine.cancel("alice", "writer") == engine.cancel(None) == engine.cancel("bob") == 0
    assert engine.cancel("alice", "coder") == 1
    memory.capture(talk(2), "t2")
    memory.capture(talk(3), "t3")
    engine.flush(30)
    assert dropped == [1]
    assert len(contents(memory)) == 1
    memory.capture(talk(1, 4), "t1")
    flushed(engine)
    assert {owns(1), owns(4)} <= set(contents(memory))


def test_a_hand_edit_while_the_model_is_asked_stands(opened):
    """What the answer says of the fact rests on its old words: it is refused, the rest is stored, nobody asks again."""
    model = Scripted(act=lambda _: edit(memory.path(fact.id), "Lives in Kiel", "Lives in Rome"))
    memory = opened(model).memory("alice", "coder")
    fact = memory.add("Lives in Kiel")
    model.reply = answer(new("Lives in Bonn"), factsToRemove=[gone(fact.id, replacementFactIndex=0)])
    outcome = memory.extract(talk(1), "t")
    assert contents(memory) == ["Lives in Bonn", "Lives in Rome"]
    assert outcome.counts() == {"fact.accepted": 1, "removal.changed": 1}
    assert len(model.seen) == 1


def test_a_summary_that_a_person_wrote_while_the_model_was_asked_stands(opened, root):
    path = root / "users/alice/memory.json"
    model = Scripted(answer(user={"workContext": told("Trains"), "topOfMind": told("Summer")}))
    memory = opened(model).memory("alice", "coder")
    memory.update_summaries({"workContext": "Boats"})
    model.act = lambda _: edit(path, "Boats", "Boats, not ships")
    outcome = memory.extract(talk(1), "t")
    summaries = memory.summaries()
    assert (summaries.work_context.summary, summaries.top_of_mind.summary) == ("Boats, not ships", "Summer")
    assert outcome.counts() == {"summary.accepted": 1, "summary.changed": 1}


def test_what_another_writer_stored_meanwhile_is_not_stored_twice(opened):
    """119, 171: decided again on a fresh look, with the answer that is there."""

    def act(number: int) -> None:
        with DeerMem(engine.root) as other:
            other.memory("alice", "coder").add(owns(1).upper())
            other.memory("alice", "coder").add("Of somebody else")

    model = Scripted(act=act)
    engine = opened(model)
    memory = engine.memory("alice", "coder")
    memory.capture(talk(1, 2), "t")
    flushed(engine)
    assert contents(memory) == sorted([owns(1).upper(), owns(2), "Of somebody else"])
    assert len(model.seen) == 1


class Restless(Files):
    """Somebody puts a file by hand between every look and the commit that rests on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.restless = False
        self.times = 0

    def read(self, path: str) -> bytes | None:
        if self.restless and path.endswith("/epoch"):
            self.times += 1
            place(self.folder / f"note-{self.times}.md", f"Note {self.times}.\n")
        return super().read(path)


def test_a_memory_that_never_rests_is_tried_three_times(opened, root):
    """And later again, without asking anybody."""
    files, model = Restless(facts_of(root)), Scripted()
    engine = opened(model, files)
    memory = engine.memory("alice", "coder")
    memory.add("From before")
    files.restless = True
    memory.capture(talk(1), "t")
    assert not engine.flush(30)
    files.restless = False
    assert files.times <= 6
    assert states(root) == ["waiting"]
    flushed(engine)
    assert owns(1) in contents(memory)
    assert len(contents(memory)) == 2 + files.times
    assert len(model.seen) == 1


class Dying(BaseException):
    """Stands for the end of a process."""


class Stopped(Files):
    """The thread ends where a finished conversation is to be taken off the queue."""

    def unlink(self, path: str) -> None:
        if "/.queue/r." in path:
            raise Dying
        super().unlink(path)


def test_what_a_person_changed_after_a_crash_is_not_changed_back(opened, root, monkeypatch):
    """Committed, but still in the queue: the same answer, carried out again, adds and overwrites nothing."""
    silence(monkeypatch, Dying)
    model = Scripted()
    engine = opened(model, Stopped())
    memory = engine.memory("alice", "coder")
    kiel = memory.add("Lives in Kiel")
    memory.update_summaries({"workContext": "Boats"})
    reply = answer(new("Drinks tea"), new("Lives in Bonn"), user={"workContext": told("Trains")})
    model.reply = {**reply, "factsToRemove": [gone(kiel.id, replacementFactIndex=1)]}
    memory.capture(talk(1), "t")
    assert not engine.flush(30)
    assert (contents(memory), states(root)) == (["Drinks tea", "Lives in Bonn"], ["running"])
    tea = next(fact for fact in memory.list() if fact.content == "Drinks tea")
    edit(memory.path(tea.id), "Drinks tea", "Drinks coffee")
    edit(root / "users/alice/memory.json", "Trains", "Planes")
    engine.close()
    other = Scripted()
    again = opened(other)
    flushed(again)
    memory = again.memory("alice", "coder")
    assert contents(memory) == ["Drinks coffee", "Lives in Bonn"]
    assert memory.summaries().work_context.summary == "Planes"
    assert other.seen == []
    assert spool_names(root) <= {"watermarks.json"}


def test_two_engines_on_one_root_do_each_conversation_once(opened, root):
    models = [Scripted(), Scripted()]
    engines = [opened(model) for model in models]
    for number in range(6):
        engines[number % 2].memory("alice", "coder").capture(talk(number), f"t{number}")
    engines[1].memory("alice", "coder").capture(talk(0, "more"), "t0")
    flushes = [threading.Thread(target=engine.flush, args=(30,)) for engine in engines]
    for flush in flushes:
        flush.start()
    for flush in flushes:
        flush.join(60)
    for engine in engines:
        flushed(engine)
    seen = [name for model in models for names in model.seen for name in names]
    assert sorted(seen) == sorted(names_of(*range(6), "more"))
    assert len(contents(engines[0].memory("alice", "coder"))) == 7


def test_what_one_engine_adds_to_what_waits_in_another_is_done_with_it(opened):
    """The file keeps its name, so that a flush of either finds it."""
    models = [Scripted(), Scripted()]
    first, second = (opened(model) for model in models)
    first.memory("alice", "coder").capture(talk(1), "t")
    second.memory("alice", "coder").capture(talk(1, 2), "t")
    assert first.conversations.flush(30)
    assert models[0].seen == [["gadget-1", "reply-1", "gadget-2", "reply-2"]]


def test_an_emergency_that_failed_is_not_passed_over_with_what_is_known(opened):
    """Its turns were never seen: the watermark of the conversation says nothing of them."""

    def fails(number: int) -> None:
        if number == 1:
            raise TimeoutError

    model = Scripted(act=fails)
    engine = opened(model)
    memory = engine.memory("alice", "coder")
    memory.capture(talk("b"), "t")
    flushed(engine)
    memory.capture_now(talk("a"), "t")
    engine.flush(30)
    memory.capture(talk("b", "c"), "t")
    flushed(engine)
    assert contents(memory) == [owns("a"), owns("b"), owns("c")]


def test_what_was_said_between_two_turns_that_say_the_same_is_read(opened):
    """What a capture left out as known is not left out once more when its time comes."""
    model = Scripted()
    engine = opened(model)
    memory = engine.memory("alice", "coder")
    memory.capture(talk("a"), "t")
    flushed(engine)
    memory.capture(talk("a", "b", "a"), "t")
    flushed(engine)
    assert contents(memory) == [owns("a"), owns("b")]
    assert model.seen[1:] == [["gadget-b", "reply-b", "gadget-a", "reply-a"]]


def test_what_is_taken_back_after_many_captures_is_read_from_where_it_branched(opened):
    model = Scripted()
    engine = opened(model)
    memory = engine.memory("alice", "coder")
    for end in range(1, 7):
        memory.capture(talk(*range(end)), "t")
        flushed(engine)
    memory.capture(talk(0, 1, 2, "c"), "t")
    flushed(engine)
    assert model.seen[-1] == ["gadget-c", "reply-c"]
