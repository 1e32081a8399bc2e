"""What the worker processes of these tests do. Not a test: `python process_workers.py VERB JSON`.

Each verb says what it does in lines of JSON; `ready` marks the point where it waits for a line on standard input.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deermem
from deermem import FactConflict, Memory


def say(**said: object) -> None:
    """One line, in one write: a kill can't tear it."""
    os.write(1, f"{json.dumps(said)}\n".encode())


def wait() -> None:
    """Until the test lets this process go on, or has gone itself."""
    say(ready=True)
    sys.stdin.readline()


def told() -> bool:
    """Whether the test said something since."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def engine(root: str, **settings: object) -> deermem.DeerMem:
    return deermem.DeerMem(root, deermem.Settings(**{"max_facts": 0, **settings}))  # type: ignore[arg-type]


def as_document(facts: dict[str, str], summary: str = "") -> dict[str, object]:
    items = [{"id": fact_id, "content": content, "confidence": 0.8} for fact_id, content in facts.items()]
    return {"version": "1.0", "user": {"workContext": {"summary": summary}}, "facts": items}


def mix(root: str, seed: int) -> None:
    """Random operations, one after the other, until it is killed."""
    # Not on the path of a program that is started in safe-path mode.
    sys.path.append(str(Path(__file__).parent))
    from process_mix import Mix

    with engine(root) as opened:
        running = Mix(opened.memory("ann"), seed)
        say(ready=True)
        while True:
            running.step()


# --- many writers


def add(root: str, prefix: str, count: int, search: bool = False) -> None:
    """Adds facts, each of its own content, and says each; with `search`, looks for it at once."""
    with engine(root) as opened:
        memory = opened.memory("ann")
        wait()
        for number in range(count):
            word = f"{prefix}number{number}"
            fact = memory.add(f"The keeper of {prefix} wrote {word}")
            say(id=fact.id, content=fact.content)
            if search:
                found = [hit.fact.content for hit in memory.search(word, top_k=3)]
                assert any(word in content for content in found), (word, found)
                assert memory.search("keeper", top_k=5)


def update(root: str, name: str, rounds: int) -> None:
    """Updates one fact, each round under the token that the round began with; says who won and what the others saw."""
    with engine(root) as opened:
        memory = opened.memory("ann")
        for number in range(rounds):
            token = memory.get("shared").version
            wait()
            try:
                fact = memory.update("shared", f"round {number} by {name}", expected=token)
                say(won=fact.content, version=fact.version)
            except FactConflict as conflict:
                current = conflict.current
                say(lost=current.content if current else None, version=current.version if current else None)
            wait()


# --- readers beside bulk writers


def generations(root: str, count: int, rounds: int) -> None:
    """Imports whole generations of facts and clears between some of them."""
    with engine(root) as opened:
        memory = opened.memory("ann")
        wait()
        for number in range(rounds):
            facts = {f"fact_{item:03}": f"item {item} of generation number{number}" for item in range(count)}
            memory.import_document(as_document(facts), replace=True)
            if number % 3 == 2:
                memory.clear()
        say(written=rounds)


def watch(root: str, count: int, fresh: bool) -> None:
    """Reads until told to stop; every view must be nothing or one whole generation. `fresh`: a new engine each time."""
    wait()
    seen = set()
    opened = engine(root)
    looks = 0
    while not told():
        if fresh:
            opened.close()
            opened = engine(root)
        memory = opened.memory("ann")
        views = {
            "list": [fact.content for fact in memory.list()],
            "document": [str(fact["content"]) for fact in memory.document()["facts"]],  # type: ignore[index,union-attr]
            "search": [hit.fact.content for hit in memory.search("generation", top_k=2 * count)],
        }
        for name, said in views.items():
            kinds = {text.rsplit(" ", 1)[1] for text in said}
            assert len(said) in (0, count), (name, len(said), kinds)
            assert len(set(said)) == len(said), (name, "twice")
            assert len(kinds) <= 1, (name, kinds)
            seen |= kinds
        looks += 1
    opened.close()
    say(looks=looks, generations=len(seen))


def reindex(root: str, rounds: int) -> None:
    with engine(root) as opened:
        wait()
        for _ in range(rounds):
            report = opened.reindex("ann")
            say(indexed=report.indexed, failed=report.failed)


# --- migration


def migrate(**arguments: Any) -> None:
    """Migrates, and may die in it."""
    sys.path.append(str(Path(__file__).parent))
    from process_migrations import migrate as migrating

    migrating(**arguments)


def migrate_all(**arguments: Any) -> None:
    """Migrates many users at once."""
    sys.path.append(str(Path(__file__).parent))
    from process_migrations import migrate_all as migrating

    migrating(**arguments)


def survey(**arguments: Any) -> None:
    """Reads beside a migration."""
    sys.path.append(str(Path(__file__).parent))
    from process_migrations import survey as surveying

    surveying(**arguments)


# --- locks


def hold(root: str) -> None:
    """Holds ann's lock until told to let go."""
    from deermem.store.layout import Layout
    from deermem.store.lock import user_lock

    with user_lock(Layout(Path(root)).user("ann"), 10.0) as held:
        say(pid=os.getpid())
        wait()
        try:
            held.check()
        except deermem.StoreUnavailable as error:
            say(refused=str(error))


