"""What lies in a user's folder and is not looked into: links, folders without permission, forgotten temporaries."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from deermem.store.layout import AGENTS, FACTS, USERS, Layout, UserPaths
from deermem.store.repository import scan_facts

_TEMPORARY: Final = (".tmp", ".swp", "~")


@dataclass(slots=True)
class Strays:
    """Absolute paths. `temporaries` come with the time of their last change, in seconds since 1970."""

    links: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    temporaries: list[tuple[str, float]] = field(default_factory=list)


def user_strays(paths: UserPaths) -> Strays:
    """Of one user. Other files of the host in an agent's folder are none of ours."""
    found = Strays()
    ours = {paths.manifest_name, AGENTS, *(path.name for path in (paths.journal, paths.lock, paths.index.parent))}
    _entries(str(paths.folder), found, ours)
    agents = list(_entries(str(paths.folder / AGENTS), found))
    ours_too = set(paths.agents()) if agents else set()
    for agent in (entry for entry in agents if entry.name in ours_too):
        for folder in _entries(agent.path, found, {FACTS, ".metadata", paths.manifest_name}):
            if folder.name == FACTS:
                _walk(folder.path, found)
    return found


def root_strays(layout: Layout, only: str | None = None) -> Strays:
    """Directly below `users/`; `only` narrows it to one folder's name."""
    found = Strays()
    _entries(str(layout.root / USERS), found, None if only is None else {only})
    return found


def unreachable_agents(paths: UserPaths) -> list[str]:
    """Folders beside the agents' with facts in them, whose names no agent can have; absolute, in name order."""
    folder = str(paths.folder / AGENTS)
    reached = set(paths.agents()) if os.path.isdir(folder) else set()
    others = (f"{folder}/{name}" for name in _other_folders(folder, reached))
    return [other for other in others if _has_facts(other, paths.manifest_name)]


def unreachable_users(layout: Layout) -> list[str]:
    """Folders beside the users' with memory in them, whose names no id maps to; absolute, in name order."""
    folder = str(layout.root / USERS)
    try:
        reached = set(layout.users())
    except PermissionError:
        return []
    return [f"{folder}/{name}" for name in _other_folders(folder, reached) if _has_memory(layout, f"{folder}/{name}")]


def _other_folders(folder: str, reached: set[str]) -> list[str]:
    return [entry.name for entry in _entries(folder, Strays()) if entry.name not in reached]


def _has_memory(layout: Layout, user: str) -> bool:
    agents = f"{user}/{AGENTS}"
    if os.path.isfile(f"{user}/{layout.manifest_name}"):
        return True
    return any(_has_facts(f"{agents}/{name}", layout.manifest_name) for name in _other_folders(agents, set()))


def _has_facts(agent: str, manifest: str) -> bool:
    """Whether it has fact files, or a document of its own, as version 1 kept them."""
    facts = f"{agent}/{FACTS}"
    return os.path.isfile(f"{agent}/{manifest}") or (not os.path.islink(facts) and bool(scan_facts(facts).files))


def _walk(folder: str, found: Strays) -> None:
    folders = [folder]
    while folders:
        folders += [entry.path for entry in _entries(folders.pop(), found)]


def _entries(folder: str, found: Strays, names: set[str] | None = None) -> Iterator[os.DirEntry[str]]:
    """The folders in a folder; links and temporaries are noted. `names` narrows it to these."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        for entry in entries:
            _note(entry, found, names)
    except (FileNotFoundError, NotADirectoryError):
        return iter(())
    except PermissionError:
        found.closed.append(folder)
        return iter(())
    return iter([entry for entry in entries if _is_folder(entry) and (names is None or entry.name in names)])


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")


def _note(entry: os.DirEntry[str], found: Strays, names: set[str] | None) -> None:
    if entry.is_symlink():
        if names is None or entry.name in names:
            found.links.append(entry.path)
    elif entry.name.endswith(_TEMPORARY) and (names is None or entry.name.lstrip(".").startswith(tuple(names))):
        with contextlib.suppress(FileNotFoundError):
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                found.temporaries.append((entry.path, status.st_mtime))
