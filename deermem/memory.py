"""The handle on one (user, agent): what agents and people do with memory, one short method a verb."""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Unpack

from deermem.errors import InvalidInput
from deermem.model.changes import Amend, ChangeSet, Commit, Delete, Expected, Upsert
from deermem.model.fact import DEFAULT_CATEGORY, DEFAULT_CONFIDENCE, Draft, Fact, Source, check_id
from deermem.model.records import Filters, SearchHit
from deermem.model.scope import Scope
from deermem.model.summaries import Summaries
from deermem.model.values import JsonObject, JsonValue

if TYPE_CHECKING:
    from deermem.extract.door import Conversations
    from deermem.extract.outcome import Outcome
    from deermem.model.context_block import ContextBlock
    from deermem.model.evictions import Eviction
    from deermem.model.explanations import Explanation
    from deermem.model.imports import ImportReport
    from deermem.model.reports import FactText
    from deermem.service.prompt import Prompting
    from deermem.service.user import UserContext


class Opened(Protocol):
    """What a handle needs of the engine that made it."""

    conversations: Conversations

    def context(self, user_id: str | None) -> UserContext:
        """The user, opened; the engine may close it again between two calls."""

    @property
    def prompting(self) -> Prompting:
        """How much goes into a prompt, and how it is counted."""


