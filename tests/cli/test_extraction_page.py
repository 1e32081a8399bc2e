"""docs/extraction.md: its example runs, every reason and hook stands there, and its numbers are the ones that hold."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import deermem
from deermem import CallInfo, CallOutcome, Hooks, Metrics, Outcome, Refusal, Settings
from deermem.extract import items, transcript
from deermem.extract.outcome import WARN_ABOVE
from deermem.extract.prompts import MAX_SHOWN
from deermem.extract.queue import QueueRules
from deermem.extract.signals import SIGNALS
from deermem.model.proposals import REASONS

PAGE = (Path(__file__).resolve().parents[2] / "docs/extraction.md").read_text(encoding="utf-8")


def test_the_example_runs(tmp_path):
    (example,) = re.findall(r"<!-- tested -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(deermem.__file__).resolve().parent.parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_reason_has_its_row_with_its_meaning():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE[PAGE.index("| reason |") :], re.MULTILINE))
    assert rows == REASONS


def test_every_hook_and_field_is_named():
    assert [item.name for item in fields(Hooks) if f"`{item.name}(" not in PAGE] == []
    named = {item.name for kind in (CallInfo, CallOutcome, Metrics, Outcome, Refusal) for item in fields(kind)}
    assert [name for name in sorted(named) if f"`{name}`" not in PAGE] == []
    assert [name for name in SIGNALS if f"`{name}`" not in PAGE] == []


def test_its_numbers_are_the_ones_that_hold():
    rules = QueueRules(debounce_seconds=Settings().debounce_seconds)
    assert rules.longest_wait.total_seconds() == 10 * rules.debounce_seconds
    assert items.MAX_ATTEMPTS == 10
    assert f"the {MAX_SHOWN} best facts" in PAGE
    assert f"more than {transcript.LONGEST_SHOWN} characters" in PAGE
    assert f"above\n{WARN_ABOVE} the log" in PAGE
