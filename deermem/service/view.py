"""The view of one user's facts: what lies on disk now, at the cost of a stat for each file that did not change.

A sweep compares every file's signature with the row that was made when it was last read; only where the
signature changed, or is too fresh to prove anything, the file is read again. Rows are kept in this process and in
the user's catalogue, so that a new process need not read what another one read already. Without a usable
catalogue the answers are the same, only slower.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from deermem.index import schema
from deermem.index.catalogue import Catalogue, Currency
from deermem.index.rows import Row, Stamp
from deermem.model.scope import Scope
from deermem.service.snapshot import Snapshot, resolve
from deermem.store.files import Files
from deermem.store.layout import UserPaths
from deermem.store.repository import FileState, is_linked, look, parse, scan_facts

_log: Final = logging.getLogger("deermem")
T = TypeVar("T")
_GIVEN_UP: Final = 2


@dataclass(slots=True)
class _Bucket:
    """What this process knows of one agent's files; `unstored` are the paths whose row the catalogue lacks."""

    rows: dict[str, Row] = field(default_factory=dict)
    unstored: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    identity: str = ""
    rev: int = -1
    snapshot: Snapshot | None = None


class UserView:
    """All buckets of one user in this process. Safe for threads; holds its lock for one sweep at a time."""

    def __init__(self, files: Files, paths: UserPaths, user_id: str | None, *, indexed: bool = True) -> None:
        self.files = files
        self.paths = paths
        self.user_id = user_id
        self.lock = threading.RLock()
        self._buckets: dict[str, _Bucket] = {}
        self._catalogue: Catalogue | None = None
        self._failures = 0 if indexed else _GIVEN_UP

    def close(self) -> None:
        """Closes the catalogue; the view can be used again."""
        with self.lock:
            if self._catalogue is not None:
                self._catalogue.close()
                self._catalogue = None

    # --- sweeping

    def sweep(self, agent: str, *, stamp: Currency | None = None) -> Snapshot:
        """The bucket as it lies on disk now. `stamp`: the memory.json that was read before this began."""
        with self.lock:
            bucket = self._buckets.setdefault(agent, _Bucket())
            if bucket.rev < 0:
                self._pull(agent, bucket)
            suspects, gone = self._compare(agent, bucket)
            if suspects and self._pull(agent, bucket):
                suspects, gone = self._compare(agent, bucket)
            for path in suspects:
                self._take_in(agent, bucket, path)
            for path in gone:
                self._drop(bucket, path)
            self._push(agent, bucket, stamp)
            return self._snapshot(bucket)

    def note(self, agent: str, paths: Iterable[str], moved: tuple[Currency, Currency] | None = None) -> None:
        """These files may have changed: reads them and tells the catalogue; where that is busy, a sweep will."""
        with self.lock:
            bucket = self._buckets.setdefault(agent, _Bucket())
            for path in paths:
                self._take_in(agent, bucket, path)
            self._push(agent, bucket, moved=moved)

    def forget_rows(self) -> None:
        """Drops what this process and the catalogue know; everything is read again at the next sweep."""
        with self.lock:
            self._buckets.clear()
            self._discard()
            self._failures = min(self._failures, 0) if self._failures < _GIVEN_UP else self._failures

    def _compare(self, agent: str, bucket: _Bucket) -> tuple[list[str], list[str]]:
        scan = scan_facts(str(self.paths.facts(agent)))
        rows = bucket.rows
        suspects = []
        for path, status in scan.files.items():
            row = rows.get(path)
            stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            if row is None or row.stamp != stamp or stamp[4] >= row.looked_ns:
                suspects.append(path)
        # A folder that can't be listed says nothing about its files: they are not gone.
        hidden = tuple(scan.unreadable)
        gone = [path for path in rows if path not in scan.files and not (hidden and path.startswith(hidden))]
        return suspects, gone

    def _take_in(self, agent: str, bucket: _Bucket, path: str) -> None:
        linked = is_linked(self.paths, agent, path)
        state = None if linked else look(self.files, str(self.paths.facts(agent)), path)
        old = bucket.rows.get(path)
        if state is None:
            if old is not None:
                self._drop(bucket, path)
            return
        row = self._row(agent, state, old)
        bucket.rows[path] = row
        bucket.gone.discard(path)
        if old is None or row.hash != old.hash or row.problem != old.problem:
            bucket.snapshot = None
            bucket.unstored.add(path)
        elif row.stamp != old.stamp or (_settled(row) and not _settled(old)):
            bucket.unstored.add(path)

    def _row(self, agent: str, state: FileState, old: Row | None) -> Row:
        stamp = _stamp(state)
        if state.data is None:
            return Row(agent, state.path, stamp, state.looked_ns, b"", None, state.problem)
        digest = hashlib.sha256(state.data).digest()
        if old is not None and old.hash == digest:
            return replace(old, stamp=stamp, looked_ns=state.looked_ns)
        scope = Scope(self.user_id, agent)
        parsed, problem = parse(state.data, state.path, scope, modified_ns=state.signature.mtime_ns)
        if parsed is None:
            return Row(agent, state.path, stamp, state.looked_ns, digest, None, problem)
        return Row(
            agent,
            state.path,
            stamp,
            state.looked_ns,
            digest,
            parsed.fact,
            None,
            parsed.edited,
            parsed.has_digest,
            parsed.complete,
        )

    def _drop(self, bucket: _Bucket, path: str) -> None:
        bucket.rows.pop(path, None)
        bucket.unstored.discard(path)
        bucket.gone.add(path)
        bucket.snapshot = None

    def _snapshot(self, bucket: _Bucket) -> Snapshot:
        if bucket.snapshot is None:
            bucket.snapshot = resolve(bucket.rows.values())
        return bucket.snapshot

    # --- the catalogue

    def catalogue(self) -> Catalogue | None:
        """The open catalogue; None where there is none to be had (then everything goes without)."""
        if self._catalogue is not None and not self._catalogue.is_usable():
            self._catalogue.close()
            self._catalogue = None
        if self._catalogue is None and self._failures < _GIVEN_UP and self.paths.folder.is_dir():
            self._catalogue = self._guarded(lambda: Catalogue(self.paths.index))
        return self._catalogue

    def ask(self, question: Callable[[Catalogue], T]) -> T | None:
        """The answer of the catalogue, None where it has none to give."""
        with self.lock:
            catalogue = self.catalogue()
            return None if catalogue is None else self._guarded(lambda: question(catalogue))

    def is_stored(self, agent: str) -> bool:
        """Whether the catalogue holds every row of this bucket, after a sweep: what a search needs to be whole."""
        with self.lock:
            bucket = self._buckets.setdefault(agent, _Bucket())
            self._pull(agent, bucket)
            self._push(agent, bucket, wait=True)
            return self._catalogue is not None and not bucket.unstored and not bucket.gone

    def _guarded(self, work: Callable[[], T]) -> T | None:
        """Derived state may fail: a damaged database is dropped and built again once, then done without."""
        try:
            return work()
        except sqlite3.OperationalError as error:
            _log.warning("the index %s can't be used now: %s", self.paths.index, error)
            if (error.sqlite_errorcode or 0) & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                self._give_up_once()
        except (sqlite3.DatabaseError, OSError) as error:
            _log.warning("the index %s is damaged and is built again: %s", self.paths.index, error)
            self._give_up_once()
        return None

    def _give_up_once(self) -> None:
        self._failures += 1
        self._discard()
        if self._failures >= _GIVEN_UP:
            _log.warning("the index %s is given up; searches go without it", self.paths.index)

    def _discard(self) -> None:
        if self._catalogue is not None:
            self._catalogue.close()
            self._catalogue = None
        try:
            schema.delete(self.paths.index)
        except OSError as error:
            _log.warning("the index %s can't be removed: %s", self.paths.index, error)
        for bucket in self._buckets.values():
            bucket.rev, bucket.identity = -1, ""
            bucket.unstored = set(bucket.rows)

    def _pull(self, agent: str, bucket: _Bucket) -> bool:
        """Takes in rows that others wrote; whether there were any."""
        catalogue = self.catalogue()
        if catalogue is None:
            return False
        pulled = self._guarded(lambda: catalogue.pull(agent, bucket.rev))
        if pulled is None:
            return False
        if pulled.identity != bucket.identity:
            bucket.identity, bucket.rev = pulled.identity, -1
            bucket.unstored, bucket.gone = set(bucket.rows), set()
            pulled = self._guarded(lambda: catalogue.pull(agent, -1))
            if pulled is None:
                return False
        bucket.rev = pulled.rev
        for row in pulled.rows:
            self._adopt(bucket, row)
        stored = len(bucket.rows) - len(bucket.unstored) + len(bucket.gone)
        if stored != pulled.count:
            self._recount(agent, bucket, catalogue)
        return bool(pulled.rows)

    def _adopt(self, bucket: _Bucket, row: Row) -> None:
        known = bucket.rows.get(row.path)
        if known is not None and known.stamp == row.stamp and known.hash == row.hash:
            bucket.unstored.discard(row.path)
            return
        if known is not None and row.looked_ns < known.looked_ns:
            # Ours was looked at later: it is written again rather than lost to an older look.
            bucket.unstored.add(row.path)
            return
        bucket.rows[row.path] = row
        bucket.unstored.discard(row.path)
        bucket.gone.discard(row.path)
        bucket.snapshot = None

    def _recount(self, agent: str, bucket: _Bucket, catalogue: Catalogue) -> None:
        there = self._guarded(lambda: catalogue.paths(agent))
        if there is not None:
            bucket.unstored |= bucket.rows.keys() - there
            bucket.gone = there - bucket.rows.keys()

    def _push(
        self,
        agent: str,
        bucket: _Bucket,
        stamp: Currency | None = None,
        *,
        moved: tuple[Currency, Currency] | None = None,
        wait: bool = False,
    ) -> None:
        catalogue = self.catalogue()
        if catalogue is None or not (bucket.unstored or bucket.gone or stamp or moved):
            return
        rows = [bucket.rows[path] for path in sorted(bucket.unstored)]
        gone = [(agent, path) for path in sorted(bucket.gone)]
        taken_in = (agent, stamp) if stamp else None
        rev = self._guarded(lambda: catalogue.push(rows, gone, taken_in=taken_in, moved=moved, wait=wait))
        if rev is not None:
            bucket.unstored.clear()
            bucket.gone.clear()
            if bucket.rev == rev - 1:
                bucket.rev = rev


def _stamp(state: FileState) -> Stamp:
    dev, ino, size, mtime, ctime = state.signature
    return dev, ino, size, mtime, ctime


def _settled(row: Row) -> bool:
    return row.stamp[4] < row.looked_ns
