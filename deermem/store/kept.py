"""Copies of what a mend is about to touch: `.journal/kept.{stem}.{8 hex}.md`, left there for people."""

from __future__ import annotations

import hashlib
import os
import secrets
from typing import Final

from deermem.format.markdown import note_id
from deermem.store.files import Files
from deermem.store.layout import UserPaths

KEPT_PREFIX: Final = "kept."


def keep_copy(files: Files, paths: UserPaths, name: str, data: bytes) -> None:
    """Copies one file's content below the journal, content flushed; `name` is the file's, with its suffix.

    The name carries the content's hash, so that what is kept already is not kept twice. The caller holds the lock,
    has made the journal folder, and flushes it.
    """
    stem, suffix = os.path.splitext(name)
    path = os.path.join(paths.journal, f"{KEPT_PREFIX}{note_id(stem)}.{hashlib.sha256(data).hexdigest()[:8]}{suffix}")
    present = files.read(path)
    if present == data:
        return
    if present is not None:
        path = os.path.join(paths.journal, f"{KEPT_PREFIX}{note_id(stem)}.{secrets.token_hex(4)}{suffix}")
    files.create(path, data)
