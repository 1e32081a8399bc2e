"""Recorded conversations and answers of models, and what comes of them: `expected.json` is read by people.

`DEERMEM_WRITE_EXPECTED=1 scripts/test tests/extraction` writes it anew; the diff is what is to be reviewed.
"""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from deermem import ChangeSet, DeerMem, DeerMemError, Draft, Fact, Memory, Outcome, Refusal, Settings

HERE = Path(__file__).resolve().parent
EXPECTED = HERE / "expected.json"
CASES = sorted(path.stem for path in (HERE / "conversations").glob("*.yaml"))
WRITE_VARIABLE = "DEERMEM_WRITE_EXPECTED"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Clock:
    """Stands where it is put."""

    now = NOW

    def __call__(self) -> datetime:
        return self.now


class Scripted:
    """A model that gives the recorded answer, and keeps what it was shown."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.shown: list[str] = []
        self.signals = ""

    def invoke(self, messages: list[dict[str, str]]) -> str:
        asked = messages[1]["content"]
        self.shown = asked.split("<conversation>\n")[1].split("\n</conversation>")[0].split("\n")
        self.signals = asked.split("said: ")[1].split(". A signal")[0]
        return self.answer


def replay(name: str, root: Path) -> dict[str, object]:
    """Runs one case on a memory of its own."""
    case = yaml.safe_load((HERE / "conversations" / f"{name}.yaml").read_text(encoding="utf-8"))
    messages = case["messages"]
    if case.get("shape") == "objects":
        messages = [SimpleNamespace(**message) for message in messages]
    clock, model = Clock(), Scripted(case["answer"])
    with DeerMem(root, Settings(**case.get("settings", {})), model, clock=clock) as engine:
        memory = engine.memory("alice", "coder")
        remember(memory, clock, case.get("memory", []))
        before = {fact.id: fact for fact in memory.list()}
        try:
            outcome = memory.extract(messages, thread_id=name)
        except DeerMemError as error:
            told: dict[str, object] = {"error": error.message}
        else:
            told = in_words(outcome, before, {fact.id: fact for fact in memory.list()}, memory)
        after = sorted(line(fact) for fact in memory.list())
    return {"shown": model.shown, "signals": model.signals, **told, "memory": after}


def remember(memory: Memory, clock: Clock, facts: list[dict[str, object]]) -> None:
    for fact in facts:
        clock.now = NOW - timedelta(days=fact.pop("days_ago", 1))
        memory.apply(ChangeSet([Draft(**fact)]))
    clock.now = NOW


def in_words(outcome: Outcome, before: dict[str, Fact], after: dict[str, Fact], memory: Memory) -> dict[str, object]:
    """The outcome without ids that are different each time; what is empty is left out."""
    replaced = dict(outcome.replaced)
    told = {
        "stored": [line(after[fact_id]) for fact_id in outcome.stored],
        "summaries": {name: memory.summaries().section(name).summary for name in outcome.summaries},
        "confirmed": [line(after[fact_id]) for fact_id in outcome.confirmed],
        "extended": [line(after[fact_id]) for fact_id in outcome.extended],
        "removed": [gone(fact_id, before, after, replaced) for fact_id in outcome.removed],
        "retired": [gone(fact_id, before, after, replaced) for fact_id in outcome.retired],
        "merged": [line(after[fact_id]) for fact_id in outcome.merged],
        "consolidated": [gone(fact_id, before, after, replaced) for fact_id in outcome.consolidated],
        "evicted": [line(before[fact_id]) for fact_id in outcome.evicted],
        "refused": [refusal(item) for item in outcome.refused],
    }
    return {key: value for key, value in told.items() if value}


def refusal(item: Refusal) -> str:
    """Kind, subject and reason; a new fact that the cap refused has another id each time."""
    subject = "(new)" if re.fullmatch("fact_[0-9a-f]{16}", item.subject) else item.subject
    return f"{item.kind} {subject}: {item.reason}" + (f" ({item.detail})" if item.detail else "")


def gone(fact_id: str, before: dict[str, Fact], after: dict[str, Fact], replaced: dict[str, str]) -> str:
    by = f" -> {after[replaced[fact_id]].content}" if fact_id in replaced else ""
    return f"{fact_id}: {before[fact_id].content}{by}"


def line(fact: Fact) -> str:
    """A fact in one line, with what is set of the optional fields."""
    more = {
        "error": fact.source_error,
        "days": fact.expected_valid_days,
        "confirmed": fact.confirmation_count or None,
        "from": ", ".join(fact.consolidated_from) or None,
    }
    tail = "".join(f" [{key}: {value}]" for key, value in more.items() if value is not None)
    return f"{fact.category} {fact.confidence:g}: {fact.content}{tail}"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    if os.environ.get(WRITE_VARIABLE):
        found = {name: replay(name, tmp_path_factory.mktemp(name) / "store") for name in CASES}
        staged = tmp_path_factory.mktemp("expected") / EXPECTED.name
        staged.write_text(json.dumps(found, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        EXPECTED.write_bytes(staged.read_bytes())
    return json.loads(EXPECTED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_the_outcome_is_the_reviewed_one(name, expected, root):
    assert replay(name, root) == expected[name]


def test_nothing_is_expected_that_is_not_recorded(expected):
    assert list(expected) == CASES


def test_no_recorded_secret_reaches_a_file(root):
    replay("credentials", root)
    written = b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())
    for secret in (b"hunter2", b"ghp_16C7", b"Vx9qLw7pR2", b"AKIAIOSFODNN7"):
        assert secret not in written
