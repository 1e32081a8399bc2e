"""Looking over one user's files: everything that isn't served or waits for a person, each with its mend."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from deermem.errors import Corruption, DeerMemError, InvalidInput, StoreUnavailable
from deermem.format.problems import FormatError
from deermem.index.rows import Row
from deermem.model.records import Problem
from deermem.model.reports import Finding, Severity
from deermem.model.scope import normalize_agent
from deermem.service.locate import canonical
from deermem.service.orphans import orphans
from deermem.service.read import is_sealed
from deermem.service.snapshot import Snapshot, is_canonical
from deermem.service.user import UserContext
from deermem.store.recovery import conflict_copies, leftovers, set_aside_journals
from deermem.store.strays import Strays, unreachable_agents, user_strays
from deermem.store.undo import undo_is_due

STALE_AFTER: Final = timedelta(days=1)
_ORDER: Final = {"error": 0, "warning": 1, "info": 2}
_CLOSED: Final = "no-permission"
_FIX: Final = "deermem check --fix"


def check(user: UserContext) -> list[Finding]:
    """What is to be said of one user, worst first. Looks only; the files and the journal are left as they are."""
    findings: list[Finding] = []
    for look in (_documents, _journal, _buckets, _strays):
        findings += _guarded(user, look)
    shut = tuple(f"{finding.path}/" for finding in findings if finding.code == _CLOSED)
    # What lies in a closed folder is as closed as the folder: one of them is enough to say.
    return in_order(item for item in findings if item.code != _CLOSED or not item.path.startswith(shut))


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Worst first, each said once."""
    unique = {(finding.code, finding.path, finding.message, finding.fixed): finding for finding in findings}
    return sorted(unique.values(), key=lambda finding: (_ORDER[finding.severity], finding.path, finding.code))


def closed(path: str, severity: Severity = "warning") -> Finding:
    """A folder or file that the permissions keep us out of."""
    return Finding(
        severity=severity,
        code=_CLOSED,
        path=path,
        message="can't be looked into, so what lies there is neither shown nor checked",
        hint="give the account that runs deermem read and search permission",
    )


def passed_over(found: Strays) -> Iterator[Finding]:
    """Links and closed folders."""
    for path in found.links:
        message = "a link: links below users/ are not followed, so what it leads to is not served"
        hint = "put the folder or file itself there"
        yield Finding(severity="info", code="link", path=path, message=message, hint=hint)
    for path in found.closed:
        yield closed(path)


def unreachable(path: str, folder_of: Callable[[str], str], owner: str) -> Finding:
    """A folder with facts in it whose name stands for nobody; `folder_of` makes a folder's name of an owner's."""
    parent, name = os.path.split(path)
    try:
        right = folder_of(name)
    except InvalidInput as error:
        hint = f"rename it ({error.hint}), or move it away"
    else:
        taken = os.path.lexists(os.path.join(parent, right))
        hint = f"move what it holds into {right!r}" if taken else f"rename it to {right!r}"
        hint = f"{hint}, the folder of {owner} {name!r}, or move it away"
    message = f"holds memory that nobody sees: no {owner}'s folder has this name"
    return Finding(severity="warning", code="unreachable-folder", path=path, message=message, hint=hint)


def _guarded(user: UserContext, look: Callable[[UserContext], Iterator[Finding]]) -> list[Finding]:
    """One closed folder must not keep the others from being looked at."""
    found: list[Finding] = []
    try:
        for finding in look(user):
            found.append(finding)
    except OSError as error:
        refusal = error.__cause__ if isinstance(error, StoreUnavailable) else error
        found.append(_refused(user, refusal if isinstance(refusal, OSError) else error))
    return found


def _refused(user: UserContext, error: OSError) -> Finding:
    path = str(error.filename or user.paths.folder)
    if isinstance(error, PermissionError):
        # Facts are read without them, so that only a check tells that every write is refused.
        vital = path == str(user.paths.manifest) or Path(path).is_relative_to(user.paths.journal)
        return closed(path, "error" if vital else "warning")
    message = f"can't be read: {error.strerror or error}"
    return Finding(severity="error", code="unavailable", path=path, message=message, hint="check the storage")


def _documents(user: UserContext) -> Iterator[Finding]:
    """memory.json, and the old documents that wait beside it or in its place."""
    due = _is_due(user)
    stops = user.migration.problems()
    own = [stop for stop in stops if stop.document == user.paths.manifest_name]
    # An old memory.json is read by other rules; whether it keeps them is for the migration to say.
    damaged = _damage(user) if not due or any(stop.unreadable for stop in own) else None
    if damaged is not None:
        yield damaged
        stops = tuple(stop for stop in stops if stop not in own)
    for stop in stops:
        path = os.path.join(user.paths.folder, stop.document) if stop.document else str(user.paths.folder)
        message = f"can't be migrated: {stop.message}"
        yield Finding(severity="error", code="cannot-migrate", path=path, message=message, hint=stop.hint)
    if due and not stops:
        yield Finding(
            severity="warning",
            code="not-migrated",
            path=str(user.paths.folder),
            message="holds a version 1 document that the next access migrates",
            hint="run deermem migrate with --dry-run to see what it would do",
        )


