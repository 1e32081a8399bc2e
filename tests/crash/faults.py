"""A file layer that dies, fails, or lets somebody else act at a chosen call.

`FaultyFiles` numbers every call that changes a file, flushes one or opens one for writing. A write counts twice,
so that it can be stopped in its middle. Flushes don't reach the disk here: a killed process loses nothing that it
wrote; what power does is the business of `power`.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import pytest

from deermem.store import names
from deermem.store.files import Files, Seen

Kind = Literal["kill", "interrupt", "error", "late"]
Hook = Callable[[int], None]
ERRNOS = (errno.ENOSPC, errno.EIO, errno.EACCES)


class Killed(BaseException):
    """The process is gone: nothing that runs afterwards has an effect."""


@dataclass(frozen=True)
class Fault:
    """What happens at the call with this number.

    kill: this call and all later ones do nothing. interrupt: Ctrl-C, cleanup works. error: the call fails, without
    effect. late: the call takes effect and fails all the same, as network file systems do.
    """

    at: int
    kind: Kind
    code: int = errno.EIO


class QuickFiles(Files):
    """The real file system without waiting for the disk."""

    def flush(self, descriptor: int, path: str) -> None:
        pass

    def flush_folder(self, path: str) -> None:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY))

    def open_for_all(self, folder: str) -> int | None:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def flush_all(self, descriptor: int, folder: str) -> None:
        assert os.path.samestat(os.fstat(descriptor), os.stat(folder))


class FaultyFiles(QuickFiles):
    """Counts its calls in `calls`; `fault` is what happens at one of them, `hook` is called before each.

    `read_hook` is called before each read of a file, with the number of reads so far.
    """

    def __init__(self, fault: Fault | None = None, *, hook: Hook | None = None, read_hook: Hook | None = None) -> None:
        self.fault = fault
        self.hook = hook
        self.read_hook = read_hook
        self.calls: list[str] = []
        self.reads = 0
        self.dead = False
        self._counting = threading.RLock()

    @property
    def fired(self) -> bool:
        """Whether the fault's call was reached."""
        return self.fault is not None and len(self.calls) > self.fault.at

    @contextmanager
    def _call(self, name: str, path: str) -> Iterator[None]:
        with self._counting:
            if self.dead:
                raise Killed
            number = len(self.calls)
            self.calls.append(f"{name} {os.path.basename(path)}")
            if self.hook is not None:
                self.hook(number)
        struck = self.fault is not None and self.fault.at == number
        if struck:
            self._strike(path, late=False)
        yield
        if struck:
            self._strike(path, late=True)

    def _strike(self, path: str, *, late: bool) -> None:
        assert self.fault is not None
        if (self.fault.kind == "late") is not late:
            return
        if self.fault.kind == "kill":
            self.dead = True
            raise Killed
        if self.fault.kind == "interrupt":
            raise KeyboardInterrupt
        raise OSError(self.fault.code, os.strerror(self.fault.code), path)

    def _alive(self) -> None:
        if self.dead:
            raise Killed
        if self.read_hook is not None:
            self.reads += 1
            self.read_hook(self.reads - 1)

    # --- reads: never faulty, but a dead process does not read either

    def look(self, path: str) -> Seen | None:
        self._alive()
        return super().look(path)

    def stat(self, path: str) -> os.stat_result | None:
        if self.dead:
            raise Killed
        return super().stat(path)

    def listdir(self, path: str) -> list[str]:
        if self.dead:
            raise Killed
        return super().listdir(path)

    # --- everything else

    def create(self, path: str, data: bytes, *, flush: bool = True) -> None:
        with self._call("open", path):
            pass
        super().create(path, data, flush=flush)

    def rewrite(self, path: str, data: bytes) -> None:
        with self._call("open", path):
            pass
        super().rewrite(path, data)

    def write(self, descriptor: int, data: bytes) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        half = len(data) // 2
        with self._call("write", path):
            super().write(descriptor, data[:half])
        with self._call("write on", path):
            super().write(descriptor, data[half:])

    def truncate(self, descriptor: int, size: int) -> None:
        with self._call("truncate", os.readlink(f"/proc/self/fd/{descriptor}")):
            super().truncate(descriptor, size)

    def flush(self, descriptor: int, path: str) -> None:
        with self._call("flush", path):
            super().flush(descriptor, path)

    def flush_folder(self, path: str) -> None:
        with self._call("flush folder", path):
            super().flush_folder(path)

    def flush_all(self, descriptor: int, folder: str) -> None:
        with self._call("flush all", folder):
            super().flush_all(descriptor, folder)

    def mkdir(self, path: str) -> bool:
        with self._call("mkdir", path):
            return super().mkdir(path)

    def rename_new(self, source: str, target: str) -> None:
        with self._call("rename new", target):
            super().rename_new(source, target)

    def exchange(self, staged: str, target: str, displaced: str) -> None:
        with self._call("exchange", target):
            super().exchange(staged, target, displaced)

    def link(self, source: str, target: str) -> None:
        with self._call("link", target):
            super().link(source, target)

    def rename(self, source: str, target: str) -> None:
        with self._call("rename", target):
            super().rename(source, target)

    def unlink(self, path: str) -> None:
        with self._call("unlink", path):
            super().unlink(path)

    def rmdir(self, path: str) -> bool:
        with self._call("rmdir", path):
            return super().rmdir(path)


def without_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on the system has neither rename without replacing nor exchange: the second way is taken."""

    def refuse(source: str, target: str) -> None:
        raise NotImplementedError("switched off for this test")

    monkeypatch.setattr(names, "rename_noreplace", refuse)
    monkeypatch.setattr(names, "rename_exchange", refuse)
