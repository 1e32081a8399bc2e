"""Facts as a person's editor handles them: whole texts, comments and own keys and all."""

from __future__ import annotations

import secrets
from dataclasses import replace

from deermem.errors import DuplicateFact, InvalidInput
from deermem.format import markdown
from deermem.format.emit import entry
from deermem.format.problems import FormatError
from deermem.model.changes import ABSENT, Commit, Expected
from deermem.model.fact import Draft, Fact, Source
from deermem.model.reports import FactText
from deermem.service.apply import checked_draft
from deermem.service.capacity import settle
from deermem.service.commit import Decision, Write, commit
from deermem.service.known import Known
from deermem.service.locate import Found, canonical, check_expected, find, find_target, missing
from deermem.service.user import ManifestState, UserContext
from deermem.service.writing import stored
from deermem.store.lock import HeldLock


def fact_text(user: UserContext, agent: str, fact_id: str) -> FactText:
    """The text to edit; raises FactNotFound, and Corruption where the file can't be read."""
    if not user.paths.folder.is_dir():
        raise missing(agent, fact_id)
    with user.locked(agent):
        found = find(user, agent, fact_id)
    if found is None:
        raise missing(agent, fact_id)
    return FactText(found.data, found.fact.version)


def write_text(user: UserContext, agent: str, fact_id: str, data: bytes, expected: Expected) -> Fact:
    """Makes a person's text the fact's file: revision one more, `updatedAt` now, all else as the person left it.

    A text that is the file's own changes nothing. Raises InvalidInput that names line and mend for one that can't
    be read, that says another id or that names another owner; FactNotFound; FactConflict where the fact is not the
    expected one any more.
    """

    def decide(_: HeldLock, state: ManifestState) -> Decision:
        found = find(user, agent, fact_id)
        check_expected(found, fact_id, expected)
        if found is None:
            raise missing(agent, fact_id)
        if found.data == data:
            return Decision(facts=[found.fact])
        fact = _edited(user, agent, found, data)
        after = markdown.encode(fact, base=data)
        write = Write(agent, found.path, found.data, after, fact.id)
        decision = Decision([write], [stored(after, fact.id, fact.updated_at)])
        settle(user, Known(user, agent, state), decision, [])
        return decision

    return commit(user, agent, decide, creates=False).facts[0]


def _edited(user: UserContext, agent: str, found: Found, data: bytes) -> Fact:
    old = found.fact
    fact = _read(user, agent, data, old)
    if fact.id != old.id:
        raise InvalidInput(
            f"the id was changed from {old.id!r} to {fact.id!r}", hint="leave the id; a new fact is made by add"
        )
    return replace(
        fact,
        revision=old.revision + 1,
        updated_at=user.clock(),
        user_id=fact.user_id or old.user_id or user.user_id,
        agent_name=fact.agent_name or old.agent_name or agent,
    )


def template(draft: Draft) -> bytes:
    """An empty fact for an editor, with what the draft says already; raises InvalidInput naming the field."""
    checked = checked_draft(replace(draft, content=draft.content or "x"))
    lines = [
        entry("category", checked.category),
        entry("confidence", checked.confidence),
        entry("topics", list(checked.topics)),
    ]
    if isinstance(checked.source, Source) and draft.source is not None:
        lines.append(entry("source", checked.source.label))
    if checked.expected_valid_days is not None:
        lines.append(entry("expected_valid_days", checked.expected_valid_days))
    body = f"{checked.content}\n" if draft.content else ""
    return f"---\n{''.join(lines)}---\n\n{body}".encode()


def add_text(user: UserContext, agent: str, data: bytes) -> Commit:
    """Stores a person's text as a new fact; what it leaves out takes defaults, and its source is manual.

    Raises InvalidInput that names line and mend, DuplicateFact, NotStored, and FactConflict for an id that is taken.
    """
    new_id = f"fact_{secrets.token_hex(8)}"
    _read(user, agent, data, None, new_id)

    def decide(_: HeldLock, state: ManifestState) -> Decision:
        fact = _read(user, agent, data, None, new_id)
        known = Known(user, agent, state)
        existing = known.same_content(fact.content)
        if existing is not None:
            hint = "update that fact instead"
            raise DuplicateFact(f"this content is stored already as {existing.id!r}", existing=existing, hint=hint)
        found = find_target(user, agent, fact.id) if fact.id != new_id else None
        check_expected(found, fact.id, ABSENT)
        fact = _as_new(user, agent, fact)
        after = markdown.encode(fact, base=data)
        write = Write(agent, canonical(agent, fact.id), None, after, fact.id)
        decision = Decision([write], [stored(after, fact.id, fact.updated_at)])
        settle(user, known, decision, [fact])
        return decision

    return commit(user, agent, decide)


def _as_new(user: UserContext, agent: str, fact: Fact) -> Fact:
    source = fact.source if fact.source.type != "unknown" else replace(fact.source, type="manual")
    owner, bucket = fact.user_id or user.user_id, fact.agent_name or agent
    return replace(fact, revision=1, source=source, user_id=owner, agent_name=bucket)


def _read(user: UserContext, agent: str, data: bytes, old: Fact | None, new_id: str = "") -> Fact:
    """What a text says; `old` stands in for its missing id and times. Raises InvalidInput."""
    when = old.created_at if old is not None else user.clock()
    try:
        fact = markdown.decode(data, stem=old.id if old is not None else new_id, when=when).fact
    except FormatError as error:
        where = f"line {error.problem.line}: " if error.problem.line else ""
        raise InvalidInput(f"{where}{error.problem.message}", hint=error.problem.hint) from None
    if not user.scope(agent).owns(fact.user_id, fact.agent_name):
        raise InvalidInput(
            f"the text says it belongs to user {fact.user_id!r}, agent {fact.agent_name!r}",
            hint="leave user_id and agent_name as they were, or remove them",
        )
    return fact
