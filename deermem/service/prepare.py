"""Making a root ready for git or a sync client: what is derived or of one machine must not travel."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from deermem.errors import StoreUnavailable
from deermem.model.reports import Prepared
from deermem.store.files import Files
from deermem.store.transaction import make_parents

EXCLUDED: Final = (".retrieval/", ".journal/", ".queue/", ".memory.lock", ".recovery/", ".memory.journal.json")
# A digest and a version are made of bytes: git must not turn line ends round.
_ATTRIBUTES: Final = ("*.md -text",)


def prepare(files: Files, root: Path, *, git: bool) -> Prepared:
    """Makes the folder, and with `git` adds what is missing to `.gitignore` and `.gitattributes` in it.

    Lines that are there stay. Raises StoreUnavailable where the storage refuses or one of them is no regular file.
    """
    created = not root.is_dir()
    wanted = {".gitignore": EXCLUDED, ".gitattributes": _ATTRIBUTES} if git else {}
    try:
        make_parents(files, root)
        written = [name for name, lines in wanted.items() if _extend(files, str(root / name), lines)]
        if written:
            files.flush_folder(str(root))
    except OSError as error:
        if isinstance(error, StoreUnavailable):
            raise
        where = error.filename or root
        raise StoreUnavailable(f"{where}: {error.strerror}", hint="check the path and its rights") from error
    paths = tuple(str(root / name) for name in written)
    return Prepared(root=str(root), created=created, written=paths, exclude=EXCLUDED)


def _extend(files: Files, path: str, lines: Sequence[str]) -> bool:
    present = files.read(path)
    if present is None:
        if os.path.lexists(path):
            raise StoreUnavailable(f"{path} is no regular file", hint="move it away, or add the lines yourself")
        files.create(path, "".join(f"{line}\n" for line in lines).encode())
        return True
    there = {line.strip() for line in present.decode(errors="replace").splitlines()}
    missing = [line for line in lines if line not in there]
    if missing:
        newline = "\r\n" if b"\r\n" in present else "\n"
        gap = newline if present and not present.endswith(b"\n") else ""
        # The old bytes are written over by themselves, so that a kill in between costs none of them.
        files.rewrite(path, present + (gap + "".join(f"{line}{newline}" for line in missing)).encode())
    return bool(missing)
