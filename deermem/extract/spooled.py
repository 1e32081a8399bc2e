"""What lies in a user's spool, for people: what waits and since when, what was set aside, what can't be read."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from deermem.clock import Clock
from deermem.extract import items
from deermem.extract.items import Item
from deermem.model.reports import Finding, Waiting
from deermem.service.check import closed
from deermem.store.files import Files
from deermem.store.layout import UserPaths
from deermem.store.spool import Entry, Spool

_log: Final = logging.getLogger("deermem")
_DELETE: Final = "delete the file; what it held is lost"


def waiting(files: Files, paths: UserPaths) -> list[Waiting]:
    """The conversations of one user, the oldest first; files that can't be read are for `findings`."""
    try:
        found = [_told(paths, entry, item) for entry, item in _entries(files, paths) if item is not None]
    except OSError as error:
        # One closed folder must not keep the others from being listed.
        _log.warning("the conversations that wait in %s can't be read: %s", paths.queue, error)
        return []
    return sorted(found, key=lambda one: (one.since, one.path))


def retry(files: Files, paths: UserPaths, clock: Clock) -> int:
    """Lets what was set aside wait again, with no failure counted; how many. Unreadable files stay."""
    spool = Spool(files, paths)
    if not any(entry.state == "failed" for entry in spool.entries()):
        return 0
    done = 0
    with spool.lock():
        for entry, item in _entries(files, paths):
            if entry.state != "failed" or item is None:
                continue
            # Without its answer: where the store refused that one, it would refuse it again.
            fresh = replace(
                item, attempts=0, due_at=clock(), answer=None, answered_at=None, shown={}, shown_summaries={}
            )
            # Under its old name first: a kill in between leaves it set aside, and never twice.
            spool.put(entry, items.encode(fresh))
            spool.move(entry, "urgent" if item.urgent else "waiting")
            done += 1
    return done


def findings(files: Files, paths: UserPaths) -> Iterator[Finding]:
    """What of the queue waits for a person: what was set aside after too many failures, and what can't be read."""
    try:
        found = list(_entries(files, paths))
    except OSError as error:
        yield _refused(str(error.filename or paths.queue), error)
        return
    for entry, item in found:
        path = os.path.join(paths.queue, entry.name)
        if item is None:
            message = f"a conversation of agent {entry.agent} that can't be read, and is not extracted"
            yield Finding(severity="warning", code="queue-unreadable", path=path, message=message, hint=_DELETE)
        elif entry.state == "failed":
            message = f"a conversation of agent {entry.agent}, thread {item.thread!r:.80}, was set aside: "
            message += f"extraction failed {items.MAX_ATTEMPTS} times"
            hint = "deermem queue --retry has it tried again; or delete the file"
            yield Finding(severity="warning", code="queue-set-aside", path=path, message=message, hint=hint)


def _refused(path: str, error: OSError) -> Finding:
    if isinstance(error, PermissionError):
        return closed(path)
    message = f"can't be read: {error.strerror or error}"
    return Finding(severity="error", code="unavailable", path=path, message=message, hint="check the storage")


def _entries(files: Files, paths: UserPaths) -> Iterator[tuple[Entry, Item | None]]:
    spool = Spool(files, paths)
    for entry in spool.entries():
        data = spool.read(entry)
        # A file that is gone by now was claimed, and is listed under its other name or done.
        if data is not None or os.path.lexists(paths.queue / entry.name):
            yield entry, items.decode(data or b"")


def _told(paths: UserPaths, entry: Entry, item: Item) -> Waiting:
    return Waiting(
        user_id=item.user_id,
        agent=entry.agent,
        thread_id=item.thread,
        state=entry.state,
        since=item.first_at,
        due=item.due_at,
        attempts=item.attempts,
        turns=len(item.turns),
        path=os.path.join(paths.queue, entry.name),
    )
