"""What a model's four memory tools answer, whatever framework carries them: JSON text, also where something fails."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from deermem.errors import (
    Conflict,
    Corruption,
    DuplicateFact,
    FactNotFound,
    InvalidInput,
    LockTimeout,
    MigrationError,
    NotStored,
    StoreUnavailable,
)
from deermem.memory import Memory
from deermem.model.fact import DEFAULT_CATEGORY, DEFAULT_CONFIDENCE, Fact, Source, check_text
from deermem.model.values import JsonObject
from deermem.policy.secrets import holds_secret

DEFAULT_LIMIT: Final = 10

SEARCH: Final = (
    "Search what is remembered of this user from earlier conversations. Gives the best matches first, each with the "
    "fact_id that memory_update and memory_delete take."
)
ADD: Final = (
    "Remember one lasting fact about this user, in one sentence that can be understood alone. Not for what matters "
    "to this conversation only, and not for passwords or keys."
)
UPDATE: Final = "Change a remembered fact that is no longer right. What is not given stays as it is."
DELETE: Final = "Forget a remembered fact, where the user asks for it or it is wrong and nothing replaces it."

_log: Final = logging.getLogger("deermem")


@dataclass(frozen=True, slots=True)
class Answer:
    """JSON text for the model. `refused` where it is `{"error"}`, which frameworks mark, so that tracers find it."""

    text: str
    refused: bool = False


def search(memory: Memory, query: str, category: str | None = None, limit: int = DEFAULT_LIMIT) -> Answer:
    """`{"results": [...], "count"}`, the best first; or `{"error"}`."""

    def found() -> JsonObject:
        results = [_shown(hit.fact) for hit in memory.search(query, limit, category=category or None)]
        return {"results": [*results], "count": len(results)}

    return _answered("memory_search", found)


def add(
    memory: Memory,
    content: str,
    category: str = DEFAULT_CATEGORY,
    confidence: float = DEFAULT_CONFIDENCE,
    thread_id: str | None = None,
) -> Answer:
    """`{"fact_id", "status": "added"}`; or `{"error"}`, also for a content that is there already, or a credential.

    The fact's source is the conversation, because a model that writes is no person that writes by hand.
    """

    def added() -> JsonObject:
        _refuse_secrets(content, category)
        fact = memory.add(content, category=category, confidence=confidence, source=_source(thread_id))
        return {"fact_id": fact.id, "status": "added"}

    return _answered("memory_add", added)


def update(
    memory: Memory,
    fact_id: str,
    content: str | None = None,
    category: str | None = None,
    confidence: float | None = None,
) -> Answer:
    """`{"fact_id", "status": "updated"}`; or `{"error"}`, which names an id that is not there, or a credential."""

    def updated() -> JsonObject:
        if content is None and category is None and confidence is None:
            raise InvalidInput("nothing is to be changed", hint="give content, category or confidence")
        _refuse_secrets(content, category)
        fact = memory.update(fact_id, content, category=category, confidence=confidence)
        return {"fact_id": fact.id, "status": "updated"}

    return _answered("memory_update", updated, fact_id)


def delete(memory: Memory, fact_id: str) -> Answer:
    """`{"fact_id", "status": "deleted"}`; or `{"error"}`, which names an id that is not there."""

    def deleted() -> JsonObject:
        memory.delete(fact_id)
        return {"fact_id": fact_id, "status": "deleted"}

    return _answered("memory_delete", deleted, fact_id)


def error(text: str) -> Answer:
    """`{"error": text}`."""
    return Answer(_json({"error": text}), refused=True)


def _refuse_secrets(*texts: str | None) -> None:
    """What a model writes by itself must not keep a credential for later; a person may."""
    for text in texts:
        kind = None if text is None else holds_secret(text)
        if kind is not None:
            # Not the text itself: answers stand in checkpoints and logs.
            hint = "leave it out, a person can still write it down by hand"
            raise InvalidInput(f"this holds a credential ({kind}), which no tool stores", hint=hint)


def _source(thread_id: str | None) -> Source:
    if thread_id is None:
        return Source("unknown")
    try:
        return Source("conversation", check_text(thread_id, "thread_id"))
    except InvalidInput as problem:
        # The host made it: a model that is told so can't mend it.
        _log.warning("a fact is stored without the conversation that it is from: %s", problem)
        return Source("unknown")


def _shown(fact: Fact) -> JsonObject:
    return {
        "fact_id": fact.id,
        "content": fact.content,
        "category": fact.category,
        "confidence": round(fact.confidence, 2),
        "updated": fact.updated_at.date().isoformat(),
    }


def _answered(tool: str, act: Callable[[], JsonObject], fact_id: str = "") -> Answer:
    try:
        return Answer(_json(act()))
    except DuplicateFact as problem:
        known = "" if problem.existing is None else f": {problem.existing.id} says so already"
        return error(f"Duplicate fact{known}")
    except FactNotFound:
        # Its own words name the agent's folder and a command of the shell.
        return error(f"there is no fact {fact_id}; memory_search shows the ids")
    except (InvalidInput, NotStored) as problem:
        return error(str(problem))
    except Conflict:
        return error("a person edits this memory right now, and nothing was changed; try again")
    except Exception as problem:  # noqa: BLE001 - a tool that raises ends the agent's run, and the text may name paths
        _log.warning("%s failed", tool, exc_info=True)
        return error(f"{tool} failed: {_outcome(problem)}")


def _outcome(problem: Exception) -> str:
    """What is known of a memory that failed, without the paths in it: as precise as the error itself."""
    if isinstance(problem, LockTimeout):
        return "another program is writing to this memory, and nothing was changed; try again later"
    if isinstance(problem, Corruption | MigrationError):
        return "this memory can't be read as it is, and nothing was changed; a person has to mend it, go on without it"
    if isinstance(problem, StoreUnavailable) and not problem.outcome_unknown:
        return "the storage refused it, and nothing was changed; go on without it"
    return "nothing is known of the outcome; go on without it"


def _json(answer: JsonObject) -> str:
    return json.dumps(answer, ensure_ascii=False)
