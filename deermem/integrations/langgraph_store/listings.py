"""What the files of one namespace say, in the order in which it is listed; worked out again when one changed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from deermem.integrations.langgraph_store.names import ids_of
from deermem.integrations.langgraph_store.values import Meta, is_json, read_value
from deermem.model.fact import Fact
from deermem.model.values import JsonObject
from deermem.service.read import snapshot
from deermem.service.user import UserContext

_KEPT_LISTINGS: Final = 256
_KEPT_VALUES: Final = 20_000
_log: Final = logging.getLogger("deermem")


def key_of(fact: Fact) -> str:
    """The key of a fact's item: as its file says, else its id, which is the file's stem."""
    key = Meta.of(fact).key
    return fact.id if key is None else key


@dataclass(slots=True)
class Listing:
    """The items of one namespace as its files were: by key, and in the order in which they are listed.

    Of two files that say one key, the one counts that the store itself would have made, else the first by id.
    `is_timed`: some have an end. `readable` are those whose value can be read, once somebody asked.
    """

    facts: Sequence[Fact]
    by_key: dict[str, Fact] = field(default_factory=dict)
    ordered: list[tuple[str, Fact]] = field(default_factory=list)
    is_timed: bool = False
    readable: list[tuple[str, Fact]] | None = None

    @classmethod
    def of(cls, facts: Sequence[Fact]) -> Listing:
        """From a snapshot's facts."""
        by_key: dict[str, Fact] = {}
        for fact in facts:
            key = key_of(fact)
            if by_key.setdefault(key, fact) is not fact and fact.id == ids_of(key)[0]:
                by_key[key] = fact
        ordered = sorted(by_key.items(), key=lambda entry: (entry[1].created_at, entry[0]))
        return cls(facts, by_key, ordered, any(fact.expires_at is not None for fact in facts))


class Listings:
    """The last listing of each namespace: built again when a file changed, so that a page costs what it shows."""

    def __init__(self) -> None:
        self._known: dict[tuple[str | None, str], Listing] = {}
        self._parsed: dict[str, tuple[JsonObject | None]] = {}

    def of(self, user: UserContext, agent: str) -> Listing:
        """The listing of what lies on disk now."""
        facts = snapshot(user, agent).facts
        known = self._known.get((user.user_id, agent))
        if known is None or known.facts is not facts:
            if len(self._known) > _KEPT_LISTINGS:
                self._known.clear()
            known = self._known[user.user_id, agent] = Listing.of(facts)
        return known

    def look(self, fact: Fact) -> JsonObject | None:
        """A fact's value, to be looked at and not to be given away; None, and a line in the log, where it has none."""
        if not is_json(fact):
            return read_value(fact)
        if (known := self._parsed.get(fact.version)) is not None:
            return known[0]
        if len(self._parsed) > _KEPT_VALUES:
            self._parsed.clear()
        value = read_value(fact)
        self._parsed[fact.version] = (value,)
        if value is None:
            _log.warning("fact %s of agent %s is no item: its JSON can't be read", fact.id, fact.agent_name)
        return value

    def shows(self, fact: Fact) -> bool:
        """Whether a fact's value can be read."""
        return not is_json(fact) or self.look(fact) is not None

    def shown(self, listing: Listing, now: datetime) -> Sequence[tuple[str, Fact]]:
        """The items of a listing whose value can be read and whose time is not over, the older first."""
        if listing.readable is None:
            listing.readable = [entry for entry in listing.ordered if self.shows(entry[1])]
        if not listing.is_timed:
            return listing.readable
        return [entry for entry in listing.readable if not entry[1].expired_by(now)]
