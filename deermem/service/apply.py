"""Deciding a ChangeSet: every precondition checked, every rule applied, on the state under the lock."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from deermem.clock import format_timestamp
from deermem.errors import DuplicateFact, RevisionConflict
from deermem.format import markdown
from deermem.model.changes import Amend, ChangeSet, Commit, Delete, Upsert
from deermem.model.fact import (
    Draft,
    Fact,
    Source,
    check_category,
    check_confidence,
    check_content,
    check_id,
    check_text,
    check_topics,
    check_valid_days,
    content_key,
    derive_title,
)
from deermem.service.capacity import settle
from deermem.service.commit import Decision, commit, patched
from deermem.service.expiry import revived
from deermem.service.known import Known
from deermem.service.locate import Found, check_expected, find, find_target, missing
from deermem.service.read import token_of
from deermem.service.user import ManifestState, UserContext
from deermem.service.writing import removal, write_fact
from deermem.store.epoch import read_epoch
from deermem.store.lock import HeldLock

_ANY_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)


def apply(user: UserContext, agent: str, change: ChangeSet) -> Commit:
    """Commits a change set to one bucket, or raises and changes nothing.

    Raises InvalidInput, DuplicateFact, NotStored, FactNotFound, FactConflict, RevisionConflict, and what the
    store raises.
    """
    change = _checked(change)
    creates = any(not isinstance(item, Amend) for item in change.upserts) or bool(change.summaries)
    if not creates and not user.paths.folder.is_dir():
        named = [item.id for item in change.upserts if isinstance(item, Amend)] + [item.id for item in change.deletes]
        if named:
            raise missing(agent, named[0])

    def decide(_: HeldLock, state: ManifestState) -> Decision:
        return _Decider(user, agent, state).decide(change)

    return commit(user, agent, decide, creates=creates)


def _checked(change: ChangeSet) -> ChangeSet:
    """Everything that can be wrong without looking at the disk; a user must not come to be by a bad call."""
    upserts: list[Upsert | Amend] = []
    for item in change.upserts:
        if isinstance(item, Amend):
            upserts.append(_checked_amend(item))
        elif isinstance(item.fact, Draft):
            upserts.append(Upsert(checked_draft(item.fact), item.expected))
        else:
            upserts.append(Upsert(_checked_fact(item.fact), item.expected))
    return ChangeSet(
        upserts,
        change.deletes,
        change.summaries,
        expected_revision=change.expected_revision,
        state_token=change.state_token,
        epoch=change.epoch,
    )


def checked_draft(draft: Draft) -> Draft:
    """The draft as it will be stored; raises InvalidInput naming the field."""
    checked = replace(
        draft,
        content=check_content(draft.content),
        id=None if draft.id is None else check_id(draft.id),
        category=check_category(draft.category),
        confidence=check_confidence(draft.confidence),
        topics=check_topics(draft.topics),
        source=Source.of(draft.source, missing="manual"),
        source_error=None if draft.source_error is None else check_text(draft.source_error, "source_error"),
        expected_valid_days=check_valid_days(draft.expected_valid_days),
    )
    markdown.check_storable(_fact_of(checked, checked.id or "fact", _ANY_TIME))
    return checked


def _checked_fact(fact: Fact) -> Fact:
    checked = replace(
        fact,
        id=check_id(fact.id),
        content=check_content(fact.content),
        category=check_category(fact.category),
        confidence=check_confidence(fact.confidence),
        topics=check_topics(fact.topics),
        expected_valid_days=check_valid_days(fact.expected_valid_days),
    )
    markdown.encode(checked)
    return checked


def _checked_amend(amend: Amend) -> Amend:
    if isinstance(amend.content, str):
        markdown.check_merged(amend.content)
    return replace(
        amend,
        id=check_id(amend.id),
        content=None if amend.content is None else check_content(amend.content),
        category=None if amend.category is None else check_category(amend.category),
        confidence=None if amend.confidence is None else check_confidence(amend.confidence),
        topics=None if amend.topics is None else check_topics(amend.topics),
    )


@dataclass(slots=True)
class _Decider:
    user: UserContext
    agent: str
    state: ManifestState

    def decide(self, change: ChangeSet) -> Decision:
        self._check_snapshot(change)
        now = self.user.clock()
        decision = Decision(summaries=patched(self.state, change.summaries, format_timestamp(now)))
        known = Known(self.user, self.agent, self.state)
        added: list[Fact] = []
        fresh: dict[bytes, Fact] = {}
        for item in change.upserts:
            if isinstance(item, Upsert) and isinstance(item.fact, Draft):
                fact = _fact_of(item.fact, item.fact.id or f"fact_{secrets.token_hex(8)}", now)
                self._refuse_duplicate(known, fresh, fact)
                fresh[content_key(fact.content)] = fact
                found = find_target(self.user, self.agent, fact.id) if item.fact.id is not None else None
                check_expected(found, fact.id, item.expected)
                fact = fact if found is None else _over(revived(found.fact, now), fact, _title(found, fact.content))
            elif isinstance(item, Upsert) and isinstance(item.fact, Fact):
                fact = item.fact
                found = self._existing(known, fact.id)
                check_expected(found, fact.id, item.expected)
            else:
                assert isinstance(item, Amend)
                found = find(self.user, self.agent, item.id)
                found = None if found is not None and found.fact.expired_by(now) else found
                fact = self._amended(found, item)
            if found is None:
                added.append(fact)
            fact = fact if found is None and isinstance(item, Upsert) else replace(fact, updated_at=now)
            write_fact(self.user, self.agent, decision, found, fact)
        for gone in change.deletes:
            self._delete(decision, known, gone)
        settle(self.user, known, decision, added)
        return decision

    # --- what the decision rests on

    def _check_snapshot(self, change: ChangeSet) -> None:
        if change.epoch is not None and change.epoch != read_epoch(self.user.files, self.user.paths):
            raise RevisionConflict("the memory was cleared meanwhile", hint="read it again before you decide")
        moved = change.expected_revision is not None and change.expected_revision != self.state.revision
        if moved and not _can_rebase(change):
            raise RevisionConflict(
                f"expected shared revision {change.expected_revision}, found {self.state.revision}",
                hint="read it again before you decide",
            )
        if change.state_token is not None and change.state_token != token_of(self.user, self.agent, self.state.data):
            raise RevisionConflict("the memory changed since it was read", hint="read it again before you decide")

    def _existing(self, known: Known, fact_id: str) -> Found | None:
        return find_target(self.user, self.agent, fact_id) if known.may_have(fact_id) else None

    def _refuse_duplicate(self, known: Known, fresh: dict[bytes, Fact], fact: Fact) -> None:
        existing = known.same_content(fact.content) or fresh.get(content_key(fact.content))
        if existing is not None:
            raise DuplicateFact(
                f"this content is stored already as {existing.id!r}",
                existing=existing,
                hint="update that fact instead",
            )

    # --- what is written

    def _amended(self, found: Found | None, amend: Amend) -> Fact:
        check_expected(found, amend.id, amend.expected)
        if found is None:
            raise missing(self.agent, amend.id)
        fact = found.fact
        content = fact.content if amend.content is None else amend.content
        return replace(
            fact,
            content=content,
            title=_title(found, content),
            category=fact.category if amend.category is None else amend.category,
            confidence=fact.confidence if amend.confidence is None else amend.confidence,
            topics=fact.topics if amend.topics is None else amend.topics,
        )

    def _delete(self, decision: Decision, known: Known, gone: Delete) -> None:
        found = find(self.user, self.agent, check_id(gone.id))
        check_expected(found, gone.id, gone.expected)
        if found is None:
            raise missing(self.agent, gone.id)
        # One whose time is over goes whatever becomes of the other.
        over = found.fact.expired_by(self.user.clock())
        decision.writes += removal(self.user, known, found, None if over else gone.replaced_by)


def _fact_of(draft: Draft, fact_id: str, now: datetime) -> Fact:
    assert isinstance(draft.source, Source)
    return Fact(
        id=fact_id,
        content=draft.content,
        title=derive_title(draft.content),
        category=draft.category,
        confidence=draft.confidence,
        topics=tuple(draft.topics),
        source=draft.source,
        created_at=now,
        updated_at=now,
        source_error=draft.source_error,
        expected_valid_days=draft.expected_valid_days,
    )


def _can_rebase(change: ChangeSet) -> bool:
    """Point operations whose own facts are held against what the caller saw don't depend on the shared number."""
    if change.summaries:
        return False
    return all(item.expected is not None for item in (*change.upserts, *change.deletes))


def _over(old: Fact, draft: Fact, title: str) -> Fact:
    """A draft stored under an id that is there: what a draft says nothing of stays."""
    return replace(
        old,
        content=draft.content,
        title=title,
        category=draft.category,
        confidence=draft.confidence,
        topics=draft.topics,
        source=draft.source,
        source_error=draft.source_error or old.source_error,
        expected_valid_days=draft.expected_valid_days or old.expected_valid_days,
    )


def _title(found: Found, content: str) -> str:
    """The heading for a new content: a new one, unless a person chose the old one.

    A heading that says the content's first line follows it. So does one over a content that was edited since an
    engine wrote both: it is the old content's, and would go on saying what is no longer so.
    """
    fact = found.fact
    if content == fact.content:
        return fact.title
    made = fact.title == derive_title(fact.content) or (
        found.parsed.edited and not markdown.only_heading_changed(found.data, fact)
    )
    return derive_title(content) if made else fact.title
