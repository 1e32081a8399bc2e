"""Taking in what another program keeps: a file, a folder of notes or a text of one of several kinds."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from deermem.errors import InvalidInput, StoreUnavailable
from deermem.format.foreign.collecting import Foreign
from deermem.format.foreign.json_text import load_json
from deermem.format.foreign.mcp_memory import read_mcp_memory
from deermem.format.foreign.mem0 import read_mem0
from deermem.format.foreign.notes import NoteFile, read_notes, shown_path
from deermem.model.imports import KINDS, ImportReport
from deermem.service.documents import Intake, import_document, take_in
from deermem.service.user import UserContext

Origin: TypeAlias = str | os.PathLike[str] | bytes
_TEMPLATES: Final = frozenset(("template", "templates", "_templates"))
_NOTE: Final = ".md"
_NO_LINKS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def import_from(  # noqa: PLR0913 - three are keyword-only
    user: UserContext, agent: str, kind: str, origin: Origin, *, replace_all: bool, dry_run: bool, skip_bad: bool
) -> ImportReport:
    """Stores every fact of what lies at a path, or in a file's bytes; ids come from where each fact stands there.

    So a second time changes nothing, and what says the same under another id is not added. Raises InvalidInput that
    names up to twenty bad items, unless they are skipped, and StoreUnavailable for what can't be read; then nothing is
    changed.
    """
    if kind not in KINDS:
        raise InvalidInput(f"kind is {kind!r:.60}", hint=f"give one of {', '.join(KINDS)}")
    if not isinstance(origin, (str, os.PathLike, bytes)):
        raise InvalidInput(f"origin is {type(origin).__name__}", hint="give a path, or the bytes of a file")
    if skip_bad and (kind == "deermem" or replace_all):
        why = "a document is taken in whole" if kind == "deermem" else "replacing would delete what is skipped"
        raise InvalidInput(f"bad items can't be skipped here: {why}", hint="leave out skip_bad")
    with _naming(origin):
        if kind == "deermem":
            document = load_json(_decoded(_file(user, kind, origin)[0]))
            if not isinstance(document, dict):
                hint = 'give a document like {"facts": [{"content": "…"}]}, or another kind'
                raise InvalidInput("it is not a JSON object", hint=hint)
            return import_document(user, agent, document, replace_all=replace_all, dry_run=dry_run)
        read = _notes if kind == "notes" else partial(_text, kind)
        found = read(user, origin, skip_bad)
        intake = Intake(found.document, replace_all=replace_all, foreign=True, skipped=found.skipped, bad=found.bad)
        return take_in(user, agent, intake, dry_run=dry_run)


@contextmanager
def _naming(origin: Origin) -> Iterator[None]:
    """Puts the path before what is wrong in it."""
    try:
        yield
    except InvalidInput as error:
        if not isinstance(origin, bytes):
            error.message = f"{shown_path(os.fspath(origin))}: {error.message}"
        raise


def _text(kind: str, user: UserContext, origin: Origin, skip_bad: bool) -> Foreign:
    data, when = _file(user, kind, origin)
    if kind == "mem0":
        return read_mem0(_decoded(data), when=when, now=user.clock(), skip_bad=skip_bad)
    return read_mcp_memory(_decoded(data), when=when, skip_bad=skip_bad)


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"it is not valid UTF-8 at byte {error.start}", hint="save it as UTF-8") from None


def _file(user: UserContext, kind: str, origin: Origin) -> tuple[bytes, datetime]:
    """A file's bytes and its time, which is that of what states none in it."""
    if isinstance(origin, bytes):
        return origin, user.clock()
    try:
        with open(origin, "rb") as stream:
            return stream.read(), _moment(os.fstat(stream.fileno()))
    except IsADirectoryError:
        hint = f"give a file of kind {kind!r}, or take the folder in as 'notes'"
        raise StoreUnavailable(f"{shown_path(os.fspath(origin))} is a folder", hint=hint) from None
    except (OSError, ValueError) as error:
        raise _unreadable(os.fspath(origin), error) from None


