"""A file's signature, and when it proves that the content is still the one that was read.

A kernel stamps files with a coarse clock: two saves within one tick leave the same times and, with the same
size, the same signature. So a signature proves something only if the file's change time is older than the clock
that the look began at. Where the file system's clock is not this machine's, two seconds are asked for.
"""

from __future__ import annotations

import functools
import os
import time
from typing import Final, NamedTuple

UNKNOWN_MARGIN_NS: Final = 2_000_000_000
_LOCAL: Final = frozenset({"ext4", "ext3", "ext2", "xfs", "btrfs", "tmpfs", "f2fs"})
_COARSE: Final[int | None] = vars(time).get("CLOCK_REALTIME_COARSE", 5 if os.uname().sysname == "Linux" else None)


class Signature(NamedTuple):
    """What stat says of one version of a file."""

    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Signature:
        """From a stat result."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def clock_ns(device: int) -> int:
    """Now, as files on this device are stamped, less what is not known about that: read it before a look begins."""
    if _COARSE is not None and is_local(device):
        return time.clock_gettime_ns(_COARSE)
    return time.time_ns() - UNKNOWN_MARGIN_NS


def proves(signature: Signature, looked_ns: int) -> bool:
    """Whether an equal signature, seen later, means an equal content; `looked_ns` is `clock_ns` before the read."""
    return signature.ctime_ns < looked_ns


@functools.cache
def is_local(device: int) -> bool:
    """Whether the device holds a file system whose times come from this kernel's coarse clock."""
    return file_system(device) in _LOCAL


@functools.cache
def file_system(device: int) -> str:
    """The type of the file system on a device, as Linux names it; "" where that is unknown."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as table:
            mounts = [line.split() for line in table]
    except OSError:
        return ""
    return next((fields[fields.index("-") + 1] for fields in mounts if fields[2] == wanted and "-" in fields), "")
