"""Finding one fact's file under the lock, and holding it against what the caller saw."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from deermem.errors import Corruption, FactConflict, FactNotFound, InvalidInput
from deermem.format.markdown import Parsed
from deermem.format.paths import fact_path, facts_folder
from deermem.model.changes import ABSENT, Absent, Expected
from deermem.model.fact import Fact
from deermem.model.records import Problem
from deermem.service.user import UserContext
from deermem.store.repository import Reader, parse


@dataclass(frozen=True, slots=True)
class Found:
    """A fact file as it lies on disk now. `path` is below the agent's `facts/`."""

    path: str
    data: bytes
    parsed: Parsed

    @property
    def fact(self) -> Fact:
        """The fact it says."""
        return self.parsed.fact


def canonical(agent: str, fact_id: str) -> str:
    """The canonical path of a fact, below the agent's `facts/`."""
    return fact_path(agent, fact_id).removeprefix(f"{facts_folder(agent)}/")


def read_path(user: UserContext, agent: str, path: str) -> Found | Problem | None:
    """One fact file: what it says, why it isn't served, or None where it is absent."""
    state = Reader(user.files, user.paths, agent).look(path)
    if state is None:
        return None
    if state.data is None:
        return state.problem
    parsed, problem = parse(state.data, path, user.scope(agent), modified_ns=state.signature.mtime_ns)
    return Found(path, state.data, parsed) if parsed is not None else problem


def find(user: UserContext, agent: str, fact_id: str) -> Found | None:
    """The file that speaks for an id: its canonical place, else wherever a person put it.

    Raises Corruption where that file is there and can't be read: it is never written over.
    """
    at_home = read_path(user, agent, canonical(agent, fact_id))
    if isinstance(at_home, Found) and at_home.fact.id == fact_id:
        return at_home
    if isinstance(at_home, Problem):
        raise corrupt(user, agent, canonical(agent, fact_id), at_home)
    seen = user.view.sweep(agent)
    row = seen.exact(fact_id)
    elsewhere = read_path(user, agent, row.path) if row is not None else None
    broken = next((other for other in seen.unreadable if PurePosixPath(other.path).stem == fact_id), None)
    if elsewhere is None and broken is not None and broken.problem is not None:
        raise corrupt(user, agent, broken.path, broken.problem)
    if isinstance(elsewhere, Problem) and row is not None:
        raise corrupt(user, agent, row.path, elsewhere)
    return elsewhere if isinstance(elsewhere, Found) and elsewhere.fact.id == fact_id else None


def find_target(user: UserContext, agent: str, fact_id: str) -> Found | None:
    """As `find`, for a fact that is to be stored whole.

    Raises FactConflict where the id is taken in another case: a file system without case would hold only one.
    """
    found = find(user, agent, fact_id)
    row = user.view.sweep(agent).row(fact_id) if found is None else None
    if row is not None and row.fact is not None and row.fact.id != fact_id:
        raise FactConflict(
            f"fact id {fact_id!r} is taken by {row.fact.id!r}", current=row.fact, hint="ids have no case; use that one"
        )
    return found


def corrupt(user: UserContext, agent: str, path: str, problem: Problem) -> Corruption:
    """The error for a file that isn't served, with its place and its mend."""
    full = f"{user.paths.facts(agent)}/{path}"
    where = f"{full}:{problem.line}" if problem.line else full
    return Corruption(f"{where}: {problem.message}", path=full, reason=problem.message, hint=problem.hint)


def missing(agent: str, fact_id: str) -> FactNotFound:
    """The error for an id that no file carries."""
    return FactNotFound(f"fact {fact_id!r} does not exist for agent {agent}", hint="list shows the ids there are")


def check_expected(found: Found | None, fact_id: str, expected: Expected) -> None:
    """Raises FactConflict, with the fact as it is now, where that isn't what the caller decided on.

    An integer says nothing of a file that a person edited, or that no digest vouches for.
    """
    if expected is None:
        return
    if isinstance(expected, bool) or not isinstance(expected, (str, int, Absent)):
        raise InvalidInput(f"expected is {expected!r:.60}", hint="give a version token, an int revision or ABSENT")
    current = found.fact if found else None
    if expected is ABSENT:
        if current is not None:
            raise FactConflict(f"fact {fact_id!r} must not exist already", current=current, hint="update it instead")
        return
    if found is None or current is None:
        raise FactConflict(f"fact {fact_id!r} is gone", hint="it was deleted since you read it")
    if isinstance(expected, int):
        same = expected == current.revision and found.parsed.has_digest and not found.parsed.edited
    else:
        same = expected == current.version
    if not same:
        raise FactConflict(
            f"fact {fact_id!r} changed: expected {expected!r}, found {current.version!r}",
            current=current,
            hint="read it again and merge",
        )