class Memory:
    """The memory of one agent of one user. Cheap to make, safe for threads, touches nothing until it is used."""

    def __init__(self, engine: Opened, scope: Scope) -> None:
        self._engine = engine
        self.scope = scope

    def __repr__(self) -> str:
        return f"Memory(user_id={self.scope.user_id!r}, agent_name={self.scope.agent!r})"

    @property
    def _user(self) -> UserContext:
        return self._engine.context(self.scope.user_id)

    # --- facts

    def add(  # noqa: PLR0913 - the public signature
        self,
        content: str,
        *,
        category: str = DEFAULT_CATEGORY,
        confidence: float = DEFAULT_CONFIDENCE,
        topics: Sequence[str] = (),
        source: Source | str | Mapping[str, JsonValue] | None = None,
        expected_valid_days: int | None = None,
    ) -> Fact:
        """Stores one new fact; `source` None is manual, a string a type word or a thread id.

        Raises InvalidInput naming the field, DuplicateFact where the content is there already, NotStored where
        the cap would evict the fact at once. Whom it evicts instead is logged at INFO, and told by `apply`.
        """
        draft = Draft(
            content=content,
            category=category,
            confidence=confidence,
            topics=topics,
            source=source,
            expected_valid_days=expected_valid_days,
        )
        return self.apply(ChangeSet([Upsert(draft)])).facts[0]

    def get(self, fact_id: str) -> Fact:
        """The fact as its file says now; raises FactNotFound, or Corruption where the file can't be read."""
        from deermem.service.read import get

        return get(self._user, self.scope.agent, check_id(fact_id))

    def list(self, category: str | None = None, limit: int | None = None, offset: int = 0) -> builtins.list[Fact]:
        """All facts by id, as their files say now. Files that can't be read are left out; `check` names them."""
        from deermem.service.read import served, snapshot

        for name, value in (("limit", limit), ("offset", offset)):
            if isinstance(value, bool) or not isinstance(value, int | None) or (value is not None and value < 0):
                raise InvalidInput(f"{name} is {value!r:.60}", hint="give a whole number, not negative")
        if not isinstance(category, str | None):
            raise InvalidInput(f"category is {category!r:.60}", hint="give text")
        user = self._user
        facts = served(snapshot(user, self.scope.agent).facts, user.clock())
        if category is not None:
            from deermem.index.fold import category_key

            wanted = category_key(category)
            facts = [fact for fact in facts if category_key(fact.category) == wanted]
        return builtins.list(facts[offset:] if limit is None else facts[offset : offset + limit])

    def update(  # noqa: PLR0913 - the public signature
        self,
        fact_id: str,
        content: str | None = None,
        *,
        category: str | None = None,
        confidence: float | None = None,
        topics: Sequence[str] | None = None,
        expected: Expected = None,
    ) -> Fact:
        """Changes what is given, on the fact as it lies on disk now, and returns it as stored.

        `expected` is a version token or an int revision; raises FactConflict, with the present fact, where the
        fact is not that one any more, and FactNotFound.
        """
        given = None if topics is None else topics if isinstance(topics, str) else tuple(topics)
        change = Amend(fact_id, content, category, confidence, given, expected)  # type: ignore[arg-type]
        return self.apply(ChangeSet([change])).facts[0]

    def delete(self, fact_id: str, expected: Expected = None) -> Commit:
        """Removes one fact's file; raises FactNotFound, and FactConflict where it isn't the `expected` one."""
        return self.apply(ChangeSet(deletes=[Delete(fact_id, expected)]))

    def apply(self, change: ChangeSet) -> Commit:
        """The one write path: commits the whole change set or nothing of it."""
        from deermem.service.apply import apply

        if not isinstance(change, ChangeSet):
            raise InvalidInput(f"the change is {type(change).__name__}", hint="give a ChangeSet")
        return apply(self._user, self.scope.agent, change)

    def state_token(self) -> str:
        """A token over memory.json and every file of this agent: moves with commits and hand edits, for a ChangeSet.

        Taken before what a decision rests on is read, it makes whatever moved since a RevisionConflict.
        """
        from deermem.service.read import manifest_state, token_of

        return token_of(self._user, self.scope.agent, manifest_state(self._user, self.scope.agent).data)

    def epoch(self) -> str:
        """A value that each clear changes, "" before the first, for a ChangeSet: what is older comes too late."""
        from deermem.store.epoch import read_epoch

        return read_epoch(self._user.files, self._user.paths)

    def clear(self) -> Commit:
        """Removes all facts of this agent; the user's summaries and the agent's own files stay."""
        from deermem.service.clear import clear

        return clear(self._user, [self.scope.agent], summaries=False)

    def evictions(self, limit: int | None = None) -> builtins.list[Eviction]:
        """What the cap decided of this agent's facts, the newest decision first; ids and scores, never content."""
        from deermem.service.evictions import evictions

        return evictions(self._user, self.scope.agent, limit)

    def path(self, fact_id: str) -> Path:
        """The file that holds a fact; raises FactNotFound."""
        from deermem.service.read import path_of

        return path_of(self._user, self.scope.agent, check_id(fact_id))

    # --- whole files, as an editor handles them

    def text(self, fact_id: str) -> FactText:
        """A fact's file, to be edited, and the version that it has; raises FactNotFound and Corruption."""
        from deermem.service.edit import fact_text

        return fact_text(self._user, self.scope.agent, check_id(fact_id))

    def write_text(self, fact_id: str, text: bytes | str, expected: Expected = None) -> Fact:
        """Makes an edited text the fact's file; comments, order and own keys are as the text has them.

        Raises InvalidInput that names line and mend, FactNotFound, and FactConflict where the fact isn't the
        `expected` one any more.
        """
        from deermem.service.edit import write_text

        return write_text(self._user, self.scope.agent, check_id(fact_id), _bytes_of(text), expected)

    def add_text(self, text: bytes | str) -> Commit:
        """Stores a new fact, `facts[0]` of the commit, from a file's text, front matter or not.

        Raises as `add`; InvalidInput names the line.
        """
        from deermem.service.edit import add_text

        return add_text(self._user, self.scope.agent, _bytes_of(text))

    # --- finding

    def search(  # noqa: PLR0913 - the public signature
        self,
        text: str,
        top_k: int = 5,
        *,
        category: str | None = None,
        topics: Sequence[str] | None = None,
        source_thread: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> builtins.list[SearchHit]:
        """The best facts for a text, best first; no text raises. Filters narrow before the limit.

        `since` and `until` compare with the time of the last change; a naive datetime is UTC.
        """
        from deermem.service.recall import filters, recall

        where = filters(category=category, topics=topics, source_thread=source_thread, since=since, until=until)
        return recall(self._user, [self.scope.agent], text, where=where, top_k=top_k)

    def count(self, text: str, **narrow: Unpack[Filters]) -> int:
        """How many facts `search` would find without a limit; filters as there, expired facts don't count."""
        from deermem.service.recall import filters, total

        return total(self._user, [self.scope.agent], text, where=filters(**narrow))

    def explain(self, text: str, top_k: int = 5, *, why: str | None = None, **narrow: Unpack[Filters]) -> Explanation:
        """What `search` finds and how each score came about; filters as there.

        `why` is a fact's id: the answer says what keeps it from the hits.
        """
        from deermem.service.explain import explain
        from deermem.service.recall import filters

        return explain(self._user, self.scope.agent, text, where=filters(**narrow), top_k=top_k, why=why)

    def context(self) -> str:
        """The block for the prompt, within the token budget: summaries and facts, escaped, one line a fact."""
        from deermem.service.prompt import context

        return context(self._user, self.scope.agent, self._engine.prompting)

    def context_block(self) -> ContextBlock:
        """The same block with its digest, what it costs, and which facts stand in it: what a host records of a run."""
        from deermem.service.prompt import context_block

        return context_block(self._user, self.scope.agent, self._engine.prompting)

    # --- conversations

    def capture(self, messages: Iterable[object], thread_id: str, *, trace_id: str | None = None) -> bool:
        """Queues a conversation for extraction and returns at once: what is said within `debounce_seconds` is joined.

        Messages are LangChain messages, mappings with `role` or `type` and `content`, or `(role, text)` pairs; all of
        the conversation or what is new. It lies on disk when this returns, and the next process takes it up. False
        where it holds nothing for memory, or there is no model. Raises InvalidInput, and QueueFull.
        """
        return self._engine.conversations.capture(self.scope, messages, thread_id, trace_id=trace_id)

    def capture_now(self, messages: Iterable[object], thread_id: str, *, trace_id: str | None = None) -> bool:
        """Queues messages that the host is about to drop: extraction starts at once, whatever else waits."""
        return self._engine.conversations.capture(self.scope, messages, thread_id, urgent=True, trace_id=trace_id)

    def extract(self, messages: Iterable[object], thread_id: str, *, trace_id: str | None = None) -> Outcome:
        """Extracts a conversation in this thread and says what was stored, what was refused, and why.

        Raises InvalidInput, ExtractionFailed where the model fails or the user's memory is cleared meanwhile, and what
        the store raises.
        """
        return self._engine.conversations.extract(self.scope, messages, thread_id, trace_id)

    # --- summaries and documents

    def summaries(self) -> Summaries:
        """The six summaries that all agents of the user share."""
        from deermem.service.read import manifest_state

        state = manifest_state(self._user, self.scope.agent)
        return state.manifest.summaries if state.manifest else Summaries()

    def update_summaries(self, summaries: Mapping[str, object], expected_revision: int | None = None) -> Commit:
        """Changes the sections that are named; the others stay. Raises RevisionConflict."""
        return self.apply(ChangeSet(summaries=summaries, expected_revision=expected_revision))

    def document(self) -> JsonObject:
        """Everything as one v1-shaped document: version, revision, lastUpdated, user, history, facts."""
        from deermem.service.documents import export

        return export(self._user, self.scope.agent)

    def import_document(self, document: object, replace: bool = False, dry_run: bool = False) -> ImportReport:
        """Stores every fact of a document by id; with `replace`, what the document lacks goes.

        One bad fact refuses the whole, named in InvalidInput. A dry run checks and decides it all and changes nothing.
        """
        from deermem.service.documents import import_document

        return import_document(self._user, self.scope.agent, document, replace_all=replace, dry_run=dry_run)

    def import_from(
        self,
        kind: str,
        origin: str | os.PathLike[str] | bytes,
        replace: bool = False,
        dry_run: bool = False,
        *,
        skip_bad: bool = False,
    ) -> ImportReport:
        """Stores what another program keeps, of the kind "mcp-memory", "mem0" or "notes"; "deermem" is our own.

        `origin` is the path of a file, of a folder for notes, or a file's bytes. A second time changes nothing. One
        bad item refuses the whole; InvalidInput names up to twenty. With `skip_bad` the others are stored, and the
        report's `bad` names it; not for "deermem", nor with `replace`. Raises StoreUnavailable for what can't be read.
        """
        from deermem.service.foreign import import_from

        user, agent = self._user, self.scope.agent
        return import_from(user, agent, kind, origin, replace_all=replace, dry_run=dry_run, skip_bad=skip_bad)


def _bytes_of(text: object) -> bytes:
    """A file's text as it would lie on disk; raises InvalidInput."""
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise InvalidInput(f"the text is {type(text).__name__}", hint="give a file's text, as bytes or str")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"the text can't be stored: {error.reason} at character {error.start}", hint="mend it"
        ) from None
