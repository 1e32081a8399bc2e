"""File-system events of editors, git and sync clients -> which facts may have changed, burst by burst.

Pure but for its memory of the burst under way: the time comes in with each event, and nothing here looks at a file.
What the programs do:

- vim writes `4913`, renames x.md to `x.md~`, writes x.md, removes both; its swap file is `.x.md.swp`.
- Emacs locks with `.#x.md`, saves `#x.md#` now and then, renames x.md to `x.md~` and writes x.md some 100 ms later.
- JetBrains writes `x.md___jb_tmp___`, renames x.md to `x.md___jb_old___` and the new file to x.md.
- `sed -i` and sync clients write under a name of their own and rename it to x.md; VS Code writes in place.
- git removes and makes files and whole folders, thousands at once.

So only names that can be facts count, a rename counts for both of its ends, and a file that went away is given
longer to come back before the burst is over.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from deermem.errors import InvalidInput
from deermem.model.scope import DEFAULT_AGENT, normalize_agent, safe_user_id
from deermem.store.layout import AGENTS, FACTS, USERS
from deermem.store.repository import SUFFIX

MAX_PATHS: Final = 10_000
_SILENT: Final = frozenset({"opened", "closed_no_write"})
_OF_FOLDERS: Final = frozenset({"created", "deleted", "moved", "attrib"})


@dataclass(frozen=True, slots=True)
class Change:
    """Files of one agent that may have changed since the last Change that named them.

    `user` is the name of the user's folder, None for the no-user root. `paths` are below the agent's `facts/`; one
    that ends in `/` is a folder that went, with all that was in it. No paths: any file of the agent may have changed.
    """

    user: str | None
    agent: str
    paths: tuple[str, ...] = ()


class Event(Protocol):
    """What is asked of an event of watchdog."""

    event_type: str
    is_directory: bool

    @property
    def src_path(self) -> bytes | str:
        """Where it happened."""

    @property
    def dest_path(self) -> bytes | str:
        """Where a rename led, empty for everything else."""


class Place(NamedTuple):
    """One agent's facts: the user's folder (None: the no-user root) and the agent's."""

    user: str | None
    agent: str


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds. A burst is over after `quiet` without an event, after `gone` while a file is missing that may be on
    its way back, and after `longest` in any case. `look`: between two looks at the followed folders and at the
    observer; `reconcile` and `poll`: between two comparisons of all files, with an observer and without one.
    """

    quiet: float = 0.05
    gone: float = 0.3
    longest: float = 1.0
    look: float = 1.0
    reconcile: float = 30.0
    poll: float = 2.0


@dataclass(frozen=True, slots=True)
class Burst:
    """What one burst touched.

    `paths`: below `facts/`, "" for all of them, with a `/` at the end for folders. `users`: folders of users, or
    agents as a whole, came or went. `unfinished`: it went on when its time was up; `removing`: the users that files
    were removed from. `lost`: events may be missing; `doubtful`: the agents that had some in the stretch without a
    pause in which that happened.
    """

    paths: Mapping[Place, frozenset[str]]
    users: frozenset[str | None]
    removing: frozenset[str | None]
    unfinished: bool
    lost: bool
    doubtful: frozenset[Place]


@dataclass(slots=True)
class _Gathered:
    paths: dict[Place, set[str]] = field(default_factory=dict)
    users: set[str | None] = field(default_factory=set)
    missing: set[tuple[Place, str]] = field(default_factory=set)
    removing: set[str | None] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.paths or self.users)


class Bursts:
    """Gathers events until a burst is over. Not safe for threads: the watcher holds its lock.

    From `limit` events without a pause on, the queue that they came through may have overflowed.
    """

    def __init__(self, pace: Pace, limit: int) -> None:
        self._prefixes: dict[str, str] = {}
        self._pace = pace
        self._limit = limit
        self._now = _Gathered()
        self._first = self._last = self._seen = float("-inf")
        self._pressure = 0
        self._stretch: set[Place] = set()

    def follow(self, prefixes: Mapping[str, str]) -> None:
        """What each followed folder is below the root: "users" or "agents"; the burst under way goes on."""
        self._prefixes = {folder.replace(os.sep, "/"): name for folder, name in prefixes.items()}

    def take(self, event: Event, now: float) -> bool:
        """Adds an event; whether `wait` gives less than before."""
        before = self.wait(now)
        was_idle = not self._now
        if self._pressure < self._limit and now - self._seen > self._pace.longest:
            self._end_stretch()
        self._pressure += 1
        self._seen = now
        if event.event_type not in _SILENT and self._note(event):
            self._last = now
            self._first = now if was_idle else self._first
        after = self.wait(now)
        return after is not None and (before is None or after < before)

    def wait(self, now: float) -> float | None:
        """Seconds until `pop` has something to give, None where nothing is under way."""
        ends = []
        if self._now:
            quiet = self._pace.gone if self._now.missing else self._pace.quiet
            ends.append(min(self._last + quiet, self._first + self._pace.longest))
        if self._pressure >= self._limit:
            ends.append(self._seen + self._pace.quiet)
        return max(0.0, min(ends) - now) if ends else None

    def pop(self, now: float) -> Burst | None:
        """The burst that is over by now."""
        if self.wait(now) != 0.0:
            return None
        lost = self._pressure >= self._limit and now >= self._seen + self._pace.quiet
        doubtful = frozenset(self._stretch) if lost else frozenset()
        if lost:
            self._end_stretch()
        found, self._now = self._now, _Gathered()
        return Burst(
            paths={place: frozenset(paths) for place, paths in found.paths.items()},
            users=frozenset(found.users),
            removing=frozenset(found.removing),
            unfinished=now < self._last + self._pace.quiet,
            lost=lost,
            doubtful=doubtful,
        )

    def _end_stretch(self) -> None:
        self._pressure = 0
        self._stretch.clear()

    def _note(self, event: Event) -> bool:
        kind = event.event_type
        if event.is_directory and kind not in _OF_FOLDERS:
            # A folder is "modified" by whatever happens in it, and that has events of its own.
            return False
        noted = self._note_path(event.src_path, event.is_directory, gone=kind in ("deleted", "moved"))
        if kind == "moved":
            noted = self._note_path(event.dest_path, event.is_directory, gone=False) or noted
        return noted

    def _note_path(self, raw: bytes | str, is_folder: bool, *, gone: bool) -> bool:
        spot = locate(self._relative(os.fsdecode(raw)), is_folder)
        if spot is None:
            return False
        user, agent, path = spot
        if gone:
            self._now.removing.add(user)
        if agent is None:
            self._now.users.add(user)
            return True
        place = Place(user, agent)
        self._stretch.add(place)
        paths = self._now.paths.setdefault(place, set())
        # A bound on what one burst may cost: beyond it, the whole bucket is meant.
        paths.add(path if len(paths) < MAX_PATHS else "")
        if gone and not is_folder and "" not in paths:
            self._now.missing.add((place, path))
        elif not gone:
            self._now.missing.discard((place, path))
        return True

    def _relative(self, path: str) -> str:
        path = path.replace(os.sep, "/")
        for folder, name in self._prefixes.items():
            if path.startswith(f"{folder}/"):
                return name + path[len(folder) :]
        return ""


def locate(relative: str, is_folder: bool) -> tuple[str | None, str | None, str] | None:
    """(user folder, agent, path below `facts/`) of a path below the root; None for what can't touch a fact.

    No agent: the user as a whole; an empty path: all of the agent's facts. Only what stands below the root is
    judged: that a folder above it begins with a dot says nothing.
    """
    parts = relative.split("/")
    if any(not part or part[0] == "." for part in parts):
        return None
    user = None
    if parts[0] == USERS:
        if len(parts) < 2 or not _is_user(parts[1]):
            return None
        user, parts = parts[1], parts[2:]
    if not is_folder and (len(parts) < 4 or not parts[-1].endswith(SUFFIX)):
        return None
    return _below_user(user, parts, is_folder)


def _below_user(user: str | None, parts: list[str], is_folder: bool) -> tuple[str | None, str | None, str] | None:
    if user is not None and not parts:
        return user, None, ""
    if parts[0] != AGENTS or (len(parts) > 1 and not _is_agent(parts[1])) or (len(parts) > 2 and parts[2] != FACTS):
        return None
    if len(parts) == 1:
        return user, None, ""
    below = "/".join(parts[3:])
    return user, parts[1], f"{below}/" if is_folder and below else below


@functools.lru_cache(maxsize=1024)
def _is_user(name: str) -> bool:
    try:
        return safe_user_id(name) == name
    except InvalidInput:
        return False


@functools.lru_cache(maxsize=1024)
def _is_agent(name: str) -> bool:
    try:
        return name == DEFAULT_AGENT or normalize_agent(name) == name
    except InvalidInput:
        return False
