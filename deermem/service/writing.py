"""From a decided fact to the write of its file: new, rewritten where it lies, or nothing to do."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from deermem.format import markdown
from deermem.model.fact import Fact
from deermem.service.commit import Decision, Write
from deermem.service.known import Known
from deermem.service.locate import Found, canonical, read_path
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


def with_copies(user: UserContext, known: Known, found: Found) -> list[Found]:
    """A fact's file, and those of the same id beside it, as a sync client leaves them."""
    fact_id = found.fact.id
    copies = [read_path(user, known.agent, path) for path in known.paths_of(fact_id) if path != found.path]
    return [found, *(copy for copy in copies if isinstance(copy, Found) and copy.fact.id == fact_id)]


def removal(user: UserContext, known: Known, found: Found, replaced_by: str | None = None) -> list[Write]:
    """The writes that end a fact. A second file with its id goes too: it would bring it back."""
    return removals(known.agent, with_copies(user, known, found), replaced_by)


def removals(agent: str, files: Iterable[Found], replaced_by: str | None = None) -> list[Write]:
    """The writes that remove these files."""
    return [Write(agent, item.path, item.data, None, item.fact.id, replaced_by=replaced_by) for item in files]


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
