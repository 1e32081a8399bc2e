"""Any order of captures, flushes, failures, clears, hand edits and kills: nothing is lost, nothing is said twice.

The person's side is a plain account: which marks were captured for good, and what was written by hand. The scripted
model words the same thing differently each time it is asked, so that what is carried out twice is stored twice.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from builders_extraction import Scripted, marks_of, names_of, silence, spool_names, states, talk
from builders_store import edit
from crash.faults import Fault, FaultyFiles, Killed
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from deermem import DeerMem, Settings
from deermem.extract.items import MAX_ATTEMPTS

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
SETTINGS = Settings(close_timeout_seconds=0, retrieval_adapter="", max_facts=0)
AGENTS = ("coder", "writer")
LAST = 2

agents = st.sampled_from(AGENTS)
threads = st.sampled_from(["a", "b"])
given_as = st.sampled_from(["whole", "whole", "new", "end"])
moods = st.sampled_from(["answers", "answers", "answers", "fails", "babbles", "is edited", "is written", "is cleared"])


class Extracting(RuleBasedStateMachine):
    """One user with two agents; `sure` are the marks that must be stored, by agent."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(
            tempfile.mkdtemp(prefix="extracting-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        )
        self.root = self.folder / "store"
        self.now = NOON
        self.number = self.generation = self.failures = 0
        self.said: dict[tuple[str, str], list[str]] = {}
        self.sure: dict[str, set[str]] = {agent: set() for agent in AGENTS}
        self.by_hand: dict[str, set[str]] = {agent: set() for agent in AGENTS}
        self.models: list[Scripted] = []
        self.mood = "answers"
        self.open()

    def open(self) -> None:
        self.generation += 1
        self.files = FaultyFiles()
        self.model = Scripted(act=self.act, distinct=f"m{self.generation}-")
        self.models.append(self.model)
        self.engine = DeerMem(self.root, SETTINGS, self.model, clock=lambda: self.now, files=self.files)

    def reopen(self) -> None:
        # A thread of the old one may still be at work, as another process would.
        self.engine.close()
        self.open()

    def memory(self, agent: str):
        return self.engine.memory("alice", agent)

    def fresh(self) -> str:
        self.number += 1
        return f"{self.number}"

    # --- what happens while a model is asked

    def act(self, number: int) -> None:
        mood, self.mood = self.mood, "answers"
        self.model.reply = "no JSON" if mood == "babbles" else None
        if mood == "fails":
            raise TimeoutError
        if mood == "is edited":
            self.edit_by_hand("coder")
        if mood == "is written":
            self.other_writer("writer")
        if mood == "is cleared":
            self.clear("coder")

    # --- what happens

    @rule(agent=agents, thread=threads, how=given_as, urgent=st.sampled_from([False, False, True]))
    def capture(self, agent: str, thread: str, how: str, urgent: bool) -> None:
        mark = self.fresh()
        if urgent:
            assert self.memory(agent).capture_now(talk(mark), thread)
        else:
            whole = self.said.setdefault((agent, thread), [])
            whole.append(mark)
            shown = {"whole": whole, "new": [mark], "end": whole[-LAST:]}[how]
            assert self.memory(agent).capture(talk(*shown), thread)
        self.sure[agent].add(mark)

    @rule(mood=moods)
    def flush(self, mood: str) -> None:
        self.failures += mood in ("fails", "babbles")
        self.mood = mood if self.failures < MAX_ATTEMPTS else "answers"
        done = self.engine.flush(60)
        asked, self.mood = self.mood == "answers", "answers"
        assert done or (asked and mood != "answers")

    @rule(agent=agents)
    def clear(self, agent: str) -> None:
        """The conversations go on under other names, for of the old ones a host may give all again."""
        self.memory(agent).clear()
        for thread in ("a", "b"):
            self.said.pop((agent, thread), None)
        self.forget(agent)
        self.by_hand[agent] = set()

    @rule(agent=agents)
    def cancel(self, agent: str) -> None:
        self.engine.cancel("alice", agent)
        self.forget(agent)

    def forget(self, agent: str) -> None:
        self.sure[agent] = set()

    @rule(agent=agents)
    def edit_by_hand(self, agent: str) -> None:
        facts = [fact for fact in self.memory(agent).list() if "Owns" in fact.content]
        if facts:
            edit(self.memory(agent).path(facts[0].id), facts[0].content, words := f"{facts[0].content} as I said")
            self.by_hand[agent].discard(facts[0].content)
            self.by_hand[agent].add(words)

    @rule(agent=agents)
    def other_writer(self, agent: str) -> None:
        with DeerMem(self.root, SETTINGS, clock=lambda: self.now) as other:
            words = f"Added device number x{self.fresh()}"
            other.memory("alice", agent).add(words)
            self.by_hand[agent].add(words)

    @rule()
    def another_engine(self) -> None:
        self.reopen()

    @rule(calls=st.integers(0, 60), agent=agents, thread=threads, act=st.sampled_from(["capture", "flush", "flush"]))
    def kill(self, calls: int, agent: str, thread: str, act: str) -> None:
        self.files.fault = Fault(len(self.files.calls) + calls, "kill")
        with suppress(Killed):
            if act == "capture":
                self.capture(agent, thread, "whole", False)
            else:
                self.engine.flush(60)
        self.reopen()

    @rule(seconds=st.sampled_from([1, 31, 400, 90_000]))
    def time_goes_by(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    # --- what holds

    @precondition(lambda self: self.number)
    @rule()
    def nothing_is_lost_or_twice(self) -> None:
        assert self.engine.flush(60)
        seen = {name for model in self.models for name in model.names()}
        for agent in AGENTS:
            stored = marks_of(self.memory(agent))
            assert self.sure[agent] <= set(stored), (self.sure[agent], stored)
            assert names_of(*self.sure[agent]) <= seen
            assert len(stored) == len(set(stored)), [fact.content for fact in self.memory(agent).list()]
            assert self.by_hand[agent] <= {fact.content for fact in self.memory(agent).list()}
        assert states(self.root) == []
        folder = self.root / "users/alice/.queue"
        assert not folder.exists() or spool_names(self.root) <= {"watermarks.json"}

    def teardown(self) -> None:
        try:
            if self.number:
                self.nothing_is_lost_or_twice()
        finally:
            self.engine.close()
            shutil.rmtree(self.folder, ignore_errors=True)


def run(monkeypatch: pytest.MonkeyPatch, **how: int) -> None:
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda descriptor: None)
    silence(monkeypatch, Killed)
    run_state_machine_as_test(Extracting, settings=settings(**how))


def test_whatever_happens_nothing_captured_is_lost(monkeypatch):
    run(monkeypatch, max_examples=10, stateful_step_count=14)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_whatever_happens_for_long(monkeypatch):
    run(monkeypatch, max_examples=100, stateful_step_count=25)
