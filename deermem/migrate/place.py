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
        return path if self.folder is None else f"users/{self.folder}/{path}"
