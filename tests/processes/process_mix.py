"""Random operations on one bucket, each announced before it begins and acknowledged after it returned."""

from __future__ import annotations

import random
from collections.abc import Callable

from process_workers import as_document, say

from deermem import Amend, ChangeSet, Draft, Memory

WORDS = ("river", "amber", "stone", "cello", "lantern", "harbour", "数据库", "偏好", "部署", "violet", "copper")


class Mix:
    """Random operations on one bucket. `state` is what the bucket must hold, the summary under the key ""."""

    def __init__(self, memory: Memory, seed: int) -> None:
        self.memory = memory
        self.random = random.Random(seed)
        self.state = {fact.id: fact.content for fact in memory.list()}
        self.state[""] = memory.summaries().section("workContext").summary
        self.seed = seed
        self.number = 0

    def step(self) -> None:
        self.number += 1
        ids = [fact_id for fact_id in self.state if fact_id]
        kinds = ["add"] * 4 + ["import", "replace", "many", "summary"]
        kinds += ["update", "update", "delete", "delete"] if ids else []
        kinds += ["clear"] if self.random.random() < 0.15 else []
        kind = self.random.choice(kinds)
        after, change = self.planned(kind, ids)
        say(op=kind, after=after)
        say(done=self.number, revision=change())
        self.state = after

    def planned(self, kind: str, ids: list[str]) -> tuple[dict[str, str], Callable[[], int]]:
        """What the bucket will hold, and the call that does it and gives the commit's revision."""
        memory, state = self.memory, self.state
        if kind == "add":
            fresh = self.some(1)
            return {**state, **fresh}, lambda: memory.apply(ChangeSet(drafts(fresh))).revision
        if kind == "many":
            fresh, gone = self.some(12), ids[:3]
            after = {fact_id: text for fact_id, text in state.items() if fact_id not in gone} | fresh
            return after, lambda: memory.apply(ChangeSet(drafts(fresh), gone)).revision
        if kind == "update":
            chosen, text = self.random.choice(ids), self.text()
            change = ChangeSet([Amend(chosen, text)])
            return {**state, chosen: text}, lambda: memory.apply(change).revision
        if kind == "delete":
            chosen = self.random.choice(ids)
            after = {fact_id: text for fact_id, text in state.items() if fact_id != chosen}
            return after, lambda: memory.delete(chosen).revision
        if kind == "summary":
            text = self.text()
            return {**state, "": text}, lambda: memory.update_summaries({"workContext": text}).revision
        if kind == "clear":
            return {"": state[""]}, lambda: memory.clear().revision
        fresh, text = self.some(25), self.text()
        base = state if kind == "import" else {}
        document = as_document(fresh, text)
        return {**base, **fresh, "": text}, lambda: memory.import_document(document, kind == "replace").revision

    def some(self, count: int) -> dict[str, str]:
        return {f"f{self.seed}_{self.number}_{item}": self.text() for item in range(count)}

    def text(self) -> str:
        said = " ".join(self.random.choice(WORDS) for _ in range(self.random.choice([3, 30])))
        return f"{said} {self.random.getrandbits(64):x}"


def drafts(facts: dict[str, str]) -> list[Draft]:
    return [Draft(content=content, id=fact_id) for fact_id, content in facts.items()]