def _is_due(user: UserContext) -> bool:
    try:
        return user.migration.is_due(None)
    except StoreUnavailable:
        raise
    except DeerMemError:
        # What is wrong is said in full by the problems.
        return False


def _damage(user: UserContext) -> Finding | None:
    """What is wrong with a memory.json of the present version."""
    try:
        user.read_manifest()
    except Corruption as error:
        cause = error.__cause__
        problem = cause.problem if isinstance(cause, FormatError) else Problem(code="", message=error.reason)
        return Finding(
            severity="error",
            code="summaries-conflict" if problem.code == "merge-conflict" else "summaries-unreadable",
            path=error.path,
            message=error.reason,
            line=problem.line,
            hint=error.hint,
        )
    return None


def _journal(user: UserContext) -> Iterator[Finding]:
    folder = str(user.paths.journal)
    for name in conflict_copies(user.files, user.paths):
        path = os.path.join(folder, name)
        yield _conflict_copy(path) if name.startswith("conflict.") else _set_aside(path)
    for path in set_aside_journals(user.files, user.paths):
        yield _set_aside(path)
    # Readers go on without a record that they may not read: only here it is more than a line in the log.
    user.files.read(str(user.paths.record))
    if is_sealed(user):
        message = "an interrupted commit that the next write finishes; readers see it whole already"
        yield Finding(
            severity="warning",
            code="sealed-record",
            path=str(user.paths.record),
            message=message,
            hint=f"{_FIX} finishes it now",
        )
    elif stale := leftovers(user.files, user.paths):
        message = f"temporary files that the next write removes: {len(stale)}"
        yield Finding(severity="info", code="leftovers", path=folder, message=message, hint=f"{_FIX} removes them now")
    if undo_is_due(user.files, user.paths):
        message = "an interrupted write of DeerFlow that the next access rolls back"
        yield Finding(severity="warning", code="undo-journal", path=str(user.paths.undo_journal), message=message)


def _conflict_copy(path: str) -> Finding:
    return Finding(
        severity="warning",
        code="conflict-copy",
        path=path,
        message="a text whose place was taken in the same instant",
        hint="merge what you want to keep into the fact, then delete this file",
    )


def _set_aside(path: str) -> Finding:
    return Finding(
        severity="warning",
        code="set-aside",
        path=path,
        message="an operational file that could not be used",
        hint="delete it when all is well",
    )


def _buckets(user: UserContext) -> Iterator[Finding]:
    for agent in user.paths.agents():
        seen = user.view.sweep(agent)
        yield from _bucket(user, agent, seen)
        yield from _orphans(user, agent, seen)


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
    now = user.clock()
    for row in seen.rows.values():
        if row.problem is None:
            yield from _served(user, facts, row, now)


def _served(user: UserContext, facts: str, row: Row, now: datetime) -> Iterator[Finding]:
    if row.fact is None:
        return
    path = os.path.join(facts, row.path)
    at_home = is_canonical(row.agent, row.path, row.fact.id)
    home = os.path.join(facts, canonical(row.agent, row.fact.id))
    if row.fact.expired_by(now):
        message = "expired: it is not served any more"
        yield Finding(severity="info", code="expired", path=path, message=message, hint=f"{_FIX} deletes it")
    elif not row.complete:
        message = "made by hand, without whole front matter: it is served with defaults for what it lacks"
        mend = "completes its front matter" + ("" if at_home else f" and moves it to {home}")
        yield Finding(severity="info", code="deerflow-cannot-read", path=path, message=message, hint=f"{_FIX} {mend}")
    elif not at_home:
        taken = user.files.stat(home) is not None
        hint = f"another file stands at its place {home}" if taken else f"{_FIX} moves it to {home}"
        message = "lies where a person put it; it is served all the same"
        yield Finding(severity="info", code="misplaced", path=path, message=message, hint=hint)


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


def _orphans(user: UserContext, agent: str, seen: Snapshot) -> Iterator[Finding]:
    for sidecar in orphans(user, agent, seen):
        old = f"; {len(sidecar.due)} are older than 30 days" if sidecar.due else ""
        yield Finding(
            severity="info",
            code="orphan-entries",
            path=sidecar.path,
            message=f"names {len(sidecar.ids)} ids that no fact carries{old}",
            hint=f"{_FIX} removes the old ones" if sidecar.due else "they may come back with a branch; nothing to do",
        )


def _strays(user: UserContext) -> Iterator[Finding]:
    found = user_strays(user.paths)
    yield from passed_over(found)
    for path in unreachable_agents(user.paths):
        yield unreachable(path, normalize_agent, "agent")
    now = user.clock()
    for path, changed in found.temporaries:
        if now - datetime.fromtimestamp(changed, UTC) > STALE_AFTER:
            message = "a temporary file that a program left behind; it is not served"
            hint = "delete it if no program has it open"
            yield Finding(severity="info", code="stale-temporary", path=path, message=message, hint=hint)
