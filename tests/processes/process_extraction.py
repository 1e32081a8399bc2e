"""What the worker processes of the extraction tests do. Not a test: `python process_extraction.py VERB JSON`.

Each captures and extracts with a scripted model that notes in a file what it was shown.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

# Not on the path of a program that is started in safe-path mode.
sys.path.append(str(Path(__file__).parent.parent))

from builders_extraction import Scripted, talk

from deermem import DeerMem, Settings

SHOWN = 5


def say(**said: object) -> None:
    """One line, in one write: a kill can't tear it."""
    os.write(1, f"{json.dumps(said)}\n".encode())


def opened(root: str, log: str, name: str) -> DeerMem:
    settings = Settings(max_facts=0, close_timeout_seconds=0, retrieval_adapter="")
    return DeerMem(root, settings, Scripted(log=Path(log), distinct=f"{name}-"))


def chat(root: str, log: str, seed: int) -> None:
    """Conversations that grow and lose their beginning, emergencies, flushes, in random order, until it is killed."""
    chance = random.Random(seed)
    engine = opened(root, log, f"s{seed}")
    said: dict[str, list[str]] = {"a": [], "b": [], "c": []}
    say(ready=True)
    for number in itertools.count():
        thread, mark = chance.choice(list(said)), f"s{seed}n{number}"
        memory = engine.memory("ann", chance.choice(["coder", "writer"]) if thread == "c" else "coder")
        what = chance.random()
        if what < 0.2:
            engine.flush(30)
            continue
        if what < 0.4:
            memory.capture_now(talk(mark), thread)
        elif thread == "c":
            memory.capture(talk(mark), thread)
        else:
            said[thread] = [*said[thread], mark][-SHOWN:]
            memory.capture(talk(*said[thread]), thread)
        say(sure=mark)


def share(root: str, log: str, name: str, count: int) -> None:
    """Captures conversations of its own and some that both processes add to, and works off all that there is."""
    engine = opened(root, log, name)
    say(ready=True)
    sys.stdin.readline()
    for number in range(count):
        engine.memory("ann", "coder").capture(talk(f"{name}own{number}"), f"{name}{number}")
        engine.memory("ann", "coder").capture(talk(f"{name}both{number}"), f"both{number % 3}")
        if number % 4 == 0:
            engine.flush(60)
    # What the other one put into a conversation that was under way may come up behind.
    while not engine.flush(60):
        pass
    say(done=True)


VERBS: dict[str, Callable[..., None]] = {verb.__name__: verb for verb in (chat, share)}

if __name__ == "__main__":
    VERBS[sys.argv[1]](**json.loads(sys.argv[2]))
