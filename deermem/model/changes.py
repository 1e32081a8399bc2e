"""What a caller wants changed (`ChangeSet`) and what became of it (`Commit`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from deermem.errors import InvalidInput
from deermem.model.fact import Draft, Fact, check_id
from deermem.model.summaries import summary_patch


class Absent(Enum):
    """The expectation that a fact does not exist yet."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
Expected: TypeAlias = str | int | Absent | None
"""What a decision was based on: a version token, an int revision, ABSENT, or None for whatever is there."""


@dataclass(frozen=True, slots=True)
class Upsert:
    """Store this fact, provided that what stands there now is what was `expected`."""

    fact: Fact | Draft
    expected: Expected = None


@dataclass(frozen=True, slots=True)
class Amend:
    """Change these fields of a fact (None: as it is), provided that what stands there is what was `expected`.

    It is worked out under the lock, on the fact as it lies on disk then: an edit of another field is kept.
    """

    id: str
    content: str | None = None
    category: str | None = None
    confidence: float | None = None
    topics: tuple[str, ...] | None = None
    expected: Expected = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove this fact, provided that what stands there now is what was `expected`.

    `replaced_by` is the id of an upsert of the same set that takes its place: where the cap has no room for that one,
    the fact stays.
    """

    id: str
    expected: Expected = None
    replaced_by: str | None = None


@dataclass(frozen=True, slots=True, init=False)
class ChangeSet:
    """One commit's worth of changes to one (user, agent) bucket and the user's shared summaries.

    `upserts` takes Upsert, Amend, Fact or Draft (a Draft must not duplicate a content that is there); `deletes`
    takes Delete or ids. `expected_revision` is the shared revision that the decision rests on: where it moved,
    RevisionConflict, unless the set is of point operations that each carry their own expectation and so can be
    rebased. `state_token` and `epoch`, from a snapshot, do the same for hand edits and for a clear or forget.
    """

    upserts: tuple[Upsert | Amend, ...] = ()
    deletes: tuple[Delete, ...] = ()
    summaries: Mapping[str, str] = field(default_factory=dict, hash=False)
    expected_revision: int | None = None
    state_token: str | None = None
    epoch: str | None = None

    def __init__(  # noqa: PLR0913 - three are keyword-only
        self,
        upserts: Iterable[Upsert | Amend | Fact | Draft] = (),
        deletes: Iterable[Delete | str] = (),
        summaries: Mapping[str, object] | None = None,
        *,
        expected_revision: int | None = None,
        state_token: str | None = None,
        epoch: str | None = None,
    ) -> None:
        put = tuple(item if isinstance(item, (Upsert, Amend)) else Upsert(item) for item in upserts)
        gone = tuple(item if isinstance(item, Delete) else Delete(item) for item in deletes)
        for item in put:
            if isinstance(item, Upsert) and not isinstance(item.fact, (Fact, Draft)):
                raise InvalidInput(f"an upsert is {item.fact!r:.60}", hint="give a Fact, Draft, Upsert or Amend")
        if isinstance(expected_revision, bool) or not isinstance(expected_revision, int | None):
            raise InvalidInput(f"expected_revision is {expected_revision!r:.60}", hint="give the int revision you read")
        _check_ids(put, gone)
        object.__setattr__(self, "upserts", put)
        object.__setattr__(self, "deletes", gone)
        object.__setattr__(self, "summaries", summary_patch({} if summaries is None else summaries))
        object.__setattr__(self, "expected_revision", expected_revision)
        object.__setattr__(self, "state_token", state_token)
        object.__setattr__(self, "epoch", epoch)


def _check_ids(upserts: tuple[Upsert | Amend, ...], deletes: tuple[Delete, ...]) -> None:
    put = [item.id if isinstance(item, Amend) else item.fact.id for item in upserts]
    named = [fact_id for fact_id in put if fact_id is not None] + [item.id for item in deletes]
    seen: set[str] = set()
    for fact_id in named:
        if check_id(fact_id).lower() in seen:
            raise InvalidInput(f"the change set names fact {fact_id!r} twice", hint="merge the two changes")
        seen.add(fact_id.lower())
    for item in deletes:
        if item.replaced_by is not None and item.replaced_by not in put:
            raise InvalidInput(
                f"fact {item.id!r} is replaced by {item.replaced_by!r:.60}, which the change set doesn't store",
                hint="name an upsert of the same set",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A change that is on disk.

    `revision` is the new shared one; `facts` are the upserted facts as stored, in the order given; `evicted` are ids
    that the cap removed or, of new facts, did not let in; `conflict_copies` are paths below the user's folder where a
    text lies whose place a person took in the same instant.
    """

    revision: int
    facts: tuple[Fact, ...] = ()
    deleted: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()
    conflict_copies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file as a decision saw it and as it shall be; `path` is posix, relative to the user's folder.

    `before` is the exact content that the decision rests on, None where the file must be absent; `after` is the
    content to write, None to remove the file.
    """

    path: str
    before: bytes | None
    after: bytes | None
