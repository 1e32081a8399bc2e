"""What moves from the no-user root into a user's folder, decided from what lies on both sides; nothing is written here.

A thing moves as high up as it can: an agent's folder in one rename where the user has none of that name, else entry by
entry. What would meet something else stays where it is and is named.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from deermem.migrate.place import UserPlace
from deermem.store.files import Files
from deermem.store.kept import KEPT_PREFIX
from deermem.store.layout import AGENTS, BACKUP_SUFFIX, UserPaths

Kind = Literal["file", "folder", "same", "open", "close"]

_FOR_PEOPLE: Final = ("conflict.", "set-aside.", KEPT_PREFIX)


@dataclass(frozen=True, slots=True)
class Sides:
    """The no-user root, and the user's folder that takes its memory; `place` names the latter."""

    files: Files
    root: UserPaths
    user: UserPaths
    place: UserPlace

    def source(self, path: str) -> str:
        """Where a thing lies now, absolute; paths are posix and the same below both folders."""
        return os.path.join(self.root.folder, path)

    def target(self, path: str) -> str:
        """Where it belongs, absolute."""
        return os.path.join(self.user.folder, path)


@dataclass(frozen=True, slots=True)
class Step:
    """One change of one thing.

    file, folder: it is renamed. same: both sides hold equal bytes, the one at the root goes. open: a folder is made for
    what moves into it. close: the folder at the root goes if nothing is left in it.
    """

    kind: Kind
    path: str


@dataclass(frozen=True, slots=True)
class MovePlan:
    """Every step in order, and a line for each thing that stays: what stands in the way and what to do."""

    steps: tuple[Step, ...]
    problems: tuple[str, ...]

    def touches_user(self) -> bool:
        """Whether the user's folder is needed."""
        return any(step.kind != "close" for step in self.steps)


def is_anything_there(sides: Sides) -> bool:
    """Whether the root holds something that belongs to a user; a few stats and one listing."""
    names = (sides.root.manifest_name, sides.root.manifest_name + BACKUP_SUFFIX, AGENTS)
    return any(sides.files.stat(sides.source(name)) is not None for name in names) or bool(_texts_for_people(sides))


def plan_moves(sides: Sides, stuck: Mapping[str, str]) -> MovePlan:
    """The plan. `stuck` says of single paths why they must stay. Raises OSError where a folder can't be listed."""
    planner = _Planner(sides, stuck)
    planner.plan()
    return MovePlan(tuple(planner.steps), tuple(planner.problems))


def nearest(path: str) -> str:
    """The path itself, or the closest folder above it that there is; links are followed."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def _texts_for_people(sides: Sides) -> list[str]:
    """What lies below the root's journal for a person to look at: nobody would be told of it once the root is empty."""
    journal = sides.root.journal
    if journal.is_symlink():
        return []
    return [name for name in sides.files.listdir(str(journal)) if name.startswith(_FOR_PEOPLE)]


