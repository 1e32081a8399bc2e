"""Whether the storage would let a migration write: what a dry run asks, and a run before its first byte."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from deermem.migrate.plan import UserPlan
from deermem.model.scope import DEFAULT_AGENT
from deermem.store.layout import UserPaths

_LINK: Final = "{} is a link; links below the root are not followed, move it away"


def refusals(paths: UserPaths, plan: UserPlan) -> tuple[str, ...]:
    """Why the plan could not be carried out, one line for each place, in path order; () where it could."""
    backups = [backup.path for backup in plan.backups]
    new = [*(change.path for change in plan.changes if change.before is None), *backups]
    touched = [*(change.path for change in plan.changes), *backups]
    folder = str(paths.folder)
    return tuple(dict.fromkeys([*_linked(folder), *refused_places(paths, touched), *_taken(folder, new)]))


def refused_places(paths: UserPaths, touched: Iterable[str]) -> tuple[str, ...]:
    """Why these files could not be written or removed, one line for each place, in path order; () where they could."""
    folder = str(paths.folder)
    places = {folder, *(os.path.join(folder, os.path.dirname(path)).rstrip("/") for path in touched)}
    if os.path.isdir(paths.journal) and not os.path.islink(paths.journal):
        # Anything else of that name is set aside by whoever takes the lock.
        places.add(str(paths.journal))
    return (*_folders(folder, places), *_files(paths.lock, paths.journal / "turnstile", paths.record))


def refused_lock(paths: UserPaths) -> tuple[str, ...]:
    """Why nobody could take the user's lock and use the journal, one line for each place; () where one could."""
    return refused_places(paths, ())


def _files(lock: Path, *others: Path) -> Iterator[str]:
    for path in (lock, *others):
        try:
            status = os.lstat(path)
        except OSError:
            # None is there: whether one can be made is the folder's to say.
            continue
        if stat.S_ISREG(status.st_mode) and not _may(path, os.R_OK | os.W_OK):
            yield f"{'the lock ' if path == lock else ''}{path} can't be opened; check its owner and permissions"
        elif path == lock and not stat.S_ISREG(status.st_mode):
            yield f"the lock {lock} is no regular file; move it away"


def _linked(base: str) -> Iterator[str]:
    """Links above the facts: what lies behind them would pass for this user's facts, which nobody reads there."""
    for part in ("agents", DEFAULT_AGENT, "facts"):
        base = os.path.join(base, part)
        if os.path.islink(base):
            yield _LINK.format(base)


def _folders(base: str, places: Iterable[str]) -> Iterator[str]:
    there, device = {base: True}, os.stat(base).st_dev
    nearest = {_nearest(place, there) for place in places}
    above = {parent for place in nearest for parent in _parents(base, place)}
    for place in sorted(nearest | above):
        if place != base and os.path.islink(place):
            yield _LINK.format(place)
        elif not os.path.isdir(place):
            yield f"{place} is no folder; move it away"
        elif place in nearest and not _may(place, os.W_OK | os.X_OK):
            yield f"{place} is not writable; check its owner and permissions"
        elif place in nearest and not _may(place, os.R_OK):
            yield f"{place} is not readable; check its owner and permissions"
        elif os.stat(place).st_dev != device:
            # A rename into it would fail after the commit was sealed.
            yield f"{place} lies on another file system than {base}; keep a user on one file system"


def _nearest(place: str, there: dict[str, bool]) -> str:
    """The place itself, or the closest one above it that there is."""
    while True:
        if place not in there:
            there[place] = os.path.lexists(place)
        if there[place]:
            return place
        place = os.path.dirname(place)


def _parents(base: str, place: str) -> Iterator[str]:
    while place != base:
        place = os.path.dirname(place)
        yield place


def _taken(base: str, new: Iterable[str]) -> Iterator[str]:
    """What a plan took for absent because it is no file that can be read: a folder, a link, a pipe."""
    folders: dict[str, bool] = {}
    for path in sorted(new):
        folder = os.path.dirname(path)
        if folder not in folders:
            folders[folder] = _is_folder(base, folder)
        if folders[folder] and os.path.lexists(full := os.path.join(base, path)):
            yield f"{full} is there already and is no regular file; move it away, then run the migration again"


def _is_folder(base: str, folder: str) -> bool:
    """Whether it is there, and no link on the way to it: what lies behind one is not in the way."""
    for part in folder.split("/") if folder else ():
        base = os.path.join(base, part)
        if os.path.islink(base):
            return False
    return os.path.isdir(base)


def _may(path: str | Path, mode: int) -> bool:
    if os.geteuid() != os.getuid() and os.access in os.supports_effective_ids:
        # The effective user is who writes.
        return os.access(path, mode, effective_ids=True)
    return os.access(path, mode)
