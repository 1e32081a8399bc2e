"""What the operating system refused, in words: which file, what it means, what to do."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from deermem.errors import DeerMemError, StoreUnavailable
from deermem.store.layout import UserPaths


@contextlib.contextmanager
def in_words(paths: UserPaths) -> Iterator[None]:
    """Where nothing was changed yet: the operating system's refusals become StoreUnavailable."""
    try:
        yield
    except OSError as error:
        if isinstance(error, DeerMemError):
            raise
        raise unavailable(error, paths) from error


def unavailable(error: OSError, paths: UserPaths, *, outcome_unknown: bool = False) -> StoreUnavailable:
    """An operating system's refusal, in words: which file, what it means, what to do."""
    where = error.filename or paths.folder
    hints = {
        errno.ENOSPC: "free some space",
        errno.EDQUOT: "free some space",
        errno.EROFS: "the file system is read-only",
        errno.EACCES: "check its owner and permissions",
        errno.EPERM: "check its owner and permissions",
    }
    hint = hints.get(error.errno or 0, "check the storage")
    state = "the change may stand on disk already: read again" if outcome_unknown else "nothing was changed"
    return StoreUnavailable(
        f"{where}: {error.strerror or error}", hint=f"{hint}; {state}", outcome_unknown=outcome_unknown
    )