def _moment(status: os.stat_result) -> datetime:
    try:
        return datetime.fromtimestamp(int(status.st_mtime), UTC)
    except (ValueError, OverflowError, OSError):
        return datetime(1970, 1, 1, tzinfo=UTC)


def _unreadable(path: str, error: OSError | ValueError) -> StoreUnavailable:
    if isinstance(error, FileNotFoundError):
        return StoreUnavailable(f"there is no file {shown_path(path)}", hint="check the name")
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return StoreUnavailable(f"{shown_path(path)} can't be read: {reason}", hint="check the path and its rights")


# --- a folder of notes


def _notes(user: UserContext, origin: Origin, skip_bad: bool) -> Foreign:
    if isinstance(origin, bytes):
        raise InvalidInput("notes are given as bytes", hint="give the path of their folder")
    top = os.path.abspath(os.fspath(origin))
    if not os.path.isdir(top):
        if os.path.exists(top):
            raise InvalidInput("it is not a folder", hint="give the folder that the notes lie in")
        raise _unreadable(os.fspath(origin), FileNotFoundError())
    walk = _Walk(user.paths.folder if user.user_id is None else user.paths.folder.parent.parent)
    if walk.is_store(top):
        raise InvalidInput("it lies inside the store", hint="give a folder of notes; `export` is for memories")
    found = read_notes(walk.notes(top), skip_bad=skip_bad)
    return replace(found, skipped=(*found.skipped, *walk.skipped()))


@dataclass(slots=True)
class _Walk:
    """The notes below a folder. Links are not followed, so that nothing outside of it is read; nor is the store."""

    store: Path
    links: list[str] = field(default_factory=list)
    templates: list[str] = field(default_factory=list)
    others: int = 0

    def notes(self, top: str) -> Iterator[NoteFile]:
        """Each note, folder by folder."""
        folders = [(top, "")]
        while folders:
            folder, prefix = folders.pop()
            try:
                with os.scandir(folder) as entries:
                    listed = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                raise _unreadable(folder, error) from None
            below = [(entry.path, f"{prefix}{entry.name}/") for entry in listed if self._is_folder(entry, prefix)]
            folders += reversed(below)
            yield from (_note(entry.path, prefix + entry.name) for entry in listed if self._is_note(entry, prefix))

    def _is_folder(self, entry: os.DirEntry[str], prefix: str) -> bool:
        if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=False):
            return False
        if entry.name.casefold() in _TEMPLATES:
            self.templates.append(prefix + entry.name)
            return False
        # A store within the folder holds facts already, and those of other users.
        return not self.is_store(entry.path)

    def _is_note(self, entry: os.DirEntry[str], prefix: str) -> bool:
        if entry.name.startswith(".") or entry.is_dir(follow_symlinks=False):
            return False
        if entry.is_symlink():
            self.links.append(prefix + entry.name)
            return False
        is_note = entry.name.lower().endswith(_NOTE) and entry.is_file(follow_symlinks=False)
        self.others += not is_note
        return is_note

    def is_store(self, folder: str) -> bool:
        """Whether a folder is the root of the store, or lies in it."""
        return Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(self.store))

    def skipped(self) -> list[str]:
        """What was passed over, but for hidden names, which are other programs' business."""
        found = [f"{shown_path(path)}: it is a link" for path in self.links]
        found += [f"{shown_path(path)}: it holds templates" for path in self.templates]
        return [*found, f"files that are no notes: {self.others}"] if self.others else found


def _note(full: str, path: str) -> NoteFile:
    try:
        handle = os.open(full, _NO_LINKS)
        with open(handle, "rb") as stream:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(0, "it is no file")
            return NoteFile(path, stream.read(), _moment(status))
    except OSError as error:
        raise _unreadable(full, error) from None
