"""What services need from above them, as small protocols beside their consumer."""

from __future__ import annotations

from typing import Protocol

from deermem.store.lock import HeldLock


class Migration(Protocol):
    """The step that brings an old store to the present layout; the engine hands it in."""

    def is_due(self, agent: str | None) -> bool:
        """Cheap: whether this user's shared document, or that agent's (None: any agent's), is an old one."""

    def run(self, held: HeldLock, agent: str | None) -> None:
        """Migrates under the held lock; raises MigrationError with the source untouched."""
