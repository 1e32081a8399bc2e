"""What a decision needs of the other facts: from the catalogue while it is current, else after a sweep.

So a write costs the same at 50,000 facts as at 500. The facts that decide are read afresh.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from deermem.format.paths import fact_path
from deermem.index.catalogue import Catalogue
from deermem.model.fact import Fact, content_key
from deermem.policy.capacity import Ranked
from deermem.service.locate import Found, read_path
from deermem.service.snapshot import Snapshot
from deermem.service.user import ManifestState, UserContext

T = TypeVar("T")


class Known:
    """The other facts of one bucket, under the lock; without it, they are those that a reader has `seen`."""

    def __init__(self, user: UserContext, agent: str, state: ManifestState, *, seen: Snapshot | None = None) -> None:
        self._user = user
        self._folder = str(user.paths.folder)
        self.agent = agent
        self.state = state
        self._snapshot = seen
        # What isn't asked under the lock may be answered from a later commit.
        self._identity: str | None = None if seen is None else ""
        self._ids: set[str] | None = None
        self._contents: dict[bytes, list[str]] | None = None

    def same_content(self, content: str) -> Fact | None:
        """The fact that says this already."""
        key = content_key(content)
        if self._contents is not None:
            paths: list[str] | None = self._contents.get(key, [])
        else:
            paths = self._ask(lambda catalogue: catalogue.by_content(self.agent, key))
        if paths is None:
            self._contents = self._swept_contents()
            paths = self._contents.get(key, [])
        for path in sorted(paths):
            found = read_path(self._user, self.agent, path)
            if not isinstance(found, Found) or found.fact.expired_by(self._user.clock()):
                continue
            if content_key(found.fact.content) == key:
                return found.fact
        return None

    def expect_many(self) -> None:
        """Asks once for all ids and contents, where each of many facts is about to be looked for."""
        self._ids = self._ask(lambda catalogue: catalogue.ids(self.agent))
        self._contents = self._ask(lambda catalogue: catalogue.contents(self.agent))
        if self._contents is None:
            self._contents = self._swept_contents()

    def may_have(self, fact_id: str) -> bool:
        """Whether any file may carry this id; false spares a look at the disk for each new fact of an import."""
        if self._ids is not None:
            return fact_id.lower() in self._ids or self._is_there(fact_id)
        paths = self._ask(lambda catalogue: catalogue.by_id(self.agent, fact_id))
        if paths is None:
            return self._swept().row(fact_id) is not None or bool(self._swept().unreadable)
        return bool(paths) or self._is_there(fact_id)

    def paths_of(self, fact_id: str) -> list[str]:
        """The files that carry this id."""
        paths = self._ask(lambda catalogue: catalogue.by_id(self.agent, fact_id))
        if paths is None:
            paths = [row.path for row in self._swept().all_rows() if row.fact_id == fact_id]
        return paths

    def count(self) -> int:
        """How many facts the bucket has."""
        known = self._ask(lambda catalogue: catalogue.count(self.agent))
        return len(self._swept().facts) if known is None else known

    def lowest(self, limit: int) -> list[tuple[str, Ranked]]:
        """Path and rank of those that the cap would let go first."""
        known = self._ask(lambda catalogue: catalogue.lowest(self.agent, limit))
        if known is not None:
            return known
        ranked = [
            (row.path, Ranked(row.fact.id, row.fact.confidence, row.fact.created_at.timestamp()))
            for row in self._swept().rows.values()
            if row.fact is not None
        ]
        return sorted(ranked, key=lambda item: (item[1].confidence, item[1].created_at, item[1].id))[:limit]

    def stored(self) -> list[tuple[str, Fact]]:
        """Path and fact of all that are served, after a sweep."""
        return [(row.path, row.fact) for row in self._swept().rows.values() if row.fact is not None]

    def expired(self, now: datetime) -> list[str]:
        """Paths of the facts whose time is over, as far as they are known: a point operation sweeps for nobody."""
        if self._snapshot is None and self._current_in():
            return self._user.view.ask(lambda catalogue: catalogue.expired(self.agent, now.timestamp())) or []
        if self._snapshot is None:
            return []
        return sorted(row.path for row in self._swept().rows.values() if row.fact and row.fact.expired_by(now))

    def _is_there(self, fact_id: str) -> bool:
        return self._user.files.stat(f"{self._folder}/{fact_path(self.agent, fact_id)}") is not None

    def _swept(self) -> Snapshot:
        if self._snapshot is None:
            self._snapshot = self._user.view.sweep(self.agent, stamp=self._user.currency(self.state))
        return self._snapshot

    def _swept_contents(self) -> dict[bytes, list[str]]:
        paths: dict[bytes, list[str]] = {}
        for row in self._swept().all_rows():
            if row.fact is not None:
                paths.setdefault(content_key(row.fact.content), []).append(row.path)
        return paths

    def _current_in(self) -> str:
        """The identity of the catalogue, "" where it isn't current."""
        mark = self._user.currency(self.state)
        found = self._user.view.ask(lambda catalogue: (catalogue.identity(), catalogue.is_current(self.agent, mark)))
        return found[0] if found is not None and found[1] else ""

    def _ask(self, question: Callable[[Catalogue], T]) -> T | None:
        """The catalogue's answer while it is current; a sweep brings it up once, None means: do without."""
        view = self._user.view
        if self._identity is None:
            self._identity = self._current_in()
            if not self._identity:
                self._swept()
                self._identity = view.identity(self.agent) if view.is_stored(self.agent) else ""
        return view.ask(question, of=self._identity) if self._identity else None
