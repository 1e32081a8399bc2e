"""How fast the store is, each operation beside its limit, measured in the same run.

    python scripts/bench/store.py [--sizes 100,500,5000] [--json FILE] [--root DIR]

A limit is the least that the machine itself needs: one record appended and flushed and one rename for a write, a
stat of each file for a sweep, reading and parsing one file, a plain FTS5 query. What counts is the ratio: it travels
between machines, absolute times do not. All times are medians; flushes are counted, for they cost most on other disks.
Prints a table, and with --json the same as JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from limits import (
    AppendAndRename,
    Flushes,
    PlainIndex,
    all_rows,
    chinese,
    create_and_rename,
    document,
    english,
    in_turn,
    often,
    pairs,
    parse,
    parse_all,
    python,
    stat_all,
    text,
    timed,
)

import deermem

T = TypeVar("T")
NO_CAP = deermem.Settings(max_facts=0)
LARGE = 5000
ROUNDS = 30
WRITES_EACH = 25
LEAST = "import yaml, sqlite3"


@dataclass(frozen=True, kw_only=True)
class Result:
    """One operation at one size, in milliseconds or, where `unit` says so, per second."""

    operation: str
    size: int = 0
    unit: str = "ms"
    value: float
    limit: float | None = None
    flushes: float | None = None
    goal: str = ""
    met: bool | None = None

    @property
    def ratio(self) -> float | None:
        """How many times the limit; for rates, the share of it."""
        return self.value / self.limit if self.limit else None


def at_most(times: float, value: float, limit: float, flushes: tuple[float, int] | None = None) -> tuple[str, bool]:
    """A goal in words and whether it is met: so many times the limit, so many flushes."""
    if flushes is None:
        return f"<= {times:g} x", value <= times * limit
    return f"<= {times:g} x, {flushes[1]} flushes", value <= times * limit and flushes[0] <= flushes[1]


class Bench:
    """A store of one size below a folder of its own."""

    def __init__(self, folder: Path, size: int) -> None:
        folder.mkdir()
        self.folder = folder
        self.size = size
        self.results: list[Result] = []
        self.root = folder / "store"
        self.user = self.root / "users" / "ann"
        self.facts = self.user / "agents" / "__default__" / "facts"
        self.engine = deermem.DeerMem(self.root, NO_CAP)
        self.memory = self.engine.memory("ann")
        self.seldom = 3 if size <= LARGE else 1

    def run(self) -> list[Result]:
        """Everything, in an order in which each finds what it needs."""
        with self.engine:
            for part in (self.bulk, self.writes, self.reads, self.opening, self.searches, self.reindex, self.processes):
                part()
        return self.results

    def note(self, operation: str, value: float, limit: float, times: float) -> None:
        """A time that should be at most so many times its limit."""
        goal, met = at_most(times, value, limit)
        self.results.append(Result(operation=operation, size=self.size, value=value, limit=limit, goal=goal, met=met))

    def note_rate(self, operation: str, milliseconds: float, limit: float, least: int) -> None:
        """The facts per second, and how many it should be at least."""
        rate = self.size * 1000 / milliseconds
        goal, met = f">= {least} /s", rate >= least
        self.results.append(
            Result(operation=operation, size=self.size, unit="/s", value=rate, limit=limit, goal=goal, met=met)
        )

    def note_write(
        self,
        operation: str,
        call: Callable[[T], object],
        values: Sequence[T],
        limit: Callable[[int], None],
        goal: tuple[float, int],
    ) -> None:
        """A write with each value; at most how many times the limit, and how many flushes, it should take."""
        counter = Flushes()
        with counter.counted():
            taken, least = in_turn(call, limit, values)
        flushes = counter.count / len(values)
        words, met = at_most(goal[0], taken, least, (flushes, goal[1]))
        self.results.append(
            Result(operation=operation, size=self.size, value=taken, limit=least, flushes=flushes, goal=words, met=met)
        )

    def bulk(self) -> None:
        """Importing everything."""
        limit, given, counter = create_and_rename(self.folder / "renames"), document(self.size), Flushes()
        with counter.counted():
            taken = timed(lambda: self.memory.import_document(given))
        self.note_rate(f"import ({counter.count / self.size:.1f} flushes a fact)", taken, limit, 3000)

    def writes(self) -> None:
        """Single facts. The first one of a folder makes the folder, which costs a flush more: all are made before."""
        for number in range(256):
            (self.facts / f"{number:02x}").mkdir(exist_ok=True)
        fresh: list[deermem.Fact] = [self.memory.add("the first one, so that everything is loaded")]
        added = [f"created {text(self.size + number)}" for number in range(ROUNDS)]
        limit = AppendAndRename(self.folder / "appends").once
        self.note_write("create", lambda said: fresh.append(self.memory.add(said)), added, limit, (5, 3))
        self.note_write(
            "update", lambda fact: self.memory.update(fact.id, f"{fact.content} again"), fresh, limit, (6, 3)
        )
        self.note_write("delete", lambda fact: self.memory.delete(fact.id), fresh, limit, (6, 2))

    def reads(self) -> None:
        """Single facts, the whole list again and again, and the block for the prompt."""
        some = [f"fact_{number:06}" for number in random.Random(1).sample(range(self.size), min(self.size, 100))]
        files = [str(self.memory.path(fact_id)) for fact_id in some]
        self.note("get", *in_turn(self.memory.get, lambda turn: parse(files[turn]), some), 3)
        self.memory.list()
        self.note("list, warm", often(self.memory.list, 11), often(lambda: stat_all(str(self.facts)), 7), 2)
        self.memory.context()
        block = often(self.memory.context, 11)
        met = block <= 5 if self.size == 500 else None
        self.results.append(Result(operation="context", size=self.size, value=block, goal="<= 5 ms at 500", met=met))

    def opening(self) -> None:
        """A new engine, with the index and without."""
        rows = often(lambda: all_rows(self.user / ".retrieval" / "index.sqlite3"), 5)
        limit = often(lambda: stat_all(str(self.facts)), 7) + rows
        self.note("open and list, warm index", often(self.open, 5), limit, 4)
        everything = often(lambda: parse_all(self.facts), self.seldom)
        self.note("open and list, no index", often(self.open_without, self.seldom), everything, 1.5)

    def open(self) -> None:
        """A new engine lists everything."""
        with deermem.DeerMem(self.root, NO_CAP) as opened:
            assert len(opened.memory("ann").list()) == self.size

    def open_without(self) -> None:
        """The same with the index deleted."""
        shutil.rmtree(self.user / ".retrieval")
        self.open()

    def searches(self) -> None:
        """Ten hits for some words."""
        plain = PlainIndex(self.size)
        self.memory.search("warm")
        for name, ask, split in (("English", english, str.split), ("Chinese", chinese, pairs)):
            asked = [ask(number) for number in range(min(ROUNDS, self.size // 4))]
            terms = [split(said) for said in asked]
            taken = in_turn(
                lambda said: self.memory.search(said, top_k=10),
                lambda turn, terms=terms: plain.find(terms[turn]),  # type: ignore[misc]
                asked,
            )
            self.note(f"search, {name}", *taken, 3)

    def reindex(self) -> None:
        """The whole index again."""
        limit = self.size * 1000 / often(lambda: parse_all(self.facts), self.seldom)
        self.note_rate("reindex", often(lambda: self.engine.reindex("ann"), self.seldom), limit, 8000)

    def processes(self) -> None:
        """The first search of a new process."""
        limit = often(lambda: python(LEAST), 5)
        opened = f"deermem.DeerMem({str(self.root)!r}, deermem.Settings(max_facts=0)).memory('ann')"
        for name, said in (("English", english(1)), ("Chinese", chinese(1))):
            code = f"import deermem; assert {opened}.search({said!r})"
            self.note(f"first search, new process, {name}", often(lambda code=code: python(code), 5), limit, 5)  # type: ignore[misc]


# --- what does not depend on the size


def importing() -> list[Result]:
    """Loading the package beside loading what it can't do without."""
    limit = often(lambda: python(LEAST), 7)
    found = []
    for code in ("import deermem", "from deermem import DeerMem"):
        taken = often(lambda code=code: python(code), 7)  # type: ignore[misc]
        goal, met = at_most(2.5, taken, limit)
        found.append(Result(operation=code, value=taken, limit=limit, goal=goal, met=met))
    return found


