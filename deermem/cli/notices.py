"""What a call says on standard error beside its answer: evictions, where more is, what a deletion leaves behind."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from deermem.cli.missing import missing_option
from deermem.cli.output import count, note
from deermem.errors import DeerMemError

if TYPE_CHECKING:
    from deermem.cli.invocation import Invocation
    from deermem.engine import DeerMem

RAISE_CAP: Final = "--max-facts N or $DEERMEM_MAX_FACTS raise it, 0 is no limit"
_NAMED: Final = 10


def note_evicted(engine: DeerMem, evicted: Sequence[str], *, would: bool = False) -> None:
    """Names each fact that went to keep the cap, or `would` go, the first ten by id; the first line says what to do."""
    verb = "would be" if would else "was"
    cap = count(engine.settings.max_facts, "fact")
    for place, fact_id in enumerate(evicted[:_NAMED]):
        hint = "" if place else f"; {RAISE_CAP}"
        note(f"deermem: fact {fact_id} {verb} removed to keep the cap of {cap}{hint}")
    if len(evicted) > _NAMED:
        note(f"deermem: and {len(evicted) - _NAMED} more; --json names them all")


def note_nothing(invocation: Invocation, engine: DeerMem, what: str, mend: str) -> None:
    """Says that there is nothing, and where there is some: with other agents (`mend` "" looks at none), with users."""
    others = _others(invocation, engine) if mend else ""
    told = f"other agents have some: {others}; {mend}" if others else missing_option(invocation, engine)
    note(f"{what}; {told}" if told else what)


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


def note_passed_over(engine: DeerMem) -> None:
    """Names what lies below `users/` and is no user's folder: links in one line, folders in another, ten of each."""
    from deermem.store.layout import Layout
    from deermem.store.strays import root_strays, unreachable_users

    layout = Layout(engine.root, engine.settings.manifest_filename)
    found = {"a link": root_strays(layout).links, "a folder whose name no user id has": unreachable_users(layout)}
    for what, paths in found.items():
        names = ", ".join(repr(path.rpartition("/")[2]) for path in paths[:_NAMED])
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        if paths:
            note(f"deermem: passed over in users/, {what}: {names}{more}; `deermem check --all` says what to do")


def note_other_owner(engine: DeerMem) -> None:
    """Says so where root is about to write what the store's own user could not read afterwards."""
    try:
        owner = os.stat(engine.root).st_uid
    except OSError:
        return
    if os.geteuid() == 0 and owner != 0:
        note(
            f"deermem: root runs this, and {engine.root} belongs to the user with the number {owner}, who can't read "
            "what root writes; run it as that user, or chown the store afterwards"
        )
