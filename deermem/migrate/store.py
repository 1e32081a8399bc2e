"""Migrating many users: a result for each in their order, no more in memory than the plans of a few."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

from deermem.errors import InvalidInput
from deermem.format.paths import facts_folder
from deermem.migrate.crew import FROM, Crew
from deermem.migrate.legacy import agent_document, legacy_agents, walk
from deermem.migrate.place import LEAD_AGENT
from deermem.migrate.run import FolderFiles, MigrationStep
from deermem.migrate.users import How, migrate_user, name_of
from deermem.model.reports import MigrationReport, UserMigration
from deermem.model.scope import Scope
from deermem.store.layout import BACKUP_SUFFIX

__all__ = ["How", "Watch", "migrate_users"]

StepOf = Callable[[Scope], MigrationStep]

_FACT_FILE: Final = 1024
_MANY_FACTS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Watch:
    """Who follows a run, from the calling thread, in the order of the users.

    `begin` is told how many users there are, `stop` asked before each begins, `progress` told of each afterwards.
    """

    begin: Callable[[int], None] | None = None
    progress: Callable[[UserMigration], None] | None = None
    stop: Callable[[], bool] | None = None

    def stops(self) -> bool:
        """Whether no further user is to begin."""
        return self.stop is not None and self.stop()


def migrate_users(scopes: Sequence[Scope], step_of: StepOf, how: How, watch: Watch) -> MigrationReport:
    """Takes each user, a few at a time where there are many; whoever stops leaves the others going on.

    A dry run waits for no disk, and takes them one after the other. Raises InvalidInput for `verify` dry.
    """
    if how.dry_run and how.verify:
        hint = "leave one of them out"
        raise InvalidInput("verify and dry_run exclude each other: a dry run makes nothing to look at", hint=hint)
    if watch.begin is not None:
        watch.begin(len(scopes))
    results: list[UserMigration] = []

    def tell(result: UserMigration) -> None:
        results.append(result)
        if watch.progress is not None:
            watch.progress(result)

    if how.dry_run or len(scopes) < FROM:
        for scope in scopes:
            if watch.stops():
                break
            tell(migrate_user(step_of(scope), name_of(scope.user_id), how))
    else:
        _side_by_side(scopes, step_of, how, watch, tell)
    return MigrationReport(users=tuple(results), dry_run=how.dry_run, interrupted=len(results) < len(scopes))


def _side_by_side(
    scopes: Sequence[Scope], step_of: StepOf, how: How, watch: Watch, tell: Callable[[UserMigration], None]
) -> None:
    with Crew(tell) as crew:
        for scope in scopes:
            step = step_of(scope)
            size = _size(step, how)
            crew.make_room(step.paths.folder, size)
            if watch.stops():
                break
            crew.begin(partial(migrate_user, step, name_of(scope.user_id), how), step.paths.folder, size)
        crew.finish()


def _size(step: MigrationStep, how: How) -> int:
    """About as many bytes as a user's old documents have, with what is held against them and what is moved."""
    size = 0
    # What can't be looked at stops the user once it is taken, in words.
    with contextlib.suppress(OSError):
        for path in _documents(step):
            for name in (path, path + BACKUP_SUFFIX) if how.verify else (path,):
                status = step.files.stat(f"{step.paths.folder}/{name}")
                size += 0 if status is None else status.st_size
        moved = walk(FolderFiles(step.files, step.paths), facts_folder(LEAD_AGENT))
        size += _FACT_FILE * sum(1 for _ in islice(moved, _MANY_FACTS))
    return size


def _documents(step: MigrationStep) -> Iterator[str]:
    yield step.place.manifest_name
    for agent in legacy_agents(FolderFiles(step.files, step.paths), None):
        yield agent_document(agent)
