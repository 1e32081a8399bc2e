"""DeerFlow's undo journal: what its DeerMem leaves behind when it dies in a write.

`.memory.journal.json` names the facts that were about to change, `.recovery/{operation}/` holds what stood there
before. State "prepared" is rolled back, "committed" is only cleaned up. What the roll-back displaces is kept as a
conflict copy, because nothing tells DeerFlow's half-written text from one that a person saved since.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Final

from deermem.errors import InvalidInput
from deermem.format import manifest, markdown
from deermem.format.paths import fact_path
from deermem.format.problems import FormatError
from deermem.model.fact import check_id
from deermem.model.scope import normalize_agent
from deermem.store.files import Files
from deermem.store.layout import UserPaths
from deermem.store.swap import Swapper
from deermem.store.transaction import make_folders

_log: Final = logging.getLogger("deermem")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def undo_is_due(files: Files, paths: UserPaths) -> bool:
    """Whether there is such a journal; one stat."""
    return files.stat(str(paths.undo_journal)) is not None


def roll_back(files: Files, paths: UserPaths) -> None:
    """Restores what a dead DeerFlow process was about to change; a journal that can't be used is set aside."""
    if not undo_is_due(files, paths):
        return
    if files.mkdir(str(paths.journal)):
        files.flush_folder(str(paths.folder))
    data = files.read(str(paths.undo_journal))
    try:
        plan = _parse(data, paths)
    except ValueError as error:
        aside = f"set-aside.undo-journal.{secrets.token_hex(4)}"
        files.rename(str(paths.undo_journal), os.path.join(paths.journal, aside))
        files.flush_folder(str(paths.journal))
        _log.warning("%s can't be used (%s) and is set aside as %s", paths.undo_journal, error, aside)
        return
    swapper = Swapper(files, paths)
    for path, backup in plan.items():
        _restore(swapper, path, backup)
    for folder in sorted({os.path.dirname(os.path.join(paths.folder, path)) for path in plan} | {str(paths.journal)}):
        if files.stat(folder) is not None:
            files.flush_folder(folder)
    _clean_up(files, paths, data)
    _log.warning("%s: rolled back an interrupted write of DeerFlow (%d files)", paths.folder, len(plan))


def _parse(data: bytes | None, paths: UserPaths) -> dict[str, str | None]:
    """Relative path → backup file, None where the fact was new; raises ValueError for what can't be trusted."""
    said = json.loads(data or b"")
    if not isinstance(said, dict) or said.get("state") not in ("prepared", "committed"):
        raise ValueError("unknown state")
    operation = said.get("operationId")
    if not isinstance(operation, str) or not operation or PurePosixPath(operation).parts != (operation,):
        raise ValueError("operationId is no plain name")
    if operation in (".", ".."):
        raise ValueError("operationId is no plain name")
    if said["state"] == "committed":
        return {}
    folder = os.path.join(paths.undo_backups, operation)
    return {**_manifest_step(said, folder, paths), **_fact_steps(said, folder)}


def _manifest_step(said: Mapping[str, object], folder: str, paths: UserPaths) -> dict[str, str | None]:
    backup = os.path.join(folder, "memory.json")
    if os.path.isfile(backup):
        return {paths.manifest_name: backup}
    return {paths.manifest_name: None} if not said.get("expectedRevision") else {}


def _fact_steps(said: Mapping[str, object], folder: str) -> dict[str, str | None]:
    old, ids, agent = said.get("oldEntries") or {}, said.get("factIds") or [], said.get("agentName")
    if not isinstance(old, dict) or not isinstance(ids, list) or not isinstance(agent, str | None):
        raise ValueError("oldEntries, factIds or agentName has another type")
    steps: dict[str, str | None] = {}
    try:
        for fact_id in ids:
            if fact_id not in old:
                steps[fact_path(normalize_agent(agent), check_id(fact_id))] = None
        for fact_id, entry in old.items():
            path = entry.get("path") if isinstance(entry, dict) else None
            if isinstance(path, str):
                steps[_inside(path)] = os.path.join(folder, f"{check_id(fact_id)}.md")
    except InvalidInput as error:
        raise ValueError(str(error)) from None
    return steps


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or parts[0] != "agents" or ".." in parts or "\\" in path or not path.endswith(".md"):
        raise ValueError(f"path {path!r:.80} escapes the user's facts")
    return "/".join(parts)


def _restore(swapper: Swapper, path: str, backup: str | None) -> None:
    files, paths = swapper.files, swapper.paths
    target = os.path.join(paths.folder, path)
    wanted = files.read(backup) if backup is not None else None
    if backup is not None and (wanted is None or not _parses(path, wanted, paths)):
        return
    present = files.read(target)
    if present == wanted:
        return
    if present is not None:
        swapper.move_aside(target, path)
    if wanted is not None:
        staged = swapper.at(f"t.{secrets.token_hex(8)}")
        files.create(staged, wanted)
        make_folders(files, paths.folder, [PurePosixPath(path).parent.parts])
        files.rename_new(staged, target)


def _parses(path: str, data: bytes, paths: UserPaths) -> bool:
    """A torn backup must not replace a file that may be whole."""
    try:
        if path == paths.manifest_name:
            manifest.decode(data)
        else:
            markdown.decode(data, stem=PurePosixPath(path).stem, when=_EPOCH)
    except FormatError as error:
        _log.warning("the backup of %s in %s can't be used: %s", path, paths.undo_backups, error)
        return False
    return True


def _clean_up(files: Files, paths: UserPaths, data: bytes | None) -> None:
    operation = json.loads(data or b"{}")["operationId"]
    files.unlink(str(paths.undo_journal))
    files.flush_folder(str(paths.folder))
    folder = os.path.join(paths.undo_backups, operation)
    for name in files.listdir(folder):
        files.unlink(os.path.join(folder, name))
    if files.rmdir(folder):
        files.rmdir(str(paths.undo_backups))
