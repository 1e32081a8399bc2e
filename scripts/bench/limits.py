"""What the store is measured with: made-up facts, a stop-watch that counts flushes, the least an operation needs."""

from __future__ import annotations

import os
import random
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import yaml

from deermem.format.paths import fact_path
from deermem.index.tokens import FTS_TOKENIZE

T = TypeVar("T")
WORDS = [
    *(
        "amber",
        "anchor",
        "basket",
        "bridge",
        "candle",
        "canyon",
        "cedar",
        "cello",
        "copper",
        "cotton",
        "dynamo",
        "ember",
    ),
    *("falcon", "garden", "granite", "harbour", "island", "jacket", "kernel", "ladder", "lantern", "lemon", "marble"),
    *(
        "meadow",
        "mirror",
        "needle",
        "olive",
        "orchid",
        "paddle",
        "pepper",
        "quartz",
        "raven",
        "ribbon",
        "river",
        "saddle",
    ),
    *("silver", "stone", "summit", "temple", "thistle", "timber", "tunnel", "velvet", "violet", "walnut", "willow"),
]
HAN = "数据库部署用户偏好深色模式每周例会报告项目代码审查测试环境服务器端口咖啡早晨散步音乐学习中文写作旅行计划"
CONTENT = b"x" * 400


# --- measuring


class Flushes:
    """Counts what goes through os.fsync and os.fdatasync."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Counts within."""
        real = os.fsync, os.fdatasync
        os.fsync, os.fdatasync = self._counting(real[0]), self._counting(real[1])  # type: ignore[assignment]
        try:
            yield
        finally:
            os.fsync, os.fdatasync = real

    def _counting(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def flush(descriptor: int) -> None:
            self.count += 1
            real(descriptor)

        return flush


def timed(call: Callable[[], object]) -> float:
    """Milliseconds that one call takes."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def often(call: Callable[[], object], times: int) -> float:
    """The median of the milliseconds of so many calls."""
    return statistics.median(timed(call) for _ in range(times))


def each(call: Callable[[T], object], values: Iterable[T]) -> float:
    """The median of the milliseconds that a call takes with each value."""

    def once(value: T) -> float:
        return timed(lambda: call(value))

    return statistics.median(map(once, values))


def in_turn(call: Callable[[T], object], least: Callable[[int], object], values: Sequence[T]) -> tuple[float, float]:
    """The median times of a call with each value and of its limit, taken in turn, so that a busy moment hits both."""
    taken, limits = [], []
    for turn, value in enumerate(values):
        limits.append(each(least, [turn]))
        taken.append(each(call, [value]))
    return statistics.median(taken), statistics.median(limits)


def python(code: str) -> None:
    """A new process that runs this."""
    subprocess.run([sys.executable, "-c", code], check=True)


# --- made-up facts


def text(number: int) -> str:
    """A fact, always the same for a number; every fourth is Chinese."""
    chance = random.Random(number)
    if number % 4 == 3:
        return "".join(chance.choice(HAN) for _ in range(24)) + f" {number}"
    return f"{' '.join(chance.choice(WORDS) for _ in range(14))} bears the number {number}"


def document(size: int) -> dict[str, object]:
    """A document of that many facts."""
    return {"facts": [{"id": f"fact_{n:06}", "content": text(n), "confidence": 0.8} for n in range(size)]}


def english(number: int) -> str:
    """A question of three words that facts have."""
    chance = random.Random(-number - 1)
    return " ".join(chance.choice(WORDS) for _ in range(3))


def chinese(number: int) -> str:
    """Four characters of some fact."""
    return text(4 * number + 3)[5:9]


# --- limits


class AppendAndRename:
    """One record appended and flushed, and one rename."""

    # Bound before anything counts flushes: the counter must not see this one.
    flush = staticmethod(os.fsync)

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.names = [folder / "one", folder / "two"]
        self.names[0].write_bytes(CONTENT)
        self.log = folder / "log"

    def once(self, _: int) -> None:
        """Both."""
        with open(self.log, "ab", buffering=0) as file:
            file.write(CONTENT)
            self.flush(file.fileno())
        os.rename(*self.names)
        self.names.reverse()


def create_and_rename(folder: Path) -> float:
    """Files written and renamed without any flush, per second."""
    folder.mkdir()

    def once(number: int) -> None:
        staged = f"{folder}/staged{number}"
        with open(staged, "wb", buffering=0) as file:
            file.write(CONTENT)
        os.rename(staged, f"{folder}/{number}.md")

    return 1000 / each(once, range(1000))


def lay_out(folder: Path, users: int, facts: int) -> float:
    """Seconds that as many folders and files take as a migration leaves, written and renamed without any flush."""
    began = time.perf_counter()
    for user in range(users):
        home = folder / f"user{user}"
        staging = home / ".journal"
        staging.mkdir(parents=True)
        targets = [home / fact_path("__default__", f"fact_{user}_{number}") for number in range(facts)]
        for parent in {target.parent for target in targets}:
            parent.mkdir(parents=True)
        for number, target in enumerate(targets):
            staged = f"{staging}/{number}"
            with open(staged, "wb", buffering=0) as file:
                file.write(CONTENT)
            os.rename(staged, target)
    return time.perf_counter() - began


def stat_all(folder: str) -> int:
    """A stat for every file below a folder; how many there are."""
    count = 0
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            count += stat_all(entry.path)
        else:
            entry.stat(follow_symlinks=False)
            count += 1
    return count


def parse(path: str) -> object:
    """A fact file read, and its front matter parsed by the C loader."""
    with open(path, "rb", buffering=0) as file:
        head = file.read().split(b"\n---\n", 1)[0]
    return yaml.load(head.removeprefix(b"---\n"), Loader=yaml.CSafeLoader)


def parse_all(folder: Path) -> int:
    """All of them; how many there are."""
    paths = [f"{parent}/{name}" for parent, _, names in os.walk(folder) for name in names]
    for path in paths:
        parse(path)
    return len(paths)


def all_rows(database: Path) -> None:
    """Every row of the index's table of files, on a connection of its own."""
    connection = sqlite3.connect(database)
    connection.execute("SELECT * FROM files").fetchall()
    connection.close()


def pairs(content: str) -> list[str]:
    """Overlapping character pairs, for Chinese."""
    return [content[at : at + 2] for at in range(len(content) - 1)]


class PlainIndex:
    """FTS5 and nothing else: the words, or the character pairs, OR-ed."""

    def __init__(self, size: int) -> None:
        self.connection = sqlite3.connect(":memory:")
        self.connection.execute(f"CREATE VIRTUAL TABLE words USING fts5(body, tokenize={FTS_TOKENIZE})")
        rows = ((" ".join(pairs(text(n))) if n % 4 == 3 else text(n),) for n in range(size))
        self.connection.executemany("INSERT INTO words (body) VALUES (?)", rows)

    def find(self, terms: Sequence[str]) -> list[object]:
        """The ten best rows."""
        query = " OR ".join(f'"{term}"' for term in terms)
        asked = "SELECT rowid, rank FROM words WHERE words MATCH ? ORDER BY rank LIMIT 10"
        return self.connection.execute(asked, (query,)).fetchall()
