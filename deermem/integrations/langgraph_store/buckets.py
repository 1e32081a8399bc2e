"""The items of one namespace: found, listed, changed in one commit."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from deermem.engine import DeerMem
from deermem.errors import Conflict, Corruption, DeerMemError, FactConflict, FactNotFound, InvalidInput
from deermem.format import markdown
from deermem.integrations.langgraph_store.listings import Listing, Listings, key_of
from deermem.integrations.langgraph_store.names import Namespace, ids_of, part_id
from deermem.integrations.langgraph_store.parts import Part, files_of, is_further
from deermem.integrations.langgraph_store.values import Meta, Put, refreshed, title_of_key
from deermem.memory import Memory
from deermem.model.changes import ABSENT, ChangeSet, Delete, Upsert
from deermem.model.fact import Fact, Source, derive_title
from deermem.model.records import SearchFilter
from deermem.service.locate import corrupt, find
from deermem.service.recall import Match, answered, asked
from deermem.service.retrieval import retrieval_of
from deermem.service.user import UserContext

_ANY_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TRIES: Final = 30
_SWEEPS: Final = 5
_REFRESHED_FROM: Final = 0.01
_log: Final = logging.getLogger("deermem")


def check_put(put: Put, now: datetime) -> None:
    """Raises InvalidInput for a value, a key or an end that no file holds, before anything is written."""
    expires = None if put.ttl is None else _after(now, put.ttl)
    base = replace(_fresh(ids_of(put.key)[0], _ANY_TIME), expires_at=expires)
    files_of(put, base, lambda number: _fresh(part_id(put.key, number), _ANY_TIME))


@dataclass(frozen=True, slots=True)
class Bucket:
    """One namespace, the agent whose facts its items are, and the user whom that agent serves."""

    engine: DeerMem
    listings: Listings
    user_id: str | None
    agent: str
    namespace: Namespace

    @property
    def _memory(self) -> Memory:
        return self.engine.memory(self.user_id, self.agent)

    @property
    def _user(self) -> UserContext:
        return self.engine.context(self.user_id)

    def now(self) -> datetime:
        """The engine's time."""
        return self._user.clock()

    # --- reading

    def get(self, key: str) -> Fact | None:
        """The fact of a key, to be read; raises Corruption where its file is there and can't be read."""
        try:
            fact = self._memory.get(ids_of(key)[0])
        except FactNotFound:
            fact = None
        if fact is None or key_of(fact) != key or Part.of(fact) is not None:
            known = self.listing()
            fact = known.by_key.get(key)
            if fact is None:
                self._refuse_broken(known, key)
                self._refuse_torn(known, key)
        if fact is None or fact.expired_by(self.now()):
            return None
        if not self.listings.shows(self.agent, fact):
            raise self._unreadable(key, fact)
        return fact

    def listing(self) -> Listing:
        """All items as they lie on disk now, those too whose time is over."""
        return self.listings.of(self._user, self.agent)

    def items(self) -> Sequence[tuple[str, Fact]]:
        """Keys and facts of the items there are, the older first; what can't be read is left out."""
        return self.listings.shown(self.listing(), self.now())

    def untold(self) -> Sequence[tuple[str, Fact]]:
        """Those of the items of which the index doesn't know all that a query looks at."""
        return self.listings.untold(self.listing(), self.now())

    def is_empty(self) -> bool:
        """Whether it has no item."""
        now = self.now()
        return all(fact.expired_by(now) for fact in self.listing().by_key.values())

    def found(self, query: str, agents: Sequence[str]) -> Sequence[Match]:
        """Every fact of this user's agents that a query finds, best first, without the excerpts that cost most."""
        question = asked(self._user, agents, query, SearchFilter())
        if question.query.is_empty or not question.size:
            return ()
        return answered(question, retrieval_of(self._user), question.size).matches

    def _refuse_broken(self, known: Listing, key: str) -> None:
        """Raises Corruption where a file that can't be read has the name of a key's own: it may be the item."""
        parts = known.torn[key].missing if key in known.torn else ()
        for fact_id in (*ids_of(key), *(part_id(key, number) for number in parts)):
            if (broken := known.broken.get(fact_id)) is not None:
                raise corrupt(self._user, self.agent, *broken)

    def _refuse_torn(self, known: Listing, key: str) -> None:
        """Raises Corruption where an item has several files and some are missing: half a value is none."""
        if (torn := known.torn.get(key)) is not None and not torn.files[0].expired_by(self.now()):
            path = str(self._memory.path(torn.files[0].id))
            raise Corruption(
                f"{path}: item {key!r:.80} can't be read: {torn.problem}",
                path=path,
                reason=torn.problem,
                hint="put the missing file back, or delete the item",
            )

    def _unreadable(self, key: str, fact: Fact) -> Corruption:
        path = str(self._memory.path(fact.id))
        return Corruption(
            f"{path}: the JSON of item {key!r:.80} can't be read",
            path=path,
            reason="the JSON can't be read",
            hint="mend the json block in that file, or delete the item",
        )

    # --- writing

    def change(self, puts: Mapping[str, Put | None]) -> None:
        """Puts, and deletes where it is None, in one commit; what others changed meanwhile is looked at again.

        Raises InvalidInput for a value that no file holds, Corruption for a file that can't be read, and what the
        store raises.
        """
        for left in reversed(range(_TRIES)):
            change = self._decided(puts, bound=left > 0)
            if not change.upserts and not change.deletes:
                return
            try:
                self._memory.apply(change)
            except (Conflict, FactNotFound):
                if left == 0:
                    raise
            else:
                return

    def _decided(self, puts: Mapping[str, Put | None], *, bound: bool) -> ChangeSet:
        """What is to be written over what lies there now; `bound`: only while that is still so."""
        known = self.listing()
        ids = {fact.id.lower(): fact.id for fact in known.facts}
        now = self.now()
        upserts: dict[str, Upsert] = {}
        # Of an item whose files end apart the engine would delete some and leave half of it.
        gone = [fact for fact in known.over(now) if not fact.expired_by(now)]
        for key, put in puts.items():
            if key not in known.by_key:
                self._refuse_broken(known, key)
            if put is None:
                # A file that was hidden by the one that counts would be the item from then on.
                gone += known.all_of(key)
                continue
            self._refuse_torn(known, key)
            there = {fact.id: fact.version for fact in known.all_of(key)}
            for fact in self._facts(put, known, ids, now):
                ids[fact.id.lower()] = fact.id
                upserts[fact.id] = Upsert(fact, there.get(fact.id, ABSENT) if bound else None)
            gone += [*known.files_of(key), *known.leftovers(key)]
        left = {fact.id: fact for fact in gone if fact.id not in upserts}
        return ChangeSet(upserts.values(), [Delete(fact.id, fact.version if bound else None) for fact in left.values()])

    def _facts(self, put: Put, known: Listing, ids: Mapping[str, str], now: datetime) -> list[Fact]:
        """The files of a put, over those of the item that is there."""
        files = known.files_of(put.key)
        over = any(fact.expired_by(now) for fact in files)
        mine = {fact.id: fact for fact in known.leftovers(put.key)}
        mine |= {part_id(put.key, part.number): fact for fact in files if (part := Part.of(fact)) is not None}

        def further(number: int) -> Fact:
            fact_id = part_id(put.key, number)
            if (fact := mine.get(fact_id)) is not None:
                return _fresh(fact.id, now) if over else fact
            if fact_id in ids:
                raise _taken(put.key, ids[fact_id])
            return _fresh(fact_id, now)

        if not files or is_further(files[0]):
            base = _new(put.key, ids, now)
        else:
            base = _fresh(files[0].id, now) if over else self._base(put.key, known)
        expires = None if put.ttl is None else _after(now, put.ttl)
        return files_of(put, replace(base, expires_at=expires), further)

    def _base(self, key: str, known: Listing) -> Fact:
        """What of a file stays under a new value."""
        whole, fact = known.by_key[key], known.files_of(key)[0]
        if not self.listings.shows(self.agent, whole):
            raise self._unreadable(key, fact)
        made = fact.title in (derive_title(fact.content), title_of_key(key))
        return fact if not made and self._chose_title(fact) else replace(fact, title="")

    def _chose_title(self, fact: Fact) -> bool:
        """Whether a person wrote the heading: over an edited text, it is only that of the text before."""
        found = find(self._user, self.agent, fact.id)
        return found is not None and (not found.parsed.edited or markdown.only_heading_changed(found.data, fact))

    def refresh(self, facts: Iterable[Fact]) -> None:
        """Moves the ends of items that were read; a reading never fails by it."""
        for _ in range(_TRIES):
            due = [(found, later) for fact in facts for found, later in self._moved(fact)]
            if not due:
                return
            try:
                self._memory.apply(ChangeSet([Upsert(later, found.version) for found, later in due]))
            except Conflict:
                known = self.listing().by_key
                keys = dict.fromkeys(key_of(found) for found, _ in due)
                facts = [there for key in keys if (there := known.get(key)) is not None]
            except DeerMemError as error:
                _log.warning("items of %s were read and their time was not moved: %s", self.agent, error)
                return
            else:
                return

    def _moved(self, fact: Fact) -> list[tuple[Fact, Fact]]:
        """The files of an item, each with what it is when its end was moved; none where that is not due."""
        end = self._later(fact)
        if end is None or Part.of(fact) is None:
            return [] if end is None else [(fact, refreshed(fact, end))]
        known, key = self.listing(), key_of(fact)
        # Its files may be those of another put by now, which has no end or a later one.
        whole = known.by_key.get(key)
        end = None if whole is None else self._later(whole)
        return [] if end is None else [(found, refreshed(found, end)) for found in known.files_of(key)]

    def _later(self, fact: Fact) -> datetime | None:
        ttl = Meta.of(fact).ttl
        now = self.now()
        if ttl is None or fact.expires_at is None or fact.expired_by(now):
            return None
        try:
            end = _after(now, ttl)
        except InvalidInput:
            return None
        # Else each reading would be a commit.
        little = end - fact.expires_at < _REFRESHED_FROM * timedelta(minutes=ttl)
        return None if little else end

    def sweep(self) -> int:
        """Deletes the items whose time is over; how many there were."""
        gone = 0
        for _ in range(_SWEEPS):
            over = self.listing().over(self.now())
            if not over:
                break
            try:
                self._memory.apply(ChangeSet(deletes=[Delete(fact.id, fact.version) for fact in over]))
            except (FactConflict, FactNotFound):
                continue
            gone += sum(not is_further(fact) for fact in over)
        return gone


def _new(key: str, ids: Mapping[str, str], now: datetime) -> Fact:
    """A fact for a new item, with an id that nothing has."""
    free = [fact_id for fact_id in _ids_to_make(key) if fact_id.lower() not in ids]
    if not free:
        raise _taken(key, ids[ids_of(key)[0].lower()])
    return _fresh(free[0], now)


def _taken(key: str, holder: str) -> InvalidInput:
    return InvalidInput(f"the place of item {key!r:.80} is taken by fact {holder!r}", hint="rename that file")


def _ids_to_make(key: str) -> tuple[str, ...]:
    """Those of `ids_of` without capital letters: on a disk without case they would be another key's."""
    return tuple(fact_id for fact_id in ids_of(key) if fact_id == fact_id.lower())


def _fresh(fact_id: str, now: datetime) -> Fact:
    return Fact(id=fact_id, content="", title="", source=Source("unknown"), created_at=now, updated_at=now)


def _after(now: datetime, minutes: float) -> datetime:
    try:
        return now + timedelta(minutes=minutes)
    except OverflowError:
        raise InvalidInput(
            f"a ttl of {minutes!r} minutes ends after the year 9999", hint="give None for no end"
        ) from None
