"""Who finds facts: the built-in index, or an adapter that the settings name."""

from __future__ import annotations

import importlib
import logging
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, TypeVar, cast

from deermem.config import Settings
from deermem.errors import InvalidInput
from deermem.index.catalogue import Catalogue
from deermem.index.query import parse_query
from deermem.index.search import Explained, Found, explain, matching, search
from deermem.model.fact import Fact
from deermem.model.records import SearchFilter
from deermem.service.ports import Retrieval, RetrievalFactory, Scored
from deermem.service.read import is_sealed
from deermem.service.user import UserContext
from deermem.store.layout import UserPaths

T = TypeVar("T")
_PATIENCE: Final = 2.0
_LEAST: Final = 100
_FOLDER: Final = "adapter"
_log: Final = logging.getLogger("deermem")


def retrieval_of(user: UserContext) -> Retrieval:
    """Whom to ask for a user's facts."""
    return user.adapter or Fts5Retrieval(user)


class Fts5Retrieval:
    """The words in the user's catalogue. Cheap to make: one for each search."""

    def __init__(self, user: UserContext) -> None:
        self._user = user
        self._identities: dict[str, str] = {}

    def sync(self, agent: str, facts: Sequence[Fact]) -> bool:  # noqa: ARG002 - the view stored them when it swept
        """Whether the catalogue holds every file of the agent as the last sweep saw it."""
        view = self._user.view
        identity = view.ask(Catalogue.identity)
        # A commit under way is seen by the sweep, but not by the index.
        if identity is None or is_sealed(self._user) or not view.is_stored(agent):
            return False
        self._identities[agent] = identity
        return view.identity(agent) == identity

    def search(self, text: str, where: SearchFilter, top_k: int, now: float) -> Iterable[Scored] | None:
        """The best facts of the agents that were synced; None where the rows were dropped since."""
        query = parse_query(text)
        found = self._ask(
            where, lambda catalogue: search(catalogue.connection, query, where=where, top_k=top_k, now=now)
        )
        return None if found is None else [_scored(item) for item in found]

    def matching(self, text: str, where: SearchFilter, now: float) -> Iterable[Scored] | None:
        """Every fact that matches, without order or score."""
        query = parse_query(text)
        found = self._ask(where, lambda catalogue: matching(catalogue.connection, query, where, now=now))
        return None if found is None else [Scored(agent, fact_id, 0.0, path) for agent, path, fact_id in found]

    def close(self) -> None:
        """Nothing to do: the view owns the catalogue."""

    def _ask(self, where: SearchFilter, question: Callable[[Catalogue], T]) -> T | None:
        identities = {self._identities.get(agent) for agent in where.agents or ()}
        if len(identities) != 1:
            return None
        identity = identities.pop()
        return self._user.view.ask(question, of=identity) if identity is not None else None


class ExplainingRetrieval(Fts5Retrieval):
    """The same hits, and how each got its score: `explained` is by agent and path, of all searches so far."""

    def __init__(self, user: UserContext) -> None:
        super().__init__(user)
        self.explained: dict[tuple[str, str], Explained] = {}

    def search(self, text: str, where: SearchFilter, top_k: int, now: float) -> Iterable[Scored] | None:
        """As the plain one finds them."""
        query = parse_query(text)
        found = self._ask(
            where, lambda catalogue: explain(catalogue.connection, query, where=where, top_k=top_k, now=now)
        )
        if found is None:
            return None
        self.explained.update(((item.found.agent, item.found.path), item) for item in found)
        return [_scored(item.found) for item in found]


def _scored(found: Found) -> Scored:
    return Scored(found.agent, found.fact_id, found.score, found.path)


def load_factory(name: str) -> RetrievalFactory:
    """What a dotted name stands for; raises InvalidInput, naming it, where that can't be had."""
    module, _, attribute = name.partition(":")
    hint = "retrieval_adapter names a callable as package.module:factory; check the spelling and that it is installed"
    try:
        found: object = getattr(importlib.import_module(module), attribute, None)
    except Exception as error:
        _log.debug("importing %s failed", module, exc_info=True)
        raise InvalidInput(f"the retrieval adapter {name!r} can't be imported: {error}", hint=hint) from error
    if not callable(found):
        raise InvalidInput(f"the retrieval adapter {name!r} is no callable in {module}", hint=hint)
    return cast(RetrievalFactory, found)


class AdapterRetrieval:
    """An adapter, made at its first use and never trusted: whatever it raises or returns, nothing is raised here.

    One call at a time. Whoever has waited two seconds for another's call goes without it, so that an adapter which
    hangs holds up nobody but its own caller.
    """

    def __init__(self, factory: RetrievalFactory, paths: UserPaths, settings: Settings) -> None:
        self._factory = factory
        self._paths = paths
        self._settings = settings
        self._lock = threading.Lock()
        self._inner: Retrieval | None = None
        self._synced: dict[str, Sequence[Fact]] = {}
        self._ended = False

    def sync(self, agent: str, facts: Sequence[Fact]) -> bool:
        """Tells the adapter where the facts changed; false where it can't be asked now."""
        return self._guarded(lambda: self._sync(agent, facts)) or False

    def search(self, text: str, where: SearchFilter, top_k: int, now: float) -> Iterable[Scored] | None:
        """What the adapter found, checked in form; None where that failed."""
        return self._guarded(lambda: self._search(text, where, top_k, now))

    def start_over(self) -> None:
        """Closes the adapter; the next search makes a new one, and tells it of every fact."""
        if self._inner is not None:
            self._guarded(self._close)

    def close(self) -> None:
        """Closes the adapter for good; one in the middle of a call is left to itself."""
        self._ended = True
        self.start_over()

    def _sync(self, agent: str, facts: Sequence[Fact]) -> bool:
        if self._ended or not self._paths.folder.is_dir():
            return False
        if self._synced.get(agent) is not facts:
            self._synced.pop(agent, None)
            if not self._opened().sync(agent, facts):
                return False
            self._synced[agent] = facts
        return True

    def _search(self, text: str, where: SearchFilter, top_k: int, now: float) -> list[Scored] | None:
        found = None if self._ended else self._opened().search(text, where, top_k, now)
        if found is None:
            return None
        # What is gone meanwhile takes nobody's place; an answer without an end must have one.
        some = islice(found, max(_LEAST, 2 * top_k))
        return sorted((_checked(item) for item in some), key=lambda item: -item.score)

    def _close(self) -> None:
        inner, self._inner = self._inner, None
        self._synced.clear()
        if inner is not None:
            inner.close()

    def _opened(self) -> Retrieval:
        if self._inner is None:
            self._inner = self._factory(self._paths.index.with_name(_FOLDER), self._settings)
        return self._inner

    def _guarded(self, work: Callable[[], T]) -> T | None:
        name = self._settings.retrieval_adapter
        if not self._lock.acquire(timeout=_PATIENCE):
            _log.warning("the retrieval adapter %s is busy and is not waited for", name)
            return None
        try:
            return work()
        except Exception as error:  # noqa: BLE001 - code of others, and derived state: the facts answer instead
            self._synced.clear()
            _log.warning("the retrieval adapter %s failed; the facts are searched instead: %r", name, error)
            return None
        finally:
            self._lock.release()


def _checked(item: Scored) -> Scored:
    agent, key, score, *rest = item
    if not isinstance(agent, str) or not isinstance(key, str):
        raise TypeError(f"{item!r:.100} is no (agent, fact id or path, score)")
    if isinstance(score, bool) or not math.isfinite(score):
        raise ValueError(f"{score!r:.100} is no score")
    return Scored(agent, key, float(score), str(rest[0]) if rest else "")
