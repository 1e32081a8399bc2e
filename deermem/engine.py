"""DeerMem: opens a root and composes everything below it; the one place that knows all parts."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Unpack

from deermem.clock import Clock, utc_now
from deermem.config import Settings, checked
from deermem.errors import InvalidInput
from deermem.extract.door import Conversations
from deermem.memory import Memory
from deermem.migrate.place import UserPlace
from deermem.migrate.run import MigrationStep
from deermem.model.changes import Commit
from deermem.model.records import Filters, SearchHit
from deermem.model.scope import Scope, normalize_agent, normalize_agents
from deermem.service.adapters import adapters
from deermem.service.open_users import OpenUsers
from deermem.service.rules import rules_of
from deermem.service.user import UserContext
from deermem.service.view import UserView
from deermem.store.files import Files
from deermem.store.folding import refuse_folded
from deermem.store.layout import Layout, UserPaths, check_root

if TYPE_CHECKING:
    from deermem.extract.hooks import Hooks
    from deermem.model import reports
    from deermem.service.prompt import Prompting
    from deermem.watch import Watcher

_engines: Final[weakref.WeakSet[DeerMem]] = weakref.WeakSet()


class DeerMem:
    """One root of memories. A context manager; safe for threads and across fork; `close()` may be called twice.

    `root` None: settings.root, else $DEERMEM_DATA_DIR, else ~/.deermem. Nothing is created before the first
    write. `model` reads conversations: a function of a list of messages, or an object with `invoke`; None: that of
    the settings, else conversations are not extracted. `hooks` are the host's.
    Raises InvalidInput for a root that is a file, for a model that can't be asked, and for a retrieval adapter,
    patterns or prompts that can't be loaded.
    """

    def __init__(  # noqa: PLR0913 - three are keyword-only
        self,
        root: str | os.PathLike[str] | None = None,
        settings: Settings | None = None,
        model: object = None,
        *,
        hooks: Hooks | None = None,
        clock: Clock = utc_now,
        files: Files | None = None,
    ) -> None:
        self.settings = checked(settings)
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
        self._users = OpenUsers(self._open)
        self._watchers: weakref.WeakSet[Watcher] = weakref.WeakSet()
        self._adapter = adapters(self.settings)
        self._rules = rules_of(self.settings)
        self.conversations = Conversations(self, (self._files, self._layout, self._clock), model, hooks)
        self.conversations.begin()
        _engines.add(self)

    def __repr__(self) -> str:
        return f"DeerMem({str(self.root)!r})"

    # --- life cycle

    def __enter__(self) -> DeerMem:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Extracts what waits for `close_timeout_seconds`, closes every index and ends every watcher.

        Nothing that was returned is lost without it, and conversations that wait are taken up by the next engine.
        """
        self.conversations.close(self.settings.close_timeout_seconds)
        for watcher in list(self._watchers):
            watcher.close()
        self._users.close()

    def _start_over(self) -> None:
        """In a forked child."""
        self._users.start_over()
        self.conversations.start_over()
        self._watchers = weakref.WeakSet()

    def context(self, user_id: str | None) -> UserContext:
        """One user, opened; the engine may close it again when many others are."""
        return self._users.get(user_id)

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
            rules=self._rules,
            adapter=self._adapter(step.paths),
            passed_over=self.conversations.passed_over,
        )

    def _migration(self, scope: Scope) -> MigrationStep:
        folder = scope.user_folder
        # A folder's name given as the id leaves the raw id unknown: the facts themselves may say it.
        known = scope.user_id if scope.user_id != folder else None
        place = UserPlace(folder=folder, user_id=known, manifest_name=self.settings.manifest_filename)
        return MigrationStep(self._files, self._layout.user(folder), place, self._clock)

    @property
    def prompting(self) -> Prompting:
        """How much goes into a prompt and how it is counted, from the settings."""
        from deermem.service.prompt import prompting

        return prompting(self.settings, self._clock)

    # --- conversations

    def flush(self, timeout: float | None = None) -> bool:
        """Extracts at once every conversation that waits, also those that other processes left behind.

        At most `timeout` seconds; true only if all of it was done by then. What was not stays on disk.
        """
        return self.conversations.flush(timeout)

    def cancel(self, user_id: str | None, agent_name: str | None = None) -> int:
        """Drops the conversations of a user that wait, of one agent or of all; what is being read goes on. How many.

        `user_id` None is the no-user root alone.
        """
        agent = None if agent_name is None else normalize_agent(agent_name)
        return self.conversations.cancel(self._scope(user_id).user_folder, agent)

    def waiting(self, user_id: str | None = None) -> list[reports.Waiting]:
        """The conversations that are not extracted yet, of one user or of all, the oldest first."""
        return self.conversations.waiting(self._paths(user_id))

    def retry(self, user_id: str | None = None) -> int:
        """Has conversations that were set aside after too many failures tried again, of one user or all; how many."""
        return self.conversations.retry(self._paths(user_id))

    def _paths(self, user_id: str | None) -> list[UserPaths]:
        folders = self._folders() if user_id is None else [self._scope(user_id).user_folder]
        return [self._layout.user(folder) for folder in folders]

    # --- one user

    def memory(self, user_id: str | None = None, agent_name: str | None = None) -> Memory:
        """The handle on one (user, agent); None is the no-user root, or the default bucket.

        Raises InvalidInput for names that no folder can have, and for no user under `strict_user_scope`.
        """
        return Memory(self, self._scope(user_id, agent_name))

    def agents(self, user_id: str | None = None) -> list[str]:
        """The agents of a user that have a folder or wait in an old document, by name; `__default__` is the default."""
        return self._migration(self._scope(user_id)).agents()

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
        names = self.agents(user_id) if agents is None else normalize_agents(agents)
        return recall(self.context(scope.user_id), names, text, where=filters(**narrow), top_k=top_k)

    def _scope(self, user_id: str | None, agent_name: str | None = None) -> Scope:
        if user_id is None and self.settings.strict_user_scope:
            raise InvalidInput("user_id is missing", hint="strict_user_scope asks for one on every access")
        return Scope.of(user_id, agent_name)

    # --- all users

    def users(self) -> list[str]:
        """The users that have a folder, by its name (the id itself, or the id made safe); each works as `user_id`."""
        return self._layout.users()

    def stats(self, user_id: str | None = None) -> reports.Stats:
        """How much there is, of one user or of all."""
        from deermem.model.reports import Stats
        from deermem.service.upkeep import bucket_stats

        buckets: list[reports.BucketStats] = []
        size = users = 0
        for name, user in self._each(user_id):
            users += user.paths.folder.is_dir()
            buckets += bucket_stats(user, name, self.settings)
            size += user.paths.index.stat().st_size if user.paths.index.is_file() else 0
        return Stats(root=str(self.root), users=users, buckets=tuple(buckets), index_bytes=size)

    def check(self, user_id: str | None = None, fix: bool = False) -> list[reports.Finding]:
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
            for _, user in self._each(user_id):
                findings += [*look(user), *self.conversations.findings(user.paths)]
        except PermissionError as error:
            findings.append(closed(str(error.filename)))
        return list(dict.fromkeys(findings))

    def init(self, git: bool = False) -> reports.Prepared:
        """Makes the root where there is none and, with `git`, tells git what must not travel; runs no git."""
        from deermem.service.prepare import prepare

        return prepare(self._files, self.root, git=git)

    def reindex(self, user_id: str | None = None) -> reports.IndexReport:
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
        """Builds what is missing of every index, so that the first search need not, and has tiktoken's data read.

        Safe to run in a thread. Says whether every index is whole; a user who can't be read is logged and passed over.
        """
        from deermem.service.upkeep import warm_each

        self.prompting.tokens.load()
        return warm_each(self._folders(), self._visit)

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
        with self._users.visit(folder, self._layout.user(folder).folder) as user:
            yield user

    def migrate(  # noqa: PLR0913 - three are keyword-only
        self,
        user_ids: Sequence[str] | None = None,
        dry_run: bool = False,
        progress: Callable[[reports.UserMigration], None] | None = None,
        *,
        verify: bool = False,
        begin: Callable[[int], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> reports.MigrationReport:
        """Brings old stores to the present format, of these users or of all; one that stops leaves the others going on.

        A dry run checks everything and writes nothing; `verify` holds the files against the backups afterwards.
        `begin` is told how many users there are, `stop` asked before each, `progress` told of each result, in their
        order and in this thread; of many users a few are in work at once.
        """
        from deermem.migrate.store import How, Watch, migrate_users

        how = How(dry_run=dry_run, verify=verify, lock_timeout=self.settings.file_lock_timeout_seconds)
        scopes = [self._scope(user_id) for user_id in (self._folders() if user_ids is None else user_ids)]
        return migrate_users(scopes, self._migration, how, Watch(begin, progress, stop))

    def restore(self, user_id: str | None, dry_run: bool = False) -> reports.UserRestore:
        """Puts a user's version 1 documents back from their backups, where nothing said since would be lost."""
        from deermem.migrate.undo import restore_user

        return restore_user(self._migration(self._scope(user_id)), dry_run, self.settings.file_lock_timeout_seconds)

    def _folders(self) -> list[str | None]:
        named = self.settings.strict_user_scope or not self._layout.has_rootless_memory()
        return [*([] if named else [None]), *self.users()]

    def _each(self, user_id: str | None) -> Iterator[tuple[str | None, UserContext]]:
        """One user, or all; each is closed behind, so that ten thousand cost the files of one."""
        if user_id is not None:
            yield user_id, self.context(self._scope(user_id).user_id)
            return
        folders = self._folders()
        yield from zip(folders, self._users.each(folders), strict=True)


def _after_fork() -> None:
    for engine in list(_engines):
        engine._start_over()


os.register_at_fork(after_in_child=_after_fork)
