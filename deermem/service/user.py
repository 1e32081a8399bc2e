"""What every service of one user works with: its places, its view, its clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deermem.clock import Clock
from deermem.errors import Corruption
from deermem.format import manifest
from deermem.format.manifest import Manifest
from deermem.format.problems import FormatError
from deermem.index.catalogue import Currency
from deermem.model.scope import Scope
from deermem.service.ports import Adapter, Migration
from deermem.service.rules import Rules
from deermem.service.view import UserView
from deermem.store.boot import boot_id
from deermem.store.files import Files
from deermem.store.layout import UserPaths
from deermem.store.refusals import in_words
from deermem.store.regular import look_regular

if TYPE_CHECKING:
    from deermem.store.lock import HeldLock
    from deermem.store.spool import PassedOver


def _no_watermarks(before: bytes | None, spooled: Sequence[bytes]) -> bytes:  # noqa: ARG001 - the port's shape
    """For a user whom no engine opened: what was extracted is not told anew."""
    return before or b"{}"


@dataclass(frozen=True, slots=True)
class UserContext:
    """One user, opened. `lock_timeout` is in seconds, `rules` are those of the settings.

    `adapter` is the retrieval of the settings, None for the built-in one; `passed_over` moves the watermarks of
    conversations beyond what a clear drops.
    """

    user_id: str | None
    paths: UserPaths
    files: Files
    view: UserView
    clock: Clock
    migration: Migration
    lock_timeout: float = 10.0
    rules: Rules = field(default_factory=Rules)
    adapter: Adapter | None = None
    passed_over: PassedOver = _no_watermarks

    def close(self) -> None:
        """Ends the index and the adapter; whoever still holds the user goes on without the index."""
        self.view.close()
        if self.adapter is not None:
            self.adapter.close()

    def scope(self, agent: str) -> Scope:
        """The bucket of an agent of this user."""
        return Scope(self.user_id, agent)

    @contextmanager
    def locked(self, agent: str | None) -> Iterator[HeldLock]:
        """Holds the user lock with whatever was left over or old made whole first.

        Raises LockTimeout, StoreUnavailable, MigrationError.
        """
        from deermem.store.lock import user_lock
        from deermem.store.recovery import recover

        with user_lock(self.paths, self.lock_timeout) as held:
            recover(self.files, held)
            if self.migration.is_due(agent):
                self.migration.run(held, agent)
            yield held

    def currency(self, document: ManifestState) -> Currency:
        """What the catalogue is stamped with for this memory.json."""
        return Currency(boot_id(), document.revision, document.ino, document.ctime_ns)

    def read_manifest(self) -> ManifestState:
        """memory.json as it stands; raises Corruption where it is no usable document (it is left as it is).

        A link, a folder or a pipe of that name is none. Raises StoreUnavailable where it may not be read.
        """
        path = str(self.paths.manifest)
        with in_words(self.paths):
            seen = look_regular(self.files, path)
        if seen is None:
            return ManifestState(None, None, 0, 0)
        return ManifestState(seen.data, parse_manifest(seen.data, path), seen.before.st_ino, seen.before.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class ManifestState:
    """memory.json: bytes and content (None: absent), and the stat that tells this version of it from others."""

    data: bytes | None
    manifest: Manifest | None
    ino: int
    ctime_ns: int

    @property
    def revision(self) -> int:
        """The shared revision, 0 where there is no document."""
        return self.manifest.summaries.revision if self.manifest else 0


def parse_manifest(data: bytes, path: str) -> Manifest:
    """The document, or Corruption that names file, line and what to do."""
    try:
        return manifest.decode(data)
    except FormatError as error:
        where = f"{path}:{error.problem.line}" if error.problem.line else path
        raise Corruption(
            f"{where}: {error.problem.message}",
            path=path,
            reason=error.problem.message,
            hint=error.problem.hint or "mend it by hand or restore it from a copy; facts stay readable",
        ) from error
