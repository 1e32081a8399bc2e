"""Swap and empty: the half of a commit that a recovery can do as well.

Every function here works on a sealed record, may be interrupted anywhere, and may be run again. What is neither
the before- nor the after-state of a path is a person's: it stays, and ours becomes a conflict copy; a person's
text that was displaced becomes one too.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
from pathlib import PurePosixPath
from typing import Final

from deermem.format import manifest
from deermem.format.problems import FormatError
from deermem.store.files import Files
from deermem.store.journal import (
    ABSENT,
    Record,
    Step,
    conflict_name,
    digest,
    encode_record,
    is_state,
    manifest_name,
)
from deermem.store.layout import UserPaths
from deermem.store.parallel import for_each
from deermem.store.together import Together

_log: Final = logging.getLogger("deermem")


class Swapper:
    """The places and the file layer of one user, and the conflict copies that were made meanwhile."""

    def __init__(self, files: Files, paths: UserPaths) -> None:
        self.files = files
        self.paths = paths
        self.conflicts: list[str] = []
        self._folder = str(paths.folder)
        self._journal = str(paths.journal)

    def target(self, step: Step) -> str:
        """The absolute path that a step is about."""
        return f"{self._folder}/{step.path}"

    def at(self, name: str) -> str:
        """The absolute path of a name below `.journal/`."""
        return f"{self._journal}/{name}"

    def stage(self, name: str, content: bytes, *, flush: bool = True, creates: bool = False) -> str:
        """A new file below `.journal/`, flushed unless the caller does it; returns its path.

        Under a name of its own first: what a kill tears here must not look like a displaced text. One that
        `creates` never takes in what stood somewhere: whatever is found there is no person's.
        """
        target = self.at(name)
        if creates:
            self.files.create(target, content, flush=flush)
            return target
        torn = self.at(f"t.{secrets.token_hex(8)}")
        self.files.create(torn, content, flush=flush)
        self.files.rename(torn, target)
        return target

    # --- one path

    def swap(self, step: Step) -> bool:
        """One path takes its after-state; False where a person took the place since it was checked."""
        target = self.target(step)
        try:
            if step.staged is None:
                self.files.rename(target, self.at(step.displaced))
            elif step.before == ABSENT:
                self.files.rename_new(self.at(step.staged), target)
            else:
                self.files.exchange(self.at(step.staged), target, self.at(step.displaced))
        except (FileExistsError, FileNotFoundError, NotADirectoryError):
            return False
        return True

    def was_swapped(self, step: Step) -> bool | None:
        """Whether a step of a sealed record has been done; None where a person's file stands in its place."""
        target = self.files.read(self.target(step))
        if digest(target) == step.after:
            return True
        if step.staged is not None:
            staged = self.files.read(self.at(step.staged))
            if staged is None or not is_state(staged, step.after):
                return True
        elif self.files.stat(self.at(step.displaced)) is not None and target is not None:
            # A rename aside is atomic: the displaced name alone says it was done, and a file at the target is new.
            return True
        return False if digest(target) == step.before else None

    def keep(self, name: str, step_path: str) -> None:
        """A text below the journal becomes a conflict copy for a person to look at."""
        self.move_aside(self.at(name), step_path)

    def move_aside(self, source: str, step_path: str) -> None:
        """A file becomes a conflict copy, in one step: a kill must not leave it under a name that is swept."""
        place = PurePosixPath(step_path)
        copy = conflict_name(place.stem or "file", place.suffix or ".md")
        self.files.rename(source, self.at(copy))
        self.conflicts.append(self.paths.relative(self.paths.journal / copy))

    def look_at_displaced(self, step: Step) -> None:
        """What was displaced stays until the next commit, unless a person saved it in that instant."""
        displaced = self.files.read(self.at(step.displaced))
        if displaced is not None and not is_state(displaced, step.before):
            self.keep(step.displaced, step.path)
        if step.staged is not None:
            staged = self.files.read(self.at(step.staged))
            if staged is not None and not is_state(staged, step.before, step.after):
                self.keep(step.staged, step.path)

    # --- the whole record

    def finish(
        self, record: Record, *, recovering: bool = False, together: Together | None = None, manifest: str = ""
    ) -> None:
        """Swaps every path, flushes the folders, exchanges memory.json, empties the record and flushes it.

        `manifest` is where memory.json is staged already. With one flush for everything, it comes last.
        """
        before = len(self.conflicts)
        for step in record.steps:
            self._finish_step(step, recovering=recovering)
        if together is not None and together.on:
            self._finish_manifest(record, manifest)
            together.flush()
        else:
            self._flush_and_finish(record, recovering=recovering)
            if len(self.conflicts) > before:
                self.files.flush_folder(str(self.paths.journal))
        self.files.rewrite(str(self.paths.record), encode_record(Record(record.sequence, "empty")))

    def _flush_and_finish(self, record: Record, *, recovering: bool) -> None:
        folders = sorted({os.path.dirname(self.target(step)) for step in record.steps})
        for_each(self.files.flush_folder, [folder for folder in folders if self.files.stat(folder) is not None])
        self._finish_manifest(record, "")
        # Without a summary in it, a lost rename costs a number only, which the next commit raises again.
        if recovering or record.summaries_changed:
            self.files.flush_folder(str(self.paths.folder))

    def _finish_step(self, step: Step, *, recovering: bool) -> None:
        done = self.was_swapped(step) if recovering else False
        if done is False and self.swap(step):
            if step.before == ABSENT and step.staged is not None:
                # Nothing stood there, so nothing was displaced.
                return
        elif done is not True and step.staged is not None and self.files.stat(self.at(step.staged)) is not None:
            self.keep(step.staged, step.path)
        self.look_at_displaced(step)

    def _finish_manifest(self, record: Record, staged: str) -> None:
        current = self.files.read(str(self.paths.manifest))
        replacement = self._replacement(record, current)
        if staged and replacement is not None and digest(current) == record.manifest_before:
            self.exchange_manifest(staged, current)
            return
        if replacement is not None:
            self.put_manifest(current, replacement)
        if staged:
            self.files.unlink(staged)

    def _replacement(self, record: Record, current: bytes | None) -> bytes | None:
        """memory.json's new content; a third state (a person's, another engine's) stays, with a number above all."""
        if record.manifest_after is None or digest(current) == digest(record.manifest_after.encode()):
            return None
        if digest(current) == record.manifest_before:
            return record.manifest_after.encode()
        if record.summaries_changed:
            copy = conflict_name(PurePosixPath(self.paths.manifest_name).stem, ".json")
            self.files.create(self.at(copy), record.manifest_after.encode())
            self.conflicts.append(self.paths.relative(self.paths.journal / copy))
        return self.raised(current, record.revision)

    def raised(self, current: bytes | None, at_least: int) -> bytes | None:
        """memory.json as it stands, with a revision above both; None where it can't be read (it then stays)."""
        if current is None:
            return None
        try:
            document = manifest.decode(current)
        except FormatError as error:
            _log.warning("%s stays as it is: %s", self.paths.manifest, error)
            return None
        if manifest.needs_migration(document.raw):
            return None
        revision = max(document.summaries.revision, at_least) + 1
        return manifest.encode(
            document, summaries=document.summaries, revision=revision, now=document.summaries.last_updated
        )

    def put_manifest(self, current: bytes | None, replacement: bytes) -> None:
        """Stages, flushes and exchanges memory.json; what was displaced and isn't `current` becomes a conflict copy."""
        staged = self.stage(manifest_name("x", digest(current), digest(replacement)), replacement)
        self.exchange_manifest(staged, current)

    def exchange_manifest(self, staged: str, current: bytes | None) -> None:
        """The last swap of every commit."""
        target = str(self.paths.manifest)
        displaced = self.at(manifest_name("x", digest(current), ABSENT))
        try:
            if current is None:
                self.files.rename_new(staged, target)
                return
            self.files.exchange(staged, target, displaced)
        except (FileExistsError, FileNotFoundError):
            # Somebody made or removed memory.json this instant: theirs stays, the next commit takes it from there.
            self.files.unlink(staged)
            return
        for name in (staged, displaced):
            self._drop_displaced_manifest(name, current)

    def _drop_displaced_manifest(self, name: str, current: bytes) -> None:
        data = self.files.read(name)
        if data is None:
            return
        if data == current or self.is_own_manifest(data):
            self.files.unlink(name)
        else:
            self.keep(os.path.basename(name), self.paths.manifest_name)

    def is_own_manifest(self, data: bytes) -> bool:
        """Whether a displaced memory.json may go: it says nothing that the present one lacks."""
        present = self.files.read(str(self.paths.manifest))
        try:
            return present is not None and _text_of(data) == _text_of(present)
        except ValueError:
            return False


def _text_of(data: bytes) -> object:
    document = json.loads(data)
    if not isinstance(document, dict):
        raise ValueError("not an object")
    return {key: value for key, value in document.items() if key not in ("revision", "lastUpdated")}


def flush_above(files: Files, paths: UserPaths) -> None:
    """The names of the user's folder and of the three above it: they may have been made for this user."""
    for folder in paths.folder.parents[:3]:
        # The folders above the root are not ours: they may be unreadable, and then they were not made by us.
        with contextlib.suppress(PermissionError):
            files.flush_folder(str(folder))
