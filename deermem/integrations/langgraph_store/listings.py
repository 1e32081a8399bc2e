"""What the files of one namespace say, in the order in which it is listed; worked out again when one changed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from typing import Final

from deermem.integrations.langgraph_store.names import ids_of
from deermem.integrations.langgraph_store.parts import Assembly, Part, is_further
from deermem.integrations.langgraph_store.values import Meta, is_json, is_untold, read_value
from deermem.model.fact import Fact
from deermem.model.records import Problem
from deermem.model.values import JsonObject
from deermem.service.read import snapshot
from deermem.service.snapshot import Snapshot
from deermem.service.user import UserContext

_KEPT_LISTINGS: Final = 256
_KEPT_VALUES: Final = 20_000
_KEPT_CHARACTERS: Final = 100_000_000
_log: Final = logging.getLogger("deermem")


def key_of(fact: Fact) -> str:
    """The key of a fact's item: as its file says, else its id, which is the file's stem."""
    key = Meta.of(fact).key
    return fact.id if key is None else key


@dataclass(slots=True)
class Listing:
    """The items of one namespace as its files were: by key, and in the order in which they are listed.

    Of two files that say one key, the one counts that the store itself would have made, else the first by id; the
    others are `hidden`. An item of several files is one fact here, which is never written; `files` are what it is
    made of, and `torn` the keys of which some are missing. `broken` are the files that can't be read, by stem: path
    and why. `is_timed`: some have an end. Once somebody asked, `readable` are those whose value can be read, and
    `untold` those of which the index doesn't know all that a query looks at.
    """

    agent: str
    facts: Sequence[Fact]
    broken: Mapping[str, tuple[str, Problem]]
    by_key: dict[str, Fact] = field(default_factory=dict)
    hidden: dict[str, list[Fact]] = field(default_factory=dict)
    files: dict[str, list[Fact]] = field(default_factory=dict)
    torn: dict[str, Assembly] = field(default_factory=dict)
    ordered: list[tuple[str, Fact]] = field(default_factory=list)
    is_timed: bool = False
    readable: list[tuple[str, Fact]] | None = None
    untold: list[tuple[str, Fact]] | None = None

    @classmethod
    def of(cls, agent: str, seen: Snapshot) -> Listing:
        """From a snapshot of an agent."""
        broken = {PurePosixPath(row.path).stem: (row.path, row.problem) for row in seen.unreadable if row.problem}
        listing = cls(agent, seen.facts, broken, is_timed=any(fact.expires_at is not None for fact in seen.facts))
        further: dict[str, list[Fact]] = {}
        several: set[str] = set()
        for fact in seen.facts:
            key = key_of(fact)
            if (part := Part.of(fact)) is not None:
                several.add(key)
                if part.number > 1:
                    further.setdefault(key, []).append(fact)
                    continue
            other = listing.by_key.setdefault(key, fact)
            if other is fact:
                continue
            counts = fact.id == ids_of(key)[0]
            if counts:
                listing.by_key[key] = fact
            listing.hidden.setdefault(key, []).append(other if counts else fact)
        for key in several:
            listing._assemble(key, further.get(key, []))
        listing.ordered = sorted(listing.by_key.items(), key=lambda entry: (entry[1].created_at, entry[0]))
        return listing

    def _assemble(self, key: str, further: Sequence[Fact]) -> None:
        found = Assembly.of(key, self.by_key.get(key), further)
        self.files[key] = found.files
        if found.left:
            self.hidden.setdefault(key, []).extend(found.left)
        if found.missing:
            self.torn[key] = found
            self.by_key.pop(key, None)
        else:
            self.by_key[key] = found.joined()

    def files_of(self, key: str) -> list[Fact]:
        """The files that an item is made of, the first one first."""
        return self.files.get(key) or ([self.by_key[key]] if key in self.by_key else [])

    def all_of(self, key: str) -> list[Fact]:
        """Every file that says a key, those that count first."""
        return [*self.files_of(key), *self.hidden.get(key, ())]

    def leftovers(self, key: str) -> list[Fact]:
        """Files that go on with what another put began."""
        return [fact for fact in self.hidden.get(key, ()) if is_further(fact)]

    def over(self, now: datetime) -> list[Fact]:
        """The files of the items whose time is over: of an item of several, all, whichever of them says so."""
        if not self.is_timed:
            return []
        found = {fact.id: fact for fact in self.facts if fact.expired_by(now)}
        for key in self.files:
            if key in self.by_key and self.by_key[key].expired_by(now):
                found |= {fact.id: fact for fact in (*self.files_of(key), *self.leftovers(key))}
        return list(found.values())


class Listings:
    """The last listing of each namespace: built again when a file changed, so that a page costs what it shows."""

    def __init__(self) -> None:
        self._known: dict[tuple[str | None, str], Listing] = {}
        self._parsed: dict[str, tuple[JsonObject | None]] = {}
        self._characters = 0
        self._named: set[str] = set()
        self._untold: dict[str, bool] = {}

    def of(self, user: UserContext, agent: str) -> Listing:
        """The listing of what lies on disk now."""
        seen = snapshot(user, agent)
        known = self._known.get((user.user_id, agent))
        if known is None or known.facts is not seen.facts:
            if len(self._known) > _KEPT_LISTINGS:
                self._known.clear()
            known = self._known[user.user_id, agent] = Listing.of(agent, seen)
            self._name_torn(known)
        return known

    def _name_torn(self, listing: Listing) -> None:
        """A line in the log for each item of which a file is missing, once for each state that it is in."""
        if len(self._named) > _KEPT_VALUES:
            self._named.clear()
        for key, torn in listing.torn.items():
            state = f"{listing.agent} {key} {'+'.join(fact.version for fact in torn.files)}"
            if state not in self._named:
                self._named.add(state)
                _log.warning("item %r of agent %s is not served: %s", key, listing.agent, torn.problem)

    def look(self, agent: str, fact: Fact) -> JsonObject | None:
        """A fact's value, to be looked at and not to be given away; None, and a line in the log, where it has none."""
        if not is_json(fact):
            return read_value(fact)
        if (known := self._parsed.get(fact.version)) is not None:
            return known[0]
        self._characters += len(fact.content)
        if len(self._parsed) > _KEPT_VALUES or self._characters > _KEPT_CHARACTERS:
            self._parsed.clear()
            self._characters = len(fact.content)
        value = read_value(fact)
        self._parsed[fact.version] = (value,)
        if value is None:
            _log.warning("fact %s of agent %s is no item: its JSON can't be read", fact.id, agent)
        return value

    def shows(self, agent: str, fact: Fact) -> bool:
        """Whether a fact's value can be read."""
        return not is_json(fact) or self.look(agent, fact) is not None

    def shown(self, listing: Listing, now: datetime) -> Sequence[tuple[str, Fact]]:
        """The items of a listing whose value can be read and whose time is not over, the older first."""
        if listing.readable is None:
            listing.readable = [entry for entry in listing.ordered if self.shows(listing.agent, entry[1])]
        if not listing.is_timed:
            return listing.readable
        return [entry for entry in listing.readable if not entry[1].expired_by(now)]

    def untold(self, listing: Listing, now: datetime) -> Sequence[tuple[str, Fact]]:
        """The items of a listing of which the index doesn't know all that a query looks at."""
        if listing.untold is None:
            listing.untold = [entry for entry in listing.ordered if self._is_untold(entry[1])]
        return [entry for entry in listing.untold if not entry[1].expired_by(now)]

    def _is_untold(self, fact: Fact) -> bool:
        if (known := self._untold.get(fact.version)) is None:
            if len(self._untold) > _KEPT_VALUES:
                self._untold.clear()
            known = self._untold[fact.version] = is_untold(fact)
        return known
