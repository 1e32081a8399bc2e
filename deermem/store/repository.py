"""Reading a user's fact files: which there are, what one says, who it belongs to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from deermem.format import markdown
from deermem.format.markdown import Parsed
from deermem.format.problems import FormatError
from deermem.model.records import Problem
from deermem.model.scope import Scope
from deermem.store.files import Files
from deermem.store.fingerprints import Signature, clock_ns
from deermem.store.layout import UserPaths

SUFFIX: Final = ".md"
_NOTHING_KNOWN: Final = Signature(0, 0, 0, 0, 0)
_YEAR_9999: Final = 253_402_300_799


class FileState(NamedTuple):
    """One fact file as it was looked at. `path` is relative to the agent's `facts/`.

    `data` is None where the file can't be read; `problem` then says why. `looked_ns` is the clock that the look
    began at (see fingerprints); `links` counts the file's names.
    """

    path: str
    signature: Signature
    looked_ns: int
    data: bytes | None
    problem: Problem | None = None
    links: int = 1


@dataclass(frozen=True, slots=True)
class Scan:
    """The fact files of one bucket by path below `facts/`, and the folders that could not be listed."""

    files: dict[str, os.stat_result]
    unreadable: tuple[str, ...] = ()


def scan_facts(facts: str) -> Scan:
    """Every `*.md` below a facts folder, links and dot names passed over (editors' locks, AppleDouble)."""
    files: dict[str, os.stat_result] = {}
    unreadable: list[str] = []
    for prefix, entry in _walk(facts, unreadable):
        try:
            files[prefix + entry.name] = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        except OSError:
            unreadable.append(prefix)
    return Scan(files, tuple(unreadable))


def _walk(facts: str, unreadable: list[str]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    # No recursion: folders nest deeper than Python's stack.
    prefixes = [""]
    while prefixes:
        prefix = prefixes.pop()
        try:
            entries = list(os.scandir(f"{facts}/{prefix}"[:-1]))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            unreadable.append(prefix)
            continue
        for entry in entries:
            name = entry.name
            if name.startswith("."):
                continue
            if name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
                yield prefix, entry
            elif entry.is_dir(follow_symlinks=False):
                prefixes.append(f"{prefix}{name}/")


def is_linked(paths: UserPaths, agent: str, path: str) -> bool:
    """Whether a folder on the way to a fact file is a link: links below the root are not followed."""
    here = str(paths.folder)
    for part in ("agents", agent, "facts", *path.split("/")[:-1]):
        here = f"{here}/{part}"
        if os.path.islink(here):
            return True
    return False


class Reader:
    """Reads fact files of one bucket, one after the other; what is the same for all is looked up once."""

    def __init__(self, files: Files, paths: UserPaths, agent: str) -> None:
        self._files = files
        self._paths = paths
        self._agent = agent
        self._facts = str(paths.facts(agent))
        self._linked: dict[str, bool] = {}
        self._device: int | None = None

    def look(self, path: str) -> FileState | None:
        """One file; None where it is absent, or a link stands on the way to it.

        A file that changed while it was read is read again, at most three times; then what was read last stands
        under the signature from before the read, which the next sweep finds changed.
        """
        if self._is_linked(path):
            return None
        full = f"{self._facts}/{path}"
        for last in (False, False, True):
            looked = clock_ns(self._device_of(full))
            try:
                seen = self._files.look(full)
            except OSError as error:
                return self._refused(full, path, looked, error)
            if seen is None:
                return None
            signature = Signature.of(seen.before)
            if signature.dev != self._device:
                # Another file system keeps another clock: the look began at the wrong one.
                self._device = signature.dev
            elif last or signature == Signature.of(seen.after):
                return FileState(path, signature, looked, seen.data, links=seen.before.st_nlink)
        return None

    def _is_linked(self, path: str) -> bool:
        folder = path.rpartition("/")[0]
        found = self._linked.get(folder)
        if found is None:
            found = self._linked.setdefault(folder, is_linked(self._paths, self._agent, path))
        return found

    def _device_of(self, full: str) -> int:
        if self._device is None:
            try:
                status = self._files.stat(full) or self._files.stat(self._facts)
            except OSError:
                # A device that is not known keeps no known clock; the look itself will be refused.
                return 0
            self._device = status.st_dev if status is not None else 0
        return self._device

    def _refused(self, full: str, path: str, looked: int, error: OSError) -> FileState | None:
        try:
            status = self._files.stat(full)
        except OSError:
            return FileState(path, _NOTHING_KNOWN, looked, None, _refusal(error))
        if status is None:
            return None
        return FileState(path, Signature.of(status), looked, None, _refusal(error))


def _refusal(error: OSError) -> Problem:
    return Problem(code="unreadable", message=error.strerror or str(error), hint="check its permissions")


def parse(data: bytes, path: str, scope: Scope, *, modified_ns: int) -> tuple[Parsed | None, Problem | None]:
    """What the bytes of one fact file say, or why they are not served."""
    when = datetime.fromtimestamp(min(max(0, modified_ns // 1_000_000_000), _YEAR_9999), UTC)
    try:
        parsed = markdown.decode(data, stem=path.rpartition("/")[2].removesuffix(SUFFIX), when=when)
    except FormatError as error:
        return None, error.problem
    fact = parsed.fact
    if not scope.owns(fact.user_id, fact.agent_name):
        return None, Problem(
            code="wrong-owner",
            message=f"belongs to user {fact.user_id!r}, agent {fact.agent_name!r}",
            hint="move it to its owner's folder, or remove user_id and agent_name from it",
        )
    return parsed, None
