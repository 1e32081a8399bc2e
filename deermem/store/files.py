"""Every call that changes a file or flushes one, and the few reads that the commit protocol rests on.

Each method is one step of the protocol: tests stop a commit at every one of them, so nothing else in deermem
may write, rename, remove or flush a memory file. Paths are strings: absolute, without a link below the root.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Final, NamedTuple

_BASE: Final = os.O_CLOEXEC | os.O_NOFOLLOW


class Seen(NamedTuple):
    """What one read saw: the bytes, and the file's stat before and after (equal, or the read was torn)."""

    data: bytes
    before: os.stat_result
    after: os.stat_result


class Files:
    """The real file system. Folders are made 0700, files 0600."""

    # --- reading

    def read(self, path: str) -> bytes | None:
        """The whole file; None where there is no regular file of that name (a link is none)."""
        seen = self.look(path)
        return None if seen is None else seen.data

    def look(self, path: str) -> Seen | None:
        """The whole file with its signatures; None where there is no regular file of that name."""
        try:
            descriptor = os.open(path, os.O_RDONLY | _BASE | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            # A link is refused by O_NOFOLLOW with an error that looks like a failing disk.
            if os.path.islink(path):
                return None
            raise
        try:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                return None
            data = _read_all(descriptor, before.st_size)
            return Seen(data, before, os.fstat(descriptor))
        finally:
            os.close(descriptor)

    def stat(self, path: str) -> os.stat_result | None:
        """lstat, None where nothing is there."""
        try:
            return os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def listdir(self, path: str) -> list[str]:
        """The names in a folder, sorted; none where it is absent or no folder."""
        try:
            return sorted(os.listdir(path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    # --- writing

    def create(self, path: str, data: bytes, *, flush: bool = True) -> None:
        """A new file with this content; FileExistsError where one is there."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BASE, 0o600)
        try:
            self.write(descriptor, data)
            if flush:
                self.flush(descriptor, path)
        finally:
            os.close(descriptor)

    def rewrite(self, path: str, data: bytes) -> None:
        """Overwrites an existing file in place and flushes it; only the record is written so."""
        descriptor = os.open(path, os.O_WRONLY | _BASE)
        try:
            self.write(descriptor, data)
            if os.fstat(descriptor).st_size > len(data):
                self.truncate(descriptor, len(data))
            self.flush(descriptor, path)
        finally:
            os.close(descriptor)

    def write(self, descriptor: int, data: bytes) -> None:
        """All of the data, however short the single writes turn out."""
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]

    def truncate(self, descriptor: int, size: int) -> None:
        """Cuts off what an older, longer content left behind."""
        os.ftruncate(descriptor, size)

    def flush(self, descriptor: int, path: str) -> None:  # noqa: ARG002 - tests tell files apart by their path
        """Content to the disk."""
        os.fsync(descriptor)

    def flush_file(self, path: str) -> None:
        """The content of a file that somebody else wrote, to the disk."""
        descriptor = os.open(path, os.O_RDONLY | _BASE)
        try:
            self.flush(descriptor, path)
        finally:
            os.close(descriptor)

    def flush_folder(self, path: str) -> None:
        """The names in a folder, to the disk; the root and what is above it may be links."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def open_for_all(self, folder: str) -> int | None:
        """A descriptor for `flush_all`, had before what it flushes is written; None where there is no such call."""
        from deermem.store.syncfs import can_flush_all

        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if can_flush_all(descriptor):
            return descriptor
        os.close(descriptor)
        return None

    def flush_all(self, descriptor: int, folder: str) -> None:
        """Everything on the file system of a folder, to the disk: contents and names alike."""
        from deermem.store.syncfs import flush_all

        flush_all(descriptor, folder)
        # Without a journal, ext4 empties the device's cache before the last blocks are written: once more, after them.
        os.fsync(descriptor)

    def mkdir(self, path: str) -> bool:
        """A new folder; False where a real folder is there already; FileExistsError where something else is."""
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise
            return False
        return True

    def rename_new(self, source: str, target: str) -> None:
        """Rename that never replaces: FileExistsError where the target is there."""
        from deermem.store.names import rename_noreplace

        try:
            rename_noreplace(source, target)
        except NotImplementedError:
            self.link(source, target)
            # Power could leave the second half without the first, and so the text nowhere.
            self.flush_folder(os.path.dirname(target))
            self.unlink(source)

    def exchange(self, staged: str, target: str, displaced: str) -> None:
        """Puts `staged` in the place of `target`; FileNotFoundError where the target is gone.

        What stood there is then at `staged`, or at `displaced` where the system can't exchange two names (then
        with an instant in which a save between the two calls is replaced).
        """
        from deermem.store.names import rename_exchange

        try:
            rename_exchange(staged, target)
        except NotImplementedError:
            if not os.path.lexists(displaced):
                self.link(target, displaced)
            self.rename(staged, target)

    def link(self, source: str, target: str) -> None:
        """A second name for a file; FileExistsError where the target is there."""
        os.link(source, target, follow_symlinks=False)

    def rename(self, source: str, target: str) -> None:
        """Rename to a name that nobody else uses (a random one below the journal)."""
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        """Removes a name; absent is fine."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def rmdir(self, path: str) -> bool:
        """Removes an empty folder; False where it isn't empty or not there."""
        try:
            os.rmdir(path)
        except OSError:
            return False
        return True


def _read_all(descriptor: int, size: int) -> bytes:
    data = os.read(descriptor, size + 1)
    if len(data) <= size and (len(data) == size or not data):
        return data
    chunks = [data]
    while chunk := os.read(descriptor, 1 << 20):
        chunks.append(chunk)
    return b"".join(chunks)
