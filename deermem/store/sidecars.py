"""Reading and replacing an agent's sidecars, under the user lock."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Collection
from typing import Final

from deermem.format import sidecars
from deermem.format.audit import write_audit
from deermem.model.evictions import Eviction
from deermem.store.files import Files
from deermem.store.layout import LEGACY_DEFAULT_AGENT, UserPaths

USAGE: Final = "fact-usage.json"
AUDIT: Final = "eviction-audit.json"


def remove_entries(files: Files, paths: UserPaths, agent: str, ids: Collection[str], *, only: str = "") -> None:
    """Takes deleted facts out of both sidecars, or the one of this name; costs two failed stats where there are none.

    A kill in between leaves entries without a fact: they say nothing of its content, and `check` names them.
    """
    folder = str(paths.metadata(agent))
    for name, without in ((USAGE, sidecars.usage_without), (AUDIT, sidecars.audit_without)):
        path = os.path.join(folder, name)
        data = files.read(path) if only in ("", name) else None
        after = without(data, ids) if data else None
        if after is not None:
            replace_file(files, paths, path, after)
            files.flush_folder(folder)


def read_sidecar(files: Files, paths: UserPaths, agent: str, name: str) -> bytes | None:
    """A sidecar's bytes, None where there is none, or where it can't be read: it is derived."""
    try:
        return files.read(os.path.join(paths.metadata(agent), name))
    except OSError:
        return None


def record_eviction(files: Files, paths: UserPaths, agent: str, eviction: Eviction, *, max_entries: int) -> None:
    """Adds one decision of the cap to the audit, under the user lock."""
    update(files, paths, agent, AUDIT, lambda data: write_audit(data, eviction, max_entries=max_entries))


def update(
    files: Files, paths: UserPaths, agent: str, name: str, change: Callable[[bytes | None], bytes | None]
) -> None:
    """Replaces a sidecar by what `change` makes of it, None for no change; makes its folder. Under the user lock.

    A power cut may take the last change back, never the file. An agent's folder of the former default bucket holds
    facts alone, or DeerFlow would not adopt it.
    """
    if agent == LEGACY_DEFAULT_AGENT and not (paths.agent(agent) / "config.yaml").is_file():
        return
    folder = str(paths.metadata(agent))
    after = change(files.read(os.path.join(folder, name)))
    if after is None:
        return
    if files.mkdir(folder):
        files.flush_folder(os.path.dirname(folder))
    replace_file(files, paths, os.path.join(folder, name), after)


def replace_file(files: Files, paths: UserPaths, path: str, data: bytes) -> None:
    """A whole sidecar or none: staged below the journal, flushed, renamed."""
    staged = os.path.join(paths.journal, f"t.{secrets.token_hex(8)}")
    files.create(staged, data)
    files.rename(staged, path)
