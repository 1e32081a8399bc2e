"""What a disk may hold after a power cut: a log of what was done, and a model that loses what was not flushed.

`RecordingFiles` does everything for real and writes it down. `Disk` plays the log back to any point and then cuts
the power. Two kinds of file system are modelled. "ordered": operations on names survive as a prefix, and any
flush makes all earlier ones safe (the logs of ext4 and xfs). "atomic": each operation survives whole or not at
all, in any subset, and only the flush of a folder makes those safe that touch it. In both, content that was not
flushed may be whole, absent, the older one, or torn with zeros behind.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from faults import QuickFiles

Kind = Literal["ordered", "atomic"]
NEVER = b"\0never flushed"


@dataclass(frozen=True)
class Done:
    """One thing that was done: its name, the paths below the root, and what was written at which offset."""

    what: str
    paths: tuple[str, ...]
    data: bytes = b""
    offset: int = 0


class RecordingFiles(QuickFiles):
    """Does everything, and keeps a log of what changes a file or flushes one."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.log: list[Done] = []

    def _note(self, what: str, *paths: str, data: bytes = b"", offset: int = 0) -> None:
        self.log.append(Done(what, tuple(os.path.relpath(path, self.root) for path in paths), data, offset))

    def create(self, path: str, data: bytes, *, flush: bool = True) -> None:
        self._note("create", path)
        super().create(path, data, flush=flush)

    def write(self, descriptor: int, data: bytes) -> None:
        offset = os.lseek(descriptor, 0, os.SEEK_CUR)
        self._note("write", os.readlink(f"/proc/self/fd/{descriptor}"), data=bytes(data), offset=offset)
        super().write(descriptor, data)

    def truncate(self, descriptor: int, size: int) -> None:
        self._note("truncate", os.readlink(f"/proc/self/fd/{descriptor}"), offset=size)
        super().truncate(descriptor, size)

    def flush(self, descriptor: int, path: str) -> None:
        self._note("flush", path)
        super().flush(descriptor, path)

    def flush_folder(self, path: str) -> None:
        self._note("flush folder", path)
        super().flush_folder(path)

    def flush_all(self, descriptor: int, folder: str) -> None:
        self._note("flush all", folder)
        super().flush_all(descriptor, folder)

    def mkdir(self, path: str) -> bool:
        new = super().mkdir(path)
        if new:
            self._note("mkdir", path)
        return new

    def rename_new(self, source: str, target: str) -> None:
        before = len(self.log)
        super().rename_new(source, target)
        if len(self.log) == before:
            self._note("rename", source, target)

    def exchange(self, staged: str, target: str, displaced: str) -> None:
        before = len(self.log)
        super().exchange(staged, target, displaced)
        if len(self.log) == before:
            self._note("exchange", staged, target)

    def link(self, source: str, target: str) -> None:
        super().link(source, target)
        self._note("link", source, target)

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self._note("rename", source, target)

    def unlink(self, path: str) -> None:
        if os.path.lexists(path):
            self._note("unlink", path)
        super().unlink(path)

    def rmdir(self, path: str) -> bool:
        gone = super().rmdir(path)
        if gone:
            self._note("rmdir", path)
        return gone


@dataclass(eq=False)
class Node:
    """A file or a folder, as it is in memory and as it is on the disk."""

    is_folder: bool
    content: bytes = b""
    safe_content: bytes = NEVER
    names: dict[str, Node] = field(default_factory=dict)
    safe_names: dict[str, Node] = field(default_factory=dict)


Entry = tuple[Node, str, Node | None]
Change = list[Entry]