def write_slowly(root: str) -> None:
    """Adds one fact, and waits in the middle of its commit: at its first staged file, or right before the swap."""
    from deermem.store.files import Files

    class Waiting(Files):
        def rename_new(self, source: str, target: str) -> None:
            if target.endswith(".md"):
                wait()
            super().rename_new(source, target)

    class Staged(Files):
        waited = False

        def create(self, path: str, data: bytes, *, flush: bool = True) -> None:
            super().create(path, data, flush=flush)
            if "/.journal/" in path and not self.waited:
                self.waited = True
                wait()

    kinds: dict[str, type[Files]] = {"swap": Waiting, "stage": Staged}
    where = os.environ["DEERMEM_TEST_WAIT_AT"]
    with deermem.DeerMem(root, files=kinds[where]()) as opened:
        try:
            say(added=opened.memory("ann").add("written slowly").id)
        except deermem.StoreUnavailable as error:
            say(refused=str(error), outcome_unknown=error.outcome_unknown)


# --- fork


def fork_child(work: Callable[[], None]) -> int:
    """Forks; the child does the work and ends. Gives its process id."""
    with warnings.catch_warnings():
        # Newer Pythons warn of a fork beside threads: that is what is tested.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    return child


def joined(child: int) -> int:
    """The exit code of a child; 99 where it does not end within half a minute."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return 99


def fork(root: str, children: int, count: int) -> None:
    """Forks while other threads write and search; parent and children go on with the inherited engine."""
    opened = engine(root)
    memory = opened.memory("ann")
    memory.add("the first keeper")
    assert memory.search("keeper")
    stop = threading.Event()
    beside = [threading.Thread(target=busy, args=(memory, f"thread{number}", stop)) for number in range(2)]
    for thread in beside:
        thread.start()
    started = []
    for number in range(children):
        started.append(fork_child(lambda number=number: keep(memory, f"child{number}", count)))  # type: ignore[misc]
        keep(memory, f"parent{number}", 2)
    codes = [joined(child) for child in started]
    stop.set()
    for thread in beside:
        thread.join(30)
    facts = memory.list()
    hits = memory.search("keeper", top_k=len(facts))
    view = opened.context("ann").view
    sound = view.ask(lambda catalogue: catalogue.connection.execute("PRAGMA integrity_check").fetchone()[0])
    say(codes=codes, facts=[fact.content for fact in facts], found=len(hits), index=sound)
    say(matches=sorted({hit.match for hit in hits}))
    opened.close()


def busy(memory: Memory, name: str, stop: threading.Event) -> None:
    number = 0
    while not stop.is_set():
        memory.add(f"keeper {name} busy{number}")
        memory.search("keeper", top_k=3)
        number += 1


def keep(memory: Memory, name: str, count: int) -> None:
    for number in range(count):
        fact = memory.add(f"keeper {name} kept{number}")
        assert memory.get(fact.id).content == fact.content
        assert fact.id in {hit.fact.id for hit in memory.search(f"{name} kept{number}", top_k=5)}
    assert len(memory.list()) >= count


def fork_holding(root: str, lock: str, released: bool) -> None:
    """Forks while another thread holds the user lock or waits at the turnstile; the child lives on, doing nothing.

    `released`: the thread lets go afterwards, as it would with no child; else it keeps what it has to the end.
    """
    from deermem.store.layout import Layout
    from deermem.store.lock import user_lock

    paths = Layout(Path(root)).user("ann")
    began, go = threading.Event(), threading.Event()

    def holder() -> None:
        if lock == "turnstile":
            began.set()
        with user_lock(paths, 60.0):
            began.set()
            go.wait(60)

    thread = threading.Thread(target=holder, daemon=True)
    if lock == "turnstile":
        say(ready=True)
        sys.stdin.readline()
    thread.start()
    assert began.wait(30)
    while lock == "turnstile" and not is_locked(paths.turnstile):
        time.sleep(0.005)
    child = fork_child(lambda: threading.Event().wait(60))
    say(child=child)
    if released:
        go.set()
        thread.join(30)
    wait()


def is_locked(path: Path) -> bool:
    """Whether somebody holds the lock on a file."""
    import fcntl

    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


VERBS: dict[str, Callable[..., None]] = {
    verb.__name__: verb
    for verb in (
        *(mix, add, update, generations, watch, reindex, migrate, migrate_all),
        *(survey, hold, write_slowly, fork, fork_holding),
    )
}

if __name__ == "__main__":
    VERBS[sys.argv[1]](**json.loads(sys.argv[2]))
