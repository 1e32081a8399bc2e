"""What tests of extraction from end to end share: conversations, a model that follows a script, and its notes."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from builders_replies import answer, new

from deermem import DeerMem, Memory
from deermem.store.files import Files
from deermem.store.layout import Layout
from deermem.store.spool import Spool

_NAMED = re.compile(r"\b(?:gadget|reply)-[a-z0-9]+")
_GADGET = re.compile(r"\bgadget-([a-z0-9]+)")


def talk(*marks: object) -> list[tuple[str, str]]:
    """A conversation in which the person names a gadget for each mark, and each is answered."""
    turns = ((("user", f"I own gadget-{mark}."), ("assistant", f"That is reply-{mark}.")) for mark in marks)
    return [turn for pair in turns for turn in pair]


def names_of(*marks: object) -> set[str]:
    """What a model must have seen of `talk(*marks)`."""
    return {f"{kind}-{mark}" for mark in marks for kind in ("gadget", "reply")}


def owns(mark: object) -> str:
    """The content of the fact that `Scripted` makes of a mark."""
    return f"Owns device number {mark}"


class Scripted:
    """A model that makes one fact of each gadget that it is told of, or answers as `reply` says.

    `seen` are the names of each call, in order. `act` is done before the answer, with the number of the call so far;
    what it raises, the model raises. `log` gets a line of JSON for each call, in one write. With `distinct`, which
    names this model, it words each fact differently in each call, so that the same thing said twice is stored twice.
    """

    def __init__(
        self,
        reply: object = None,
        *,
        act: Callable[[int], object] | None = None,
        log: Path | None = None,
        distinct: str = "",
    ) -> None:
        self.reply = reply
        self.act = act
        self.log = log
        self.distinct = distinct
        self.seen: list[list[str]] = []
        self.prompts: list[str] = []
        self._lock = threading.Lock()

    def __call__(self, messages: list[dict[str, str]]) -> object:
        text = messages[-1]["content"]
        with self._lock:
            number = len(self.seen)
            self.seen.append(_NAMED.findall(text))
            self.prompts.append(text)
            if self.log is not None:
                with self.log.open("a") as file:
                    file.write(f"{json.dumps(self.seen[-1])}\n")
        if self.act is not None:
            self.act(number)
        if self.reply is not None:
            return self.reply if isinstance(self.reply, str) else json.dumps(self.reply)
        worded = f" ({self.distinct}{number})" if self.distinct else ""
        return json.dumps(answer(*(new(owns(mark) + worded) for mark in _GADGET.findall(text))))

    def names(self) -> set[str]:
        """All that it was shown so far."""
        return {name for names in self.seen for name in names}


def marks_of(memory: Memory) -> list[str]:
    """The marks that the facts of `Scripted` are about, sorted, one for each fact."""
    return sorted(fact.content.split()[3] for fact in memory.list())


def contents(memory: Memory) -> list[str]:
    """What is stored, sorted, so that nothing twice is overlooked."""
    return sorted(fact.content for fact in memory.list())


def silence(monkeypatch: pytest.MonkeyPatch, *ends: type[BaseException]) -> None:
    """A thread may end so: a process that is killed says nothing either."""
    known = threading.excepthook
    monkeypatch.setattr(threading, "excepthook", lambda args: None if args.exc_type in ends else known(args))


def states(root: Path, user: str | None = "alice") -> list[str]:
    """What lies in a user's spool, by state."""
    return [entry.state for entry in Spool(Files(), Layout(root).user(user)).entries()]


def spool_names(root: Path, user: str = "alice") -> set[str]:
    """All files of a user's spool but its locks."""
    return {path.name for path in (root / "users" / user / ".queue").iterdir()} - {"lock", "worker"}


def flushed(engine: DeerMem) -> None:
    """All that waits is extracted."""
    assert engine.flush(30)


def all_of(memories: Iterable[Memory]) -> set[str]:
    """What is stored in several buckets."""
    return {fact.content for memory in memories for fact in memory.list()}
