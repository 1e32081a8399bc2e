"""File systems on which SQLite's write-ahead log and advisory locks can't be relied on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from deermem.store import fingerprints

_UNSAFE: Final = frozenset(
    ["nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "9p", "virtiofs", "afs", "vboxsf", "prl_fs"]
)

FileSystem = Callable[[int], str]


def unsafe_file_system(path: Path, file_system: FileSystem | None = None) -> str:
    """The type of the file system below a path where it is an unsafe one, else "".

    A path that does not exist yet is judged by the nearest folder above it. `file_system` tells the type of a device.
    """
    kind = (file_system or fingerprints.file_system)(_device(path))
    return kind if kind in _UNSAFE or kind.startswith("fuse.") else ""


def _device(path: Path) -> int:
    for place in (path, *path.parents):
        try:
            return os.stat(place).st_dev
        except OSError:
            continue
    return 0
