"""Migrating a whole user: in one commit where that can be, else whatever buckets can."""

from __future__ import annotations

from deermem.errors import DeerMemError
from deermem.migrate.obstacles import buckets, problems
from deermem.migrate.plan import describe
from deermem.migrate.run import MigrationStep
from deermem.migrate.writable import refusals
from deermem.model.reports import UserMigration
from deermem.store.lock import HeldLock, user_lock
from deermem.store.recovery import recover


def migrate_user(step: MigrationStep, name: str, *, dry_run: bool, lock_timeout: float) -> UserMigration:
    """One user's result; whatever stops a bucket is in `problems`, and leaves the other buckets going on.

    A dry run runs the same checks and writes nothing, not even a lock file; `steps` says what it would do.
    """
    if step.place.folder is not None and step.paths.folder.is_symlink():
        problem = f"{step.paths.folder} is a link, and links are not followed; move it away"
        return UserMigration(user=name, outcome="failed", problems=(problem,))
    if not step.paths.folder.is_dir():
        return UserMigration(user=name, outcome="failed", problems=(f"there is no folder {step.paths.folder}",))
    due = _is_due(step)
    try:
        if not due:
            # A damaged document counts as nothing to migrate, so that facts stay readable; here it is named.
            step.plan(None)
            return UserMigration(user=name, outcome="current")
        if dry_run:
            return _planned(step, name)
        with user_lock(step.paths, lock_timeout) as held:
            recover(step.files, held)
            return _migrated(step, name, held)
    except DeerMemError as error:
        return UserMigration(user=name, outcome="failed", problems=(str(error),))


def _is_due(step: MigrationStep) -> bool:
    try:
        return step.is_due(None)
    except DeerMemError:
        # What is wrong is said by the plan, bucket by bucket.
        return True


def _planned(step: MigrationStep, name: str) -> UserMigration:
    try:
        plan = step.plan(None)
    except DeerMemError as whole:
        return UserMigration(user=name, outcome="failed", problems=tuple(problems(step, whole)))
    if plan.outcome != "migrate":
        return UserMigration(user=name, outcome="current")
    if reasons := refusals(step.paths, plan):
        return UserMigration(user=name, outcome="failed", problems=reasons)
    return UserMigration(user=name, outcome="planned", facts=plan.facts, steps=tuple(describe(plan)))


def _migrated(step: MigrationStep, name: str, held: HeldLock) -> UserMigration:
    try:
        plan = step.plan(None)
    except DeerMemError as whole:
        return _bucket_by_bucket(step, name, held, whole)
    backups = step.execute(held, plan)
    if plan.outcome == "current":
        return UserMigration(user=name, outcome="current")
    return UserMigration(user=name, outcome="migrated", facts=plan.facts, backups=tuple(backups))


def _bucket_by_bucket(step: MigrationStep, name: str, held: HeldLock, whole: DeerMemError) -> UserMigration:
    facts = 0
    backups: list[str] = []
    stopped: list[str] = []
    for agent in buckets(step):
        try:
            plan = step.plan(agent)
            backups += step.execute(held, plan)
            facts += plan.facts
        except DeerMemError as error:
            stopped.append(str(error))
    return UserMigration(
        user=name,
        outcome="failed",
        facts=facts,
        backups=tuple(backups),
        problems=_unique(stopped) or (str(whole),),
    )


def _unique(texts: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
