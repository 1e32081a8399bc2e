"""What tests of extraction share: answers of a model as JSON, and a memory that they are about."""

from __future__ import annotations

import json
from collections.abc import Iterable

from builders_policy import NOW, old_fact

from deermem.extract.basis import Basis, PlanRules, Shown
from deermem.extract.judging import judge
from deermem.extract.plan import Plan, plan
from deermem.extract.reply import parse_reply
from deermem.model.fact import Fact, Source
from deermem.model.summaries import Summaries
from deermem.policy.consolidation import ConsolidationRules

LABELS = {"scope": "user", "durability": "durable", "authority": "descriptive"}
MERGING = PlanRules(consolidation=ConsolidationRules(enabled=True, min_facts=3))


def new(content: str = "Likes tea", **values: object) -> dict[str, object]:
    """A new fact that passes the gate."""
    return {"content": content, "category": "preference", "confidence": 0.9, **LABELS, **values}


def gone(fact_id: str, **values: object) -> dict[str, object]:
    """A removal, or a reinforcement, that passes the gate."""
    return {"id": fact_id, "scope": "user", "reason": "the person said so", **values}


def told(text: str = "Works on trains", **values: object) -> dict[str, object]:
    """A summary that passes the gate."""
    return {"summary": text, "shouldUpdate": True, "scope": "user", "authority": "descriptive", **values}


def answer(*facts: object, **sections: object) -> dict[str, object]:
    """An answer with these new facts and further sections."""
    return {"user": {}, "history": {}, "newFacts": list(facts), **sections}


def stored(*facts: Fact | str, age: float = 10) -> tuple[Fact, ...]:
    """Facts as a bucket serves them, each with a version; a text is the content of one from a conversation."""
    made = (
        fact
        if isinstance(fact, Fact)
        else old_fact(f"f{number}", age, content=fact, confidence=0.8, source=Source("conversation", "t0"))
        for number, fact in enumerate(facts)
    )
    return tuple(fact if fact.version else _versioned(fact) for fact in made)


def _versioned(fact: Fact) -> Fact:
    from dataclasses import replace

    return replace(fact, version=f"{fact.revision}-{fact.id}")


def basis(facts: Iterable[Fact] = (), *, rules: PlanRules | None = None, **values: object) -> Basis:
    """These facts, all of them shown."""
    rules = rules or PlanRules()
    given: dict[str, object] = {
        "shown": Shown.of(facts, NOW, rules),
        "item_id": "item",
        "thread": "thread-1",
        "summaries": Summaries(),
        **values,
    }
    return Basis(facts=tuple(facts), now=NOW, rules=rules, **given)  # type: ignore[arg-type]


def planned(reply: dict[str, object], on: Basis) -> Plan:
    """The way of an answer from its text to its plan."""
    proposals = parse_reply(json.dumps(reply))
    assert proposals is not None
    return plan(judge(proposals, threshold=on.rules.threshold), on)


def reasons(done: Plan) -> list[tuple[str, str, str]]:
    """Kind, reason and subject of every refusal."""
    return [(item.kind, item.reason, item.subject) for item in done.outcome.refused]
