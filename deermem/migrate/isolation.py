"""Moving the memory of the no-user root into a user's folder: `memory.json` and `agents/`, one rename after the other.

Each rename is whole or not at all, and never replaces anything, so whoever dies in between leaves every file in one of
the two places; a second run takes it from there. The root's lock is taken first, then the user's. Everybody else
holds one user lock at a time, and two runs of this take theirs in the same order: no circle of waiters can form.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from deermem.config import Settings
from deermem.errors import DeerMemError, MigrationError, StoreUnavailable
from deermem.migrate.isolation_checks import OldFact, foreign, read_facts, same_folder, stuck, unwritable
from deermem.migrate.isolation_plan import MovePlan, Sides, Step, is_anything_there, plan_moves
from deermem.migrate.place import UserPlace
from deermem.model.scope import safe_user_id
from deermem.store.files import Files
from deermem.store.folding import refuse_folded
from deermem.store.journal import parse_record
from deermem.store.layout import Layout, UserPaths
from deermem.store.lock import HeldLock, user_lock
from deermem.store.recovery import leftovers, recover
from deermem.store.refusals import in_words
from deermem.store.transaction import prepare_user
from deermem.store.undo import undo_is_due

Tell = Callable[[str], None]

_MOVES: Final = ("file", "folder", "same")
_TAKEN: Final = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)


@dataclass(frozen=True, slots=True)
class Isolation:
    """What became of one run.

    `moved` counts things (of a dry run: that would move). `problems` has a line for each that stays, or that kept
    everything from moving.
    """

    user: str
    moved: int = 0
    problems: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing stood in the way."""
        return not self.problems

    def __str__(self) -> str:
        if not self.moved and self.ok:
            return "already current"
        what = f"{self.moved} thing{'' if self.moved == 1 else 's'}"
        stays = f"; {len(self.problems)} in the way" if self.problems else ""
        return f"{'would move' if self.dry_run else 'moved'} {what} to users/{self.user}{stays}"


def isolate(
    settings: Settings, user_id: str, *, tell: Tell, dry_run: bool = False, files: Files | None = None
) -> Isolation:
    """Moves what belongs to a user from the root to `users/{user}/`; `tell` gets a line for each thing.

    Raises InvalidInput for an id that no folder can have, StoreUnavailable where there is no store or the storage
    refuses, LockTimeout where somebody writes. A dry run asks the same questions and writes nothing.
    """
    folder = safe_user_id(user_id)
    layout = Layout(Path(settings.resolved_root()), settings.manifest_filename)
    place = UserPlace(folder=folder, user_id=user_id, manifest_name=layout.manifest_name)
    sides = Sides(files or Files(), layout.user(None), layout.user(folder), place)
    if not layout.root.is_dir():
        raise StoreUnavailable(f"there is no store at {layout.root}", hint="give its folder with --storage-path")
    with in_words(sides.root):
        if not is_anything_there(sides) and not _is_interrupted(sides.files, sides.root):
            if not dry_run:
                _flush_last_move(sides)
            return Isolation(folder)
    _check_target(sides)
    if dry_run:
        return _Run(sides, tell).rehearse()
    with user_lock(sides.root, settings.file_lock_timeout_seconds) as held:
        recover(sides.files, held)
        return _Run(sides, tell).move(held, settings.file_lock_timeout_seconds)


def _is_interrupted(files: Files, paths: UserPaths) -> bool:
    """Whether somebody died in a write: the files may not be what they are about to be."""
    record = parse_record(files.read(str(paths.record)))
    sealed = record is not None and record.state == "sealed"
    return sealed or undo_is_due(files, paths) or bool(leftovers(files, paths))


def _flush_last_move(sides: Sides) -> None:
    """A run that died after its last move did not flush it: power must not undo what is called current."""
    for folder in (sides.user.folder, sides.user.journal, sides.root.journal, sides.root.folder):
        if folder.is_dir():
            sides.files.flush_folder(str(folder))


def _check_target(sides: Sides) -> None:
    refuse_folded(sides.files, sides.user.folder)
    if same_folder(sides.user.folder, sides.root.folder):
        raise MigrationError(f"{sides.user.folder} is the root itself", hint="remove that link; nothing was moved")
    if os.path.lexists(sides.user.folder) and not sides.user.folder.is_dir():
        raise MigrationError(f"{sides.user.folder} is no folder", hint="move it away; nothing was moved")


