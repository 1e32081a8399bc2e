"""Which user and agent a namespace's items belong to, and which namespaces there are."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Final, TypeVar

from langgraph.store.base import MatchCondition

from deermem.engine import DeerMem
from deermem.errors import DeerMemError, InvalidInput
from deermem.integrations.langgraph_store.buckets import Bucket
from deermem.integrations.langgraph_store.checks import says_closed
from deermem.integrations.langgraph_store.listings import Listings
from deermem.integrations.langgraph_store.names import (
    Namespace,
    agent_of,
    check_namespace,
    is_long,
    namespace_of,
    text_of_label,
)
from deermem.model.fact import Fact
from deermem.model.scope import Scope

_log: Final = logging.getLogger("deermem")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reading:
    """One look over the namespaces below a prefix. Of several users, one who can't be read is named in the log, once,
    and left out; where `prefix` names the user, that is an error.
    """

    one_user: bool
    failed: set[str | None] = field(default_factory=set)

    def of(self, user_id: str | None, look: Callable[[], T], nothing: T) -> T:
        """What a look at a user's files gives."""
        if user_id in self.failed:
            return nothing
        try:
            return look()
        except DeerMemError as error:
            if self.one_user or says_closed(error):
                raise
            self.failed.add(user_id)
            _log.warning("the items of user %r are left out: %s", user_id, error)
            return nothing


@dataclass(frozen=True, slots=True)
class Places:
    """The namespaces of one store. `user_at` is the place in a namespace that names the user.

    A namespace that is too short to name one, and each without `user_at`, is that of `user_id`.
    """

    engine: DeerMem
    user_id: str | None
    user_at: int | None
    listings: Listings = field(default_factory=Listings)

    def bucket(self, namespace: Namespace) -> Bucket:
        """The place of one namespace; nothing is made. Raises InvalidInput where no folder can be called so."""
        check_namespace(namespace)
        return Bucket(self.engine, self.listings, self._user_of(namespace), agent_of(namespace), namespace)

    def reading(self, prefix: Namespace) -> Reading:
        """A look over the namespaces that begin with these labels."""
        return Reading(self.user_at is None or len(prefix) > self.user_at)

    def below(self, prefix: Namespace, reading: Reading) -> list[Bucket]:
        """The namespaces with a folder that begin with these labels, in their order."""
        check_namespace(prefix)
        found: list[Bucket] = []
        for user_id in self._users(prefix):
            found += reading.of(user_id, partial(self._of_user, user_id, prefix), [])
        return sorted(found, key=attrgetter("namespace"))

    def readable(self, failed: list[DeerMemError]) -> Iterator[Bucket]:
        """All namespaces; what a user's folder raises is added to `failed`, and those of the other users come."""
        for user_id in self._users(()):
            try:
                yield from self._of_user(user_id, ())
            except DeerMemError as error:
                failed.append(error)

    def _of_user(self, user_id: str | None, prefix: Namespace) -> list[Bucket]:
        found: list[Bucket] = []
        for agent in self.engine.agents(user_id):
            namespace = self._namespace(user_id, agent, prefix)
            if namespace is None or namespace[: len(prefix)] != prefix:
                continue
            # A folder that another program made under a user who isn't the namespace's own is not ours.
            if _folder(self._user_of(namespace)) == _folder(user_id):
                found.append(self.bucket(namespace))
        return found

    def _user_of(self, namespace: Namespace) -> str | None:
        if self.user_at is None or len(namespace) <= self.user_at:
            return self.user_id
        return text_of_label(namespace[self.user_at])

    def _users(self, prefix: Namespace) -> Iterator[str | None]:
        """The users whom the namespaces below a prefix may belong to, by id or folder."""
        if self.user_at is None or len(prefix) > self.user_at:
            yield self._user_of(prefix)
            return
        if self.user_id is not None or not self.engine.settings.strict_user_scope:
            yield self.user_id
        yield from (name for name in self.engine.users() if name != _folder(self.user_id))

    def _namespace(self, user_id: str | None, agent: str, asked: Namespace) -> Namespace | None:
        """The namespace of an agent: by its name, else by what its files say, else by what is asked for."""
        if not is_long(agent):
            return namespace_of(agent)
        if asked and agent_of(asked) == agent:
            return asked
        facts = self.listings.of(self.engine.context(user_id), agent).facts
        return next((said for fact in facts if (said := _said(fact)) and agent_of(said) == agent), None)


def _folder(user_id: str | None) -> str | None:
    """The folder of a user; "", which no folder is called, for an id that none can have."""
    try:
        return Scope(user_id).user_folder
    except InvalidInput:
        return ""


def _said(fact: Fact) -> Namespace | None:
    """The namespace that a file says, however a person spelled it."""
    labels = fact.extra.get("namespace")
    if not isinstance(labels, list) or not labels:
        return None
    return tuple(str(label) for label in labels)


def fits(condition: MatchCondition, namespace: Namespace) -> bool:
    """Whether a namespace begins or ends with a path, in which `*` stands for any one label."""
    path = tuple(condition.path)
    if condition.match_type not in ("prefix", "suffix"):
        raise InvalidInput(f"Unsupported match type: {condition.match_type!r:.40}", hint='use "prefix" or "suffix"')
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
