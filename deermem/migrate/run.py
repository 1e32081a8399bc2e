"""Migrating one user under the held lock: plan, back up, commit. Also the step on every path into a store."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from deermem.clock import Clock
from deermem.errors import DeerMemError, MigrationError, StoreUnavailable
from deermem.migrate.place import LEAD_AGENT, LEGACY_NAME, UserPlace
from deermem.model.scope import DEFAULT_AGENT
from deermem.store.files import Files
from deermem.store.layout import UserPaths
from deermem.store.refusals import in_words
from deermem.store.regular import look_regular

if TYPE_CHECKING:
    from deermem.migrate.plan import UserPlan
    from deermem.service.ports import Obstacle
    from deermem.store.lock import HeldLock


_log: Final = logging.getLogger("deermem")


class FolderFiles:
    """One user's folder as the planner reads it; `without` is a path that is taken for absent."""

    def __init__(self, files: Files, paths: UserPaths, *, without: str = "") -> None:
        self._files = files
        self._without = without
        self._folder = str(paths.folder)
        self._linked: dict[str, bool] = {"": False}

    def read(self, path: str) -> bytes | None:
        """The file's content, None where there is none; links, and whatever lies behind one, are none."""
        if path == self._without or self._is_linked(os.path.dirname(path)):
            return None
        return self._files.read(os.path.join(self._folder, path))

    def listdir(self, path: str) -> list[tuple[str, bool]]:
        """(name, is a folder) of each entry; [] where the folder is absent, a link, or behind one."""
        if self._is_linked(path):
            return []
        try:
            with os.scandir(os.path.join(self._folder, path)) as entries:
                return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _is_linked(self, folder: str) -> bool:
        """Whether this folder or one above it is a link: no reader looks behind it, so facts there are nobody's."""
        below = []
        while folder not in self._linked:
            below.append(folder)
            folder = os.path.dirname(folder)
        found = self._linked[folder]
        for part in reversed(below):
            found = found or os.path.islink(os.path.join(self._folder, part))
            self._linked[part] = found
        return found


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a plan. `backups` are the paths of the copies.

    `waits` says why the commit, which counts, is not in its place yet; "" where it is.
    """

    backups: tuple[str, ...] = ()
    waits: str = ""


@dataclass(slots=True)
class MigrationStep:
    """The migration of one user, as every path into the store takes it. `current` remembers what was looked at."""

    files: Files
    paths: UserPaths
    place: UserPlace
    clock: Clock
    current: dict[str | None, tuple[object, ...]] = field(default_factory=dict)

    def is_due(self, agent: str | None) -> bool:
        """Whether something old lies there; a few stats where nothing changed since the last look."""
        looked_at = self._mark(agent)
        if self.current.get(agent) == looked_at:
            return False
        if self._is_plainly_current(looked_at):
            self.current[agent] = looked_at
            return False
        with in_words(self.paths):
            try:
                due = self._needs_migration(agent)
            except PermissionError as error:
                if error.filename != str(self.paths.manifest) or not self._has_facts():
                    raise
                # Not remembered: what is refused now may be granted later.
                _log.warning("%s: %s; facts are read without it", error.filename, error.strerror)
                return self._needs_migration(agent, without=self.place.manifest_name)
        if not due:
            self.current[agent] = looked_at
        return due

    def _needs_migration(self, agent: str | None, *, without: str = "") -> bool:
        from deermem.migrate.legacy import needs_migration

        return needs_migration(FolderFiles(self.files, self.paths, without=without), self.place, only_agent=agent)

    def _has_facts(self) -> bool:
        """Whether facts lie in files of their own: else an unreadable memory.json may hold all there are."""
        return any(self.paths.facts(agent).is_dir() for agent in self.paths.agents())

    def plan(self, agent: str | None, *, shared_wins: bool = False) -> UserPlan:
        """What would be done; raises MigrationError or Corruption where the user stops."""
        from deermem.migrate.plan import plan_user

        reader = FolderFiles(self.files, self.paths)
        with in_words(self.paths):
            plan = plan_user(reader, self.place, now=self.clock(), only_agent=agent, shared_wins=shared_wins)
            if plan.outcome == "migrate" and plan.manifest_before is None:
                # Summaries of an agent's old document would find no place, and the document would be gone.
                look_regular(self.files, str(self.paths.manifest))
        return plan

    def problems(self) -> tuple[Obstacle, ...]:
        """Why a migration would stop, as a dry run finds it; raises StoreUnavailable."""
        from deermem.migrate.obstacles import obstacles

        return obstacles(self)

    def waiting(self) -> dict[str, int]:
        """How many facts each agent has in documents that are not migrated; raises StoreUnavailable."""
        from deermem.migrate.legacy import waiting_facts

        with in_words(self.paths):
            return waiting_facts(FolderFiles(self.files, self.paths), self.place)

    def agents(self) -> list[str]:
        """The agents with a folder, and those whose facts wait in old documents, in name order."""
        from deermem.migrate.legacy import waiting_agents

        found = set(self.paths.agents())
        if not self._is_plainly_current(self._mark(None)):
            # What may not be read is said by whoever asks for the facts.
            with in_words(self.paths), contextlib.suppress(PermissionError):
                found |= waiting_agents(FolderFiles(self.files, self.paths), self.place)
        return sorted(found)

    def run(self, held: HeldLock, agent: str | None, *, shared_wins: bool = False) -> None:
        """Migrates; raises MigrationError, Corruption or StoreUnavailable with the sources untouched."""
        from deermem.migrate.writable import refusals

        plan = self.plan(agent, shared_wins=shared_wins)
        with in_words(self.paths):
            reasons = refusals(self.paths, plan) if plan.outcome == "migrate" else ()
        if reasons:
            raise StoreUnavailable(" | ".join(reasons))
        self.execute(held, plan)

    def execute(self, held: HeldLock, plan: UserPlan) -> Done:
        """Backups first, then one commit; where that did not happen, this run's backups go again."""
        from deermem.migrate.backup import Backups
        from deermem.store.transaction import ManifestChange, PathTaken, Transaction

        if plan.outcome == "current" or plan.manifest_after is None:
            return Done()
        backups = Backups(self.files, self.paths, plan.backups)

        def back_up(flush: bool) -> None:
            backups.make()
            # Those of somebody who was killed before their flush, too: they are compared already, and not made again.
            for folder in _places(plan) if flush else ():
                self.files.flush_folder(os.path.join(self.paths.folder, folder))

        change = ManifestChange(plan.manifest_before, plan.manifest_after, _revision(plan), summaries=True)
        try:
            Transaction(self.files, held).commit(plan.changes, change, back_up)
        except PathTaken as taken:
            backups.take_back()
            raise MigrationError(f"{taken.path} is being edited right now", hint="try again") from taken
        except DeerMemError as error:
            if not isinstance(error, StoreUnavailable) or not error.outcome_unknown:
                backups.take_back()
            raise
        self.current.clear()
        if held.unfinished:
            waits = f"the migration is sealed and not in its place yet: {held.unfinished}"
            return Done(tuple(backups.places), f"{waits}; mend that, then run the same again to finish it")
        for folder in plan.remove_dirs:
            self.files.rmdir(os.path.join(self.paths.folder, folder))
        return Done(tuple(backups.places))

    def settled(self, agent: str | None) -> None:
        """memory.json was just written by this engine, under the lock: the next look need not read it again."""
        if self.current.get(agent) is not None:
            self.current = {agent: self._mark(agent)}

    def _is_plainly_current(self, looked_at: tuple[object, ...]) -> bool:
        """Whether nothing is there but a memory.json of version 2: the usual case, told without the old formats."""
        if any(stamp is not None for stamp in looked_at[2:]):
            return False
        try:
            data = self.files.read(str(self.paths.manifest)) or b'{"version": "2.0"}'
            if b'"facts"' in data:
                return False
            document = json.loads(data)
        except (OSError, ValueError, RecursionError):
            return False
        return isinstance(document, dict) and document.get("version") == "2.0" and "facts" not in document

    def _mark(self, agent: str | None) -> tuple[object, ...]:
        agents = self.paths.agents() if agent is None else [agent]
        watched = [self.paths.manifest, *(self.paths.agent(name) / "memory.json" for name in agents)]
        if agent in (None, DEFAULT_AGENT, LEAD_AGENT):
            watched += [self.paths.agent(LEAD_AGENT), self.paths.facts(LEAD_AGENT)]
        statuses = [self.files.stat(str(path)) for path in watched]
        stamps = [(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) if s else None for s in statuses]
        return (tuple(agents), *stamps)


def _places(plan: UserPlan) -> list[str]:
    """The folders of the documents that a plan takes away, and so of their backups; the user's own is ""."""
    removed = (change.path for change in plan.changes if change.after is None)
    return sorted({"", *(os.path.dirname(path) for path in removed if os.path.basename(path) == LEGACY_NAME)})


def _revision(plan: UserPlan) -> int:
    from deermem.format import manifest

    return manifest.decode(plan.manifest_after or b"{}").summaries.revision
