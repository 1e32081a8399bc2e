"""The kernel's word on which fact files changed: asked at each read, with no thread and no delay.

Linux queues an event before the call that caused it returns, so whoever reads after a save has its event. That is
certain only under conditions, all of them checked: a local file system, one link to every file (a save through
another name has no event here), this process (a forked child would steal the parent's events), watches set before
the files were scanned, and the watched folder still the one at its path. Any doubt means: sweep.

A save through a second name that was made elsewhere after the watch began raises no event here, nor does one
through a memory map: for these the view compares all files every few seconds.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import sys
from typing import Final

from deermem.store.fingerprints import is_local
from deermem.store.repository import SUFFIX

MAX_WATCHERS: Final = 32
MAX_FOLDERS: Final = 1024

_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _UNMOUNT, _OVERFLOW, _IGNORED = 0x400, 0x800, 0x2000, 0x4000, 0x8000
_ONLYDIR, _DONT_FOLLOW, _ISDIR = 0x01000000, 0x02000000, 0x40000000
_FILE_EVENTS: Final = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_ASKED: Final = _FILE_EVENTS | _DELETE_SELF | _MOVE_SELF | _ONLYDIR | _DONT_FOLLOW
_DOUBT: Final = _MOVE_SELF | _UNMOUNT | _OVERFLOW
_HEAD: Final = struct.Struct("iIII")

_open_watchers = 0


@functools.cache
def _libc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None, use_errno=True)
        library.inotify_add_watch.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]
        library.inotify_init1.argtypes = [ctypes.c_int]
    except (OSError, AttributeError):
        return None
    return library


class FolderWatch:
    """Watches one `facts/` folder and all folders below it."""

    def __init__(self, facts: str, descriptor: int, identity: tuple[int, int]) -> None:
        self._facts = facts
        self._descriptor = descriptor
        self._identity = identity
        self._process = os.getpid()
        self._folders: dict[int, str] = {}

    @classmethod
    def start(cls, facts: str) -> FolderWatch | None:
        """A watch whose events begin now: scan after this. None where the kernel's word would not be certain."""
        global _open_watchers  # noqa: PLW0603
        library = _libc()
        try:
            status = os.lstat(facts)
        except OSError:
            return None
        if library is None or not is_local(status.st_dev) or _open_watchers >= MAX_WATCHERS:
            return None
        descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor < 0:
            return None
        _open_watchers += 1
        watch = cls(facts, descriptor, (status.st_dev, status.st_ino))
        if watch._add("") is None:
            watch.close()
            return None
        return watch

    def close(self) -> None:
        """Ends the watch; harmless when it has ended."""
        global _open_watchers  # noqa: PLW0603
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            _open_watchers -= self._process == os.getpid()

    def __del__(self) -> None:
        self.close()

    def drain(self) -> set[str] | None:
        """The paths below `facts/` that may have changed since the last call; None in doubt: then sweep anew.

        One that ends in `/` is a new folder: what happened in it before it was watched is not known.
        """
        if self._descriptor < 0 or self._process != os.getpid() or not self._is_at_its_path():
            return None
        changed: set[str] = set()
        while True:
            try:
                data = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                return changed
            except OSError:
                return None
            if not self._take(data, changed):
                return None

    def _is_at_its_path(self) -> bool:
        try:
            status = os.lstat(self._facts)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity

    def _take(self, data: bytes, changed: set[str]) -> bool:
        """Reads the events of one buffer; false in doubt."""
        at = 0
        while at < len(data):
            watched, mask, _, length = _HEAD.unpack_from(data, at)
            raw = data[at + _HEAD.size : at + _HEAD.size + length]
            at += _HEAD.size + length
            if not self._event(watched, mask, os.fsdecode(raw.rstrip(b"\0")), changed):
                return False
        return True

    def _event(self, watched: int, mask: int, name: str, changed: set[str]) -> bool:
        prefix = self._folders.get(watched)
        if mask & _DOUBT:
            return False
        if mask & (_IGNORED | _DELETE_SELF):
            self._folders.pop(watched, None)
            return prefix != ""
        if prefix is None:
            return True
        if mask & _ISDIR:
            return self._folder_event(mask, prefix, name, changed)
        if name.endswith(SUFFIX) and not name.startswith("."):
            changed.add(prefix + name)
        return True

    def _folder_event(self, mask: int, prefix: str, name: str, changed: set[str]) -> bool:
        if mask & _MOVED_FROM:
            return False
        if name.startswith(".") or not mask & (_CREATE | _MOVED_TO | _ATTRIB):
            return True
        found = self._add(f"{prefix}{name}/")
        if found is None:
            return False
        changed.update(found, [f"{prefix}{name}/"])
        return True

    def _add(self, prefix: str) -> list[str] | None:
        """Watches a folder and those below it; the fact files in them, None where the kernel refuses."""
        found: list[str] = []
        # No recursion: folders nest deeper than Python's stack.
        prefixes = [prefix]
        while prefixes:
            here = prefixes.pop()
            entries = self._add_one(here)
            if entries is None:
                return None
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.name.endswith(SUFFIX):
                    found.append(here + entry.name)
                if entry.is_dir(follow_symlinks=False):
                    prefixes.append(f"{here}{entry.name}/")
        return found

    def _add_one(self, prefix: str) -> list[os.DirEntry[str]] | None:
        library = _libc()
        path = os.path.join(self._facts, prefix)
        if library is None or len(self._folders) >= MAX_FOLDERS:
            return None
        watched = library.inotify_add_watch(self._descriptor, os.fsencode(path), _ASKED)
        if watched < 0:
            # A folder that is gone again has nothing to watch; the event that says so is on its way.
            return [] if prefix and not os.path.isdir(path) else None
        self._folders[watched] = prefix
        try:
            return list(os.scandir(path))
        except OSError:
            return None
