"""Copies of the old documents, verified and flushed before the first destructive write."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable

from deermem.errors import BackupMismatch
from deermem.migrate.plan import Backup
from deermem.store.files import Files
from deermem.store.layout import UserPaths


def make_backups(files: Files, paths: UserPaths, backups: Iterable[Backup]) -> list[str]:
    """Writes each copy beside its source and reads it back; returns their absolute paths.

    Raises BackupMismatch where the copy, or one that was there already, is not the source byte for byte; OSError
    where it can't be written. The journal folder must exist.
    """
    made = []
    for backup in backups:
        path = os.path.join(paths.folder, backup.path)
        staged = os.path.join(paths.journal, f"t.{secrets.token_hex(8)}")
        files.create(staged, backup.data)
        try:
            files.rename_new(staged, path)
        except FileExistsError:
            files.unlink(staged)
        files.flush_folder(os.path.dirname(path))
        if files.read(path) != backup.data:
            raise BackupMismatch(
                f"{path} differs from its source {backup.source}",
                hint="the migration was stopped and nothing was changed; move the old backup away",
            )
        made.append(path)
    return made
