"""A memory.json that is there and is no regular file: neither absent nor readable, and never to be replaced."""

from __future__ import annotations

import stat

from deermem.errors import Corruption
from deermem.store.files import Files, Seen


def look_regular(files: Files, path: str) -> Seen | None:
    """The file, None only where nothing is of that name; raises Corruption for a link, a folder, a pipe."""
    seen = files.look(path)
    while seen is None and (status := files.stat(path)) is not None:
        if not stat.S_ISREG(status.st_mode):
            reason = f"it is {_kind(status.st_mode)}, not a regular file"
            raise Corruption(
                f"{path}: {reason}",
                path=path,
                reason=reason,
                hint="links are not followed; put a regular file there; nothing was changed",
            )
        # It came to be between the two looks.
        seen = files.look(path)
    return seen


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a link"
    return "a folder" if stat.S_ISDIR(mode) else "a pipe, socket or device"
