"""Copies of the old documents, verified and flushed before the first destructive write."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Sequence
from typing import Final

from deermem.errors import BackupMismatch
from deermem.migrate.plan import Backup
from deermem.store.files import Files
from deermem.store.journal import parse_record
from deermem.store.layout import UserPaths

_log: Final = logging.getLogger("deermem")


class Backups:
    """The copies that one run makes of a user's old documents. The caller holds the lock.

    `places` are the absolute paths of those that are there, whoever made them.
    """

    def __init__(self, files: Files, paths: UserPaths, wanted: Sequence[Backup]) -> None:
        self.places: list[str] = []
        self._files = files
        self._paths = paths
        self._wanted = wanted
        self._ours: list[tuple[Backup, str, tuple[int, int]]] = []

    def make(self) -> None:
        """Writes each copy beside its source and reads it back.

        The contents are flushed; the names are the caller's to flush before anything is changed. Raises
        BackupMismatch where the copy, or one that was there already, is not the source byte for byte; OSError where
        it can't be written. The journal folder must exist.
        """
        for backup in self._wanted:
            path = os.path.join(self._paths.folder, backup.path)
            staged = os.path.join(self._paths.journal, f"t.{secrets.token_hex(8)}")
            # Power must not leave a torn copy under the name of a whole one: the next run would stop at it.
            self._files.create(staged, backup.data)
            if (identity := self._identity(staged)) is not None:
                # Noted before the rename: one that fails may have taken place all the same.
                self._ours.append((backup, path, identity))
            try:
                self._files.rename_new(staged, path)
            except FileExistsError:
                self._files.unlink(staged)
            if self._files.read(path) != backup.data:
                raise BackupMismatch(
                    f"{path} differs from its source {backup.source}",
                    hint="the migration was stopped and nothing was changed; move the old backup away",
                )
            self.places.append(path)

    def take_back(self) -> None:
        """After a commit that did not happen: a document that is mended then would differ from its copy, and stop.

        A copy stays where this run did not make it, where its source is not there byte for byte, and wherever a
        record may be sealed. Raises nothing: what brought the caller here is worth more.
        """
        try:
            record = parse_record(self._files.read(str(self._paths.record)))
            if record is not None and record.state == "sealed":
                return
            removed = [path for backup, path, identity in self._ours if self._removed(backup, path, identity)]
            for folder in sorted({os.path.dirname(path) for path in removed}):
                self._files.flush_folder(folder)
        except OSError as error:
            _log.warning(
                "%s: a copy of an old document stays although nothing was changed: %s", self._paths.folder, error
            )

    def _removed(self, backup: Backup, path: str, identity: tuple[int, int]) -> bool:
        source = os.path.join(self._paths.folder, backup.source)
        if self._identity(path) != identity or self._files.read(source) != backup.data:
            return False
        self._files.unlink(path)
        return True

    def _identity(self, path: str) -> tuple[int, int] | None:
        status = self._files.stat(path)
        return None if status is None else (status.st_dev, status.st_ino)
