"""Fork in the middle of everything: parent and children go on, nothing deadlocks, nothing is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from process_tools import Worker, alarming, contents, engine

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

Start = Callable[..., Worker]


def test_parent_and_children_go_on_with_the_inherited_engine(start: Start, root: Path) -> None:
    worker = start("fork", root=str(root), children=4, count=5)
    seen, matched = worker.finish()
    assert seen["codes"] == [0, 0, 0, 0], worker.complaints()
    facts = seen["facts"]
    assert isinstance(facts, list)
    kept = {f"keeper child{child} kept{number}" for child in range(4) for number in range(5)}
    kept |= {f"keeper parent{turn} kept{number}" for turn in range(4) for number in range(2)}
    assert kept <= set(facts)
    assert len(set(facts)) == len(facts)
    # The parent's connection is unharmed: it still serves every word, and its database is sound.
    assert seen["found"] == len(facts)
    assert seen["index"] == "ok"
    assert matched == {"matches": ["fts5"]}
    with engine(root) as opened:
        assert set(contents(opened.memory("ann")).values()) == set(facts)
        assert alarming(opened) == []


@pytest.mark.parametrize("killed", [False, True])
def test_a_child_that_inherited_the_user_lock_is_in_nobodys_way(start: Start, root: Path, killed: bool) -> None:
    with engine(root) as opened:
        opened.memory("ann").add("from before")
    worker = start("fork_holding", root=str(root), lock="user", released=not killed)
    child = int(worker.read()["child"])  # type: ignore[call-overload]
    try:
        assert worker.read() == {"ready": True}
        if killed:
            worker.process.kill()
            worker.process.wait(30)
        write_one_more(root)
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("killed", [False, True])
def test_a_child_that_inherited_the_turnstile_is_in_nobodys_way(start: Start, root: Path, killed: bool) -> None:
    """The fork comes while a thread of the parent waits for the user lock, which another process holds."""
    with engine(root) as opened:
        opened.memory("ann").add("from before")
    holder = start("hold", root=str(root))
    assert holder.read() == {"pid": holder.process.pid}
    assert holder.read() == {"ready": True}
    worker = start("fork_holding", root=str(root), lock="turnstile", released=not killed)
    assert worker.read() == {"ready": True}
    worker.tell()
    child = int(worker.read()["child"])  # type: ignore[call-overload]
    try:
        if killed:
            worker.process.kill()
            worker.process.wait(30)
        holder.tell()
        holder.finish()
        if not killed:
            assert worker.read() == {"ready": True}
        write_one_more(root)
    finally:
        os.kill(child, signal.SIGKILL)


def write_one_more(root: Path) -> None:
    with engine(root, lock_timeout=2.0) as opened:
        opened.memory("ann").add("nobody is in the way")
        assert set(contents(opened.memory("ann")).values()) == {"from before", "nobody is in the way"}
