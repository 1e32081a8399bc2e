"""Processes that extract and are killed, or share a store: nothing captured is lost, nothing is done twice."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import process_tools
import pytest
from builders_extraction import Scripted, marks_of, names_of, spool_names
from process_tools import Worker, start_together

from deermem import DeerMem, Settings

Start = Callable[..., Worker]
AGENTS = ("coder", "writer")


@pytest.fixture(autouse=True)
def workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_tools, "WORKERS", Path(__file__).with_name("process_extraction.py"))


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """In memory where the system has such a file system: a killed process loses nothing that it wrote there either."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="deermem-kills-", dir=memory if memory.is_dir() else tmp_path))
    yield folder / "store"
    shutil.rmtree(folder)


def seen(log: Path) -> Counter[str]:
    """How often each name was shown to a model of any process; a line that a kill tore counts for nothing."""
    counted: Counter[str] = Counter()
    for line in log.read_text().splitlines() if log.exists() else []:
        if line.endswith("]"):
            counted.update(json.loads(line))
    return counted


def look_after(root: Path, log: Path, sure: set[str], at: int) -> None:
    """The next engine works off what is left."""
    settings = Settings(max_facts=0, retrieval_adapter="")
    with DeerMem(root, settings, Scripted(log=log, distinct=f"after{at}-")) as engine:
        assert engine.flush(60)
        stored = [mark for agent in AGENTS for mark in marks_of(engine.memory("ann", agent))]
        assert names_of(*sure) <= seen(log).keys()
        assert sure <= set(stored)
        assert [mark for mark, count in Counter(stored).items() if count > 1] == []
        assert spool_names(root, "ann") <= {"watermarks.json"}
        # A commit that was sealed before the kill is finished by the next write.
        engine.memory("ann", "coder").add(f"Written by hand after{at}")
        assert [finding for finding in engine.check() if finding.code != "leftovers"] == []


def run_kills(start: Start, root: Path, seeds: range) -> None:
    """Every second time the next process meets what the one before left, and may be killed over it as well."""
    log, sure = root.parent / "log", set()
    for seed in seeds:
        worker = start("chat", root=str(root), log=str(log), seed=seed)
        assert worker.read() == {"ready": True}
        time.sleep(random.Random(seed).uniform(0.02, 0.4))
        sure |= {str(line["sure"]) for line in worker.kill()}
        if seed % 2:
            look_after(root, log, sure, seed)
    assert len(sure) > len(seeds)


def test_a_process_that_extracts_is_killed(start: Start, root: Path) -> None:
    run_kills(start, root, range(1, 4))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("hundred", [1, 2, 3])
def test_hundreds_of_processes_that_extract_are_killed(start: Start, root: Path, hundred: int) -> None:
    run_kills(start, root, range(100 * hundred, 100 * hundred + 100))


def share_the_work(start: Start, root: Path, count: int) -> None:
    """Where nobody dies, each word is shown to a model once, whoever of the two asks."""
    log = root.parent / "log"
    pair = [start("share", root=str(root), log=str(log), name=name, count=count) for name in ("x", "y")]
    start_together(pair)
    for worker in pair:
        assert worker.finish() == [{"done": True}]
    marks = [f"{name}{kind}{number}" for name in ("x", "y") for kind in ("own", "both") for number in range(count)]
    look_after(root, log, set(marks), 0)
    assert seen(log) == Counter(names_of(*marks))


def test_two_processes_share_a_store(start: Start, root: Path) -> None:
    share_the_work(start, root, 3)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_two_processes_share_a_store_for_long(start: Start, root: Path) -> None:
    share_the_work(start, root, 100)
