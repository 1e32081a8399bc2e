"""The watcher: one thread that waits for bursts to end, sweeps what they touched, and tells listeners."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from types import TracebackType
from typing import Final, Literal

from deermem.errors import DeerMemError
from deermem.service.user import UserContext
from deermem.store.layout import AGENTS, USERS, Layout
from deermem.watch.digests import Digests
from deermem.watch.events import Burst, Bursts, Change, Event, Pace, Place
from deermem.watch.observer import Follow, Observation, follow, overflow_limit, require_watchdog

Mode = Literal["events", "polling"]
_PACE: Final = Pace()
_CLOSING_SECONDS: Final = 0.8
_LONGEST_RETRY: Final = 3600.0
_SHARE: Final = 20
_RESTS: Final = 4
_log: Final = logging.getLogger("deermem")


@dataclass(frozen=True, slots=True)
class Store:
    """What is followed. `visit` opens a user by the name of its folder; `rootless`: the no-user root too."""

    layout: Layout
    visit: Callable[[str | None], AbstractContextManager[UserContext]]
    rootless: bool = True


class Watcher:
    """Follows the files of a store, keeps its catalogues warm, tells listeners. A context manager; safe for threads.

    An optimisation only: whoever reads sees the files as they are, watched or not. Where the system can't tell of
    events (limits reached, its observer died), all files are compared every now and then instead. `clock` counts
    seconds and never goes back.
    """

    def __init__(
        self, store: Store, follow: Follow = follow, pace: Pace = _PACE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._follow = follow
        self._pace = pace
        self._clock = clock
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closed = False
        self._listeners: tuple[Callable[[Change], None], ...] = ()
        self._thread = threading.Thread(target=self._run, name="deermem-watch", daemon=True)
        self._digests = Digests(store.layout, rootless=store.rootless)
        self._bursts = Bursts(pace, overflow_limit())
        self._observation: Observation | None = None
        self._mode: Mode = "events"
        self._followed: dict[str, tuple[int, int]] = {}
        self._look_at = self._reconcile_at = self._retry_at = float("-inf")
        self._retry_after = pace.reconcile
        self._rest_until = float("-inf")
        self._missed = 0
        self._unswept: set[Place] = set()

    # --- life cycle

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def start(self) -> None:
        """Begins to follow: what changes after this returns is told. Raises InvalidInput without watchdog."""
        require_watchdog()
        self.begin()
        self._thread.start()

    def begin(self) -> None:
        """All of `start` but its thread: whoever calls `step` instead decides when something happens."""
        now = self._clock()
        self._refollow(now)
        self._look_at = now + self._pace.look
        self._reconcile_at = now + self._interval
        # Later, the first look would take what changes from now on for what was there before.
        self._compare()

    def close(self) -> None:
        """Ends it within a second; a sweep under way ends by itself. May be called twice, and by a listener."""
        self._closed = True
        if self._process != os.getpid():
            return
        self._wake.set()
        end = time.monotonic() + _CLOSING_SECONDS
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_CLOSING_SECONDS / 2)
        observation, self._observation = self._observation, None
        if observation is not None:
            observation.stop(max(0.1, end - time.monotonic()))

    @property
    def alive(self) -> bool:
        """Whether it works: in this process, its thread running, and its observer too where it has one."""
        if self._closed or self._process != os.getpid() or not self._thread.is_alive():
            return False
        observation = self._observation
        return observation is None or observation.alive

    @property
    def mode(self) -> Mode:
        """How it learns of changes: by events, or by comparing all files every now and then."""
        return self._mode

    def subscribe(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Calls back, in the watcher's thread, after each burst; returns what ends the subscription.

        A callback that raises is logged and called again next time. One that takes long holds up the others.
        """
        with self._lock:
            self._listeners = (*self._listeners, callback)

        def unsubscribe() -> None:
            with self._lock:
                self._listeners = tuple(other for other in self._listeners if other is not callback)

        return unsubscribe

    # --- the thread

    def _run(self) -> None:
        self._guarded(lambda: self._sweep(self._places(None)))
        while not self._closed:
            self._wake.clear()
            self._guarded(self.step)
            self._wake.wait(self._wait())

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception:  # noqa: BLE001  # a thread that ends would leave the store unwatched
            _log.exception("watching: this failed and is passed over")

    def _take(self, event: Event) -> None:
        with self._lock:
            begins = self._bursts.take(event, self._clock())
        if begins:
            self._wake.set()

    def _wait(self) -> float:
        now = self._clock()
        with self._lock:
            burst = self._bursts.wait(now)
        ends = [self._look_at - now, *([] if burst is None else [max(burst, self._rest_until - now)])]
        return max(0.0, min(ends))

    def step(self) -> None:
        """Does whatever is due by the clock."""
        now = self._clock()
        if now >= self._look_at:
            self._look_at = now + self._pace.look
            self._look(now)
        with self._lock:
            burst = self._bursts.pop(now) if now >= self._rest_until else None
            is_idle = self._bursts.wait(now) is None
        if burst is not None:
            self._finish(burst)
            # A large bucket that is written to all the time must not keep a processor busy.
            self._rest_until = self._clock() + min(self._pace.longest, _RESTS * (self._clock() - now))
        # Better in a pause, but where there is none it must not wait for ever.
        if now >= self._reconcile_at + (0.0 if is_idle else self._pace.reconcile):
            self._reconcile()

    # --- following

    def _folders(self) -> dict[str, tuple[int, int]]:
        found = {}
        for name in (USERS, *([AGENTS] if self._store.rootless else [])):
            try:
                status = os.stat(self._store.layout.root / name)
            except OSError:
                continue
            found[name] = (status.st_dev, status.st_ino)
        return found

    def _look(self, now: float) -> None:
        """Follows anew where a followed folder came, went or became another one, or where the observer died."""
        if self._mode == "polling":
            if now >= self._retry_at:
                self._start_over(now)
            return
        is_dead = self._observation is not None and not self._observation.alive
        if is_dead and self._folders() == self._followed:
            _log.warning("watching: the observer ended; another one is started")
        if is_dead or self._folders() != self._followed:
            self._start_over(now)

    def _start_over(self, now: float) -> None:
        self._refollow(now)
        self._announce(self._compare())

    def _refollow(self, now: float) -> None:
        if self._observation is not None:
            self._observation.stop(_CLOSING_SECONDS)
            self._observation = None
        self._missed = 0
        self._followed = self._folders()
        # Events name the real path where a folder on the way is a link.
        prefixes = {os.path.realpath(self._store.layout.root / name): name for name in self._followed}
        with self._lock:
            self._bursts.follow(prefixes)
        try:
            self._observation = self._follow(list(prefixes), self._take) if prefixes and not self._closed else None
        except FileNotFoundError:
            # A folder went this instant: the next look sees it.
            self._followed = {}
        except OSError as error:
            self._poll(now, error)
            return
        if self._closed and self._observation is not None:
            self._observation.stop(_CLOSING_SECONDS)
        self._mode, self._retry_after = "events", self._pace.reconcile
        self._reconcile_at = min(self._reconcile_at, now + self._pace.reconcile)

    def _poll(self, now: float, error: OSError) -> None:
        if self._mode != "polling":
            _log.warning("watching: no events to be had (%s); all files are compared instead", error)
            self._reconcile_at = now + self._pace.poll
        self._mode = "polling"
        self._retry_at = now + self._retry_after
        # Rarely, since a start that fails may cost the releases of watchdog that don't clean up a descriptor.
        self._retry_after = min(2 * self._retry_after, _LONGEST_RETRY)

    # --- what changed

    @property
    def _interval(self) -> float:
        return self._pace.poll if self._mode == "polling" else self._pace.reconcile

    def _places(self, users: Iterable[str | None] | None) -> list[Place]:
        return _ordered(set(self._digests.places(users)))

    def _compare(self, users: Iterable[str | None] | None = None) -> list[Change]:
        found = []
        for place in self._places(users):
            if self._closed:
                break
            change = self._digests.look(place)
            if change is not None:
                found.append(change)
        return found

    def _reconcile(self) -> None:
        """Compares all files; what is found twice without an event means an observer that has gone deaf."""
        began = self._clock()
        self._reconcile_at = began + self._interval
        changes = self._compare()
        now = self._clock()
        # However large the store, this takes a small share of the time.
        self._reconcile_at = max(self._reconcile_at, now + _SHARE * (now - began))
        self._missed = self._missed + 1 if changes and self._mode == "events" else 0
        self._announce(changes)
        if self._missed > 1:
            self._start_over(now)

    def _finish(self, burst: Burst) -> None:
        if burst.lost:
            _log.info("watching: more events than their queue may hold; all files are compared")
            self._refollow(self._clock())
        # What came or went with a whole folder is known better by looking than by its events.
        found = self._compare(None if burst.lost else burst.users)
        changes = {Place(change.user, change.agent): change for change in found}
        for place, paths in burst.paths.items():
            if place not in changes:
                changes[place] = self._digests.resolve(place, paths)
        # The looks in between have seen, and not told, what the missing events were about.
        changes.update((place, Change(place.user, place.agent)) for place in burst.doubtful)
        # Opening the index of a user that is being removed would put files back.
        removing = burst.removing if burst.unfinished else frozenset()
        waiting = {place for place in self._unswept.union(changes) if place.user in removing}
        self._announce(changes.values(), waiting)

    def _announce(self, changes: Iterable[Change], waiting: Iterable[Place] = ()) -> None:
        """Sweeps what changed, but for what is `waiting` for the next time, and tells the listeners."""
        found = list(changes)
        due = self._unswept.union(Place(change.user, change.agent) for change in found)
        self._unswept = set(waiting)
        self._sweep(_ordered(due - self._unswept))
        for change in found:
            self._tell(change)

    def _tell(self, change: Change) -> None:
        for callback in self._listeners:
            if not self._closed:
                self._guarded(partial(callback, change))

    def _sweep(self, places: Iterable[Place]) -> None:
        for user, group in groupby(places, key=lambda place: place.user):
            if self._closed:
                return
            try:
                self._sweep_user(user, [place.agent for place in group])
            except (DeerMemError, OSError) as error:
                _log.warning("watching: user %s can't be swept: %s", user or "(none)", error)

    def _sweep_user(self, user: str | None, agents: list[str]) -> None:
        if not self._store.layout.user(user).folder.is_dir():
            return
        with self._store.visit(user) as context:
            for agent in agents:
                if self._closed:
                    return
                context.view.sweep(agent)


def _ordered(places: Iterable[Place]) -> list[Place]:
    return sorted(places, key=lambda place: (place.user or "", place.agent))
