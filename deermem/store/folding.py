"""Names that a file system folds together: where it knows no case, `Alice` would silently be `alice`."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from deermem.errors import InvalidInput, StoreUnavailable
from deermem.store.files import Files


def refuse_folded(files: Files, folder: Path) -> None:
    """Raises InvalidInput where a folder's name stands for another folder, which the error names.

    StoreUnavailable where it is a link: links below the root are not followed.

    Costs two stats where there is such a folder and one where there is none; only a file system that folds case is
    asked for the names there are.
    """
    path = str(folder)
    parent, name = os.path.split(path)
    here = files.stat(path)
    if here is None:
        return
    if stat.S_ISLNK(here.st_mode):
        raise StoreUnavailable(f"{folder} is a link", hint="links below the root are not followed; move it away")
    swapped = files.stat(f"{parent}/{name.swapcase()}")
    if swapped is None or not os.path.samestat(here, swapped):
        return
    names = files.listdir(parent)
    if name in names:
        return
    first = next((other for other in names if other.casefold() == name.casefold()), "another folder")
    raise InvalidInput(
        f"{name!r} can't have a folder of its own in {parent}: {first!r} is there, "
        "and this file system does not tell upper from lower case",
        hint="use the name that is there, or one that differs in more than case",
    )
