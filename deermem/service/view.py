"""The view of one user's facts: what lies on disk now, at the cost of a stat for each file that did not change.

A sweep compares every file's signature with the row that was made when it was last read; only where the
signature changed, or is too fresh to prove anything, the file is read again. A process that sweeps a bucket again
and again lets the kernel tell it instead. Rows are kept in this process and in the user's catalogue, so that a new
process need not read what another one read already. Without a usable catalogue the answers are the same, only slower.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from deermem.clock import Clock
from deermem.format.markdown import Parsed
from deermem.index.catalogue import Basis, Catalogue, Currency
from deermem.index.rows import Row, Stored
from deermem.model.scope import Scope
from deermem.service.bucket import Bucket, changed_silently, hidden_row, is_settled, is_still_good, row_of
from deermem.service.index_access import IndexAccess
from deermem.service.snapshot import Snapshot, resolve
from deermem.store.files import Files
from deermem.store.layout import UserPaths
from deermem.store.repository import Reader, scan_facts

T = TypeVar("T")
_NO_HINTS: Final[Mapping[bytes, Parsed]] = {}
_WATCHED_FROM: Final = 2
_TAKEN_IN_AT_ONCE: Final = 2000
_FULL_SWEEP_SECONDS: Final = 1.0
_FULL_SWEEP_SHARE: Final = 50
_SMALL: Final = 128
"""Up to so many files, each is compared at each read: it costs little, and not every save raises an event."""


class UserView:
    """All buckets of one user in this process. Safe for threads; holds its lock for one sweep at a time."""

    def __init__(
        self, files: Files, paths: UserPaths, user_id: str | None, clock: Clock, *, indexed: bool = True
    ) -> None:
        self.files = files
        self.paths = paths
        self.user_id = user_id
        self.clock = clock
        self.lock = threading.RLock()
        self._buckets: dict[str, Bucket] = {}
        self._watching = True
        self._index = IndexAccess(paths, wanted=indexed, on_drop=self._index_dropped)

    def close(self) -> None:
        """Ends the index and the kernel's watches; a view that is still held goes on without them."""
        with self.lock:
            self._index.end()
            self._watching = False
            for bucket in self._buckets.values():
                self._unwatch(bucket)

    # --- sweeping

    def sweep(self, agent: str, *, stamp: Currency | None = None, lean: bool = False) -> Snapshot:
        """The bucket as it lies on disk now. `stamp`: the memory.json that was read before this began.

        `lean`: facts that the catalogue took in are let go, and built again when somebody asks for them.
        """
        with self.lock:
            bucket = self._buckets.setdefault(agent, Bucket())
            try:
                bucket.lean = lean
                return self._sweep(agent, bucket, stamp)
            except BaseException:
                # What the kernel told and nobody read is lost: the next sweep starts from nothing.
                self._unwatch(bucket)
                del self._buckets[agent]
                raise

    def _sweep(self, agent: str, bucket: Bucket, stamp: Currency | None) -> Snapshot:
        if bucket.rev < 0:
            self._pull(agent, bucket)
        suspects = self._changed(agent, bucket)
        if suspects and self._pull(agent, bucket):
            suspects |= bucket.doubtful
        reader = Reader(self.files, self.paths, agent)
        facts = str(self.paths.facts(agent))
        for number, path in enumerate(sorted(suspects), 1):
            if self._differs(facts, bucket, path):
                self._take_in(reader, agent, bucket, path)
            # In one go, a rebuild would hold all texts at once, and keep everybody else from writing until it ends.
            if number % _TAKEN_IN_AT_ONCE == 0:
                self._push(agent, bucket)
        bucket.doubtful.clear()
        self._end_last_good(bucket)
        self._push(agent, bucket, stamp)
        if bucket.snapshot is None:
            hidden = [hidden_row(agent, folder) for folder in bucket.hidden]
            bucket.snapshot = resolve([*bucket.rows.values(), *hidden])
            bucket.warn(facts)
        return bucket.snapshot

    def note(
        self,
        agent: str,
        paths: Iterable[str],
        moved: tuple[Currency, Currency] | None = None,
        hints: Mapping[bytes, Parsed] = _NO_HINTS,
    ) -> None:
        """These files may have changed: reads them and tells the catalogue; where that is busy, a sweep will.

        `hints` says what bytes with this SHA-256 read as, so that what was just encoded need not be decoded again.
        """
        with self.lock:
            bucket = self._buckets.setdefault(agent, Bucket())
            reader = Reader(self.files, self.paths, agent)
            for path in paths:
                self._take_in(reader, agent, bucket, path, hints)
            self._push(agent, bucket, moved=moved)

    def start_over(self) -> None:
        """Forgets every row, here and in the catalogue: everything is read again at the next sweep."""
        with self.lock:
            for bucket in self._buckets.values():
                self._unwatch(bucket)
            self._buckets.clear()
            self._index.start_over()

    def _changed(self, agent: str, bucket: Bucket) -> set[str]:
        """The paths that may have changed, by the kernel's word or by a sweep over all of them."""
        now = time.monotonic()
        told = bucket.watch.drain() if bucket.watch is not None else None
        # A save through a memory map or a name elsewhere raises no event: so, where there are many, all files are
        # compared now and then, once a second, or for a fiftieth of the time where that is more.
        if told is not None and now - bucket.swept_at < max(_FULL_SWEEP_SECONDS, _FULL_SWEEP_SHARE * bucket.sweep_cost):
            silent = changed_silently(str(self.paths.facts(agent)), bucket) if len(bucket.rows) <= _SMALL else set()
            return _expanded(told, bucket) | bucket.doubtful | silent
        self._unwatch(bucket)
        bucket.sweeps += 1
        bucket.swept_at = now
        if self._watching and bucket.sweeps >= _WATCHED_FROM and not bucket.has_links:
            from deermem.store.inotify import FolderWatch

            # Before the scan, or what changes in between would be seen by neither.
            bucket.watch = FolderWatch.start(str(self.paths.facts(agent)))
        suspects = self._compare(agent, bucket)
        bucket.sweep_cost = time.monotonic() - now
        return suspects

    def _compare(self, agent: str, bucket: Bucket) -> set[str]:
        scan = scan_facts(str(self.paths.facts(agent)))
        rows = bucket.rows
        suspects = set()
        for path, status in scan.files.items():
            row = rows.get(path)
            stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            if row is None or row.stamp != stamp or not is_settled(row):
                suspects.add(path)
            elif status.st_nlink != 1:
                self._unwatch(bucket)
        # A folder that can't be listed says nothing about its files: they are not gone.
        hidden = tuple(dict.fromkeys(scan.unreadable))
        if hidden != bucket.hidden:
            bucket.hidden, bucket.snapshot = hidden, None
        if hidden:
            self._unwatch(bucket)
        suspects.update(path for path in rows if path not in scan.files and not (hidden and path.startswith(hidden)))
        return suspects

    def _differs(self, facts: str, bucket: Bucket, path: str) -> bool:
        """Whether a file isn't the one its row was made from, as far as its signature proves."""
        row = bucket.rows.get(path)
        if row is None:
            return True
        try:
            status = self.files.stat(f"{facts}/{path}")
        except OSError:
            # What is refused now may be granted later, without an event.
            self._unwatch(bucket)
            return row.kept is None
        if status is None:
            return True
        stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        return row.stamp != stamp or not is_settled(row)

    def _take_in(
        self, reader: Reader, agent: str, bucket: Bucket, path: str, hints: Mapping[bytes, Parsed] = _NO_HINTS
    ) -> None:
        state = reader.look(path)
        old = bucket.rows.get(path)
        if state is None:
            if old is None:
                # Another process stored it: its row would count for a fact that is there.
                bucket.gone.add(path)
            else:
                self._drop(bucket, path)
            return
        if state.data is None:
            # What was refused now may be granted later, without an event.
            self._unwatch(bucket)
        if state.links != 1:
            # A save through the other name has no event in this folder.
            self._unwatch(bucket)
            bucket.has_links = True
        row = row_of(state, old, Scope(self.user_id, agent), self.clock, hints)
        bucket.rows[path] = row
        if row.broken_at is not None:
            bucket.broken.add(path)
        bucket.gone.discard(path)
        if old is None or row.hash != old.hash or row.problem != old.problem or row.kept is not old.kept:
            bucket.snapshot = None
            bucket.unstored.add(path)
        elif row.stamp != old.stamp or (is_settled(row) and not is_settled(old)):
            bucket.unstored.add(path)

    def _drop(self, bucket: Bucket, path: str) -> None:
        bucket.rows.pop(path, None)
        bucket.unstored.discard(path)
        bucket.gone.add(path)
        bucket.snapshot = None

    @staticmethod
    def _unwatch(bucket: Bucket) -> None:
        if bucket.watch is not None:
            bucket.watch.close()
            bucket.watch = None

    # --- a file in the middle of being saved

    def _end_last_good(self, bucket: Bucket) -> None:
        for path in list(bucket.broken):
            row = bucket.rows.get(path)
            if row is None or row.broken_at is None:
                bucket.broken.discard(path)
            elif not is_still_good(row, self.clock()):
                bucket.rows[path] = row._replace(kept=None, broken_at=None)
                bucket.unstored.add(path)
                bucket.snapshot = None

    # --- the catalogue

    def ask(self, question: Callable[[Catalogue], T], *, of: str | None = None) -> T | None:
        """The answer of the catalogue, None where it has none to give.

        `of`: the identity that the catalogue must still have. Looked at afterwards, it tells that nobody dropped
        the rows between the moment they were known to be whole and the question.
        """
        with self.lock:
            answer = self._index.ask(question)
            return answer if of is None or self._index.ask(Catalogue.identity) == of else None

    def identity(self, agent: str) -> str:
        """The identity of the catalogue that this bucket's rows were last compared with."""
        with self.lock:
            return self._buckets.setdefault(agent, Bucket()).identity

    def is_stored(self, agent: str) -> bool:
        """Whether the catalogue holds every row of this bucket, after a sweep: what a search needs to be whole."""
        with self.lock:
            bucket = self._buckets.setdefault(agent, Bucket())
            self._pull(agent, bucket)
            self._push(agent, bucket, wait=True)
            whole = not bucket.unstored and not bucket.gone
            return whole and self._index.ask(Catalogue.finished) == bucket.identity

    def _index_dropped(self) -> None:
        for bucket in self._buckets.values():
            bucket.rev, bucket.identity = -1, ""
            bucket.unstored, bucket.gone = set(bucket.rows), set()

    def _pull(self, agent: str, bucket: Bucket) -> bool:
        """Takes in rows that others wrote; whether there were any."""
        pulled = self._index.ask(lambda catalogue: catalogue.pull(agent, bucket.rev))
        if pulled is not None and pulled.identity != bucket.identity:
            bucket.identity, bucket.unstored, bucket.gone = pulled.identity, set(bucket.rows), set()
            if bucket.rev >= 0:
                pulled = self._index.ask(lambda catalogue: catalogue.pull(agent, -1))
        if pulled is None:
            return False
        bucket.rev = pulled.rev
        for row in pulled.rows:
            self._adopt(bucket, row)
        stored = len(bucket.rows) - len(bucket.unstored) + len(bucket.gone)
        if pulled.count is not None and stored != pulled.count:
            self._recount(agent, bucket)
        return bool(pulled.rows)

    def _adopt(self, bucket: Bucket, row: Row) -> None:
        known = bucket.rows.get(row.path)
        if known is not None and known.stamp == row.stamp and known.hash == row.hash:
            bucket.unstored.discard(row.path)
            return
        if known is not None and row.looked_ns < known.looked_ns:
            # Ours was looked at later: it is written again rather than lost to an older look.
            bucket.unstored.add(row.path)
            return
        bucket.rows[row.path] = row
        bucket.doubtful.add(row.path)
        if row.broken_at is not None:
            bucket.broken.add(row.path)
        bucket.unstored.discard(row.path)
        bucket.gone.discard(row.path)
        bucket.snapshot = None

    def _recount(self, agent: str, bucket: Bucket) -> None:
        there = self._index.ask(lambda catalogue: catalogue.paths(agent))
        if there is not None:
            bucket.unstored |= bucket.rows.keys() - there
            bucket.gone = there - bucket.rows.keys()

    def _push(
        self,
        agent: str,
        bucket: Bucket,
        stamp: Currency | None = None,
        *,
        moved: tuple[Currency, Currency] | None = None,
        wait: bool = False,
    ) -> None:
        if not (bucket.unstored or bucket.gone or stamp or moved):
            return
        rows = [bucket.rows[path] for path in sorted(bucket.unstored)]
        gone = [(agent, path) for path in sorted(bucket.gone)]
        taken_in = (agent, stamp) if stamp else None
        # Taken before the question: a database that was exchanged meanwhile has taken in nothing of this bucket.
        basis = Basis(bucket.identity, bucket.rev)
        pushed = self._index.ask(
            lambda catalogue: catalogue.push(rows, gone, basis=basis, taken_in=taken_in, moved=moved, wait=wait)
        )
        if pushed is not None:
            for row in rows:
                if isinstance(row.kept, Stored):
                    row.kept.settle(lean=bucket.lean)
            bucket.unstored &= pushed.left
            bucket.gone &= pushed.left
            bucket.rev = pushed.rev if bucket.rev == pushed.rev - 1 else bucket.rev


def _expanded(told: set[str], bucket: Bucket) -> set[str]:
    """With the files that are known in a new folder: they may have come and gone before it was watched."""
    folders = tuple(path for path in told if path.endswith("/"))
    if not folders:
        return told
    return told.difference(folders).union(path for path in bucket.rows if path.startswith(folders))
