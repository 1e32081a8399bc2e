"""Migrating a whole user: in one commit where that can be, else whatever buckets can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deermem.errors import DeerMemError
from deermem.migrate.obstacles import buckets, problems
from deermem.migrate.plan import UserPlan, describe
from deermem.migrate.run import FolderFiles, MigrationStep
from deermem.migrate.verify import Fresh, verify_user
from deermem.migrate.writable import refusals, refused_lock
from deermem.model.reports import UserMigration, UserOutcome, Verification
from deermem.store.lock import HeldLock, user_lock
from deermem.store.recovery import recover
from deermem.store.refusals import in_words, unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How users are migrated. A dry run runs the same checks and writes nothing, not even a lock file."""

    dry_run: bool = False
    verify: bool = False
    lock_timeout: float = 10.0


def name_of(user_id: str | None) -> str:
    """What a result calls a user."""
    return user_id or "(no user)"


def no_folder(step: MigrationStep) -> str:
    """Why there is no user to look at, "" where there is one."""
    if step.place.folder is not None and step.paths.folder.is_symlink():
        return f"{step.paths.folder} is a link, and links are not followed; move it away"
    return "" if step.paths.folder.is_dir() else f"there is no folder {step.paths.folder}"


def migrate_user(step: MigrationStep, name: str, how: How) -> UserMigration:
    """One user's result; whatever stops a bucket is in `problems`, and leaves the other buckets going on.

    `steps` says what a dry run would do. With `verify` the files are held against the backups at the end, under the
    same lock; what is missing then is in `problems`, and the user failed.
    """
    if problem := no_folder(step):
        return UserMigration(user=name, outcome="failed", problems=(problem,))
    due = _is_due(step)
    try:
        if not due:
            # A damaged document counts as nothing to migrate, so that facts stay readable; here it is named.
            step.plan(None)
        if not due and not (how.verify and step.paths.backups()):
            return _with_nothing_kept(UserMigration(user=name, outcome="current"), how)
        if how.dry_run:
            return _planned(step, name)
        if refused := _refused_lock(step, name):
            return refused
        with user_lock(step.paths, how.lock_timeout) as held:
            recover(step.files, held)
            result, done = _migrated(step, name, held)
            # Half of a commit proves nothing.
            stuck = bool(held.unfinished) or (result.outcome == "failed" and not done)
            return _verified(step, result, done) if how.verify and not stuck else result
    except DeerMemError as error:
        return UserMigration(user=name, outcome="failed", problems=(str(error),))
    except RecursionError:
        # A thousand folders in each other must not end the run for all users after this one.
        problem = f"{step.paths.folder}: something in it nests too deep to be read; look for folders in folders"
        return UserMigration(user=name, outcome="failed", problems=(problem,))
    except OSError as error:
        # Whatever else the system refuses must not end the run for all users after this one.
        problem = str(unavailable(error, step.paths, outcome_unknown=True))
        return UserMigration(user=name, outcome="failed", problems=(problem,))


def _is_due(step: MigrationStep) -> bool:
    try:
        with in_words(step.paths):
            return step.is_due(None)
    except DeerMemError:
        # What is wrong is said by the plan, bucket by bucket.
        return True


def _refused_lock(step: MigrationStep, name: str) -> UserMigration | None:
    """What a dry run says of a user whose lock nobody can take; None where one can."""
    with in_words(step.paths):
        reasons = refused_lock(step.paths)
    if not reasons:
        return None
    planned = _planned(step, name)
    return planned if planned.outcome == "failed" else UserMigration(user=name, outcome="failed", problems=reasons)


def _refused(step: MigrationStep, plan: UserPlan) -> tuple[str, ...]:
    """Why the storage would not let the plan be carried out; one that changes nothing asks for nothing."""
    with in_words(step.paths):
        return refusals(step.paths, plan) if plan.outcome == "migrate" else ()


def _planned(step: MigrationStep, name: str) -> UserMigration:
    try:
        plan = step.plan(None)
    except DeerMemError as whole:
        with in_words(step.paths):
            return UserMigration(user=name, outcome="failed", problems=tuple(problems(step, whole)))
    if plan.outcome != "migrate":
        return UserMigration(user=name, outcome="current")
    if reasons := _refused(step, plan):
        return UserMigration(user=name, outcome="failed", problems=reasons)
    return UserMigration(user=name, outcome="planned", facts=plan.facts, steps=tuple(describe(plan)))


def _migrated(step: MigrationStep, name: str, held: HeldLock) -> tuple[UserMigration, Sequence[UserPlan]]:
    try:
        plan = step.plan(None)
    except DeerMemError as whole:
        return _bucket_by_bucket(step, name, held, whole)
    if reasons := _refused(step, plan):
        return UserMigration(user=name, outcome="failed", problems=reasons), ()
    carried_out = step.execute(held, plan)
    if plan.outcome == "current":
        return UserMigration(user=name, outcome="current"), ()
    result = UserMigration(user=name, outcome="migrated", facts=plan.facts, backups=carried_out.backups)
    if carried_out.waits:
        # For readers it counts, from its seal on; an operator must hear that the storage lets nobody finish it.
        result = replace(result, outcome="failed", problems=(carried_out.waits,))
    return result, (plan,)


def _bucket_by_bucket(
    step: MigrationStep, name: str, held: HeldLock, whole: DeerMemError
) -> tuple[UserMigration, Sequence[UserPlan]]:
    done: list[UserPlan] = []
    backups: list[str] = []
    stopped: list[str] = []
    with in_words(step.paths):
        agents = buckets(step)
    for agent in agents:
        try:
            plan = step.plan(agent)
            if reasons := _refused(step, plan):
                stopped += reasons
                continue
            carried_out = step.execute(held, plan)
            backups += carried_out.backups
            done.append(plan)
            if carried_out.waits:
                stopped.append(carried_out.waits)
                break
        except DeerMemError as error:
            stopped.append(str(error))
    result = UserMigration(
        user=name,
        outcome="failed",
        facts=sum(plan.facts for plan in done),
        backups=tuple(backups),
        problems=tuple(dict.fromkeys(stopped)) or (str(whole),),
    )
    return result, [plan for plan in done if plan.outcome == "migrate"]


def _verified(step: MigrationStep, result: UserMigration, done: Sequence[UserPlan]) -> UserMigration:
    """The result, with what the files prove; whatever stops that must not hide what was migrated."""
    try:
        with in_words(step.paths):
            reader = FolderFiles(step.files, step.paths)
            found, missing = verify_user(reader, step.place, Fresh.of(done, step.place), step.clock())
    except DeerMemError as error:
        problems = (*result.problems, f"it can't be verified: {error}")
        return replace(result, outcome="failed", problems=problems)
    outcome: UserOutcome = "failed" if missing else result.outcome
    return replace(result, outcome=outcome, verified=found, problems=(*result.problems, *missing))


def _with_nothing_kept(result: UserMigration, how: How) -> UserMigration:
    return replace(result, verified=Verification()) if how.verify else result
