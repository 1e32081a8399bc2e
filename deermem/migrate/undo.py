"""Carrying a restore out: under the user lock, in one commit, with the backups left where they are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from deermem.errors import DeerMemError, MigrationError
from deermem.migrate.restore import RestorePlan, describe_restore, plan_restore
from deermem.migrate.run import FolderFiles, MigrationStep
from deermem.migrate.users import name_of, no_folder
from deermem.migrate.writable import refused_lock, refused_places
from deermem.model.reports import UserRestore
from deermem.store.epoch import renew_epoch
from deermem.store.lock import user_lock
from deermem.store.recovery import recover
from deermem.store.refusals import in_words, unavailable
from deermem.store.transaction import ManifestChange, PathTaken, Transaction

if TYPE_CHECKING:
    from deermem.store.lock import HeldLock


def restore_user(step: MigrationStep, dry_run: bool, lock_timeout: float) -> UserRestore:
    """One user back to version 1, whole or not at all; a dry run writes nothing, not even a lock file."""
    name = name_of(step.place.user_id or step.place.folder)
    if problem := no_folder(step):
        return UserRestore(user=name, outcome="failed", problems=(problem,))
    try:
        if dry_run:
            return _planned(step, name)
        if refused_lock(step.paths):
            return _planned(step, name)
        with user_lock(step.paths, lock_timeout) as held:
            recover(step.files, held)
            return _restored(step, name, held)
    except DeerMemError as error:
        return UserRestore(user=name, outcome="failed", problems=(str(error),))
    except RecursionError:
        # Nor must folders in folders, a thousand deep.
        problem = f"{step.paths.folder}: something in it nests too deep to be read; look for folders in folders"
        return UserRestore(user=name, outcome="failed", problems=(problem,))
    except OSError as error:
        # Whatever else the system refuses must not end the call for the users after this one.
        refused = unavailable(error, step.paths, outcome_unknown=True)
        return UserRestore(user=name, outcome="failed", problems=(str(refused),))


def _plan(step: MigrationStep) -> RestorePlan:
    with in_words(step.paths):
        return plan_restore(FolderFiles(step.files, step.paths), step.place, step.clock())


def _planned(step: MigrationStep, name: str) -> UserRestore:
    plan = _plan(step)
    touched = [*(change.path for change in plan.changes), step.place.manifest_name]
    problems = plan.problems or (refused_places(step.paths, touched) if plan.documents else ())
    if problems:
        return UserRestore(user=name, outcome="failed", problems=problems)
    if not plan.documents:
        return UserRestore(user=name, outcome="current")
    return UserRestore(user=name, outcome="planned", facts=plan.facts, steps=tuple(describe_restore(plan)))


def _restored(step: MigrationStep, name: str, held: HeldLock) -> UserRestore:
    plan = _plan(step)
    if plan.problems:
        return UserRestore(user=name, outcome="failed", problems=plan.problems)
    if not plan.documents:
        return UserRestore(user=name, outcome="current")
    copies = _commit(step, plan, held)
    step.current.clear()
    if waiting := _not_yet_back(step, plan):
        # Whoever starts an old program now must not find half of it.
        problem = f"{waiting} is sealed in the journal and not in its place yet; run the same again to finish it"
        return UserRestore(user=name, outcome="failed", problems=(problem,))
    for folder in plan.folders:
        step.files.rmdir(os.path.join(step.paths.folder, folder))
    documents = tuple(str(step.paths.folder / item.source.path) for item in plan.documents)
    problems = tuple(f"somebody wrote in that instant; look at {step.paths.folder / copy}" for copy in copies)
    return UserRestore(user=name, outcome="restored", facts=plan.facts, documents=documents, problems=problems)


def _not_yet_back(step: MigrationStep, plan: RestorePlan) -> str:
    """A document whose commit stands while its file waits: the disk refused in the middle of it."""
    with in_words(step.paths):
        for item in plan.documents:
            path = str(step.paths.folder / item.source.path)
            if step.files.read(path) != item.source.data:
                return path
    return ""


def _commit(step: MigrationStep, plan: RestorePlan, held: HeldLock) -> tuple[str, ...]:
    transaction = Transaction(step.files, held)
    change = None
    if plan.manifest_after is not None:
        change = ManifestChange(plan.manifest_before, plan.manifest_after, plan.revision, summaries=plan.shared)
    with in_words(step.paths):
        transaction.prepare_journal()
        # The old document's revision is a lower one: what was decided on version 2 must not pass for decided on it.
        renew_epoch(step.files, step.paths)
    try:
        return transaction.commit(plan.changes, change)
    except PathTaken as taken:
        raise MigrationError(f"{taken.path} is being edited right now", hint="try again") from taken
