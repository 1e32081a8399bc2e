"""Any order of adds, updates, deletes, imports, searches and hand edits over a small cap, by each policy.

Never more facts than the cap or what was found over it; nobody goes who may not; nobody goes before somebody of less
worth; and whatever date a file says, nothing overflows.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from builders_buckets import CAP, audit, usage
from builders_store import fact_text, facts_of, place
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from deermem import ChangeSet, DeerMem, Draft, NotStored, Settings
from deermem.format.usage import read_usage
from deermem.model.fact import Fact
from deermem.policy.hybrid import Contender, HybridRules, score

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
CONFIDENCES = st.sampled_from([0.0, 0.3, 0.5, 0.7, 0.7, 0.9, 1.0])
CATEGORIES = st.sampled_from(["goal", "context", "correction", "Correction"])
MOMENTS = st.sampled_from(
    ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "2020-02-02T00:00:00Z", "2026-11-29T00:00:00+14:00"]
)
PICKS = st.integers(0, 1000)
POLICIES = {
    "confidence": {"retrieval_adapter": "fts5"},
    "hybrid": {"fact_eviction_policy": "hybrid-v1"},
    "shadow": {"fact_eviction_shadow_enabled": True},
}


class Capacity(RuleBasedStateMachine):
    """One bucket; before each write its facts are listed, so that every hand edit is known to it."""

    policy = "confidence"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="capacity-"))
        self.root = self.folder / "store"
        self.now = NOW
        self.number = 0
        self.entries = 0
        self.engine = DeerMem(self.root, Settings(max_facts=CAP, **POLICIES[self.policy]), clock=lambda: self.now)
        self.memory = self.engine.memory("alice", "coder")

    def teardown(self) -> None:
        self.engine.close()
        shutil.rmtree(self.folder)

    def fresh(self) -> str:
        self.number += 1
        return f"fact_{self.number:03}"

    def pick(self, number: int) -> Fact | None:
        facts = self.memory.list()
        return facts[number % len(facts)] if facts else None

    # --- what happens

    @initialize(confidences=st.lists(CONFIDENCES, min_size=8, max_size=13))
    def found_so(self, confidences: list[float]) -> None:
        for confidence in confidences:
            self.by_hand(confidence, "goal", "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z")

    @rule(confidence=CONFIDENCES, category=CATEGORIES, created=MOMENTS, confirmed=MOMENTS)
    def by_hand(self, confidence: float, category: str, created: str, confirmed: str) -> None:
        name = self.fresh()
        keys = {"createdAt": f"'{created}'", "lastConfirmedAt": f"'{confirmed}'", "confirmationCount": 1}
        text = fact_text(name, f"Tea {name}", confidence=confidence, category=category, **keys)
        place(facts_of(self.root) / f"{name}.md", text)

    @rule(number=PICKS, confidence=CONFIDENCES)
    def raise_or_lower_by_hand(self, number: int, confidence: float) -> None:
        fact = self.pick(number)
        if fact is not None:
            path = self.memory.path(fact.id)
            lines = path.read_text().splitlines(keepends=True)
            path.write_text(
                "".join(f"confidence: {confidence}\n" if line.startswith("confidence:") else line for line in lines)
            )

    @rule(text=st.sampled_from(["tea", "fact_001", "nothing"]), top_k=st.integers(1, 4))
    def search(self, text: str, top_k: int) -> None:
        self.memory.search(text, top_k=top_k)
        assert set(usage(self.root)) <= {fact.id for fact in self.memory.list()}
        assert self.policy != "confidence" or usage(self.root) == {}

    @rule(days=st.integers(1, 200))
    def time_goes_by(self, days: int) -> None:
        self.now += timedelta(days=days)

    @rule(confidence=CONFIDENCES, category=CATEGORIES)
    def add(self, confidence: float, category: str) -> None:
        name = self.fresh()
        draft = Draft(id=name, content=f"Tea {name}", confidence=confidence, category=category)
        self.write([self.new(name, confidence, category)], lambda: self.memory.apply(ChangeSet([draft])))

    @rule(made=st.lists(st.tuples(CONFIDENCES, CATEGORIES, MOMENTS), min_size=1, max_size=4), number=PICKS)
    def bring_in(self, made: list[tuple[float, str, str]], number: int) -> None:
        """An import, which also says anew what one of the facts says."""
        items, added = [], []
        for confidence, category, created in made:
            name = self.fresh()
            items.append({"id": name, "content": f"Tea {name}", "confidence": confidence, "category": category})
            items[-1]["createdAt"] = created
            moment = datetime.fromisoformat(created).astimezone(UTC)
            added.append(Contender(id=name, category=category, confidence=confidence, created_at=moment))
        fact = self.pick(number)
        touched = set() if fact is None else {fact.id}
        if fact is not None:
            items.append({"id": fact.id, "content": f"{fact.content} again"})
        self.write(added, lambda: self.memory.import_document({"facts": items}), touched)

    @precondition(lambda self: self.memory.list())
    @rule(number=PICKS, confidence=CONFIDENCES)
    def update(self, number: int, confidence: float) -> None:
        fact = self.pick(number)
        assert fact is not None
        before = {item.id for item in self.memory.list()}
        self.memory.update(fact.id, confidence=confidence)
        assert {item.id for item in self.memory.list()} == before
        assert len(audit(self.root)) == self.entries

    @precondition(lambda self: self.memory.list())
    @rule(number=PICKS)
    def delete(self, number: int) -> None:
        fact = self.pick(number)
        assert fact is not None
        before = {item.id for item in self.memory.list()}
        self.memory.delete(fact.id)
        assert {item.id for item in self.memory.list()} == before - {fact.id}
        assert fact.id not in usage(self.root)
        self.entries = len(audit(self.root))

    # --- what holds

    def new(self, name: str, confidence: float, category: str) -> Contender:
        return Contender(id=name, category=category, confidence=confidence, created_at=self.now)

    def write(self, added: list[Contender], act, touched: set[str] | None = None) -> None:
        facts = self.memory.list()
        warm = read_usage(json_bytes(self.root))
        everybody = {fact.id: Contender.of(fact) for fact in facts} | {fact.id: fact for fact in added}
        revision = self.memory.summaries().revision
        try:
            evicted = set(act().evicted)
        except NotStored:
            evicted = {fact.id for fact in added}
        left = {fact.id for fact in self.memory.list()}
        assert left == everybody.keys() - evicted
        assert len(left) <= max(CAP, len(facts))
        assert len(evicted) == max(0, min(len(everybody) - CAP, len(added)))
        assert not evicted & (touched or set())
        self.check_audit(evicted, revision)
        for reserved in ("correction",) if self.policy == "hybrid" else ("",):
            ranks = {name: self.rank(fact, warm) for name, fact in everybody.items()}
            best = max(
                (name for name in everybody if self.word(everybody, name) == reserved), key=ranks.get, default=""
            )
            free = left - (touched or set()) - {best}
            assert all(ranks[out] < ranks[stays] for out in evicted for stays in free)
            assert best not in evicted or not free

    def word(self, everybody: dict[str, Contender], name: str) -> str:
        return everybody[name].category.casefold()

    def rank(self, fact: Contender, warm) -> tuple[float, float, str]:
        worth = score(fact, warm.get(fact.id), HybridRules(), self.now).total
        assert fact.created_at is not None
        return worth if self.policy == "hybrid" else fact.confidence, fact.created_at.timestamp(), fact.id

    def check_audit(self, evicted: set[str], revision: int) -> None:
        """One entry for a commit that evicted; none where nothing was committed."""
        done = bool(evicted) and self.memory.summaries().revision > revision
        entries = audit(self.root)
        self.entries += done
        assert len(entries) == self.entries
        if done:
            assert {item["factId"] for item in entries[-1]["evicted"]} == evicted
            assert ("shadow" in entries[-1]) == (self.policy == "shadow")


def json_bytes(root: Path) -> bytes | None:
    path = root / "users/alice/agents/coder/.metadata/fact-usage.json"
    return path.read_bytes() if path.exists() else None


@pytest.mark.parametrize("policy", POLICIES)
def test_the_cap_holds_whatever_happens(policy, monkeypatch):
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda descriptor: None)
    machine = type(f"Capacity{policy.title()}", (Capacity,), {"policy": policy})
    run_state_machine_as_test(machine, settings=settings(max_examples=8, stateful_step_count=14))
