"""One lock per user: between threads, then between processes, served in turn.

The file stays after release: unlinking it would split waiters over two files that both lock. Two locks are
taken one after the other. Whoever waits for the user lock holds the turnstile; a writer in a tight loop must
pass the turnstile too, so it can't overtake the one that waits.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from deermem.errors import LockTimeout, StoreUnavailable
from deermem.store.layout import UserPaths

_POLL_LOCK = 0.0005
_POLL_TURNSTILE = 0.004


class _ThreadLock:
    """One reentrant lock between the threads of this process; weakly held by folder identity."""

    __slots__ = ("__weakref__", "depth", "held", "rlock")

    def __init__(self) -> None:
        self.rlock = threading.RLock()
        self.depth = 0
        self.held: HeldLock | None = None


_thread_locks: weakref.WeakValueDictionary[tuple[int, int], _ThreadLock] = weakref.WeakValueDictionary()
_registry = threading.Lock()


_descriptors: set[int] = set()


def _forget_after_fork() -> None:
    # A lock that another thread held at the fork would never be released in the child.
    global _thread_locks, _registry  # noqa: PLW0603
    for thread_lock in list(_thread_locks.values()):
        if thread_lock.held is not None:
            thread_lock.held.released = True
    _thread_locks = weakref.WeakValueDictionary()
    _registry = threading.Lock()
    # A lock ends with the last copy of its descriptor: a child that lives on would hold it after its parent died.
    while _descriptors:
        with suppress(OSError):
            os.close(_descriptors.pop())


os.register_at_fork(after_in_child=_forget_after_fork)


@dataclass(slots=True)
class HeldLock:
    """Proof that the user lock is held; only `user_lock` makes one, and every writing function asks for it.

    `unfinished` says why a commit that was sealed under this hold is not in its place yet, "" where none waits.
    """

    paths: UserPaths
    descriptor: int
    identity: tuple[int, int]
    released: bool = False
    recovered: bool = field(default=False)
    unfinished: str = field(default="")

    def check(self) -> None:
        """Raises StoreUnavailable where the locked file is no longer the one at its path.

        Somebody who removed the user's folder meanwhile may have made a new one, which others lock already.
        """
        try:
            now = os.lstat(self.paths.lock)
        except OSError:
            now = None
        if self.released or now is None or (now.st_dev, now.st_ino) != self.identity:
            raise StoreUnavailable(
                f"{self.paths.lock} was replaced while it was held", hint="nothing was changed; try again"
            )


@contextmanager
def user_lock(paths: UserPaths, timeout: float) -> Iterator[HeldLock]:
    """Holds the lock of one user, whose folder must exist; reentrant within a thread.

    Raises LockTimeout after `timeout` seconds, naming the file and, where the system tells, the holder.
    """
    deadline = time.monotonic() + timeout
    try:
        folder = os.stat(paths.folder)
    except OSError as error:
        raise StoreUnavailable(f"{paths.folder}: {error.strerror}", hint="check the folder") from error
    with _registry:
        thread_lock = _thread_locks.setdefault((folder.st_dev, folder.st_ino), _ThreadLock())
    if not thread_lock.rlock.acquire(timeout=max(0.0, timeout)):
        raise LockTimeout(f"{paths.lock} is held by another thread of this process", hint="try again later")
    try:
        thread_lock.depth += 1
        if thread_lock.held is None:
            thread_lock.held = _acquire(paths, deadline)
        yield thread_lock.held
    finally:
        thread_lock.depth -= 1
        if thread_lock.depth == 0 and thread_lock.held is not None:
            held, thread_lock.held = thread_lock.held, None
            _release(held)
        thread_lock.rlock.release()


@contextmanager
def file_lock(path: Path, timeout: float) -> Iterator[None]:
    """Holds one more lock, on a file of its own whose folder must exist: between threads as between processes.

    Not reentrant. Raises LockTimeout after `timeout` seconds; 0 is one try.
    """
    descriptor = _lock_file(path, time.monotonic() + timeout)
    try:
        yield
    finally:
        _let_go(descriptor)


def _acquire(paths: UserPaths, deadline: float) -> HeldLock:
    # A link there is set aside once the lock is held; until then nothing is made behind it.
    served_in_turn = paths.journal.is_dir() and not paths.journal.is_symlink()
    turnstile = _open(paths.turnstile) if served_in_turn else None
    try:
        if turnstile is not None:
            _wait(turnstile, paths.turnstile, deadline, _POLL_TURNSTILE)
        descriptor = _lock_file(paths.lock, deadline)
    finally:
        if turnstile is not None:
            _let_go(turnstile)
    status = os.fstat(descriptor)
    return HeldLock(paths, descriptor, (status.st_dev, status.st_ino))


def _release(held: HeldLock) -> None:
    # In a child that was forked under the lock it is the parent's, and not to be ended from here.
    if not held.released:
        held.released = True
        _let_go(held.descriptor)


def _let_go(descriptor: int) -> None:
    from filelock import unlock_descriptor

    try:
        # Closing alone is not enough: a child forked meanwhile has a copy that keeps the lock.
        unlock_descriptor(descriptor)
    finally:
        _close(descriptor)


def _close(descriptor: int) -> None:
    _descriptors.discard(descriptor)
    os.close(descriptor)


def _lock_file(path: Path, deadline: float) -> int:
    while True:
        descriptor = _open(path)
        try:
            _wait(descriptor, path, deadline, _POLL_LOCK)
            if _is_at(descriptor, path):
                return descriptor
        except BaseException:
            _close(descriptor)
            raise
        _let_go(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _open(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StoreUnavailable(
            f"the lock {path} can't be opened: {error.strerror}", hint="check the folder's permissions and free space"
        ) from error
    _descriptors.add(descriptor)
    return descriptor


def _wait(descriptor: int, path: Path, deadline: float, poll: float) -> None:
    from filelock import lock_descriptor

    try:
        while not lock_descriptor(descriptor, blocking=False):
            if time.monotonic() >= deadline:
                raise LockTimeout(f"{path} is held by {_holder(descriptor)}", hint="try again when it is done")
            time.sleep(poll)
    except OSError as error:
        if isinstance(error, LockTimeout):
            raise
        raise StoreUnavailable(
            f"{path} can't be locked: {error.strerror}", hint="the storage must support flock"
        ) from error


def _holder(descriptor: int) -> str:
    """The process that holds the lock, as Linux tells it."""
    inode = f":{os.fstat(descriptor).st_ino}"
    try:
        with open("/proc/locks", encoding="ascii") as table:
            locks = [line.split() for line in table]
    except OSError:
        return "another process"
    holders = [lock[4] for lock in locks if lock[1] == "FLOCK" and lock[5].endswith(inode)]
    return f"process {holders[0]}" if holders else "another process"
