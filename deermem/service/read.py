"""Reading without the lock: whole commits only, during one and after a kill in the middle of one.

The record's header is read, the files are swept, the header is read again: unchanged and empty, the sweep saw
whole commits. A sealed record is overlaid, so that all of it counts as done. A number that moved means once more;
after three turns, under the lock.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TypeVar

from deermem.errors import Corruption, StoreUnavailable
from deermem.format import manifest
from deermem.format.paths import facts_folder
from deermem.format.problems import FormatError
from deermem.index.rows import Row
from deermem.model.fact import Fact
from deermem.model.summaries import Summaries
from deermem.service.locate import Found, canonical, corrupt, missing, read_path
from deermem.service.snapshot import Snapshot, resolve, state_token
from deermem.service.user import ManifestState, UserContext, parse_manifest
from deermem.store.journal import Record, Step, digest, is_state, parse_record
from deermem.store.refusals import in_words
from deermem.store.repository import parse

_TURNS = 3
T = TypeVar("T")
_log = logging.getLogger("deermem")


def make_ready(user: UserContext, agent: str | None) -> None:
    """What must be done under the lock before anything is read: a migration, or DeerFlow's undo journal."""
    if user.files.stat(str(user.paths.undo_journal)) is not None or user.migration.is_due(agent):
        with user.locked(agent):
            pass


def snapshot(user: UserContext, agent: str) -> Snapshot:
    """The bucket as it lies on disk now."""
    return _between_commits(user, agent, lambda record: _swept(user, agent, record))


def manifest_state(user: UserContext, agent: str) -> ManifestState:
    """memory.json, whole; raises Corruption where it can't be used."""
    return _between_commits(user, agent, lambda record: _document(user, record))


def whole(user: UserContext, agent: str) -> tuple[Summaries, Snapshot]:
    """The summaries and the bucket of one moment: a commit of both is seen in both or in neither.

    The summaries are empty, with a warning, where memory.json can't be used. Raises Corruption only where the facts
    can't be read either, because they wait in a damaged old document.
    """
    return _between_commits(
        user, agent, lambda record: (_summaries_if_readable(user, record), _swept(user, agent, record))
    )


def _between_commits(user: UserContext, agent: str, look: Callable[[Record | None], T]) -> T:
    """What `look` sees with no commit ending in between; it is told of the record, to overlay a sealed one.

    Whatever is old is made new first. A commit since may have been a restore, which puts old documents back: then it
    is asked again, or a memory whose facts wait in a document would look empty.
    """
    # A store that may not be entered at all is said by what comes next, in one line.
    asked = _record_bytes(user, quietly=True)
    make_ready(user, agent)
    for _ in range(_TURNS):
        before = _record_bytes(user)
        if before != asked:
            asked = before
            make_ready(user, agent)
        record = parse_record(before)
        if record is not None and _puts_back(record):
            break
        seen = look(record)
        if before == _record_bytes(user):
            return seen
    with user.locked(agent):
        return look(None)


def _swept(user: UserContext, agent: str, record: Record | None) -> Snapshot:
    seen = user.view.sweep(agent)
    return _overlaid(user, agent, seen, record) if record is not None and record.state == "sealed" else seen


def _document(user: UserContext, record: Record | None) -> ManifestState:
    state = user.read_manifest()
    if record is None or record.state != "sealed" or record.manifest_after is None:
        return state
    if digest(state.data) != record.manifest_before:
        return state
    data = record.manifest_after.encode()
    return replace(state, data=data, manifest=parse_manifest(data, str(user.paths.manifest)))


def _summaries_if_readable(user: UserContext, record: Record | None) -> Summaries:
    try:
        state = _document(user, record)
    except (Corruption, StoreUnavailable) as error:
        _log.warning("%s; it goes on without the summaries", error)
        return Summaries()
    return state.manifest.summaries if state.manifest else Summaries()


def get(user: UserContext, agent: str, fact_id: str) -> Fact:
    """One fact: its own file is looked at, and the others only before it is said not to exist.

    Raises FactNotFound; Corruption where its file is there and can't be read.
    """
    make_ready(user, agent)
    path = canonical(agent, fact_id)
    before = _record_bytes(user)
    record = parse_record(before)
    if record is None or not _touches(record, agent, path):
        found = read_path(user, agent, path)
        if isinstance(found, Found) and found.fact.id == fact_id and before == _record_bytes(user):
            return _live(found.fact, agent, user)
    seen = snapshot(user, agent)
    row = seen.exact(fact_id)
    if row is not None and row.fact is not None and row.fact.id == fact_id:
        return _live(row.fact, agent, user)
    for broken in seen.unreadable:
        if broken.problem is not None and PurePosixPath(broken.path).stem == fact_id:
            raise corrupt(user, agent, broken.path, broken.problem)
    raise missing(agent, fact_id)


