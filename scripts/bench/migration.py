"""How fast old stores become new ones, and how much memory that takes, each beside its limit of the same run.

    python scripts/bench/migration.py [--users 150] [--facts 20] [--large 4000] [--json FILE] [--root DIR]

The full sizes are `--users 10000 --facts 20 --large 50000`. Two shapes are migrated, many users of a few facts and one
user of many, and the many are imported once more as a document. Each runs in a process of its own, so that it alone is
measured. The limit of the speed is as many folders and files, written and renamed without any flush; that of the
memory, a process that parses the largest document and keeps it. Memory must not grow with the number of users: a tenth
of them is measured too. Prints a table, and with --json the same as JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from limits import Flushes, lay_out, text

LEAST: Final = 3000
WHEN: Final = "2025-11-30T10:00:00Z"


@dataclass(frozen=True, kw_only=True)
class Result:
    """One measurement: facts per second, or megabytes at the peak."""

    operation: str
    size: str
    unit: str
    value: float
    limit: float
    flushes: float | None = None
    goal: str
    met: bool

    @property
    def ratio(self) -> float:
        """The share of the limit for a rate, how many times the limit for memory."""
        return self.value / self.limit


@dataclass(frozen=True)
class Run:
    """What a child process measured of itself."""

    facts: int
    seconds: float
    megabytes: float
    flushes: int


# --- the child


def peak() -> float:
    """The most memory that this process had, in megabytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # What getrusage says includes the process that started this one.
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def migrate(path: str) -> int:
    """All users of a root; how many facts were taken in."""
    import deermem

    with deermem.DeerMem(path) as engine:
        report = engine.migrate()
    assert report.ok, report
    return sum(user.facts for user in report.users)


def take_in(path: str) -> int:
    """The document of the only user of a root, imported into an empty store beside it."""
    import deermem

    document = json.loads(Path(path, "users", "user00000", "memory.json").read_bytes())
    with deermem.DeerMem(f"{path}-imported", deermem.Settings(max_facts=0)) as engine:
        return len(engine.memory("ann").import_document(document).facts)


def load(path: str) -> int:
    """Parses the first user's document and keeps it until the memory was looked at."""
    import deermem

    _KEPT.append(deermem.DeerMem)
    _KEPT.append(json.loads(Path(path, "users", "user00000", "memory.json").read_bytes()))
    return 0


_KEPT: Final[list[object]] = []
WORK: Final[dict[str, Callable[[str], int]]] = {"migrate": migrate, "import": take_in, "load": load}


def child(work: str, path: str) -> None:
    """Does the work, and says what it took as JSON."""
    counter = Flushes()
    began = time.perf_counter()
    with counter.counted():
        facts = WORK[work](path)
    print(json.dumps([facts, time.perf_counter() - began, peak(), counter.count]))


def measured(work: str, root: Path) -> Run:
    """A child process that does the work."""
    command = [sys.executable, __file__, "--child", work, str(root)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return Run(*json.loads(done.stdout))


# --- the stores


def old_store(root: Path, users: int, facts: int) -> Path:
    """A store as version 1 left it; gives its root."""
    for user in range(users):
        folder = root / "users" / f"user{user:05}"
        folder.mkdir(parents=True)
        with open(folder / "memory.json", "w", encoding="utf-8") as file:
            json.dump(old_document(user, facts), file, ensure_ascii=False, indent=2)
    return root


def old_document(user: int, facts: int) -> dict[str, object]:
    """A document of version 1."""
    items = [
        {
            "id": f"fact_{user:05}{number:06}",
            "content": text(user * facts + number),
            "category": "context",
            "confidence": 0.8,
            "createdAt": WHEN,
            "source": f"thread-{number}",
        }
        for number in range(facts)
    ]
    summary = {"workContext": {"summary": f"User {user} tunes cellos.", "updatedAt": WHEN}}
    return {"version": "1.0", "lastUpdated": WHEN, "user": summary, "history": {}, "facts": items}


# --- measuring


def rate(operation: str, run: Run, users: int, facts: int, limit: float) -> Result:
    """Facts per second; what the child needs for being loaded counts as well."""
    assert run.facts == users * facts, f"{run.facts} facts of {users * facts}"
    value = run.facts / run.seconds
    return Result(
        operation=operation,
        size=f"{users} x {facts}",
        unit="/s",
        value=value,
        limit=run.facts / limit,
        flushes=run.flushes / users,
        goal=f">= {LEAST} /s",
        met=value >= LEAST,
    )


def memory(operation: str, size: str, run: Run, limit: Run, times: float) -> Result:
    """Megabytes at the peak, at most so many times those of another process."""
    met = run.megabytes <= times * limit.megabytes
    return Result(
        operation=operation,
        size=size,
        unit="MB",
        value=run.megabytes,
        limit=limit.megabytes,
        goal=f"<= {times:g} x",
        met=met,
    )


def many(folder: Path, users: int, facts: int) -> list[Result]:
    """Many users of a few facts."""
    fewer = max(1, users // 10)
    small = measured("migrate", old_store(folder / "fewer", fewer, facts))
    run = measured("migrate", old_store(folder / "many", users, facts))
    limit = lay_out(folder / "many-limit", users, facts)
    return [
        rate("migrate, many users", run, users, facts, limit),
        memory(f"memory, beside that of {fewer} users", f"{users} x {facts}", run, small, 1.5),
    ]


def large(folder: Path, facts: int) -> list[Result]:
    """One user of many facts."""
    root = old_store(folder / "large", 1, facts)
    parsed, taken_in = measured("load", root), measured("import", root)
    run = measured("migrate", root)
    limit = lay_out(folder / "large-limit", 1, facts)
    return [
        rate("migrate, one user", run, 1, facts, limit),
        memory("memory, beside the document alone", f"1 x {facts}", run, parsed, 6),
        rate("import", taken_in, 1, facts, limit),
        memory("memory of the import", f"1 x {facts}", taken_in, parsed, 6),
    ]


# --- saying it


def line(result: Result) -> str:
    """One result in columns."""
    flushes = "" if result.flushes is None else f"{result.flushes:.1f}"
    measured_as, limit = (f"{value:,.0f} {result.unit}" for value in (result.value, result.limit))
    columns = f"{result.operation:36} {result.size:>12} {measured_as:>12} {flushes:>7} {limit:>12} {result.ratio:>7.2f}"
    return f"{columns}  {result.goal} {'met' if result.met else 'MISSED'}"


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description="How fast old stores become new ones, each beside its limit.")
    parser.add_argument("--users", type=int, default=150, help="users of a few facts")
    parser.add_argument("--facts", type=int, default=20, help="facts of each of them")
    parser.add_argument("--large", type=int, default=4000, help="facts of the one large user")
    parser.add_argument("--json", type=Path, help="a file for the results")
    parser.add_argument("--root", type=Path, help="a folder on the disk to measure, by default the temporary one")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        child(*chosen.child)
        return
    print(f"{'operation':36} {'size':>12} {'measured':>12} {'flushes':>7} {'limit':>12} {'ratio':>7}  goal", flush=True)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(dir=chosen.root) as name:
        parts: list[Callable[[], list[Result]]] = [
            lambda: many(Path(name), chosen.users, chosen.facts),
            lambda: large(Path(name), chosen.large),
        ]
        for part in parts:
            found = part()
            print(*map(line, found), sep="\n", flush=True)
            results += found
    if chosen.json:
        said = [{**asdict(result), "ratio": result.ratio} for result in results]
        chosen.json.write_text(json.dumps(said, indent=1))


if __name__ == "__main__":
    main()
