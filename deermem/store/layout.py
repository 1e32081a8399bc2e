"""Where everything lies: the only twin in code of the layout in docs/format.md."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from deermem.errors import InvalidInput
from deermem.format.paths import fact_path
from deermem.model.scope import DEFAULT_AGENT, Scope, normalize_agent, safe_user_id

USERS: Final = "users"
AGENTS: Final = "agents"
FACTS: Final = "facts"
BACKUP_SUFFIX: Final = ".v1.bak"
LEGACY_DEFAULT_AGENT: Final = "lead-agent"


@dataclass(frozen=True)
class UserPaths:
    """One user's places, each worked out once: a write asks for the same ones over and over."""

    folder: Path
    manifest_name: str
    index: Path

    @cached_property
    def manifest(self) -> Path:
        """memory.json: summaries and the shared revision."""
        return self.folder / self.manifest_name

    @cached_property
    def lock(self) -> Path:
        """The user lock; DeerFlow takes the same one."""
        return self.folder / ".memory.lock"

    @cached_property
    def journal(self) -> Path:
        """The recovery journal: record, staged and displaced files, conflict copies."""
        return self.folder / ".journal"

    @cached_property
    def record(self) -> Path:
        """The one record that seals a commit."""
        return self.journal / "record"

    @cached_property
    def epoch(self) -> Path:
        """A random value that clear and forget change."""
        return self.journal / "epoch"

    @cached_property
    def turnstile(self) -> Path:
        """The lock in front of the user lock."""
        return self.journal / "turnstile"

    @cached_property
    def queue(self) -> Path:
        """Conversations that wait for extraction, and how far each was extracted."""
        return self.folder / ".queue"

    @cached_property
    def undo_journal(self) -> Path:
        """What a DeerFlow process that died in a write leaves behind."""
        return self.folder / ".memory.journal.json"

    @cached_property
    def undo_backups(self) -> Path:
        """The files that DeerFlow's undo journal restores from."""
        return self.folder / ".recovery"

    def agent(self, agent: str) -> Path:
        """An agent's folder; the host keeps files of its own there."""
        return self.folder / AGENTS / agent

    @cached_property
    def _facts(self) -> dict[str, Path]:
        return {}

    def facts(self, agent: str) -> Path:
        """The folder of an agent's facts."""
        found = self._facts.get(agent)
        if found is None:
            found = self._facts.setdefault(agent, self.agent(agent) / FACTS)
        return found

    def metadata(self, agent: str) -> Path:
        """The folder of an agent's sidecars."""
        return self.agent(agent) / ".metadata"

    def fact(self, agent: str, fact_id: str) -> Path:
        """The canonical place of one fact."""
        return self.folder / fact_path(agent, fact_id)

    def relative(self, path: Path) -> str:
        """Posix, below the user's folder."""
        return path.relative_to(self.folder).as_posix()

    def backups(self) -> list[Path]:
        """The copies of version 1 documents that a migration left, in path order; they keep what was said then."""
        places = [self.folder, *(self.agent(agent) for agent in _folders(self.folder / AGENTS))]
        names = (self.manifest_name + BACKUP_SUFFIX, "memory.json" + BACKUP_SUFFIX)
        found = {place / name for place in places for name in names}
        return sorted(path for path in found if path.is_file() and not path.is_symlink())

    def agents(self) -> list[str]:
        """The agent folders there are, in name order; links and names outside the grammar are passed over."""
        return sorted(name for name in _folders(self.folder / AGENTS) if _is_agent(name))


@dataclass(frozen=True, slots=True)
class Layout:
    """One root. Nothing here touches a file but to list folders."""

    root: Path
    manifest_name: str = "memory.json"
    index_root: Path | None = field(default=None)

    def user(self, folder: str | None) -> UserPaths:
        """The places of a user folder's name; None is the no-user root."""
        home = self.root if folder is None else self.root / USERS / folder
        return UserPaths(home, self.manifest_name, self._index(folder))

    def of(self, scope: Scope) -> UserPaths:
        """The places of a scope's user."""
        return self.user(scope.user_folder)

    def users(self) -> list[str]:
        """The user folders there are, in name order; links and names that no id maps to are passed over."""
        return sorted(name for name in _folders(self.root / USERS) if _is_user(name))

    def has_rootless_memory(self) -> bool:
        """Whether the no-user root holds anything of its own."""
        own = self.user(None)
        return own.manifest.is_file() or (self.root / AGENTS).is_dir() or own.queue.is_dir()

    def _index(self, folder: str | None) -> Path:
        if self.index_root is None:
            home = self.root if folder is None else self.root / USERS / folder
            return home / ".retrieval" / "index.sqlite3"
        # Two roots may share one index_root: without the root's mark, one would answer with the other's memory.
        mark = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:16]
        tail = Path(USERS, folder) if folder is not None else Path("no-user")
        return self.index_root / mark / tail / "index.sqlite3"


def check_root(root: Path) -> None:
    """Raises InvalidInput for a root that can't hold a store; a missing one is fine and stays missing."""
    if root.exists() and not root.is_dir():
        raise InvalidInput(f"root {root} is a file", hint="give a folder")


def _folders(parent: Path) -> list[str]:
    try:
        entries = list(os.scandir(parent))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")]


def _is_user(name: str) -> bool:
    try:
        return safe_user_id(name) == name
    except InvalidInput:
        return False


def _is_agent(name: str) -> bool:
    try:
        return name == DEFAULT_AGENT or normalize_agent(name) == name
    except InvalidInput:
        return False
