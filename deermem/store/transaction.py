"""Stage, seal, swap: how files change together. The protocol is argued in docs/crash-safety.md.

A change of one file needs no record: its swap is the commit. Several files are sealed by one record, and that
record, flushed, is the commit. Failing before leaves nothing but temporaries; failing after is finished by the
next holder of the lock.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deermem.errors import StoreUnavailable
from deermem.model.changes import FileChange
from deermem.store.files import Files
from deermem.store.journal import (
    ABSENT,
    Record,
    Step,
    digest,
    encode_record,
    first_sequence,
    manifest_name,
    parse_record,
    step_of,
)
from deermem.store.layout import UserPaths
from deermem.store.lock import HeldLock
from deermem.store.parallel import for_each
from deermem.store.refusals import in_words, unavailable
from deermem.store.swap import Swapper, flush_above
from deermem.store.together import Together, flushed_together

_log: Final = logging.getLogger("deermem")


class PathTaken(Exception):
    """A person took the place of a file between the check and the swap; nothing was changed."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


@dataclass(frozen=True, slots=True)
class ManifestChange:
    """memory.json before (None: absent) and after; `summaries` tells whether a summary is part of the commit."""

    before: bytes | None
    after: bytes
    revision: int
    summaries: bool = False


def prepare_user(files: Files, paths: UserPaths) -> None:
    """Makes the user's folder where there is none, every new name flushed; only a write may call this."""
    if paths.folder.is_dir():
        return
    with in_words(paths):
        make_parents(files, paths.folder.parent)
        if files.mkdir(str(paths.folder)):
            files.flush_folder(str(paths.folder.parent))


def make_parents(files: Files, folder: Path) -> None:
    """Folders at and above `users/`; links are fine there, the root may be one."""
    if folder.is_dir():
        return
    make_parents(files, folder.parent)
    if files.mkdir(str(folder)):
        files.flush_folder(str(folder.parent))


def make_folders(files: Files, base: Path, folders: Iterable[Sequence[str]]) -> set[str]:
    """The folders below `base`, each given by its parts; gives those that hold a new one, which must be flushed.

    Raises StoreUnavailable where a link or a file stands in the way: links below the root are not followed.
    """
    grown: set[str] = set()
    there: set[str] = set()
    for parts in folders:
        path = str(base)
        for part in parts:
            parent, path = path, f"{path}/{part}"
            if path in there:
                continue
            there.add(path)
            try:
                new = files.mkdir(path)
            except FileExistsError:
                hint = "move it away; links are not followed here"
                raise StoreUnavailable(f"{path} is no folder", hint=hint) from None
            if new:
                grown.add(parent)
    return grown


