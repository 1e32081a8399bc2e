"""From a decided fact to the write of its file: new, rewritten where it lies, or nothing to do."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

from deermem.format import markdown
from deermem.model.fact import Fact
from deermem.service.commit import Decision, Write
from deermem.service.locate import Found, canonical
from deermem.service.user import UserContext


def write_fact(user: UserContext, agent: str, decision: Decision, found: Found | None, fact: Fact) -> None:
    """Adds the write of a fact to a decision; a fact that says what its file says already is left alone.

    A file is rewritten where a person put it, keeps its owner as written, and its revision grows by one.
    `fact.updated_at` is what the new file will say. Raises InvalidInput for what can't be stored.
    """
    if found is None:
        data, parsed = markdown.encode_parsed(replace(fact, user_id=user.user_id, agent_name=agent))
        path = canonical(agent, fact.id)
        before = None
    else:
        old = found.fact
        fact = replace(fact, user_id=old.user_id or user.user_id, agent_name=old.agent_name or agent)
        if says_the_same(old, fact):
            decision.facts.append(old)
            return
        data, parsed = markdown.encode_parsed(replace(fact, revision=old.revision + 1), base=found.data)
        path, before = found.path, found.data
    decision.writes.append(Write(agent, path, before, data, fact.id, parsed))
    decision.facts.append(parsed.fact)


def stored(data: bytes, fact_id: str, when: datetime) -> Fact:
    """The fact as a reader will see it, with its version token."""
    return markdown.decode(data, stem=fact_id, when=when).fact


def says_the_same(old: Fact, new: Fact) -> bool:
    """Whether nothing material differs: a rewrite that says the same would only be noise in a person's git."""
    owned = replace(new, user_id=old.user_id, agent_name=old.agent_name)
    same = replace(owned, revision=old.revision, updated_at=old.updated_at, version=old.version) == old
    return same and _spelled(new) == _spelled(old)


def _spelled(fact: Fact) -> str:
    """A person's own values as text: to Python, 1, 1.0 and true are equal."""
    if not fact.extra and not fact.source.extra:
        return ""
    return json.dumps([fact.extra, fact.source.extra], sort_keys=True, default=str)
