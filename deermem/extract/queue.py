"""The durable queue: what waits lies on disk, is coalesced by conversation, and is worked off by whoever gets to it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from deermem.clock import Clock
from deermem.errors import DeerMemError, ExtractionFailed, InvalidInput, LockTimeout, QueueFull
from deermem.extract import items
from deermem.extract.items import Item
from deermem.extract.messages import Turn
from deermem.extract.watermarks import Tail, beyond, mark_of, read_watermarks, tail_of, write_watermarks
from deermem.extract.worker import Done, Job, Worker
from deermem.model.scope import Scope, safe_user_id
from deermem.store.files import Files
from deermem.store.layout import Layout
from deermem.store.refusals import in_words
from deermem.store.spool import Entry, Spool, thread_mark

_log: Final = logging.getLogger("deermem")
_LONGEST_WAIT: Final = 10
"""Times the debounce: then a conversation is extracted however busy it still is."""
_AGAIN: Final = timedelta(seconds=60)


class Extract(Protocol):
    """What is done with an item that came up."""

    def __call__(self, item: Item, *, keep: Callable[[Item], None], is_wanted: Callable[[], bool]) -> None:
        """Extracts; `keep` takes the item with a model's answer in it, `is_wanted` says whether it still lies there.

        Raises ExtractionFailed, or what the store raises; the item then waits again.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """Seconds of silence before a conversation is extracted; how many may wait and are remembered (0: any number)."""

    debounce_seconds: float = 30
    max_depth: int = 1000
    max_watermarks: int = 4096

    @property
    def longest_wait(self) -> timedelta:
        """After which steady traffic no longer puts a conversation off."""
        return timedelta(seconds=self.debounce_seconds * _LONGEST_WAIT)


