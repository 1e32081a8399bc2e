"""One flush for a whole file system: Linux's syncfs, where it is known to promise what a flush of each file does.

Every write-back is started and waited for, contents and names. Since Linux 5.8 it also reports every write that failed
since its descriptor was opened, whichever file it was of. Elsewhere, and on file systems that pass it on to somebody
else (network, FUSE, overlay), each file is flushed by itself.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import re
import sys
from collections.abc import Callable
from typing import Final

from deermem.store.fingerprints import file_system

_TRUSTED: Final = frozenset({"ext4", "xfs", "btrfs", "tmpfs"})
_FIRST_TO_REPORT: Final = (5, 8)


@functools.cache
def _function() -> Callable[[int], int] | None:
    if not sys.platform.startswith("linux") or _kernel(os.uname().release) < _FIRST_TO_REPORT:
        return None
    try:
        function = ctypes.CDLL(None, use_errno=True)["syncfs"]
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_int]
    function.restype = ctypes.c_int
    # A sandbox may refuse the call, and says so whatever it is given: no flush is spent on finding that out.
    function(-1)
    return function if ctypes.get_errno() == errno.EBADF else None


def _kernel(release: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def can_flush_all(descriptor: int) -> bool:
    """Whether `flush_all`, with a flush of its folder behind it, promises as much as a flush of each file there."""
    return _function() is not None and file_system(os.fstat(descriptor).st_dev) in _TRUSTED


def flush_all(descriptor: int, path: str) -> None:
    """Everything written to the file system so far, to the disk; OSError for what failed since it was opened."""
    flush = _function()
    if flush is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), path)
    if flush(descriptor) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