class _Run:
    """One run over both sides; lives for one call of `isolate`."""

    def __init__(self, sides: Sides, tell: Tell) -> None:
        self._sides = sides
        self._files = sides.files
        self._tell = tell
        self._moved = 0
        self._problems: list[str] = []
        self._unflushed: dict[str, None] = {}
        self._reachable: set[str] = set()

    def rehearse(self) -> Isolation:
        """What `move` would come to."""
        facts = self._facts()
        plan = self._plan(facts)
        if not self._check(plan):
            return self._result(dry_run=True)
        for paths in (self._sides.root, self._sides.user):
            if _is_interrupted(self._files, paths):
                self._tell(f"would first finish or roll back a write that was interrupted in {paths.folder}")
        for step in plan.steps:
            self._count(step, dry_run=True)
        self._problems += plan.problems
        return self._result(dry_run=True)

    def move(self, held: HeldLock, lock_timeout: float) -> Isolation:
        """Moves everything that nothing stands in the way of, under the root's lock."""
        facts = self._facts()
        plan = self._plan(facts)
        if not self._check(plan):
            return self._result()
        if plan.touches_user():
            prepare_user(self._files, self._sides.user)
            with user_lock(self._sides.user, lock_timeout) as theirs:
                recover(self._files, theirs)
                plan = self._plan(facts)
                theirs.check()
                self._carry_out(plan, held)
        else:
            self._carry_out(plan, held)
        self._problems += plan.problems
        return self._result()

    def _facts(self) -> list[OldFact]:
        with in_words(self._sides.root):
            facts = read_facts(self._sides)
        self._problems += foreign(facts, self._sides.place.user_id or "")
        return facts

    def _plan(self, facts: list[OldFact]) -> MovePlan:
        with in_words(self._sides.root):
            return plan_moves(self._sides, stuck(self._sides, facts))

    def _check(self, plan: MovePlan) -> bool:
        """Whether anything may move at all; else the reasons are noted."""
        if not self._problems:
            with in_words(self._sides.root):
                self._problems += unwritable(self._sides, plan)
        return not self._problems

    def _result(self, *, dry_run: bool = False) -> Isolation:
        problems = tuple(dict.fromkeys(self._problems))
        return Isolation(self._sides.place.folder or "", self._moved, problems, dry_run)

    # --- carrying out

    def _carry_out(self, plan: MovePlan, held: HeldLock) -> None:
        if not plan.steps:
            return
        held.check()
        try:
            for step in plan.steps:
                self._step(step)
            self._flush()
        except OSError as error:
            if isinstance(error, DeerMemError):
                raise
            where = error.filename or self._sides.root.folder
            raise StoreUnavailable(
                f"{where}: {error.strerror or error}",
                hint="what was moved stays moved, nothing is lost; mend that, then run this again",
                outcome_unknown=True,
            ) from error

    def _step(self, step: Step) -> None:
        if step.kind == "open":
            target = self._sides.target(step.path)
            self._reach(target)
            self._files.mkdir(target)
            # Whatever moves into it would go with it, if power took its name.
            self._files.flush_folder(os.path.dirname(target))
        elif step.kind == "close":
            self._close(step.path)
        elif self._transfer(step):
            self._count(step, dry_run=False)

    def _transfer(self, step: Step) -> bool:
        """One thing changes its place; False, with the reason noted, where that can't be."""
        source, target = self._sides.source(step.path), self._sides.target(step.path)
        self._reach(os.path.dirname(target))
        try:
            if step.kind == "same":
                return self._drop_equal(step.path)
            if step.kind == "folder":
                # A plain rename of a folder replaces an empty folder at the most.
                self._files.rename(source, target)
            else:
                self._files.rename_new(source, target)
        except OSError as error:
            reason = self._reason(error, step.path)
            if reason is None:
                raise
            self._problems.append(f"{step.path} stays: {reason}")
            return False
        # The place that a thing is in now first: power must not take the old name without leaving the new one.
        self._unflushed.setdefault(os.path.dirname(target))
        self._unflushed.setdefault(os.path.dirname(source))
        return True

    def _reason(self, error: OSError, path: str) -> str | None:
        """Why one thing could not move while others may; None where it is the storage that refuses."""
        if error.errno in _TAKEN:
            return f"{self._sides.place.shown(path)} came to be meanwhile; run this again"
        if error.errno == errno.ENOENT:
            return "it went away meanwhile; run this again"
        if error.errno in (errno.EXDEV, errno.EBUSY):
            shown = self._sides.place.shown(path)
            return f"it can't be renamed to {shown}, another file system; copy it there (cp -a), then run this again"
        return None

    def _drop_equal(self, path: str) -> bool:
        source, target = self._sides.source(path), self._sides.target(path)
        if self._files.read(source) != self._files.read(target):
            self._problems.append(f"{path} stays: it or {self._sides.place.shown(path)} was changed; run this again")
            return False
        # Whoever made the copy may not have waited for the disk.
        self._files.flush_file(target)
        self._files.flush_folder(os.path.dirname(target))
        self._files.unlink(source)
        self._unflushed.setdefault(os.path.dirname(source))
        return True

    def _close(self, path: str) -> None:
        source, target = self._sides.source(path), self._sides.target(path)
        if os.path.isdir(target):
            # A run that died may have moved what was here, and not flushed it.
            self._reach(target)
            self._unflushed.setdefault(target)
        self._flush()
        if self._files.rmdir(source):
            self._unflushed.setdefault(os.path.dirname(source))

    def _reach(self, folder: str) -> None:
        """The names of a folder and of those above it, to the disk: whoever made them may have died before that."""
        base, parts = (
            str(self._sides.root.folder),
            PurePosixPath(os.path.relpath(folder, self._sides.root.folder)).parts,
        )
        for part in parts:
            if base not in self._reachable:
                self._reachable.add(base)
                self._files.flush_folder(base)
            base = os.path.join(base, part)

    def _flush(self) -> None:
        folders, self._unflushed = self._unflushed, {}
        for folder in folders:
            if self._files.stat(folder) is not None:
                self._files.flush_folder(folder)

    def _count(self, step: Step, *, dry_run: bool) -> None:
        if step.kind not in _MOVES:
            return
        self._moved += 1
        slash = "/" if step.kind == "folder" else ""
        target = f"{self._sides.place.shown(step.path)}{slash}"
        if step.kind == "same":
            self._tell(f"{'would remove' if dry_run else 'removed'} {step.path}, equal to {target}")
        else:
            self._tell(f"{'would move' if dry_run else 'moved'} {step.path}{slash} -> {target}")