class Queue:
    """The conversations of all users of a store that wait, as far as this engine knows of them."""

    def __init__(self, files: Files, layout: Layout, clock: Clock, rules: QueueRules, extract: Extract) -> None:
        self._files = files
        self._layout = layout
        self._clock = clock
        self._rules = rules
        self._extract = extract
        self._worker = Worker(self._run, clock)
        self._unreadable: set[str | None] = set()

    # --- what comes in

    def unseen(self, scope: Scope, thread: str, turns: tuple[Turn, ...]) -> tuple[Tail, tuple[Turn, ...]]:
        """The turns that were not extracted yet, and what is known before them."""
        return beyond(turns, _watermark(self._spool(scope.user_folder), scope.agent, thread))

    def put(self, scope: Scope, item: Item) -> None:
        """Spools a conversation; on disk when this returns. One of the same key that waits goes into it.

        Raises QueueFull for one that is neither urgent nor carries a signal, and what the store raises.
        """
        spool = self._spool(scope.user_folder)
        spool.prepare()
        with spool.lock(), in_words(self._layout.user(scope.user_folder)):
            older = None if item.urgent else self._waiting(spool, item)
            if older is None and not item.urgent and not item.signals:
                self._refuse_overflow()
            if older is not None:
                joined = items.coalesced(older[1], item, longest_wait=self._rules.longest_wait)
                # In the older one's place: a kill between two steps would leave both, and the older one for the last.
                item = replace(joined, id=older[0].id)
            spool.put(_entry(item), items.encode(item))
        self._worker.put(Job(scope.user_folder, item.id), item.due_at, urgent=item.urgent)

    def due_at(self, *, urgent: bool) -> datetime:
        """When a conversation that is captured now is to be extracted."""
        now = self._clock()
        return now if urgent else now + timedelta(seconds=self._rules.debounce_seconds)

    def _refuse_overflow(self) -> None:
        most = self._rules.max_depth
        if most and self._worker.waiting() >= most:
            raise QueueFull(f"{most} conversations wait already", hint="flush, or raise queue_max_depth")

    def _waiting(self, spool: Spool, item: Item) -> tuple[Entry, Item] | None:
        mark = thread_mark(item.thread)
        for entry in spool.entries():
            if entry.state == "waiting" and entry.agent == item.agent and entry.thread == mark:
                found = items.decode(spool.read(entry) or b"")
                if found is None or found.urgent or found.conversation != item.conversation:
                    continue
                # An answer may be stored already, whatever the error said: it is carried out, not asked for again.
                if found.answer is None:
                    return entry, found
        return None

    # --- what waits

    def take_up(self) -> int:
        """Plans what other engines left behind, or still have before them: whoever gets to it first does it.

        Says how many conversations wait. A user whose queue can't be read is passed over, with a warning.
        """
        found = 0
        for job, item in self._left_behind():
            found += 1
            self._worker.put(job, self._soon(item), urgent=item.urgent)
        return found

    def count(self) -> int:
        """How many conversations wait, planned or not."""
        return sum(1 for _ in self._left_behind())

    def _left_behind(self) -> Iterator[tuple[Job, Item]]:
        unreadable: set[str | None] = set()
        for folder in [None, *self._layout.users()]:
            try:
                found = self._readable(folder)
            except (OSError, DeerMemError) as error:
                unreadable.add(folder)
                _log.warning("the conversations that wait below %s can't be read: %s", folder or "the root", error)
            else:
                yield from found
        self._unreadable = unreadable

    def _readable(self, folder: str | None) -> list[tuple[Job, Item]]:
        spool = self._spool(folder)
        if spool.is_untidy():
            with spool.lock():
                spool.tidy()
        entries = (entry for entry in spool.entries() if entry.state != "failed")
        found = ((entry, items.decode(spool.read(entry) or b"")) for entry in entries)
        return [(Job(folder, entry.id), item) for entry, item in found if item is not None]

    def _soon(self, item: Item) -> datetime:
        """When an item is due; no later than the longest wait that there is, whatever a clock said once."""
        return min(item.due_at, self._clock() + max(self._rules.longest_wait, items.LONGEST_DELAY))

    def flush(self, timeout: float | None) -> bool:
        """Extracts at once all that is planned, whatever its time; whether all of it was done in time."""
        return self._worker.flush(timeout) and not self._unreadable

    def waits(self) -> bool:
        """Whether anything that this engine knows of waits or runs."""
        return self._worker.waiting() > 0

    def cancel(self, folder: str | None, agent: str | None) -> int:
        """Drops what waits for one user, of one agent or of all; what is being extracted goes on. Says how many."""
        spool = self._spool(folder)
        if not spool.entries():
            return 0
        with spool.lock():
            gone = [
                entry
                for entry in spool.entries()
                if entry.state in ("waiting", "urgent") and agent in (None, entry.agent)
            ]
            spool.remove(*gone)
        self._worker.drop({Job(folder, entry.id) for entry in gone})
        return len(gone)

    def stop(self) -> None:
        """No job begins any more; what waits stays on disk."""
        self._worker.stop()

    # --- one job

    def _run(self, job: Job) -> Done:
        try:
            spool = self._spool(job.folder)
            if not spool.entries():
                return Done(ok=True)
            with spool.work():
                return self._do(spool, job)
        except LockTimeout:
            return Done(ok=False, busy=True)
        except (DeerMemError, OSError) as error:
            _log.warning("a conversation could not be extracted and waits: %s", error)
            return Done(ok=False, due=self._clock() + _AGAIN)

    def _do(self, spool: Spool, job: Job) -> Done:
        with spool.lock():
            spool.tidy()
            begun = _begun_before(spool, job.id)
        if begun is not None:
            before = self._do(spool, Job(job.folder, begun))
            if not before.ok:
                return Done(ok=False, due=before.due or self._clock() + _AGAIN)
        with spool.lock():
            claimed = _claim(spool, job.id)
        if claimed is None:
            return Done(ok=True)
        data = spool.read(claimed)
        if data is None:
            # Cleared since it was claimed.
            return Done(ok=True)
        item = items.decode(data)
        if item is None or not _belongs(item, claimed, job.folder):
            return self._set_aside(spool, claimed, "it can't be read")
        try:
            self._extract_rest(spool, claimed, item)
        except (DeerMemError, OSError) as error:
            return self._put_off(spool, claimed, error)
        with spool.lock():
            spool.remove(claimed)
        return Done(ok=True)

    def _extract_rest(self, spool: Spool, claimed: Entry, item: Item) -> None:
        rest = item.turns
        if not item.urgent:
            _, rest = beyond(item.turns, _watermark(spool, item.agent, item.thread), item.known)

        def keep(answered: Item) -> None:
            with spool.lock():
                if is_wanted():
                    spool.put(claimed, items.encode(replace(answered, turns=item.turns)))

        def is_wanted() -> bool:
            return spool.read(claimed) is not None

        if rest:
            self._extract(replace(item, turns=rest), keep=keep, is_wanted=is_wanted)
        if rest and not item.urgent and is_wanted():
            mark, tail = mark_of(item.agent, item.thread), tail_of(item.turns, item.known)
            with spool.lock():
                known = read_watermarks(spool.watermarks())
                spool.put_watermarks(write_watermarks(known, mark, tail, max_keys=self._rules.max_watermarks))

    def _put_off(self, spool: Spool, claimed: Entry, error: Exception) -> Done:
        """The item waits again, or goes into what was captured of its conversation meanwhile."""
        with spool.lock():
            data = spool.read(claimed)
            item = items.decode(data or b"")
            if item is None:
                # Gone: it was cleared, so nothing waits.
                return Done(ok=data is None)
            # What the store refuses for its form it refuses again; what it can't do now it may do later.
            counts = isinstance(error, ExtractionFailed | InvalidInput)
            later = items.put_off(item, self._clock()) if counts else None
            if later is not None and later.attempts >= items.MAX_ATTEMPTS:
                return self._set_aside(spool, claimed, str(error))
            later = later or replace(item, due_at=self._clock() + _AGAIN)
            newer = None if item.urgent else self._waiting(spool, item)
            if newer is not None:
                entry, merged = newer[0], items.coalesced(item, newer[1], longest_wait=self._rules.longest_wait)
                spool.put(entry, items.encode(merged))
                later = None
            else:
                # An emergency never goes into what waits: the watermark would pass over its turns.
                spool.put(_entry(later), items.encode(later))
            spool.remove(claimed)
        _log.warning("a conversation of agent %s could not be extracted and waits: %s", item.agent, error)
        return Done(ok=False, due=later.due_at if later is not None else None)

    def _set_aside(self, spool: Spool, claimed: Entry, why: str) -> Done:
        spool.move(claimed, "failed")
        _log.error("a conversation of agent %s was set aside, and check names it: %s", claimed.agent, why)
        return Done(ok=False)

    def _spool(self, folder: str | None) -> Spool:
        return Spool(self._files, self._layout.user(folder))


