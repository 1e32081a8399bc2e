"""What a call says on standard error beside its answer: evictions, no store yet, what a deletion leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from deermem.cli.output import count, note
from deermem.errors import DeerMemError

if TYPE_CHECKING:
    from deermem.cli.invocation import Invocation
    from deermem.engine import DeerMem

RAISE_CAP: Final = "--max-facts N or $DEERMEM_MAX_FACTS raise it, 0 is no limit"
_NAMED: Final = 10


def note_evicted(engine: DeerMem, evicted: Sequence[str]) -> None:
    """Names each fact that went to keep the cap, the first ten by id."""
    cap = count(engine.settings.max_facts, "fact")
    for fact_id in evicted[:_NAMED]:
        note(f"deermem: fact {fact_id} was removed to keep the cap of {cap}; {RAISE_CAP}")
    if len(evicted) > _NAMED:
        note(f"deermem: and {len(evicted) - _NAMED} more; --json names them all")


def note_missing_store(engine: DeerMem) -> bool:
    """Says so where the root does not exist; whether it was said."""
    try:
        there = engine.root.exists()
    except OSError:
        return False
    if not there:
        note(f"deermem: there is no store at {engine.root} yet")
    return not there


def note_nothing(invocation: Invocation, engine: DeerMem, what: str, mend: str) -> None:
    """Says that there is nothing and, where other agents of the user have facts, who; `mend` "" looks at none."""
    others = _others(invocation, engine) if mend else ""
    note(f"{what}; other agents have some: {others}; {mend}" if others else what)


def _others(invocation: Invocation, engine: DeerMem) -> str:
    from deermem.model.scope import normalize_agent
    from deermem.service.upkeep import bucket_stats

    here = normalize_agent(invocation.agent)
    try:
        buckets = bucket_stats(engine.context(invocation.user), invocation.user)
    except (DeerMemError, OSError):
        # What is wrong with another agent must not fail a call about this one.
        return ""
    return ", ".join(
        f"{item.agent} ({count(item.facts, 'fact')})" for item in buckets if item.agent != here and item.facts
    )


def note_backups(invocation: Invocation, engine: DeerMem, *, all_agents: bool = False) -> None:
    """Names the version 1 documents that a migration kept: a deletion leaves them, and what they say."""
    from deermem.model.scope import DEFAULT_AGENT, Scope
    from deermem.store.layout import LEGACY_DEFAULT_AGENT, Layout

    scope = Scope.of(invocation.user, invocation.agent)
    paths = Layout(engine.root, engine.settings.manifest_filename).of(scope)
    folders = {paths.agent(scope.agent)}
    if scope.agent == DEFAULT_AGENT:
        folders |= {paths.folder, paths.agent(LEGACY_DEFAULT_AGENT)}
    for path in paths.backups():
        if all_agents or path.parent in folders:
            note(f"deermem: {path} still holds what was known before the migration; remove it to erase that too")