class Disk:
    """The tree below one root; starts with everything that lies there on the disk."""

    def __init__(self, kind: Kind, root: Path) -> None:
        self.kind = kind
        self.top = self._load(root)
        self.waiting: list[Change] = []

    def _load(self, path: Path) -> Node:
        if not path.is_dir():
            data = path.read_bytes()
            return Node(False, data, data)
        names = {item.name: self._load(item) for item in path.iterdir() if item.name != ".retrieval"}
        return Node(True, names=names, safe_names=dict(names))

    def _node(self, path: str) -> Node:
        node = self.top
        for part in path.split("/"):
            node = node if part == "." else node.names[part]
        return node

    def _place(self, path: str) -> tuple[Node, str]:
        parent, _, name = path.rpartition("/")
        return self._node(parent or "."), name

    # --- playing back

    def play(self, done: Done) -> None:
        """One entry of the log."""
        first = done.paths[0]
        if first.startswith(".."):
            return
        if done.what == "write":
            node = self._node(first)
            node.content = node.content[: done.offset] + done.data + node.content[done.offset + len(done.data) :]
        elif done.what == "truncate":
            node = self._node(first)
            node.content = node.content[: done.offset]
        elif done.what == "flush all":
            self._flush_all(self.top)
        elif done.what.startswith("flush"):
            self._flush(self._node(first))
        else:
            self._change(done.what, done.paths)

    def _change(self, what: str, paths: tuple[str, ...]) -> None:
        parent, name = self._place(paths[0])
        old = parent.names.get(name)
        if what in ("create", "mkdir"):
            change: Change = [(parent, name, Node(what == "mkdir"))]
        elif what in ("unlink", "rmdir"):
            change = [(parent, name, None)]
        else:
            other, target = self._place(paths[1])
            left = {"link": old, "exchange": other.names.get(target), "rename": None}[what]
            change = [(other, target, old), (parent, name, left)]
        for folder, entry, node in change:
            _set(folder.names, entry, node)
        self.waiting.append(change)

    def _flush(self, node: Node) -> None:
        if not node.is_folder:
            node.safe_content = node.content
        if self.kind == "ordered":
            for change in self.waiting:
                _make_safe(change)
            self.waiting = []
        elif node.is_folder:
            self._flush_atomic(node)

    def _flush_all(self, node: Node) -> None:
        """Contents and names alike; a file whose name is gone needs none of it."""
        for change in self.waiting:
            _make_safe(change)
        self.waiting = []
        for child in node.names.values():
            if child.is_folder:
                self._flush_all(child)
            child.safe_content = child.content

    def _flush_atomic(self, node: Node) -> None:
        left: list[Change] = []
        for change in self.waiting:
            if any(folder is node for folder, _, _ in change):
                # What it supersedes can't come back later.
                said = [(folder, entry) for folder, entry, _ in change]
                left = [[item for item in other if item[:2] not in said] for other in left]
                _make_safe(change)
            else:
                left.append(change)
        self.waiting = [change for change in left if change]

    # --- the cut

    def cut(self, chance: random.Random) -> dict[str, bytes | None]:
        """What is left, by path; None is a folder. The disk is of no use afterwards."""
        if self.kind == "ordered":
            kept = self.waiting[: chance.randint(0, len(self.waiting))]
        else:
            share = chance.choice([0.0, 0.3, 0.7, 1.0])
            kept = [change for change in self.waiting if chance.random() < share]
        for change in kept:
            _make_safe(change)
        found: dict[str, bytes | None] = {}
        self._collect(self.top, "", found, chance)
        return found

    def _collect(self, node: Node, path: str, found: dict[str, bytes | None], chance: random.Random) -> None:
        for name, child in sorted(node.safe_names.items()):
            where = f"{path}{name}"
            if child.is_folder:
                found[where] = None
                self._collect(child, f"{where}/", found, chance)
            else:
                found[where] = _after_cut(child, chance)


def _set(names: dict[str, Node], entry: str, node: Node | None) -> None:
    if node is None:
        names.pop(entry, None)
    else:
        names[entry] = node


def _make_safe(change: Change) -> None:
    for folder, entry, node in change:
        _set(folder.safe_names, entry, node)


def _after_cut(node: Node, chance: random.Random) -> bytes:
    if node.content == node.safe_content:
        return node.content
    old = b"" if node.safe_content == NEVER else node.safe_content
    half = node.content[: len(node.content) // 2]
    zeros = bytes(len(node.content) - len(half))
    mixed = half + old[len(half) :]
    return chance.choice([old, node.content, b"", half, half + zeros, mixed])


def laid_out(found: dict[str, bytes | None], folder: Path) -> Path:
    """Writes such a tree to a fresh folder."""
    folder.mkdir()
    for path, data in found.items():
        if data is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(data)
    return folder
