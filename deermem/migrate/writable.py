"""Whether the storage would let a migration write: what a dry run asks, without making anything."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from deermem.migrate.plan import UserPlan
from deermem.store.layout import UserPaths


def refusals(paths: UserPaths, plan: UserPlan) -> tuple[str, ...]:
    """Why the plan could not be carried out, one line for each place, in path order; () where it could."""
    touched = [change.path for change in plan.changes] + [backup.path for backup in plan.backups]
    folders = {PurePosixPath(path).parent for path in touched}
    places = {paths.folder, paths.journal, *(paths.folder / folder for folder in folders)}
    found = [*_folders(paths.folder, places), *_lock(paths.lock)]
    return tuple(dict.fromkeys(found))


def _folders(base: Path, places: set[Path]) -> Iterator[str]:
    for place in sorted(places):
        nearest = place
        while nearest != base and not os.path.lexists(nearest):
            nearest = nearest.parent
        if nearest.is_symlink() and nearest != base:
            yield f"{nearest} is a link; links below the root are not followed, move it away"
        elif not nearest.is_dir():
            yield f"{nearest} is no folder; move it away"
        elif not os.access(nearest, os.W_OK | os.X_OK):
            yield f"{nearest} is not writable; check its owner and permissions"


def _lock(lock: Path) -> Iterator[str]:
    try:
        status = os.lstat(lock)
    except OSError:
        # None is there: whether one can be made is the folder's to say.
        return
    if not stat.S_ISREG(status.st_mode):
        yield f"the lock {lock} is no regular file; move it away"
    elif not os.access(lock, os.R_OK | os.W_OK):
        yield f"the lock {lock} can't be opened; check its owner and permissions"
