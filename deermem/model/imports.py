"""What an import did, or in a dry run would do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from deermem.model.changes import Commit

KINDS: Final = ("deermem", "mcp-memory", "mem0", "notes")
"""What can be imported: a document of this engine, and what other programs keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport(Commit):
    """The commit of an import, told apart by what became of each fact; all are ids of this memory.

    `added` are new and stored, `updated` were there and say something else now, `present` said it already, under
    this id or another. `left_out` are new facts that the cap has no room for: they are in `evicted` too. `skipped`
    says what of a foreign memory was passed over, and why; `bad` what could not be taken in and was left out, where
    that was asked for, each with its place and mend. With `dry_run` nothing was changed: it is what would come
    of it, and `revision` is the present one.
    """

    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()
    dry_run: bool = False
