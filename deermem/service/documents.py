"""The whole of a bucket as one document, out and in."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Final

from deermem.clock import format_timestamp
from deermem.format.document import ParsedDocument, parse_document, to_document
from deermem.model.changes import Commit
from deermem.model.fact import Fact, content_key
from deermem.model.summaries import SECTIONS, Section, Summaries
from deermem.model.values import JsonObject
from deermem.service.capacity import keep_cap
from deermem.service.commit import Decision, Write, commit
from deermem.service.expiry import delete_expired, revived
from deermem.service.known import Known
from deermem.service.locate import Found, find_target, read_path
from deermem.service.read import served, whole
from deermem.service.user import ManifestState, UserContext
from deermem.service.writing import write_fact
from deermem.store.lock import HeldLock

_MANY: Final = 50


def export(user: UserContext, agent: str) -> JsonObject:
    """The v1-shaped document: shared summaries and this agent's facts. Nothing in it is shared with the engine."""
    summaries, seen = whole(user, agent)
    return to_document(served(seen.facts, user.clock()), summaries)


def import_document(user: UserContext, agent: str, document: object, *, replace_all: bool) -> Commit:
    """Stores every fact of a document, by id; the document wins over what is stored under its ids.

    `replace_all` also deletes what the document lacks and empties the summaries that it leaves out. Raises
    InvalidInput that names the first bad facts; then nothing is changed.
    """
    parsed = parse_document(document, now=user.clock(), new_id=derive_id)

    def decide(_: HeldLock, state: ManifestState) -> Decision:
        return _decide(user, agent, parsed, state, replace_all=replace_all)

    return commit(user, agent, decide)


def derive_id(content: str) -> str:
    """An id for a fact that has none: from its content, so that the same document twice adds nothing."""
    return f"fact_{content_key(content).hex()[:16]}"


def _decide(
    user: UserContext, agent: str, parsed: ParsedDocument, state: ManifestState, *, replace_all: bool
) -> Decision:
    now = format_timestamp(user.clock())
    decision = Decision(summaries=_summaries(parsed, state, now, replace_all=replace_all))
    known = Known(user, agent, state)
    if len(parsed.facts) >= _MANY:
        known.expect_many()
    added: list[Fact] = []
    for fact, stated in zip(parsed.facts, parsed.stated, strict=True):
        found = find_target(user, agent, fact.id) if known.may_have(fact.id) else None
        if found is None:
            added.append(fact)
            write_fact(user, agent, decision, None, fact)
        else:
            write_fact(
                user, agent, decision, found, _merged(revived(found.fact, user.clock()), fact, stated, replace_all)
            )
    if replace_all:
        _delete_others(user, agent, {fact.id.lower() for fact in parsed.facts}, decision)
    delete_expired(user, known, decision, user.clock())
    keep_cap(user, known, decision, added)
    return decision


def _merged(old: Fact, given: Fact, stated: frozenset[str], replace_all: bool) -> Fact:
    """What the document states wins, a person's own keys one by one; what it leaves out stays as it is stored.

    With `replace_all` the own keys are the document's alone.
    """
    taken = {item.name: getattr(given, item.name) for item in fields(Fact) if item.name in stated}
    taken["extra"] = given.extra if replace_all else {**old.extra, **given.extra}
    return replace(old, **{**taken, "id": old.id, "updated_at": given.updated_at, "title": given.title})


def _delete_others(user: UserContext, agent: str, kept: set[str], decision: Decision) -> None:
    seen = user.view.sweep(agent)
    for row in (*seen.rows.values(), *seen.shadowed):
        if row.fact_id is None or row.fact_id.lower() in kept:
            continue
        found = read_path(user, agent, row.path)
        if isinstance(found, Found) and found.fact.id == row.fact_id:
            decision.writes.append(Write(agent, found.path, found.data, None, found.fact.id))


def _summaries(parsed: ParsedDocument, state: ManifestState, now: str, *, replace_all: bool) -> Summaries | None:
    present = state.manifest.summaries if state.manifest else Summaries()
    changed = present
    for name in SECTIONS.values():
        given = parsed.summaries.get(name)
        if given is not None and given.summary != present.section(name).summary:
            changed = changed.with_section(name, replace(given, updated_at=given.updated_at or now))
        elif given is None and replace_all:
            changed = changed.with_section(name, Section())
    return changed if changed != present else None
