"""The epoch: a random value that clear and forget change before their first deletion.

Whatever was decided before (an extraction under way) carries the value it saw and is refused under another one,
so that it can't bring back what was cleared meanwhile.
"""

from __future__ import annotations

import os
import secrets

from deermem.store.files import Files
from deermem.store.layout import UserPaths


def read_epoch(files: Files, paths: UserPaths) -> str:
    """The present value; "" where there is none, which equals no value that a clear wrote."""
    data = files.read(str(paths.epoch))
    return data.decode("ascii", "replace").strip() if data else ""


def renew_epoch(files: Files, paths: UserPaths) -> None:
    """A new value, on disk before this returns; the journal folder must exist."""
    staged = os.path.join(paths.journal, f"t.{secrets.token_hex(8)}")
    files.create(staged, f"{secrets.token_hex(16)}\n".encode())
    files.rename(staged, str(paths.epoch))
    files.flush_folder(str(paths.journal))
