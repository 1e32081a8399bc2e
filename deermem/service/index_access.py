"""The user's catalogue as the view holds it: opened when needed, rebuilt once when damaged, then done without."""

from __future__ import annotations

import errno
import logging
import sqlite3
import time
from collections.abc import Callable
from typing import Final, TypeVar

from deermem.index import schema
from deermem.index.catalogue import Catalogue
from deermem.store.layout import UserPaths
from deermem.store.network import unsafe_file_system

_log: Final = logging.getLogger("deermem")
_readonly_log: Final = logging.getLogger("deermem.index")
_GIVEN_UP: Final = 2
_REFUSALS: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_SQLITE_REFUSALS: Final = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
# No room to write, which says nothing against what is written: SQLite tells it by these codes, the system by those.
_NO_ROOM: Final = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_SHMSIZE,
)
_NO_ROOM_ERRNOS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PAUSE_SECONDS: Final = 5.0
# The file was removed under an open connection: a new one may be written.
_MOVED: Final = 1032
T = TypeVar("T")


class IndexAccess:
    """Derived state may fail: nothing here raises for a damaged, locked, missing or unwritable database."""

    def __init__(self, paths: UserPaths, *, wanted: bool, on_drop: Callable[[], None]) -> None:
        self._paths = paths
        self._wanted = wanted
        self._on_drop = on_drop
        self._failures = 0
        self._refused = False
        self._paused_until = float("-inf")
        self._catalogue: Catalogue | None = None

    def open(self) -> Catalogue | None:
        """The open catalogue; None where there is none to be had (then everything goes without)."""
        if time.monotonic() < self._paused_until:
            return None
        if self._catalogue is not None and not self._catalogue.is_usable():
            self.close()
            self._on_drop()
        if self._catalogue is None and self._wanted and self._failures < _GIVEN_UP and self._paths.folder.is_dir():
            self._catalogue = self.guarded(self._connected) or self._catalogue
        return self._catalogue

    def _connected(self) -> Catalogue:
        # A write-ahead log needs memory that all its users share, which two machines or a guest and its host don't.
        catalogue = Catalogue(self._paths.index, wal=not unsafe_file_system(self._paths.index))
        self._refused = False
        return catalogue

    def close(self) -> None:
        """Closes the connection; `open` makes a new one."""
        if self._catalogue is not None:
            self._catalogue.close()
            self._catalogue = None

    def end(self) -> None:
        """Closes for good: whoever still holds the view goes on without the index."""
        self.close()
        self._wanted = False

    def ask(self, question: Callable[[Catalogue], T]) -> T | None:
        """The answer of the catalogue, None where it has none to give now."""
        catalogue = self.open()
        return None if catalogue is None else self.guarded(lambda: question(catalogue))

    def drop(self) -> None:
        """Removes the database; it is built again from the files. One that can't be written stays."""
        self.close()
        self._paused_until = float("-inf")
        try:
            if not self._refused:
                schema.delete(self._paths.index)
        except OSError as error:
            _log.warning("the index %s can't be removed: %s", self._paths.index, error)
        self._on_drop()

    def start_over(self) -> None:
        """Empties the database, or drops it where it is damaged, and forgives what failed before."""
        self._failures, self._refused, self._paused_until = 0, False, float("-inf")
        self.close()
        if self.ask(lambda catalogue: not catalogue.read_only and catalogue.start_over()):
            self._on_drop()
        elif self._refused:
            # What can't be emptied must not answer for files that are to be read anew.
            self.close()
            self._failures = _GIVEN_UP
            self._on_drop()
        else:
            self.drop()

    def guarded(self, work: Callable[[], T]) -> T | None:
        """The result of work on the database, None where it failed."""
        try:
            return work()
        except sqlite3.OperationalError as error:
            if _is_refusal(error):
                self._refuse(error)
                return None
            _log.warning("the index %s can't be used now: %s", self._paths.index, error)
            if _is_passing(error):
                self._pause()
            else:
                self._fail()
        except FileNotFoundError:
            # Another process is dropping the index this instant, and will make it again.
            return None
        except (sqlite3.DatabaseError, OSError, ValueError, TypeError, LookupError) as error:
            # The last three: a column holds what nobody here wrote.
            if isinstance(error, OSError) and _is_refusal(error):
                self._refuse(error)
                return None
            if isinstance(error, OSError) and error.errno in _NO_ROOM_ERRNOS:
                _log.warning("the index %s can't be used now: %s", self._paths.index, error)
                self._pause()
                return None
            _log.warning("the index %s is damaged and is built again: %s", self._paths.index, error)
            self._fail()
        return None

    def _fail(self) -> None:
        self._failures += 1
        self.drop()
        if self._failures >= _GIVEN_UP:
            _log.warning("the index %s is given up; searches go without it", self._paths.index)

    def _pause(self) -> None:
        """Goes without it for a while: each try waits for its whole patience, and one search tries several times."""
        self._paused_until = time.monotonic() + _PAUSE_SECONDS

    def _refuse(self, error: sqlite3.OperationalError | OSError) -> None:
        """It can't be written: it is read as it is, or left alone; deleting what others can write helps nobody."""
        self.close()
        how = "it is only read"
        try:
            self._catalogue = Catalogue(self._paths.index, read_only=True)
        except (sqlite3.Error, OSError):
            self._failures = _GIVEN_UP
            how = "searches go without it"
        if not self._refused:
            reason = error.strerror if isinstance(error, OSError) else error
            _readonly_log.warning("the index %s can't be written (%s); %s", self._paths.index, reason, how)
        self._refused = True


def _is_passing(error: sqlite3.OperationalError) -> bool:
    """Whether it will go by itself: somebody else has it, or there is no room to write."""
    code = error.sqlite_errorcode or 0
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or code in _NO_ROOM


def _is_refusal(error: sqlite3.OperationalError | OSError) -> bool:
    """Whether permissions or the file system forbid it, rather than damage or another process."""
    if isinstance(error, OSError):
        return error.errno in _REFUSALS
    code = error.sqlite_errorcode or 0
    return code & 0xFF in _SQLITE_REFUSALS and code != _MOVED