class _Planner:
    def __init__(self, sides: Sides, stuck: Mapping[str, str]) -> None:
        self.steps: list[Step] = []
        self.problems: list[str] = []
        self._sides = sides
        self._stuck = stuck
        here, there = (os.stat(nearest(str(paths.folder))) for paths in (sides.root, sides.user))
        self._is_apart = here.st_dev != there.st_dev
        self._said_apart = False

    def plan(self) -> None:
        manifest, root = self._sides.root.manifest_name, self._names("")
        # The backup first: a migration that runs in between would make another of that name.
        for name in (manifest + BACKUP_SUFFIX, manifest):
            status = self._status(name)
            if status is not None and stat.S_ISDIR(status.st_mode):
                self._stays(name, "it is a folder, not a regular file", "move it away")
            elif status is not None:
                self._entry(name, root)
        self._agents()
        self._journal()

    def _agents(self) -> None:
        status = self._status(AGENTS)
        if status is None:
            return
        if not stat.S_ISDIR(status.st_mode):
            self._stays(AGENTS, "it is a link or a file, and no folder", "links are not followed; move it away")
        elif self._can_enter(AGENTS):
            self._folder(AGENTS)
            self.steps.append(Step("close", AGENTS))

    def _journal(self) -> None:
        journal = self._sides.root.journal.name
        names = _texts_for_people(self._sides)
        if names and self._can_enter(journal):
            self._entries(journal, names)

    def _can_enter(self, path: str) -> bool:
        """Whether the user's folder of that name is one to move into, or can be made."""
        there = self._sides.files.stat(self._sides.target(path))
        if there is None or stat.S_ISDIR(there.st_mode):
            return True
        self._stays(path, f"{self._shown(path)} is a link or a file, and no folder", "move that away")
        return False

    # --- entries of a folder

    def _folder(self, path: str) -> None:
        self._entries(path, self._sides.files.listdir(self._sides.source(path)))

    def _entries(self, path: str, names: list[str]) -> None:
        there, first = self._names(path), len(self.steps)
        for name in names:
            self._entry(f"{path}/{name}", there)
        is_new = self._sides.files.stat(self._sides.target(path)) is None
        if is_new and any(step.kind != "close" for step in self.steps[first:]):
            self.steps.insert(first, Step("open", path))

    def _entry(self, path: str, there: Mapping[str, list[str]]) -> None:
        name = path.rpartition("/")[2]
        twins = there.get(name.casefold(), [])
        status = self._status(path)
        if status is None:
            return
        if path in self._stuck:
            self.problems.append(f"{path} stays: {self._stuck[path]}")
        elif not _is_plain(status):
            self._stays(path, "it is a link or no regular file", "links are not followed; move it away")
        elif name in twins:
            self._meets(path, status)
        elif twins:
            other = self._shown(f"{path.rpartition('/')[0]}/{twins[0]}".lstrip("/"))
            self._stays(path, f"{other} is there, and differs in upper and lower case only", "rename one of the two")
        else:
            self._moves(path, status)

    def _moves(self, path: str, status: os.stat_result) -> None:
        """A thing that the user does not have."""
        if self._is_apart:
            self._say_apart()
        elif not stat.S_ISDIR(status.st_mode):
            self.steps.append(Step("file", path))
        elif self._is_whole(path):
            self.steps.append(Step("folder", path))
        else:
            self._folder(path)
            self.steps.append(Step("close", path))

    def _meets(self, path: str, status: os.stat_result) -> None:
        """A thing that both sides have."""
        files, sides = self._sides.files, self._sides
        other = files.stat(sides.target(path))
        shown = self._shown(path)
        if other is None:
            self._moves(path, status)
        elif not _is_plain(other):
            self._stays(path, f"{shown} is a link or no regular file", "links are not followed; move that away")
        elif stat.S_IFMT(status.st_mode) != stat.S_IFMT(other.st_mode):
            self._stays(path, f"{shown} is a {_word(other)}, this is a {_word(status)}", "move one of the two away")
        elif not stat.S_ISDIR(status.st_mode):
            self._compare(path)
        elif os.path.samestat(status, other):
            # A mount can show one folder in two places: what is "equal" there exists only once.
            self._stays(path, f"{shown} is the same folder, mounted twice", "unmount one of the two")
        else:
            self._folder(path)
            self.steps.append(Step("close", path))

    def _compare(self, path: str) -> None:
        files, sides = self._sides.files, self._sides
        if files.read(sides.source(path)) == files.read(sides.target(path)):
            self.steps.append(Step("same", path))
            return
        hint = "keep one of the two and move the other away"
        if path == sides.root.manifest_name:
            # Where a lot of old facts come in at once, the usual cap would evict.
            call = [
                "deermem",
                "--root",
                str(sides.root.folder),
                "--user",
                sides.place.user_id or "",
                "--max-facts",
                "0",
            ]
            words = shlex.join([*call, "import", sides.source(path)])
            hint = f"{hint}, after taking in what it holds, if you want both: {words}"
        self._stays(path, f"{self._shown(path)} is there and differs", hint)

    # --- small questions

    def _is_whole(self, path: str) -> bool:
        """Whether everything below a folder may move, so that one rename does it."""
        if any(stuck.startswith(f"{path}/") for stuck in self._stuck):
            return False
        for name in self._sides.files.listdir(self._sides.source(path)):
            status = self._status(f"{path}/{name}")
            if status is None or not _is_plain(status):
                return False
            if stat.S_ISDIR(status.st_mode) and not self._is_whole(f"{path}/{name}"):
                return False
        return True

    def _names(self, path: str) -> dict[str, list[str]]:
        """The names in the user's folder, by what they fold to where a file system knows no case."""
        found: dict[str, list[str]] = {}
        for name in self._sides.files.listdir(self._sides.target(path)):
            found.setdefault(name.casefold(), []).append(name)
        return found

    def _status(self, path: str) -> os.stat_result | None:
        return self._sides.files.stat(self._sides.source(path))

    def _shown(self, path: str) -> str:
        return self._sides.place.shown(path)

    def _stays(self, path: str, why: str, hint: str) -> None:
        self.problems.append(f"{path} stays: {why}; {hint}")

    def _say_apart(self) -> None:
        if not self._said_apart:
            self._said_apart = True
            self.problems.append(apart(self._sides))


def apart(sides: Sides) -> str:
    """What to do where the two folders lie on two file systems: a copy is not one step, so it is not made here."""
    here, there = sides.root.folder, sides.user.folder
    return (
        f"{here} and {there} lie on two file systems, and nothing can be renamed between them; copy "
        f"{sides.root.manifest_name} and {AGENTS} there (cp -a), then run this again: what is equal then goes here"
    )


def _is_plain(status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)


def _word(status: os.stat_result) -> str:
    return "folder" if stat.S_ISDIR(status.st_mode) else "file"
