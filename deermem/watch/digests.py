"""What all files looked like at the last look: tells that something changed, whoever missed it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from deermem.store.layout import Layout
from deermem.store.repository import scan_facts
from deermem.watch.events import MAX_PATHS, Change, Place

REMEMBERED_PATHS: Final = 50_000


class _Look(NamedTuple):
    """One look at an agent's files: a number that stands for all of them and, where there is room, one for each."""

    total: int
    files: dict[str, int] | None


class Digests:
    """The last look at each agent that has files. Paths are remembered up to a bound, so that memory stays small."""

    def __init__(self, layout: Layout, *, rootless: bool) -> None:
        self._layout = layout
        self._rootless = rootless
        self._known: dict[Place, _Look] = {}
        self._room = REMEMBERED_PATHS

    def places(self, users: Iterable[str | None] | None = None) -> Iterator[Place]:
        """The agents of these users, or of all, that are known or on disk now."""
        wanted = [*([None] if self._rootless else []), *self._layout.users()] if users is None else list(users)
        for user in wanted:
            yield from (Place(user, agent) for agent in self._layout.user(user).agents())
        there = None if users is None else set(wanted)
        yield from [place for place in self._known if there is None or place.user in there]

    def look(self, place: Place) -> Change | None:
        """Looks at an agent's files and remembers it; the Change where they are not as they were."""
        before = self._known.get(place)
        now = self._scan(place)
        self._remember(place, now)
        if before is None:
            return Change(place.user, place.agent, _bounded(now)) if now else None
        if before.total == _total(now):
            return None
        return Change(place.user, place.agent, () if before.files is None else _differing(before.files, now))

    def resolve(self, place: Place, told: frozenset[str]) -> Change:
        """Looks at an agent's files and remembers it; the Change for the paths that events told of."""
        if "" in told:
            return self.look(place) or Change(place.user, place.agent)
        now = self._scan(place)
        self._remember(place, now)
        found: set[str] = set()
        for path in told:
            below = [name for name in now if name.startswith(path)] if path.endswith("/") else []
            found.update(below or [path])
        return Change(place.user, place.agent, _bounded(found))

    def _scan(self, place: Place) -> dict[str, int]:
        scan = scan_facts(str(self._layout.user(place.user).facts(place.agent)))
        seen = {folder or "/": 0 for folder in scan.unreadable}
        for path, status in scan.files.items():
            stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            seen[path] = hash(stamp)
        return seen

    def _remember(self, place: Place, now: dict[str, int]) -> None:
        before = self._known.pop(place, None)
        if before is not None and before.files is not None:
            self._room += len(before.files)
        # An agent without files is forgotten, or folders that come and go would add up.
        if now:
            files = now if len(now) <= self._room else None
            self._room -= len(files or ())
            self._known[place] = _Look(_total(now), files)


def _total(files: dict[str, int]) -> int:
    return hash(frozenset(files.items()))


def _differing(before: dict[str, int], now: dict[str, int]) -> tuple[str, ...]:
    return _bounded(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))


def _bounded(paths: Iterable[str]) -> tuple[str, ...]:
    found = sorted(paths)
    return tuple(found) if len(found) <= MAX_PATHS else ()
