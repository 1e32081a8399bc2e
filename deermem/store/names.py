"""The two atomic operations on names that Python's os lacks: rename without replacing, and exchange.

Linux has renameat2, macOS renameatx_np. Where the system or the file system has neither, `NotImplementedError`
is raised and the caller takes its second way.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys
from collections.abc import Callable
from typing import Final

_AT_FDCWD: Final = -100 if sys.platform.startswith("linux") else -2
_NOREPLACE: Final = 1 if sys.platform.startswith("linux") else 4
_EXCHANGE: Final = 2
_UNSUPPORTED: Final = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


@functools.cache
def _renameat() -> Callable[[bytes, bytes, int], int] | None:
    symbol = {"linux": "renameat2", "darwin": "renameatx_np"}.get(sys.platform)
    if symbol is None:
        return None
    try:
        function = ctypes.CDLL(None, use_errno=True)[symbol]
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    function.restype = ctypes.c_int
    return lambda source, target, flags: int(function(_AT_FDCWD, source, _AT_FDCWD, target, flags))


def _call(source: str, target: str, flags: int) -> None:
    rename = _renameat()
    if rename is None:
        raise NotImplementedError("this system has no renameat2")
    if rename(os.fsencode(source), os.fsencode(target), flags) == 0:
        return
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        raise NotImplementedError(os.strerror(code))
    raise OSError(code, os.strerror(code), source, None, target)


def rename_noreplace(source: str, target: str) -> None:
    """Rename; FileExistsError where the target is there, FileNotFoundError where the source is not."""
    _call(source, target, _NOREPLACE)


def rename_exchange(source: str, target: str) -> None:
    """Exchange the two names in one step; FileNotFoundError where one of them is not there."""
    _call(source, target, _EXCHANGE)