def write(root: str, prefix: str) -> None:
    """One of many writers: waits for a line, adds its facts, prints how long each took."""
    memory = deermem.DeerMem(root, NO_CAP).memory("ann")
    memory.add(f"{prefix} is loaded")
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps([timed(lambda n=n: memory.add(f"{prefix} {text(n)}")) for n in range(WRITES_EACH)]))  # type: ignore[misc]


def writers(root: Path, count: int) -> tuple[float, list[float]]:
    """Writes per second of so many processes in one bucket, and the milliseconds that each write took."""
    command = [sys.executable, __file__, "--writer", str(root)]
    pipe = subprocess.PIPE
    started = [subprocess.Popen([*command, f"{count} {n}"], stdin=pipe, stdout=pipe, text=True) for n in range(count)]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    began = time.perf_counter()
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    taken = [each for process in started for each in json.loads(process.communicate(timeout=300)[0])]
    return len(taken) / (time.perf_counter() - began), taken


def together(folder: Path) -> list[Result]:
    """Eight writers of one bucket of 500 facts beside one."""
    root = folder / "together"
    with deermem.DeerMem(root, NO_CAP) as engine:
        engine.memory("ann").import_document(document(500))
    alone, _ = writers(root, 1)
    rate, taken = writers(root, 8)
    with deermem.DeerMem(root, NO_CAP) as engine:
        kept = len(engine.memory("ann").list())
    assert kept == 500 + 9 * (WRITES_EACH + 1), f"{kept} facts were kept"
    late = statistics.quantiles(taken, n=20)[-1]
    goal, met = ">= 60 % of one", rate >= 0.6 * alone
    return [
        Result(operation="eight writers", size=500, unit="/s", value=rate, limit=alone, goal=goal, met=met),
        Result(operation="eight writers, 95th percentile", size=500, value=late, goal="< 10 s", met=late < 10_000),
    ]


