"""One flush in the place of many: how a commit of many files waits for the disk twice, not once a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from deermem.store.files import Files
from deermem.store.layout import UserPaths

MANY: Final = 8


class Together:
    """The flushes of one commit. `on`: one for all of them; else each file and folder is flushed by itself."""

    def __init__(self, files: Files, folder: str, descriptor: int | None) -> None:
        self._files = files
        self._folder = folder
        self._descriptor = descriptor

    @property
    def on(self) -> bool:
        """Whether `flush` takes the place of single flushes."""
        return self._descriptor is not None

    def flush(self) -> None:
        """Everything that was written and named since, to the disk; raises OSError where any of it failed."""
        if self._descriptor is not None:
            self._files.flush_all(self._descriptor, self._folder)


@contextmanager
def flushed_together(files: Files, paths: UserPaths, count: int) -> Iterator[Together]:
    """For a commit of so many files; makes the journal folder where it opens one.

    Off for a few files, whose own flushes cost less and wait for nobody else's writes.
    """
    folder = str(paths.journal)
    descriptor = None
    if count >= MANY:
        # Opened before anything is written: only what fails from then on is reported by it.
        files.mkdir(folder)
        if os.stat(paths.folder).st_dev == os.stat(folder).st_dev:
            descriptor = files.open_for_all(folder)
    try:
        yield Together(files, folder, descriptor)
    finally:
        if descriptor is not None:
            os.close(descriptor)
