"""DeerFlow's undo journal: what its DeerMem leaves behind when it dies in a write.

`.memory.journal.json` names the facts that were about to change, `.recovery/{operation}/` holds what stood there
before. State "prepared" is rolled back, "committed" is only cleaned up. What the roll-back displaces is kept as a
conflict copy, because nothing tells DeerFlow's half-written text from one that a person saved since. A roll-back
that is interrupted runs again: the journal and its backups go last.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import stat
from pathlib import PurePosixPath
from typing import Final

from deermem.store.files import Files
from deermem.store.layout import UserPaths
from deermem.store.swap import Swapper
from deermem.store.transaction import make_folders
from deermem.store.undo_plan import UndoPlan, UndoStep, judge

_log: Final = logging.getLogger("deermem")


def undo_is_due(files: Files, paths: UserPaths) -> bool:
    """Whether there is such a journal; one stat."""
    return files.stat(str(paths.undo_journal)) is not None


def roll_back(files: Files, paths: UserPaths) -> None:
    """Restores what a dead DeerFlow process was about to change; a journal that can't be used is set aside."""
    if not undo_is_due(files, paths):
        return
    if files.mkdir(str(paths.journal)):
        files.flush_folder(str(paths.folder))
    try:
        plan = judge(files, paths, files.read(str(paths.undo_journal)))
    except ValueError as error:
        _set_aside(files, paths, str(error))
        return
    swapper = Swapper(files, paths)
    for step in plan.steps:
        _restore(swapper, step)
    folders = {os.path.dirname(os.path.join(paths.folder, step.path)) for step in plan.steps} | {str(paths.journal)}
    for folder in sorted(folders):
        if files.stat(folder) is not None:
            files.flush_folder(folder)
    _clean_up(swapper, plan)
    _log.warning("%s: rolled back an interrupted write of DeerFlow (%d files)", paths.folder, len(plan.steps))


def _set_aside(files: Files, paths: UserPaths, why: str) -> None:
    """The journal goes out of the way, or it would keep its user out for ever; its backups stay where they are."""
    aside = f"set-aside.undo-journal.{secrets.token_hex(4)}"
    files.rename(str(paths.undo_journal), os.path.join(paths.journal, aside))
    files.flush_folder(str(paths.journal))
    _log.warning("%s can't be used (%.200s) and is set aside as %s", paths.undo_journal, why, aside)


def _restore(swapper: Swapper, step: UndoStep) -> None:
    target = os.path.join(swapper.paths.folder, step.path)
    present = swapper.files.read(target)
    if present == step.wanted:
        return
    if step.wanted is None:
        swapper.move_aside(target, step.path)
        return
    staged = swapper.at(f"t.{secrets.token_hex(8)}")
    try:
        _put(swapper, step, staged, step.wanted, displaces=present is not None)
    except OSError:
        # Every further try would leave one more of them.
        with contextlib.suppress(OSError):
            swapper.files.unlink(staged)
        raise


def _put(swapper: Swapper, step: UndoStep, staged: str, wanted: bytes, *, displaces: bool) -> None:
    """All that may fail for want of space comes before the present text leaves its place."""
    target = os.path.join(swapper.paths.folder, step.path)
    swapper.files.create(staged, wanted)
    for grown in sorted(make_folders(swapper.files, swapper.paths.folder, [PurePosixPath(step.path).parent.parts])):
        swapper.files.flush_folder(grown)
    if displaces:
        swapper.move_aside(target, step.path)
    swapper.files.rename_new(staged, target)


def _clean_up(swapper: Swapper, plan: UndoPlan) -> None:
    """The journal first: without its backups it must not be rolled back once more."""
    files, paths = swapper.files, swapper.paths
    files.unlink(str(paths.undo_journal))
    files.flush_folder(str(paths.folder))
    kept = len(swapper.conflicts)
    for name in files.listdir(plan.folder):
        path = os.path.join(plan.folder, name)
        status = files.stat(path)
        if status is None or not stat.S_ISREG(status.st_mode):
            continue
        if plan.committed or name in plan.used:
            files.unlink(path)
        else:
            # Nothing was restored from it, so its text may stand nowhere else.
            swapper.move_aside(path, name)
    if len(swapper.conflicts) > kept:
        files.flush_folder(str(paths.journal))
    if files.rmdir(plan.folder):
        files.rmdir(str(paths.undo_backups))
