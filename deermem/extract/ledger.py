"""What a plan has decided so far: each step looks at the memory as the steps before it leave it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from deermem.errors import InvalidInput
from deermem.extract.basis import Basis
from deermem.format import markdown
from deermem.model.changes import ABSENT, Delete, Upsert
from deermem.model.fact import Draft, Fact, content_key, derive_title
from deermem.model.proposals import ProposalKind, Refusal

_WIDTH: Final = {0xFF01 + offset: 0x21 + offset for offset in range(94)} | {0x3000: 0x20, 0x3002: 0x2E}
_UNSEEN: Final = re.compile("[\u00ad\u200b\u2060\ufeff]")


def said_key(content: str) -> bytes:
    """What makes two statements of a model one: `content_key` says, wide letters are narrow, and the end has no mark.

    A model words a thing anew each time; a person who writes it twice may mean the difference.
    """
    plain = _UNSEEN.sub("", content).translate(_WIDTH).rstrip(" \t\r\n.!")
    return content_key(plain or content)


class Ledger:
    """The decisions of one plan. `said` are the contents (`said_key`) that the answer states as new."""

    def __init__(self, basis: Basis) -> None:
        self.basis = basis
        self.before = {fact.id: fact for fact in basis.facts if not fact.expired_by(basis.now)}
        self.said: set[bytes] = set()
        self.changed: dict[str, Fact] = {}
        self.added: dict[int, Draft] = {}
        self.merged: list[Fact] = []
        self.deletes: dict[str, Delete] = {}
        self.summaries: dict[str, str] = {}
        self.refused: list[Refusal] = []
        self._ids = {fact.id.lower() for fact in basis.facts}
        self._contents = {said_key(fact.content) for fact in self.before.values()}

    def now(self, fact_id: str) -> Fact:
        """A fact as this answer has changed it so far."""
        return self.changed.get(fact_id) or self.before[fact_id]

    def living(self) -> list[Fact]:
        """The facts as they are once all of this is done, new ones included."""
        old = [self.now(fact_id) for fact_id in self.before if fact_id not in self.deletes]
        return [*old, *(self._as_fact(draft) for draft in self.added.values()), *self.merged]

    def no_target(self, fact_id: str) -> str:
        """Why a fact may not be touched: it isn't there, was not shown, or is not what was shown. "" if it may."""
        fact, version = self.before.get(fact_id), self.basis.shown.versions.get(fact_id)
        if fact is None or version is None:
            return "unknown"
        return "" if fact.version == version else "changed"

    def change(self, fact: Fact) -> str:
        """Notes the new state of a fact; or why it can't be stored."""
        reason = _not_storable(fact)
        if not reason:
            self.changed[fact.id] = fact
        return reason

    def add(self, position: int, draft: Draft) -> str:
        """Notes a new fact under an id of its own; or why it is none."""
        key = said_key(draft.content)
        fact_id = self.new_id(str(position), draft.content)
        # The id is there where this answer was carried out before, and somebody has changed the fact since.
        if key in self._contents or fact_id in self._ids:
            return "duplicate"
        self._contents.add(key)
        self._ids.add(fact_id)
        self.added[position] = replace(draft, id=fact_id)
        return ""

    def merge(self, fact: Fact) -> str:
        """Notes a fact in the place of its sources, which go; or why it can't be stored."""
        if fact.id in self._ids:
            return "duplicate"
        reason = _not_storable(fact)
        if not reason:
            self._ids.add(fact.id)
            self.merged.append(fact)
            for fact_id in fact.consolidated_from:
                self.delete(fact_id, fact.id)
        return reason

    def delete(self, fact_id: str, replaced_by: str | None = None) -> None:
        """Notes that a fact goes, with what was changed in it before."""
        self.deletes[fact_id] = Delete(fact_id, self.before[fact_id].version, replaced_by)
        self.changed.pop(fact_id, None)

    def refuse(self, kind: ProposalKind, reason: str, subject: str, detail: str = "") -> None:
        """Notes why an item is not carried out; `reason` "" is none."""
        if reason:
            self.refused.append(Refusal(kind=kind, reason=reason, subject=subject, detail=detail))

    def upserts(self) -> Iterator[Upsert]:
        """All facts to be stored, each with the version that the decision rests on."""
        yield from (Upsert(fact, self.before[fact.id].version) for fact in self.changed.values())
        yield from (Upsert(draft, ABSENT) for draft in self.added.values())
        yield from (Upsert(fact, ABSENT) for fact in self.merged)

    def new_id(self, *parts: str) -> str:
        """The id of a new fact: the same for the same answer of the same conversation."""
        named = "\0".join((self.basis.item_id, *parts)).encode(errors="surrogatepass")
        return f"fact_{hashlib.sha256(named).hexdigest()[:16]}"

    def _as_fact(self, draft: Draft) -> Fact:
        now = self.basis.now
        return Fact(
            id=draft.id or "",
            content=draft.content,
            title=derive_title(draft.content),
            category=draft.category,
            confidence=draft.confidence,
            created_at=now,
            updated_at=now,
        )


def _not_storable(fact: Fact) -> str:
    try:
        markdown.encode(fact)
    except InvalidInput:
        return "storage"
    return ""