def flat(results: Sequence[Result]) -> list[Result]:
    """Whether writing costs the same in the largest store as in one of 500."""
    found = []
    for operation in ("create", "update", "delete"):
        by_size = {result.size: result.value for result in results if result.operation == operation}
        large = max(by_size)
        if 500 in by_size and large > 500:
            goal, met = at_most(1.3, by_size[large], by_size[500])
            name = f"{operation}, beside that at 500"
            found.append(
                Result(operation=name, size=large, value=by_size[large], limit=by_size[500], goal=goal, met=met)
            )
    return found


# --- saying it


def line(result: Result) -> str:
    """One result in columns."""
    flushes = "" if result.flushes is None else f"{result.flushes:.1f}"
    limit = "" if result.limit is None else shown(result.limit, result.unit)
    ratio = "" if result.ratio is None else f"{result.ratio:.2f}"
    verdict = {True: "met", False: "MISSED", None: ""}[result.met]
    measured = shown(result.value, result.unit)
    columns = f"{result.operation:36} {result.size or '':>6} {measured:>12} {flushes:>7} {limit:>12} {ratio:>7}"
    return f"{columns}  {result.goal} {verdict}".rstrip()


def shown(value: float, unit: str) -> str:
    """A number with its unit."""
    return f"{value:,.0f} {unit}" if unit == "/s" or value >= 1000 else f"{value:.3f} {unit}"


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description="How fast the store is, each operation beside its limit.")
    parser.add_argument("--sizes", default="100,500,5000", help="facts in the bucket, separated by commas")
    parser.add_argument("--json", type=Path, help="a file for the results")
    parser.add_argument("--root", type=Path, help="a folder on the disk to measure, by default the temporary one")
    parser.add_argument("--writer", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.writer:
        write(*chosen.writer)
        return
    print(f"{'operation':36} {'size':>6} {'measured':>12} {'flushes':>7} {'limit':>12} {'ratio':>7}  goal", flush=True)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(dir=chosen.root) as name:
        folder = Path(name)
        parts: list[Callable[[], list[Result]]] = [importing]
        parts += [Bench(folder / size, int(size)).run for size in chosen.sizes.split(",")]
        parts.append(lambda: together(folder))
        for part in parts:
            found = part()
            print(*map(line, found), sep="\n", flush=True)
            results += found
    beside = flat(results)
    print(*map(line, beside), sep="\n")
    if chosen.json:
        said = [{**asdict(result), "ratio": result.ratio} for result in [*results, *beside]]
        chosen.json.write_text(json.dumps(said, indent=1))


if __name__ == "__main__":
    main()
