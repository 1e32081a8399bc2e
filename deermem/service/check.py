"""Looking over one user's files: everything that isn't served or waits for a person, each with its mend."""

from __future__ import annotations

import os
from collections.abc import Iterator

from deermem.errors import Corruption, DeerMemError
from deermem.index.rows import Row
from deermem.model.records import Finding
from deermem.service.read import is_sealed
from deermem.service.snapshot import Snapshot
from deermem.service.user import UserContext
from deermem.store.recovery import conflict_copies, leftovers
from deermem.store.undo import undo_is_due


def check(user: UserContext) -> list[Finding]:
    """What is to be said of one user, worst first. Looks only; the index and the journal are left as they are."""
    findings = [*_document(user), *_journal(user), *_migration(user)]
    for agent in user.paths.agents():
        findings += _bucket(user, agent, user.view.sweep(agent))
    order = {"error": 0, "warning": 1, "info": 2}
    return sorted(findings, key=lambda finding: (order[finding.severity], finding.path, finding.code))


def _document(user: UserContext) -> Iterator[Finding]:
    try:
        user.read_manifest()
    except Corruption as error:
        yield Finding(
            severity="error", code="summaries-unreadable", path=error.path, message=error.reason, hint=error.hint
        )


def _migration(user: UserContext) -> Iterator[Finding]:
    try:
        due = user.migration.is_due(None)
    except DeerMemError as error:
        path = str(user.paths.manifest)
        yield Finding(severity="error", code="cannot-migrate", path=path, message=error.message, hint=error.hint)
        return
    if due:
        yield Finding(
            severity="warning",
            code="not-migrated",
            path=str(user.paths.folder),
            message="holds a version 1 document that the next access migrates",
            hint="run deermem migrate with --dry-run to see what it would do",
        )


def _journal(user: UserContext) -> Iterator[Finding]:
    folder = str(user.paths.journal)
    for name in conflict_copies(user.files, user.paths):
        path = os.path.join(folder, name)
        if name.startswith("conflict."):
            message = "a text whose place was taken in the same instant"
            yield Finding(
                severity="warning",
                code="conflict-copy",
                path=path,
                message=message,
                hint="merge what you want to keep into the fact, then delete this file",
            )
        else:
            message = "an operational file that could not be used"
            yield Finding(
                severity="warning", code="set-aside", path=path, message=message, hint="delete it when all is well"
            )
    if is_sealed(user):
        message = "an interrupted commit that the next write finishes; readers see it whole already"
        yield Finding(severity="warning", code="sealed-record", path=str(user.paths.record), message=message)
    elif stale := leftovers(user.files, user.paths):
        message = f"{len(stale)} temporary files that the next write removes"
        yield Finding(severity="info", code="leftovers", path=folder, message=message)
    if undo_is_due(user.files, user.paths):
        message = "an interrupted write of DeerFlow that the next access rolls back"
        yield Finding(severity="warning", code="undo-journal", path=str(user.paths.undo_journal), message=message)


def _bucket(user: UserContext, agent: str, seen: Snapshot) -> Iterator[Finding]:
    facts = str(user.paths.facts(agent))
    for row in seen.unreadable:
        if row.problem is not None:
            yield Finding(
                severity="error",
                code=row.problem.code,
                path=os.path.join(facts, row.path),
                message=row.problem.message,
                line=row.problem.line,
                hint=row.problem.hint,
            )
    for row in seen.shadowed:
        yield _shadowed(facts, row, seen)
    for row in seen.rows.values():
        if not row.complete:
            yield Finding(
                severity="info",
                code="incomplete",
                path=os.path.join(facts, row.path),
                message="a hand-made fact: it is served, with defaults for what its front matter lacks",
            )


def _shadowed(facts: str, row: Row, seen: Snapshot) -> Finding:
    fact_id = row.fact.id if row.fact is not None else ""
    speaker = seen.row(fact_id)
    served = os.path.join(facts, speaker.path) if speaker is not None else "another file"
    return Finding(
        severity="warning",
        code="duplicate-id",
        path=os.path.join(facts, row.path),
        message=f"carries the id {fact_id!r}, which {served} speaks for",
        hint="give it an id of its own, or delete one of the two",
    )
