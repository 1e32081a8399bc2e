"""Real processes for tests: each runs one verb of `process_workers.py` and talks in lines of JSON."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType

import deermem

WORKERS = Path(__file__).with_name("process_workers.py")
PATIENCE = 60.0


class Worker:
    """One process. Whatever it prints is read by a thread, so that it never waits for its reader."""

    def __init__(self, verb: str, **arguments: object) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        command = [sys.executable, "-W", "error", str(WORKERS), verb, json.dumps(arguments)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._errors, bufsize=0)
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._reader = threading.Thread(target=self._pump, daemon=True)
        self._reader.start()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self._errors):
            assert stream is not None
            stream.close()

    def _pump(self) -> None:
        assert self.process.stdout is not None
        text = b""
        while chunk := self.process.stdout.read(65_536):
            *whole, text = (text + chunk).split(b"\n")
            for line in whole:
                self._lines.put(line)
        self._lines.put(None)

    def read(self) -> dict[str, object]:
        """The next thing it says; AssertionError with its standard error where it says nothing more."""
        line = self._lines.get(timeout=PATIENCE)
        assert line is not None, f"the worker ended early:\n{self.complaints()}"
        return json.loads(line)

    def tell(self) -> None:
        """Lets it go on from where it waits."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")

    def kill(self) -> list[dict[str, object]]:
        """SIGKILL; gives everything that it managed to say and that was not read yet."""
        self.process.kill()
        return self._rest()

    def finish(self) -> list[dict[str, object]]:
        """Waits for its end, which must be a good one; gives what was not read yet."""
        said = self._rest()
        assert self.process.returncode == 0, self.complaints()
        return said

    def finish_or_die(self) -> list[dict[str, object]]:
        """Waits for its end, a good one or by its own SIGKILL; gives what was not read yet, nothing where it died."""
        said = self._rest()
        assert self.process.returncode in (0, -signal.SIGKILL), self.complaints()
        return said

    def complaints(self) -> str:
        """Its standard error."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def _rest(self) -> list[dict[str, object]]:
        said = []
        while (line := self._lines.get(timeout=PATIENCE)) is not None:
            said.append(json.loads(line))
        self.process.wait(PATIENCE)
        return said


def start_together(workers: list[Worker]) -> None:
    """Lets all of them go on, once each is ready."""
    for worker in workers:
        assert worker.read() == {"ready": True}
    for worker in workers:
        worker.tell()


def engine(root: Path, *, lock_timeout: float = 10.0) -> deermem.DeerMem:
    """A fresh engine without a cap."""
    return deermem.DeerMem(root, deermem.Settings(max_facts=0, file_lock_timeout_seconds=lock_timeout))


def contents(memory: deermem.Memory) -> dict[str, str]:
    """Id → content of every fact as the files say now."""
    return {fact.id: fact.content for fact in memory.list()}


def document(facts: dict[str, str], summary: str = "") -> dict[str, object]:
    """A document to import."""
    return {
        "version": "1.0",
        "user": {"workContext": {"summary": summary}},
        "facts": [{"id": fact_id, "content": content, "confidence": 0.8} for fact_id, content in facts.items()],
    }


def revision(root: Path, user: str = "ann") -> int:
    """The shared revision that memory.json carries."""
    return json.loads((root / "users" / user / "memory.json").read_bytes())["revision"]


def alarming(engine: deermem.DeerMem) -> list[str]:
    """What `check` finds, but for temporaries that the next write removes."""
    return [str(finding) for finding in engine.check() if finding.code != "leftovers"]
