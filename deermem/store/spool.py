"""The spool below `.queue/`: one file for each conversation that waits for extraction.

A name says what a file is, so that nothing need be read to find one: state, agent, a hash of the thread, a random id.
What is staged or torn is of no state and goes when the next one comes by.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, cast

from deermem.store.files import Files
from deermem.store.layout import USERS, UserPaths
from deermem.store.lock import file_lock
from deermem.store.refusals import in_words
from deermem.store.transaction import prepare_user

PassedOver = Callable[[bytes | None, Sequence[bytes]], bytes]
"""The watermarks that stand, and what was spooled, make the watermarks beyond it."""

State = Literal["waiting", "urgent", "running", "failed"]
_LETTERS: Final[dict[str, str]] = {"waiting": "w", "urgent": "u", "running": "r", "failed": "x"}
_STATES: Final = {letter: state for state, letter in _LETTERS.items()}
_WATERMARKS: Final = "watermarks.json"
_PATIENCE: Final = 10.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of the spool. `thread` is `thread_mark` of the conversation; `id` is the same in every state."""

    state: State
    agent: str
    thread: str
    id: str

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{_LETTERS[self.state]}.{self.agent}.{self.thread}.{self.id}.json"


def thread_mark(thread: str) -> str:
    """A conversation's mark in file names; the id itself may hold anything."""
    return hashlib.sha256(thread.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def new_id() -> str:
    """A random id for an entry."""
    return secrets.token_hex(8)


def parse_entry(name: str) -> Entry | None:
    """The entry that a file name says; None for every other name."""
    parts = name.split(".")
    if len(parts) != 5 or parts[0] not in _STATES or parts[4] != "json" or not all(parts):
        return None
    return Entry(cast("State", _STATES[parts[0]]), parts[1], parts[2], parts[3])


def _named_in(folder: Path) -> Iterator[Path]:
    """The folders that hold the names on the way to a queue, as far as they are ours."""
    yield folder
    if folder.parent.name == USERS:
        yield folder.parent
        yield folder.parent.parent


class Spool:
    """One user's spool. Its methods keep single files whole; what must go together is done under `lock`."""

    def __init__(self, files: Files, paths: UserPaths) -> None:
        self._files = files
        self._paths = paths
        self._folder = str(paths.queue)

    def prepare(self) -> None:
        """Makes the folder, and the user's where it is missing; both on disk when this returns."""
        # Whoever locks it has been here. A folder without may be that of a killed process, which flushed no name.
        if self._files.stat(self._path("lock")) is not None:
            return
        with in_words(self._paths):
            prepare_user(self._files, self._paths)
            self._files.mkdir(self._folder)
            for folder in _named_in(self._paths.folder):
                self._files.flush_folder(str(folder))

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Whoever puts, claims or removes holds this, for as long as a few file operations take."""
        with file_lock(self._paths.queue / "lock", _PATIENCE):
            yield

    @contextmanager
    def work(self) -> Iterator[None]:
        """One process extracts for a user at a time: raises LockTimeout at once where another one does."""
        with file_lock(self._paths.queue / "worker", 0):
            yield

    def entries(self) -> list[Entry]:
        """All that lies there, in name order."""
        found = (parse_entry(name) for name in self._files.listdir(self._folder))
        return [entry for entry in found if entry is not None]

    def read(self, entry: Entry) -> bytes | None:
        """The content; None where it is gone."""
        return self._files.read(self._path(entry.name))

    def put(self, entry: Entry, data: bytes) -> None:
        """Writes an entry, in the place of one of the same name; on disk when this returns. Only under `lock`."""
        self._write(entry.name, data)

    def move(self, entry: Entry, state: State) -> Entry | None:
        """The entry in another state; None where it is gone."""
        moved = replace(entry, state=state)
        try:
            self._files.rename(self._path(entry.name), self._path(moved.name))
        except FileNotFoundError:
            return None
        return moved

    def remove(self, *entries: Entry) -> None:
        """Removes entries, for good when this returns."""
        for entry in entries:
            self._files.unlink(self._path(entry.name))
        if entries:
            self._files.flush_folder(self._folder)

    def clear(self, agents: Collection[str] | None, passed_over: PassedOver) -> None:
        """Drops all that waits, runs or failed for these agents (None: all), because their memory is cleared.

        `passed_over` moves the watermarks beyond what is dropped: most hosts give all of a conversation each time, and
        what was said before a clear must not come back by that way. What a killed process left half written goes as
        well: it holds somebody's words, and says not whose.
        """
        if not self._files.listdir(self._folder):
            return
        with self.lock():
            self.tidy()
            gone = [entry for entry in self.entries() if agents is None or entry.agent in agents]
            spooled = [data for entry in gone if (data := self.read(entry)) is not None]
            if spooled:
                self.put_watermarks(passed_over(self.watermarks(), spooled))
            self.remove(*gone)

    def tidy(self) -> None:
        """Removes what a killed process left half written; only for whoever holds `lock`."""
        for name in self._staged():
            self._files.unlink(self._path(name))

    def is_untidy(self) -> bool:
        """Whether something lies there that is being written, or was when its process was killed."""
        return bool(self._staged())

    def _staged(self) -> list[str]:
        return [name for name in self._files.listdir(self._folder) if name.startswith("t.")]

    def watermarks(self) -> bytes | None:
        """How far each conversation was extracted."""
        return self._files.read(self._path(_WATERMARKS))

    def put_watermarks(self, data: bytes) -> None:
        """Replaces that, whole or not at all; only for whoever holds `lock`."""
        self._write(_WATERMARKS, data)

    def _write(self, name: str, data: bytes) -> None:
        staged = self._path(f"t.{secrets.token_hex(8)}")
        try:
            self._files.create(staged, data)
            self._files.rename(staged, self._path(name))
        except OSError:
            # On a full disk each further try would leave one more.
            with suppress(OSError):
                self._files.unlink(staged)
            raise
        self._files.flush_folder(self._folder)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)
