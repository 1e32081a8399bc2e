"""The whole of a bucket as one document, out and in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final

from deermem.clock import format_timestamp
from deermem.errors import MigrationError
from deermem.format.document import ParsedDocument, parse_document, to_document
from deermem.model.changes import Commit
from deermem.model.fact import Fact, content_key
from deermem.model.imports import ImportReport
from deermem.model.summaries import SECTIONS, Section, Summaries
from deermem.model.values import JsonObject
from deermem.service.capacity import settle
from deermem.service.commit import Decision, Write, commit
from deermem.service.expiry import revived
from deermem.service.known import Known
from deermem.service.locate import Found, find_target, read_path
from deermem.service.read import manifest_state, served, snapshot, whole
from deermem.service.user import ManifestState, UserContext
from deermem.service.writing import write_fact
from deermem.store.folding import refuse_folded
from deermem.store.lock import HeldLock

_MANY: Final = 50


def export(user: UserContext, agent: str) -> JsonObject:
    """The v1-shaped document: shared summaries and this agent's facts. Nothing in it is shared with the engine."""
    summaries, seen = whole(user, agent)
    return to_document(served(seen.facts, user.clock()), summaries)


@dataclass(frozen=True, slots=True)
class Intake:
    """What is to be taken in. `foreign`: from another program, which knows nothing of the summaries here."""

    parsed: ParsedDocument
    replace_all: bool = False
    foreign: bool = False
    skipped: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()


def import_document(
    user: UserContext, agent: str, document: object, *, replace_all: bool, dry_run: bool = False
) -> ImportReport:
    """Stores every fact of a document, by id; the document wins over what is stored under its ids.

    `replace_all` also deletes what the document lacks and empties the summaries that it leaves out. Raises
    InvalidInput that names the first bad facts; then nothing is changed. A dry run decides it all, on the files as
    they are, and changes nothing.
    """
    parsed = parse_document(document, now=user.clock(), new_id=derive_id)
    return take_in(user, agent, Intake(parsed, replace_all=replace_all), dry_run=dry_run)


def take_in(user: UserContext, agent: str, intake: Intake, *, dry_run: bool) -> ImportReport:
    """Commits an intake, or with `dry_run` says what would come of it."""
    tally = _Tally()

    def decide(_: HeldLock, state: ManifestState) -> Decision:
        return _decide(user, intake, Known(user, agent, state), tally)

    if dry_run:
        return _rehearsed(user, agent, intake, tally)
    done = commit(user, agent, decide)
    return tally.report(done, intake, dry_run=False)


def _rehearsed(user: UserContext, agent: str, intake: Intake, tally: _Tally) -> ImportReport:
    """The decision without the lock and without a commit. Raises as the import would, and MigrationError for an old
    store: the import would migrate it first, and what is in it then is not known before.
    """
    if user.files.stat(str(user.paths.undo_journal)) is not None or user.migration.is_due(agent):
        hint = "open it with `migrate`, then try again"
        raise MigrationError(
            f"the memory in {user.paths.folder} is of version 1 and would be migrated first", hint=hint
        )
    for folder in (user.paths.folder, user.paths.agent(agent)):
        refuse_folded(user.files, folder)
    state = manifest_state(user, agent)
    decision = _decide(user, intake, Known(user, agent, state, seen=snapshot(user, agent)), tally)
    done = Commit(
        revision=state.revision,
        facts=tuple(decision.facts),
        deleted=decision.deleted(),
        evicted=tuple(decision.evicted),
    )
    return tally.report(done, intake, dry_run=True)


def derive_id(content: str) -> str:
    """An id for a fact that has none: from its content, so that the same document twice adds nothing."""
    return f"fact_{content_key(content).hex()[:16]}"


@dataclass(slots=True)
class _Tally:
    """What became of each fact, by id; begun anew by each attempt."""

    added: list[Fact] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)

    def report(self, done: Commit, intake: Intake, *, dry_run: bool) -> ImportReport:
        """With what a commit says."""
        evicted = set(done.evicted)
        return ImportReport(
            revision=done.revision,
            facts=done.facts,
            deleted=done.deleted,
            evicted=done.evicted,
            conflict_copies=done.conflict_copies,
            added=tuple(fact.id for fact in self.added if fact.id not in evicted),
            updated=tuple(self.updated),
            present=tuple(fact_id for fact_id in dict.fromkeys(self.present) if fact_id not in evicted),
            left_out=tuple(fact.id for fact in self.added if fact.id in evicted),
            skipped=intake.skipped,
            bad=intake.bad,
            dry_run=dry_run,
        )


def _decide(user: UserContext, intake: Intake, known: Known, tally: _Tally) -> Decision:
    if len(intake.parsed.facts) >= _MANY:
        known.expect_many()
    parsed, now = _named(user, known, intake.parsed), user.clock()
    decision = Decision()
    if not intake.foreign:
        decision.summaries = _summaries(parsed, known.state, format_timestamp(now), replace_all=intake.replace_all)
    tally.added, tally.updated, tally.present = [], [], []
    keys = {fact.id.lower(): content_key(fact.content) for fact in parsed.facts}
    said: dict[bytes, Fact] = {}
    for fact, stated in zip(parsed.facts, parsed.stated, strict=True):
        key = keys[fact.id.lower()]
        found = find_target(user, known.agent, fact.id) if known.may_have(fact.id) else None
        # An id that only the content gave says nothing more: the same words under another id are the same fact.
        anywhere = found is None and (intake.foreign or "id" not in stated)
        same = _same(known, said, keys, fact) if anywhere else None
        if found is not None:
            merged = _merged(revived(found.fact, now), fact, stated, intake.replace_all)
            written = len(decision.writes)
            write_fact(user, known.agent, decision, found, merged)
            (tally.present if len(decision.writes) == written else tally.updated).append(found.fact.id)
        elif same is not None:
            tally.present.append(same.id)
            if key not in said:
                decision.facts.append(same)
        else:
            tally.added.append(fact)
            write_fact(user, known.agent, decision, None, fact)
        said.setdefault(key, same or fact)
    if intake.replace_all:
        kept = {fact.id.lower() for fact in parsed.facts} | {fact_id.lower() for fact_id in tally.present}
        _delete_others(user, known.agent, kept, decision)
    settle(user, known, decision, tally.added)
    return decision


def _named(user: UserContext, known: Known, parsed: ParsedDocument) -> ParsedDocument:
    """The document, its facts that have no id of their own beside those that took such an id and say more by now."""
    facts = tuple(
        fact if "id" in stated else _beside(user, known, fact)
        for fact, stated in zip(parsed.facts, parsed.stated, strict=True)
    )
    return replace(parsed, facts=facts)


def _beside(user: UserContext, known: Known, fact: Fact) -> Fact:
    """The fact under an id that its content gives, and that no other content has."""
    key, number = content_key(fact.content), 0
    while known.may_have(fact.id):
        found = find_target(user, known.agent, fact.id)
        if found is None or content_key(found.fact.content) == key:
            break
        # What was edited since must not be written over by a document that never knew of it.
        number += 1
        fact = replace(fact, id=derive_id(f"{fact.content}\0{number}"))
    return fact


def _same(known: Known, said: Mapping[bytes, Fact], keys: Mapping[str, bytes], fact: Fact) -> Fact | None:
    """The fact that says this already, stored or about to be; not one that is about to say something else."""
    key = keys[fact.id.lower()]
    same = said.get(key) or known.same_content(fact.content)
    return same if same is not None and keys.get(same.id.lower(), key) == key else None


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
