"""What services need from above them, as small protocols beside their consumer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from deermem.config import Settings
from deermem.model.fact import Fact
from deermem.model.records import SearchFilter

if TYPE_CHECKING:
    from deermem.store.lock import HeldLock


class Obstacle(NamedTuple):
    """Why a migration would stop. `document` is the document it lies in, below the user's folder, "" for none.

    `unreadable`: the document is no JSON of any version.
    """

    document: str
    message: str
    hint: str
    unreadable: bool


class Migration(Protocol):
    """The step that brings an old store to the present layout; the engine hands it in."""

    def is_due(self, agent: str | None) -> bool:
        """Cheap: whether this user's shared document, or that agent's (None: any agent's), is an old one."""

    def problems(self) -> tuple[Obstacle, ...]:
        """Why a migration would stop, each reason once; none where it would go through, or nothing is due.

        Runs the checks of a dry run over all agents; raises StoreUnavailable where files can't be looked at.
        """

    def waiting(self) -> dict[str, int]:
        """How many facts each agent has in documents that are not migrated; a damaged one counts as one."""

    def settled(self, agent: str | None) -> None:
        """memory.json was just written by this engine, under the lock; what was current before is so still."""

    def run(self, held: HeldLock, agent: str | None, *, shared_wins: bool = False) -> None:
        """Migrates under the held lock; raises MigrationError with the source untouched.

        `shared_wins`: an agent's summaries that differ from the shared ones don't stop it.
        """


class Scored(NamedTuple):
    """A fact that a retrieval found; a plain tuple of the first three will do.

    `key` is the fact's id, or the path of its file below the agent's `facts/`. Where `path` is set too, the hit
    counts only while that very file speaks for the id.
    """

    agent: str
    key: str
    score: float
    path: str = ""


class Retrieval(Protocol):
    """Finds the facts of one user; one object a user, so that no user's words reach another's statistics.

    It never has the last word: what it finds is held against the files, and facts that are gone, expired or
    outside a filter are dropped. Calls for one user don't overlap within a process. Whatever it raises costs a
    warning, and the search goes through the facts themselves.
    """

    def sync(self, agent: str, facts: Sequence[Fact]) -> bool:
        """These are the agent's facts now, all of them, expired ones too.

        Called before a search whenever they changed since the last call that said true. False: what is found now
        would not be whole, so the facts themselves are searched this time.
        """

    def search(self, text: str, where: SearchFilter, top_k: int, now: float) -> Iterable[Scored] | None:
        """At most `top_k` facts of `where.agents`, best first, filtered before that limit; any text is fine.

        Facts that expired by `now` (unix seconds) are left out. None: it can't answer now.
        """

    def close(self) -> None:
        """The user is closed, or everything is built again: then a later search makes a new object."""


class Adapter(Retrieval, Protocol):
    """A retrieval of somebody else's, as the engine holds it: made again when everything is built again."""

    def start_over(self) -> None:
        """Closes what was made; the next search makes a new one, and tells it of every fact."""


class RetrievalFactory(Protocol):
    """What the dotted name in `settings.retrieval_adapter` stands for."""

    def __call__(self, index_folder: os.PathLike[str], settings: Settings, /) -> Retrieval:
        """A retrieval for one user. `index_folder` is the user's own; it may not exist yet, and all in it is
        derived: it may be deleted at any time."""
