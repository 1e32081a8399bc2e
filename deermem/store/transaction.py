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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from deermem.errors import StoreUnavailable
from deermem.model.changes import FileChange
from deermem.store.files import Files
from deermem.store.journal import (
    Record,
    Step,
    digest,
    encode_record,
    first_sequence,
    journal_name,
    manifest_name,
    parse_record,
)
from deermem.store.layout import UserPaths
from deermem.store.lock import HeldLock
from deermem.store.parallel import for_each
from deermem.store.refusals import in_words, unavailable
from deermem.store.swap import Swapper

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


def make_folders(files: Files, base: Path, folders: Iterable[Sequence[str]]) -> None:
    """The folders below `base`, each given by its parts; whatever holds a new one is flushed, once.

    Raises StoreUnavailable where a link or a file stands in the way: links below the root are not followed.
    """
    grown: set[str] = set()
    there: set[str] = set()
    for parts in folders:
        path = str(base)
        for part in parts:
            parent, path = path, os.path.join(path, part)
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
    for_each(files.flush_folder, sorted(grown))


class Transaction:
    """One commit of one user, under the held lock."""

    def __init__(self, files: Files, held: HeldLock) -> None:
        self.files = files
        self.held = held
        self.paths = held.paths
        self.swapper = Swapper(files, held.paths)

    def commit(self, changes: Sequence[FileChange], change: ManifestChange | None) -> tuple[str, ...]:
        """Makes the changes; returns the conflict copies (paths below the user's folder) that it came to.

        Raises PathTaken (nothing changed), StoreUnavailable (nothing changed, unless `outcome_unknown`).
        """
        steps = [self._step(item) for item in changes]
        contents = {step.path: item.after for step, item in zip(steps, changes, strict=True)}
        with in_words(self.paths):
            self.prepare_journal()
            self._prepare_folders(changes)
            if len(steps) == 1 and not (change and change.summaries):
                self._commit_one(steps[0], contents[steps[0].path], change)
            else:
                self._commit_sealed(steps, contents, change)
        return tuple(self.swapper.conflicts)

    # --- preparing

    def prepare_journal(self) -> None:
        """The folder and the record file, made once per user and flushed.

        Without a record, whoever made the folders above may have died before they were flushed.
        """
        journal = str(self.paths.journal)
        self.files.mkdir(journal)
        if self.files.stat(str(self.paths.record)) is None:
            for folder in (self.paths.folder, *self.paths.folder.parents[:3]):
                self._flush_above(folder)
            self.files.create(str(self.paths.record), encode_record(Record(first_sequence(), "empty")))
            self.files.flush_folder(journal)

    def _flush_above(self, folder: Path) -> None:
        # The folders above the root are not ours: they may be unreadable, and then they were not made by us.
        with contextlib.suppress(PermissionError):
            self.files.flush_folder(str(folder))

    def _prepare_folders(self, changes: Sequence[FileChange]) -> None:
        folders = sorted({PurePosixPath(item.path).parent for item in changes if item.after is not None})
        missing = [folder for folder in folders if not os.path.isdir(self.paths.folder / folder)]
        if missing:
            # A kill between a mkdir and its flush: the next holder must know that folders may not be on the disk.
            mark = self.swapper.at(f"f.{secrets.token_hex(4)}")
            self.files.create(mark, b"", flush=False)
            make_folders(self.files, self.paths.folder, [folder.parts for folder in missing])
            self.files.unlink(mark)
        for folder in sorted({PurePosixPath(item.path).parent for item in changes}):
            self._check_folder(folder)

    def _check_folder(self, folder: PurePosixPath) -> None:
        """Links are refused and a swap that must fail is refused now, before anything is staged."""
        path = str(self.paths.folder)
        for part in folder.parts:
            path = os.path.join(path, part)
            if os.path.islink(path):
                raise StoreUnavailable(f"{path} is a link", hint="links below the root are not followed; move it away")
        if not os.access(path, os.W_OK | os.X_OK):
            raise StoreUnavailable(f"{path} is not writable", hint="check its permissions; nothing was changed")
        if os.stat(path).st_dev != os.stat(self.paths.journal).st_dev:
            raise StoreUnavailable(
                f"{path} lies on another file system than {self.paths.journal}", hint="keep a user on one file system"
            )

    def _step(self, item: FileChange) -> Step:
        before, after = digest(item.before), digest(item.after)
        stem = PurePosixPath(item.path).stem
        staged = journal_name("s", stem, before, after) if item.after is not None else None
        return Step(item.path, before, after, staged, journal_name("d", stem, before, after))

    def _stage(self, step: Step, content: bytes | None) -> None:
        if step.staged is not None and content is not None:
            self.swapper.stage(step.staged, content)

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
        self, steps: Sequence[Step], contents: dict[str, bytes | None], change: ManifestChange | None
    ) -> None:
        for step in steps:
            # Found now, it is decided again; found after the seal, one of the two texts is a conflict copy.
            if step.before == digest(None) and self.files.stat(self.swapper.target(step)) is not None:
                raise PathTaken(step.path)
        self._stage_all(steps, contents)
        record = self._record(steps, change)
        self.files.flush_folder(str(self.paths.journal))
        self.held.check()
        try:
            self.files.rewrite(str(self.paths.record), encode_record(record))
        except OSError as error:
            raise unavailable(error, self.paths, outcome_unknown=self._may_be_sealed(record)) from error
        try:
            self.swapper.finish(record, recovering=False)
        except OSError as error:
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

    def _stage_all(self, steps: Sequence[Step], contents: dict[str, bytes | None]) -> None:
        for_each(lambda step: self._stage(step, contents[step.path]), steps)

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
