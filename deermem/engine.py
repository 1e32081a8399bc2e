"""DeerMem: opens a root and composes everything below it; the one place that knows all parts."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Unpack

from deermem.clock import Clock, utc_now
from deermem.config import Settings
from deermem.errors import DeerMemError, InvalidInput
from deermem.memory import Memory
from deermem.migrate.place import UserPlace
from deermem.migrate.run import MigrationStep
from deermem.model.changes import Commit
from deermem.model.records import Filters, SearchHit
from deermem.model.scope import Scope, normalize_agent
from deermem.service.user import UserContext
from deermem.service.view import UserView
from deermem.store.files import Files
from deermem.store.folding import refuse_folded
from deermem.store.layout import Layout, UserPaths, check_root

if TYPE_CHECKING:
    from deermem.model.reports import BucketStats, Finding, IndexReport, MigrationReport, Prepared, Stats, UserMigration
    from deermem.policy.prompt_block import Budget
    from deermem.service.ports import RetrievalFactory
    from deermem.service.retrieval import AdapterRetrieval
    from deermem.watch import Watcher

_OPEN_USERS: Final = 64
_engines: weakref.WeakSet[DeerMem] = weakref.WeakSet()
_inherited: Final[list[object]] = []


class DeerMem:
    """One root of memories. A context manager; safe for threads and across fork; `close()` may be called twice.

    `root` None: settings.root, else $DEERMEM_DATA_DIR, else ~/.deermem. Nothing is created before the first
    write. Raises InvalidInput for a root that is a file, and for a retrieval adapter that can't be imported.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        settings: Settings | None = None,
        *,
        clock: Clock = utc_now,
        files: Files | None = None,
    ) -> None:
        self.settings = settings or Settings()
        chosen = os.path.abspath(os.path.expanduser(root)) if root is not None else self.settings.resolved_root()
        self.root = Path(chosen)
        check_root(self.root)
        index_root = self.settings.index_root
        self._layout = Layout(
            self.root,
            self.settings.manifest_filename,
            Path(index_root).expanduser().absolute() if index_root else None,
        )
        self._files = files or Files()
        self._clock = clock
        self._lock = threading.Lock()
        self._contexts: OrderedDict[str | None, UserContext] = OrderedDict()
        self._watchers: weakref.WeakSet[Watcher] = weakref.WeakSet()
        self._closed = False
        self._factory = self._adapter_factory()
        _engines.add(self)

    # --- life cycle

    def __enter__(self) -> DeerMem:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes every index and ends every watcher; nothing that was returned is lost without it."""
        for watcher in list(self._watchers):
            watcher.close()
        with self._lock:
            self._closed = True
            contexts, self._contexts = self._contexts, OrderedDict()
        # Outside the lock: an adapter that hangs must not hold up the engine.
        for user in contexts.values():
            user.close()

    def _start_over(self) -> None:
        """In a forked child: the parent's connections and locks stay the parent's."""
        _inherited.append(self._contexts)
        self._contexts = OrderedDict()
        self._watchers = weakref.WeakSet()
        self._lock = threading.Lock()

    def context(self, user_id: str | None) -> UserContext:
        """One user, opened; the least recently used of 64 is closed."""
        with self._lock:
            if self._closed:
                raise DeerMemError("the engine is closed", hint="open a new one")
            found = self._contexts.pop(user_id, None) or self._open(user_id)
            self._contexts[user_id] = found
            idle = self._contexts.popitem(last=False)[1] if len(self._contexts) > _OPEN_USERS else None
        if idle is not None:
            idle.close()
        return found

    def _open(self, user_id: str | None) -> UserContext:
        step = self._migration(Scope.of(user_id))
        if user_id is not None:
            refuse_folded(self._files, step.paths.folder)
        return UserContext(
            user_id=user_id,
            paths=step.paths,
            files=self._files,
            view=UserView(self._files, step.paths, user_id, self._clock, indexed=self.settings.retrieval_adapter != ""),
            clock=self._clock,
            migration=step,
            lock_timeout=self.settings.file_lock_timeout_seconds,
            max_facts=self.settings.max_facts,
            adapter=self._adapter(step.paths),
        )

    def _adapter_factory(self) -> RetrievalFactory | None:
        name = self.settings.retrieval_adapter
        if name in ("fts5", ""):
            return None
        from deermem.service.retrieval import load_factory

        return load_factory(name)

    def _adapter(self, paths: UserPaths) -> AdapterRetrieval | None:
        if self._factory is None:
            return None
        from deermem.service.retrieval import AdapterRetrieval

        return AdapterRetrieval(self._factory, paths, self.settings)

    def _migration(self, scope: Scope) -> MigrationStep:
        folder = scope.user_folder
        # A folder's name given as the id leaves the raw id unknown: the facts themselves may say it.
        known = scope.user_id if scope.user_id != folder else None
        place = UserPlace(folder=folder, user_id=known, manifest_name=self.settings.manifest_filename)
        return MigrationStep(self._files, self._layout.user(folder), place, self._clock)

    @property
    def budget(self) -> Budget:
        """How much goes into a prompt, from the settings."""
        from deermem.policy.prompt_block import Budget

        return Budget(
            max_tokens=self.settings.max_injection_tokens,
            guaranteed_categories=self.settings.guaranteed_categories,
            guaranteed_tokens=self.settings.guaranteed_token_budget,
            include_facts=self.settings.mode != "tool",
        )

    # --- one user

    def memory(self, user_id: str | None = None, agent_name: str | None = None) -> Memory:
        """The handle on one (user, agent); None is the no-user root, or the default bucket.

        Raises InvalidInput for names that no folder can have, and for no user under `strict_user_scope`.
        """
        return Memory(self, self._scope(user_id, agent_name))

    def agents(self, user_id: str | None = None) -> list[str]:
        """The agents of a user that have a folder, by name; `__default__` is the default bucket."""
        return self._layout.of(self._scope(user_id)).agents()

    def clear(self, user_id: str | None = None) -> Commit:
        """Removes every agent's facts and the summaries of one user; agent configuration stays."""
        from deermem.service.clear import clear

        return clear(self.context(self._scope(user_id).user_id), None, summaries=True)

    def search(
        self,
        user_id: str | None,
        text: str,
        agents: Iterable[str] | None = None,
        top_k: int = 5,
        **narrow: Unpack[Filters],
    ) -> list[SearchHit]:
        """The best facts over several agents of one user (None: all); each hit names its agent.

        Filters are those of `Memory.search`.
        """
        from deermem.service.recall import filters, recall

        scope = self._scope(user_id)
        names = self.agents(user_id) if agents is None else [normalize_agent(name) for name in agents]
        return recall(self.context(scope.user_id), names, text, where=filters(**narrow), top_k=top_k)

    def _scope(self, user_id: str | None, agent_name: str | None = None) -> Scope:
        if user_id is None and self.settings.strict_user_scope:
            raise InvalidInput("user_id is missing", hint="strict_user_scope asks for one on every access")
        return Scope.of(user_id, agent_name)

    # --- all users

    def users(self) -> list[str]:
        """The users that have a folder, by its name (the id itself, or the id made safe); each works as `user_id`."""
        return self._layout.users()

    def stats(self, user_id: str | None = None) -> Stats:
        """How much there is, of one user or of all."""
        from deermem.model.reports import Stats
        from deermem.service.upkeep import bucket_stats

        buckets: list[BucketStats] = []
        size = users = 0
        for name, user in self._each(user_id):
            users += 1
            buckets += bucket_stats(user, name)
            size += user.paths.index.stat().st_size if user.paths.index.is_file() else 0
        return Stats(root=str(self.root), users=users, buckets=tuple(buckets), index_bytes=size)

    def check(self, user_id: str | None = None, fix: bool = False) -> list[Finding]:
        """What is wrong or waits for a person, of one user or of all.

        Changes nothing; with `fix`, what is safe to mend is mended, under the lock, and comes back as fixed. A copy
        of every file that a mend touches is kept below `.journal/`.
        """
        from deermem.service.check import check, closed
        from deermem.service.check_store import check_store
        from deermem.service.mend import mend

        look = mend if fix else check
        place = None if user_id is None else self._layout.of(self._scope(user_id)).folder
        findings = check_store(self._layout, place.name if place is not None else None)
        if place is not None and any(finding.path == str(place) for finding in findings):
            # A link is no user: there is nothing more to look at.
            return findings
        try:
            findings += [finding for _, user in self._each(user_id) for finding in look(user)]
        except PermissionError as error:
            findings.append(closed(str(error.filename)))
        return list(dict.fromkeys(findings))

    def init(self, git: bool = False) -> Prepared:
        """Makes the root where there is none and, with `git`, tells git what must not travel; runs no git."""
        from deermem.service.prepare import prepare

        return prepare(self._files, self.root, git=git)

    def reindex(self, user_id: str | None = None) -> IndexReport:
        """Builds the index again from the files, of one user or of all; files that can't be read are counted."""
        from deermem.model.reports import IndexReport
        from deermem.service.upkeep import reindex

        reports = [reindex(user) for _, user in self._each(user_id)]
        return IndexReport(
            supported=self.settings.retrieval_adapter != "" and all(report.supported for report in reports),
            indexed=sum(report.indexed for report in reports),
            failed=sum(report.failed for report in reports),
            users=len(reports),
        )

    def warm(self) -> bool:
        """Builds what is missing of every index, so that the first search need not; safe to run in a thread."""
        from deermem.service.upkeep import warm

        whole = [warm(user) for _, user in self._each(None)]
        return all(whole)

    def watch(self) -> Watcher:
        """Follows the files of all users: keeps indexes warm and tells who subscribes; close it, or use `with`.

        Reads are right without it. Raises InvalidInput where the `watch` extra isn't installed.
        """
        from deermem.watch import Store, Watcher

        watcher = Watcher(Store(self._layout, self._visit, rootless=not self.settings.strict_user_scope))
        watcher.start()
        self._watchers.add(watcher)
        return watcher

    @contextmanager
    def _visit(self, folder: str | None) -> Iterator[UserContext]:
        """A user by its folder's name: as it is open already, else for this time only, so that nobody is displaced."""
        place = self._layout.user(folder).folder
        with self._lock:
            found = next((user for user in self._contexts.values() if user.paths.folder == place), None)
        if found is not None:
            yield found
            return
        user = self._open(folder)
        try:
            yield user
        finally:
            user.close()

    def migrate(
        self,
        user_ids: Sequence[str] | None = None,
        dry_run: bool = False,
        progress: Callable[[UserMigration], None] | None = None,
    ) -> MigrationReport:
        """Brings old stores to the present format, of these users or of all; one that stops leaves the others going on.

        `progress` is called after each user. A dry run checks everything and writes nothing.
        """
        from deermem.migrate.users import migrate_user
        from deermem.model.reports import MigrationReport

        results = []
        chosen = self._folders() if user_ids is None else [(user_id, user_id) for user_id in user_ids]
        for name, user_id in chosen:
            step = self._migration(self._scope(user_id))
            timeout = self.settings.file_lock_timeout_seconds
            result = migrate_user(step, name or "(no user)", dry_run=dry_run, lock_timeout=timeout)
            results.append(result)
            if progress is not None:
                progress(result)
        return MigrationReport(users=tuple(results), dry_run=dry_run)

    def _folders(self) -> list[tuple[str, str | None]]:
        named = self.settings.strict_user_scope or not self._layout.has_rootless_memory()
        rootless: list[tuple[str, str | None]] = [] if named else [("", None)]
        return rootless + [(name, name) for name in self.users()]

    def _each(self, user_id: str | None) -> Iterator[tuple[str | None, UserContext]]:
        """One user, or all; each is closed behind, so that ten thousand cost the files of one."""
        if user_id is not None:
            yield user_id, self.context(self._scope(user_id).user_id)
            return
        for name, folder in self._folders():
            user = self._open(folder)
            try:
                yield name or None, user
            finally:
                user.close()


def _after_fork() -> None:
    for engine in list(_engines):
        engine._start_over()


os.register_at_fork(after_in_child=_after_fork)
