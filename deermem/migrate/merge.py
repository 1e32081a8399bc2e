"""How facts and summaries of several sources become one: equal ones once, different ones never."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from deermem.errors import InvalidInput, MigrationError, SummaryConflict
from deermem.format import markdown
from deermem.format.paths import fact_path
from deermem.migrate.legacy import StoredFact
from deermem.migrate.place import UserPlace
from deermem.model.changes import FileChange
from deermem.model.fact import Fact
from deermem.model.scope import Scope, safe_user_id
from deermem.model.summaries import SECTIONS, Section, Summaries

_HASHED_FOLDER = re.compile(r".*-[0-9a-f]{16}", re.DOTALL)
_COUNTS_AND_OWNERS: Final = ("revision", "updatedAt", "user_id", "agent_name")
_FILE_NAMES: Final[Mapping[str, str]] = {attribute: key for key, attribute in SECTIONS.items()}


class Bucket:
    """One agent's bucket while a plan grows: what lies there, and what is added; `owner` as `owner_of` says."""

    def __init__(self, place: UserPlace, agent: str, stored: Iterable[StoredFact], owner: str | None) -> None:
        self.place = place
        self.agent = agent
        self.changes: list[FileChange] = []
        self._known: dict[str, tuple[Fact | None, str, bytes]] = {}
        self._taken: set[str] = set()
        self._paths: dict[str, str] = {}
        scope = Scope(owner, agent)
        for item in sorted(stored, key=lambda item: precedence(item, scope)):
            fact_id = item.fact.id if item.fact else _stem(item.path)
            self._paths[item.path] = "of another id"
            if item.fact is not None and not is_served(item, scope):
                # Nobody reads it, so a fact must not count as stored because of it.
                self._paths[item.path] = "of another owner"
                continue
            self._known.setdefault(fact_id.lower(), (item.fact, item.path, item.data))

    @property
    def count(self) -> int:
        """How many facts of old sources this bucket holds once the plan is carried out."""
        return len(self._taken)

    def note(self, fact_id: str) -> None:
        """Counts a fact that an old source names and that lies in its place already."""
        self._taken.add(fact_id.lower())

    def add(self, fact: Fact, origin: str, *, base: bytes | None = None) -> None:
        """Takes a fact in, stamped with this bucket; one that is there with the same content stays as it is.

        `base` is the file that it was read from, whose own keys and comments are kept. Raises MigrationError where
        the id stands for another content already; with `base`, which goes without a backup, for anything less too.
        """
        key = fact.id.lower()
        known = self._known.get(key)
        if known is not None:
            self._check_same(fact, origin, known[:2])
            if base is not None and (lost := lost_with(fact, base, known[0], known[2])):
                raise MigrationError(
                    f"migration conflict: fact {fact.id!r} of {self.place.shown(origin)} lies in "
                    f"{self.place.shown(known[1])} already and differs in {', '.join(lost)}; both were kept",
                    hint="make the two equal, or remove one of them",
                )
        else:
            stamped = fact if fact.agent_name == self.agent else replace(fact, agent_name=self.agent)
            path = fact_path(self.agent, fact.id)
            if path in self._paths:
                raise MigrationError(
                    f"migration conflict: {self.place.shown(path)}, the place of fact {fact.id!r} of "
                    f"{self.place.shown(origin)}, holds a fact {self._paths[path]}; both were kept",
                    hint="move that file away, or mend its name, its id and its owner",
                )
            data = self._encoded(stamped, origin, base)
            self.changes.append(FileChange(path, None, data))
            self._known[key] = (stamped, origin, data)
        self._taken.add(key)

    def _encoded(self, fact: Fact, origin: str, base: bytes | None) -> bytes:
        try:
            return markdown.encode(fact, base=base)
        except InvalidInput as error:
            raise MigrationError(f"{self.place.shown(origin)}: fact {fact.id!r} can't be written: {error}") from error

    def _check_same(self, fact: Fact, origin: str, known: tuple[Fact | None, str]) -> None:
        other, place = known
        if other is not None and other.id == fact.id and other.content.strip() == fact.content.strip():
            return
        where, spot = self.place.shown(origin), self.place.shown(place)
        if other is None:
            message = f"fact {fact.id!r} of {where} lies in {spot} already and can't be read"
        elif origin == place and other.id == fact.id:
            message = f"{where} holds the id {fact.id!r} twice, with different contents"
        elif origin == place:
            message = f"{where} holds the ids {other.id!r} and {fact.id!r}, which are one: ids have no case"
        elif other.id != fact.id:
            message = f"fact {fact.id!r} of {where} lies in {spot} already and is spelled {other.id!r} there"
        else:
            message = f"fact {fact.id!r} of {where} lies in {spot} already and holds another content"
        raise MigrationError(
            f"migration conflict: {message}; both were kept", hint="give one of them another id, or remove one"
        )


