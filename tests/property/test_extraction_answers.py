"""Whatever a model answers: a flush says yes or no, and only what the gate lets pass is in the memory."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from builders_extraction import Scripted, spool_names, states, talk
from builders_replies import answer, gone, new
from builders_store import fact_text, facts_of, place, tree
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_replies import answers

from deermem import DeerMem, Hooks, InvalidInput, Settings
from deermem.extract.models import answer_text
from deermem.extract.reply import parse_reply
from deermem.policy.secrets import holds_secret

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
OLD = {"createdAt": "'2026-01-01T00:00:00Z'", "source": "{type: conversation, threadId: t0}"}
HAND_MADE = "# A note\n\nWritten with an editor, without any front matter.\n"

objects = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=5,
)
messages = st.builds(
    lambda content, wrapped: {
        "role": "assistant",
        "content": [{"type": "text", "text": content}] if wrapped else content,
    },
    answers.map(json.dumps),
    st.booleans(),
)
prose = st.builds(lambda before, reply, after: f"{before}{json.dumps(reply)}{after}", st.text(), answers, st.text())
everything = answers | answers.map(json.dumps) | messages | prose | st.text() | objects


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """A store with old facts to review, a correction, a hand-made file, and two other buckets."""
    folder = Path(tempfile.mkdtemp(prefix="answers-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    root = folder / "template"
    for number in range(4):
        place(facts_of(root) / f"s{number}.md", fact_text(f"s{number}", f"Wants {number}", category="goal", **OLD))
    place(facts_of(root) / "right.md", fact_text("right", "Not Kiel", category="correction", **OLD))
    place(facts_of(root) / "note.md", HAND_MADE)
    with DeerMem(root, Settings(retrieval_adapter="")) as engine:
        engine.memory("alice", "writer").add("Of another agent")
        engine.memory("bob", "coder").add("Of another user")
    yield root
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def unflushed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda descriptor: None)


def reasoned_removals(reply: object) -> set[str]:
    """The facts that an answer wants gone, with scope and reason."""
    try:
        proposals = parse_reply(answer_text(reply))
    except InvalidInput:
        return set()
    found = proposals.removals if proposals is not None else ()
    return {item.id for item in found if item.scope == "user" and item.reason}


def others(root: Path) -> dict[str, bytes]:
    """Every file of the other buckets."""
    found = tree(root / "users")
    return {name: data for name, data in found.items() if name.startswith(("bob/agents", "alice/agents/writer"))}


@given(reply=everything)
@settings(max_examples=25)
@example(
    reply=answer(new("Likes tea"), factsToRemove=[gone("right"), gone("note"), gone("s0", replacementFactIndex=0)])
)
def test_no_answer_ends_a_flush_or_does_what_it_may_not(template: Path, reply: object) -> None:
    root = template.parent / "store"
    shutil.copytree(template, root)
    try:
        judge_answer(root, reply)
    finally:
        shutil.rmtree(root)


def judge_answer(root: Path, reply: object) -> None:
    untouched = others(root)
    told: list[object] = []
    options = Settings(retrieval_adapter="", consolidation_enabled=True, consolidation_min_facts=3)
    with DeerMem(root, options, lambda _: reply, hooks=Hooks(on_extracted=told.append), clock=lambda: NOW) as engine:
        memory = engine.memory("alice", "coder")
        before = {fact.id: fact for fact in memory.list()}
        assert len(before) == 6
        memory.capture(talk(1), "t")
        done = engine.flush(60)
        assert (states(root), len(told)) == (([], 1) if done else (["waiting"], 0))
        after = {fact.id: fact for fact in memory.list()}
        gone_ids = before.keys() - after.keys()
        assert "right" not in gone_ids or "right" in reasoned_removals(reply)
        for fact in (after[fact_id] for fact_id in after.keys() - before.keys()):
            assert fact.confidence >= 0.7
            assert holds_secret(fact.content) is None
            assert fact.source.thread_id == "t" or fact.consolidated_from
        for fact_id in before.keys() & after.keys():
            assert after[fact_id].content == before[fact_id].content
        assert "note" in gone_ids or (facts_of(root) / "note.md").read_text() == HAND_MADE
        json.dumps([metrics.counts for metrics in told])
    assert others(root) == untouched
    assert not done or spool_names(root) <= {"watermarks.json"}


def test_what_never_makes_sense_is_set_aside_and_can_be_tried_again(template: Path) -> None:
    """After so many failures a person must look; nothing is lost."""
    root = template.parent / "aside"
    shutil.copytree(template, root)
    model = Scripted("no JSON")
    with DeerMem(root, Settings(retrieval_adapter=""), model, clock=lambda: NOW) as engine:
        engine.memory("alice", "coder").capture(talk(1), "t")
        while states(root) != ["failed"]:
            assert not engine.flush(60)
        assert "queue-set-aside" in {finding.code for finding in engine.check("alice")}
        assert engine.flush(60)
        model.reply = None
        assert engine.conversations.retry([engine.context("alice").paths]) == 1
        assert engine.flush(60)
        assert "Owns device number 1" in {fact.content for fact in engine.memory("alice", "coder").list()}
