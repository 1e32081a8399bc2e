"""Which boot of the machine this is: what was believed before a power cut is not believed after it."""

from __future__ import annotations

import functools
import secrets


@functools.cache
def boot_id() -> str:
    """The kernel's random id of this boot; where there is none, one of this process, which others don't share."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return secrets.token_hex(16)