def is_served(item: StoredFact, scope: Scope) -> bool:
    """Whether a file can be read, and is of this owner: any other is refused by whoever reads the bucket."""
    return item.fact is not None and scope.owns(item.fact.user_id, item.fact.agent_name)


def precedence(item: StoredFact, scope: Scope) -> tuple[bool, bool, bool, bool, str]:
    """The order of files that carry one id: the first one speaks for it, as for whoever reads the bucket."""
    stem = _stem(item.path)
    fact_id = item.fact.id if item.fact is not None else stem
    at_home = item.path == fact_path(scope.agent, fact_id)
    return not is_served(item, scope), item.fact is None, not at_home, stem != fact_id, item.path


def _stem(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".md")


def lost_with(fact: Fact, data: bytes, other: Fact | None, other_data: bytes) -> list[str]:
    """What would be gone with a fact's file, beside another one of the same content: keys, "title", "comments".

    Counts of changes and owners are left out: they say nothing of the fact itself.
    """
    from deermem.format.emit import entries
    from deermem.format.rewrite import arranged_as

    if other is None or data == other_data:
        return []
    said, kept = entries(fact), entries(other)
    lost = [key for key, lines in said.items() if key not in _COUNTS_AND_OWNERS and kept.get(key) != lines]
    if fact.title != other.title:
        lost.append("title")
    comments, there = ("".join(arranged_as(text, {}).values()).splitlines() for text in (data, other_data))
    return [*lost, "comments"] if set(comments).difference(there) else lost


def owner_of(place: UserPlace, named: Iterable[str | None]) -> str | None:
    """The user id to stamp: the known one, else a raw id that a fact names and that maps to the folder, else that."""
    if place.user_id is not None or place.folder is None:
        return place.user_id
    if not _HASHED_FOLDER.fullmatch(place.folder):
        return place.folder
    return next((name for name in named if name and name != place.folder and _maps(name, place.folder)), place.folder)


def check_owner(fact: Fact, owner: str | None, where: str) -> None:
    """Raises MigrationError where a fact names a user that doesn't map to this folder."""
    if not Scope(owner).owns(fact.user_id, None):
        raise MigrationError(
            f"{where}: fact {fact.id!r} names the user {fact.user_id!r:.80}, who is not this one",
            hint="remove the fact, or its owner if it does belong here",
        )


def merge_sections(
    shared: Summaries, found: Mapping[str, Section], shown: str, *, shared_wins: bool = False
) -> Summaries:
    """The shared summaries, empty sections filled from an agent's.

    Different ones raise SummaryConflict, unless the shared ones win: then all are about to be emptied.
    """
    texts = {name: section for name, section in found.items() if section.summary}
    differ = [
        _FILE_NAMES[name]
        for name, section in texts.items()
        if shared.section(name).summary.strip() not in ("", section.summary)
    ]
    if differ and not shared_wins:
        raise SummaryConflict(
            f"{shown} has other summaries than all agents share: {', '.join(differ)}; the file was kept",
            hint="make the two texts equal, or empty one of them",
        )
    for name, section in texts.items():
        if not shared.section(name).summary.strip():
            shared = shared.with_section(name, section)
    return shared


def _maps(raw: str, folder: str) -> bool:
    try:
        return safe_user_id(raw) == folder
    except InvalidInput:
        return False
