"""Reading and replacing an agent's sidecars, under the user lock."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection
from typing import Final

from deermem.format import sidecars
from deermem.store.files import Files
from deermem.store.layout import UserPaths

USAGE: Final = "fact-usage.json"
AUDIT: Final = "eviction-audit.json"


def remove_entries(files: Files, paths: UserPaths, agent: str, ids: Collection[str], *, only: str = "") -> None:
    """Takes deleted facts out of both sidecars, or the one of this name; costs two failed stats where there are none.

    A kill in between leaves entries without a fact: they say nothing of its content, and `check` names them.
    """
    folder = str(paths.metadata(agent))
    for name, without in ((USAGE, sidecars.usage_without), (AUDIT, sidecars.audit_without)):
        path = os.path.join(folder, name)
        data = files.read(path) if only in ("", name) else None
        after = without(data, ids) if data else None
        if after is not None:
            replace_file(files, paths, path, after)


def replace_file(files: Files, paths: UserPaths, path: str, data: bytes) -> None:
    """A whole sidecar or none: staged below the journal, flushed, renamed, its folder flushed."""
    staged = os.path.join(paths.journal, f"t.{secrets.token_hex(8)}")
    files.create(staged, data)
    files.rename(staged, path)
    files.flush_folder(os.path.dirname(path))