def path_of(user: UserContext, agent: str, fact_id: str) -> Path:
    """The absolute path of the file that speaks for an id; raises FactNotFound."""
    make_ready(user, agent)
    row = snapshot(user, agent).exact(fact_id)
    if row is None or row.fact is None or row.fact.id != fact_id:
        raise missing(agent, fact_id)
    return user.paths.facts(agent) / row.path


def _live(fact: Fact, agent: str, user: UserContext) -> Fact:
    if fact.expired_by(user.clock()):
        raise missing(agent, fact.id)
    return fact


def token_of(user: UserContext, agent: str, manifest: bytes | None) -> str:
    """The state token of one bucket; moves with commits and with hand edits."""
    return state_token(manifest, [user.view.sweep(agent)])


def served(facts: Sequence[Fact], now: datetime) -> Sequence[Fact]:
    """Those that have not expired: what is shown, found and injected."""
    if not any(fact.expires_at is not None for fact in facts):
        return facts
    return [fact for fact in facts if not fact.expired_by(now)]


# --- a sealed record


def is_sealed(user: UserContext) -> bool:
    """Whether a commit is under way, or waits to be finished."""
    record = _record(user)
    return record is not None and record.state == "sealed"


def _record(user: UserContext) -> Record | None:
    return parse_record(_record_bytes(user))


def _record_bytes(user: UserContext, *, quietly: bool = False) -> bytes | None:
    """The record file as it is, for comparing two looks.

    A record that is half written parses as none; two such moments, one at the beginning and one at the end of a
    commit, must not pass for no commit. A closed journal costs no reader the facts.
    """
    with in_words(user.paths):
        try:
            return user.files.read(str(user.paths.record))
        except PermissionError as error:
            if not quietly:
                _log.warning("%s: %s; a commit under way is not seen as one", error.filename, error.strerror)
            return None


def _puts_back(record: Record) -> bool:
    """Whether a sealed commit is a restore: it can't be overlaid, since what it leaves must be migrated first."""
    if record.state != "sealed":
        return False
    if any(step.staged is not None and step.path.endswith("/memory.json") for step in record.steps):
        return True
    try:
        after = record.manifest_after
        return after is not None and manifest.needs_migration(manifest.decode(after.encode()).raw)
    except FormatError:
        return True


def _touches(record: Record, agent: str, path: str) -> bool:
    full = f"{facts_folder(agent)}/{path}"
    return record.state == "sealed" and any(step.path == full for step in record.steps)


def _overlaid(user: UserContext, agent: str, seen: Snapshot, record: Record) -> Snapshot:
    """The snapshot as if every step of the record had been done."""
    prefix = f"{facts_folder(agent)}/"
    rows = {row.path: row for row in seen.all_rows()}
    for step in record.steps:
        if not step.path.startswith(prefix):
            continue
        path = step.path.removeprefix(prefix)
        row = rows.get(path)
        if (row.hash.hex() if row else digest(None)) != step.before:
            continue
        data = _after(user, step)
        if data is None:
            rows.pop(path, None)
        else:
            rows[path] = _row(user, agent, path, data)
    return resolve(rows.values())


def _after(user: UserContext, step: Step) -> bytes | None:
    """The staged text; where it no longer holds it, what the target holds by now."""
    if step.staged is None:
        displaced = user.files.stat(os.path.join(user.paths.journal, step.displaced))
        # Moved aside already: what stands there is new, a person put it back.
        return None if displaced is None else user.files.read(os.path.join(user.paths.folder, step.path))
    staged = user.files.read(os.path.join(user.paths.journal, step.staged))
    if staged is not None and is_state(staged, step.after):
        return staged
    return user.files.read(os.path.join(user.paths.folder, step.path))


def _row(user: UserContext, agent: str, path: str, data: bytes) -> Row:
    parsed, problem = parse(data, path, user.scope(agent), modified_ns=0)
    fact = parsed.fact if parsed else None
    return Row(agent, path, (0, 0, 0, 0, 0), 0, bytes.fromhex(digest(data)), fact, problem)