def _watermark(spool: Spool, agent: str, thread: str) -> Tail:
    return read_watermarks(spool.watermarks()).get(mark_of(agent, thread), ())


def _entry(item: Item) -> Entry:
    return Entry("urgent" if item.urgent else "waiting", item.agent, thread_mark(item.thread), item.id)


def _begun_before(spool: Spool, item_id: str) -> str | None:
    """The id of what was begun of the same conversation and is not done: its turns are in this item as well.

    Done behind it, the same turns would be read twice, and said twice in other words.
    """
    entries = [entry for entry in spool.entries() if entry.state in ("waiting", "running")]
    mine = next((entry for entry in entries if entry.id == item_id), None)
    item = items.decode(spool.read(mine) or b"") if mine is not None and mine.state == "waiting" else None
    if mine is None or item is None or item.answer is not None:
        return None
    for entry in entries:
        if entry.id != item_id and (entry.agent, entry.thread) == (mine.agent, mine.thread):
            found = items.decode(spool.read(entry) or b"")
            if found is None or found.urgent or found.conversation != item.conversation:
                continue
            if entry.state == "running" or found.answer is not None:
                return entry.id
    return None


def _claim(spool: Spool, item_id: str) -> Entry | None:
    """The entry, as running. One that runs already was left by a process that died: nobody else works here now."""
    found = [entry for entry in spool.entries() if entry.id == item_id and entry.state != "failed"]
    waiting = [entry for entry in found if entry.state != "running"]
    if waiting and len(found) > len(waiting):
        # A kill between the two steps of putting it off: the one that waits is the newer.
        spool.remove(*(entry for entry in found if entry.state == "running"))
    for entry in waiting or found:
        return entry if entry.state == "running" else spool.move(entry, "running")
    return None


def _belongs(item: Item, entry: Entry, folder: str | None) -> bool:
    """Whether an item is where it says: a file that somebody moved must not tell one user's words to another."""
    try:
        mapped = None if item.user_id is None else safe_user_id(item.user_id)
    except InvalidInput:
        return False
    return mapped == folder and item.agent == entry.agent and item.id == entry.id