class Transaction:
    """One commit of one user, under the held lock."""

    def __init__(self, files: Files, held: HeldLock) -> None:
        self.files = files
        self.held = held
        self.paths = held.paths
        self.swapper = Swapper(files, held.paths)
        self._mark = ""

    def commit(
        self,
        changes: Sequence[FileChange],
        change: ManifestChange | None,
        before_staging: Callable[[bool], object] | None = None,
    ) -> tuple[str, ...]:
        """Makes the changes; returns the conflict copies (paths below the user's folder) that it came to.

        `before_staging` makes what must be on the disk before the commit, once the journal is there; it is told
        whether it must flush the names itself. Raises what it raises, PathTaken (nothing changed), StoreUnavailable
        (nothing changed, unless `outcome_unknown`). A sealed commit counts, also where `held.unfinished` then says
        why it is not in its place yet.
        """
        if self.held.unfinished:
            # Another record would take the place of the sealed one, and what that one staged would be swept.
            raise StoreUnavailable(
                f"{self.paths.folder}: the commit before this one is sealed and waits: {self.held.unfinished}",
                hint="mend that, then try again; nothing was changed",
            )
        steps = [step_of(item.path, digest(item.before), digest(item.after)) for item in changes]
        contents = {step.path: item.after for step, item in zip(steps, changes, strict=True)}
        with in_words(self.paths), flushed_together(self.files, self.paths, len(steps)) as together:
            self.prepare_journal(together)
            if before_staging is not None:
                before_staging(not together.on)
            self._prepare_folders(changes, together)
            if len(steps) == 1 and not (change and change.summaries):
                self._commit_one(steps[0], contents[steps[0].path], change)
            else:
                self._commit_sealed(steps, contents, change, together)
        return tuple(self.swapper.conflicts)

    # --- preparing

    def prepare_journal(self, together: Together | None = None) -> None:
        """The folder and the record file, made once per user and flushed.

        Without a record, whoever made the folders above may have died before they were flushed.
        """
        journal = str(self.paths.journal)
        self.files.mkdir(journal)
        if self.files.stat(str(self.paths.record)) is not None:
            return
        if together is not None and together.on:
            # The record will say to everybody after us that the folders above are on the disk; the mark, not yet.
            self._set_mark()
        else:
            self.files.flush_folder(str(self.paths.folder))
            flush_above(self.files, self.paths)
        self.files.create(str(self.paths.record), encode_record(Record(first_sequence(), "empty")))
        if not self._mark:
            self.files.flush_folder(journal)

    def _set_mark(self) -> None:
        """A kill between a mkdir and its flush: the next holder must know that folders may not be on the disk."""
        if not self._mark:
            mark = self.swapper.at(f"f.{secrets.token_hex(4)}")
            self.files.create(mark, b"", flush=False)
            self._mark = mark

    def _clear_mark(self) -> None:
        if self._mark:
            self.files.unlink(self._mark)
            self._mark = ""

    def _prepare_folders(self, changes: Sequence[FileChange], together: Together) -> None:
        needed = {os.path.dirname(item.path) for item in changes if item.after is not None}
        missing = sorted(folder for folder in needed if not os.path.isdir(f"{self.paths.folder}/{folder}"))
        checked: set[str] = set()
        for folder in missing:
            # What is made in it lies on its file system.
            self._check_folder(self._nearest(folder), checked)
        if missing:
            self._set_mark()
            grown = make_folders(self.files, self.paths.folder, [folder.split("/") for folder in missing])
            if not together.on:
                for_each(self.files.flush_folder, sorted(grown))
        if not together.on:
            self._clear_mark()
        for folder in sorted({os.path.dirname(item.path) for item in changes}.difference(missing)):
            self._check_folder(folder, checked)

    def _nearest(self, folder: str) -> str:
        """The closest folder above one that is not there yet, "" for the user's own."""
        while folder and not os.path.lexists(f"{self.paths.folder}/{folder}"):
            folder = os.path.dirname(folder)
        return folder if os.path.isdir(f"{self.paths.folder}/{folder}") else os.path.dirname(folder)

    def _check_folder(self, folder: str, checked: set[str]) -> None:
        """Links are refused and a swap that must fail is refused now, before anything is staged."""
        path = str(self.paths.folder)
        for part in folder.split("/") if folder else ():
            path = f"{path}/{part}"
            if path not in checked and os.path.islink(path):
                raise StoreUnavailable(f"{path} is a link", hint="links below the root are not followed; move it away")
            checked.add(path)
        if not os.access(path, os.W_OK | os.X_OK):
            raise StoreUnavailable(f"{path} is not writable", hint="check its permissions; nothing was changed")
        if os.stat(path).st_dev != os.stat(self.paths.journal).st_dev:
            raise StoreUnavailable(
                f"{path} lies on another file system than {self.paths.journal}", hint="keep a user on one file system"
            )

    def _stage(self, step: Step, content: bytes | None, *, flush: bool = True) -> None:
        if step.staged is not None and content is not None:
            self.swapper.stage(step.staged, content, flush=flush, creates=step.before == ABSENT)

    # --- one file

    def _commit_one(self, step: Step, content: bytes | None, change: ManifestChange | None) -> None:
        name = manifest_name("m", digest(change.before), digest(change.after)) if change else ""
        staged = self.swapper.at(name) if change else ""
        swapping = False
        try:
            if change is not None:
                self.swapper.stage(name, change.after)
            self._stage(step, content)
            self.held.check()
            swapping = True
            swapped = self.swapper.swap(step)
        except OSError as error:
            # A rename that failed may have taken place all the same: what it replaced must not be dropped then.
            done = swapping and self._may_be_swapped(step)
            if not done:
                self._drop(step, staged)
            if isinstance(error, StoreUnavailable):
                raise
            raise unavailable(error, self.paths, outcome_unknown=done) from error
        if not swapped:
            self._drop(step, staged)
            raise PathTaken(step.path)
        try:
            self.files.flush_folder(os.path.dirname(self.swapper.target(step)))
            if change is not None:
                self.swapper.exchange_manifest(staged, change.before)
            conflicts = len(self.swapper.conflicts)
            self.swapper.look_at_displaced(step)
            if len(self.swapper.conflicts) > conflicts:
                self.files.flush_folder(str(self.paths.journal))
        except OSError as error:
            raise unavailable(error, self.paths, outcome_unknown=True) from error

    def _may_be_swapped(self, step: Step) -> bool:
        try:
            return self.swapper.was_swapped(step) is not False
        except OSError:
            return True

    def _drop(self, step: Step, staged: str) -> None:
        for path in (staged, self.swapper.at(step.staged) if step.staged else ""):
            try:
                if path:
                    self.files.unlink(path)
            except OSError as error:
                _log.warning("a temporary file stays until the next write: %s", error)

    # --- several files

    def _commit_sealed(
        self,
        steps: Sequence[Step],
        contents: dict[str, bytes | None],
        change: ManifestChange | None,
        together: Together,
    ) -> None:
        for step in steps:
            # Found now, it is decided again; found after the seal, one of the two texts is a conflict copy.
            if step.before == ABSENT and self.files.stat(self.swapper.target(step)) is not None:
                raise PathTaken(step.path)
        manifest = self._stage_all(steps, contents, change, together)
        record = self._record(steps, change)
        if not together.on:
            self.files.flush_folder(str(self.paths.journal))
        self.held.check()
        try:
            self.files.rewrite(str(self.paths.record), encode_record(record))
        except OSError as error:
            raise unavailable(error, self.paths, outcome_unknown=self._may_be_sealed(record)) from error
        try:
            self.swapper.finish(record, together=together, manifest=manifest)
        except OSError as error:
            where = error.filename2 or error.filename or self.paths.folder
            self.held.recovered = False
            self.held.unfinished = f"{where}: {error.strerror or error}"
            _log.warning("%s: a sealed commit waits for the next write to finish it: %s", self.paths.folder, error)

    def _may_be_sealed(self, record: Record) -> bool:
        """After a seal that failed: whether it stands. A torn one is emptied, or the next holder would set it aside."""
        path = str(self.paths.record)
        try:
            found = parse_record(self.files.read(path))
        except OSError:
            return True
        if found is None:
            with contextlib.suppress(OSError):
                self.files.rewrite(path, encode_record(Record(record.sequence, "empty")))
        return found is not None and found.state == "sealed"

    def _stage_all(
        self,
        steps: Sequence[Step],
        contents: dict[str, bytes | None],
        change: ManifestChange | None,
        together: Together,
    ) -> str:
        """Every new text, on the disk; memory.json's too where one flush does for all: gives its path, else ""."""
        if not together.on:
            for_each(lambda step: self._stage(step, contents[step.path]), steps)
            return ""
        for step in steps:
            self._stage(step, contents[step.path], flush=False)
        manifest = ""
        if change is not None:
            name = manifest_name("x", digest(change.before), digest(change.after))
            manifest = self.swapper.stage(name, change.after, flush=False)
        together.flush()
        self._clear_mark()
        return manifest

    def _record(self, steps: Sequence[Step], change: ManifestChange | None) -> Record:
        last = parse_record(self.files.read(str(self.paths.record)))
        return Record(
            sequence=(last.sequence if last else first_sequence()) + 1,
            state="sealed",
            steps=tuple(steps),
            manifest_before=digest(change.before if change else None),
            manifest_after=change.after.decode() if change else None,
            revision=change.revision if change else 0,
            summaries_changed=bool(change and change.summaries),
        )
