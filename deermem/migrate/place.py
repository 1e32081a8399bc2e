"""Whose folder is migrated, and what old stores call things."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LEGACY_NAME: Final = "memory.json"
LEAD_AGENT: Final = "lead-agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPlace:
    """Whose folder it is. `folder` None is the no-user root; `user_id` None with a folder: the raw id is unknown."""

    folder: str | None
    user_id: str | None = None
    manifest_name: str = LEGACY_NAME

    def shown(self, path: str) -> str:
        """A path as a message names it, relative to the root."""
        return printable(path if self.folder is None else f"users/{self.folder}/{path}")


def printable(path: str) -> str:
    """A path on one line: a file name may hold line ends, which would pass for another user's result."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in path)
