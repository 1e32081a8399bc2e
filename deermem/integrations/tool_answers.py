"""What a model's four memory tools answer, whatever framework carries them: JSON text, also where something fails."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Final

from deermem.errors import Conflict, DuplicateFact, FactNotFound, InvalidInput, NotStored
from deermem.memory import Memory
from deermem.model.fact import DEFAULT_CATEGORY, DEFAULT_CONFIDENCE, Fact, Source
from deermem.model.values import JsonObject

DEFAULT_LIMIT: Final = 10

SEARCH: Final = (
    "Search what is remembered of this user from earlier conversations. Gives the best matches first, each with the "
    "fact_id that memory_update and memory_delete take."
)
ADD: Final = (
    "Remember one lasting fact about this user, in one sentence that can be understood alone. Not for what matters "
    "to this conversation only."
)
UPDATE: Final = "Change a remembered fact that is no longer right. What is not given stays as it is."
DELETE: Final = "Forget a remembered fact, where the user asks for it or it is wrong and nothing replaces it."

_log: Final = logging.getLogger("deermem")


def search(memory: Memory, query: str, category: str | None = None, limit: int = DEFAULT_LIMIT) -> str:
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
) -> str:
    """`{"fact_id", "status": "added"}`; or `{"error"}`, also for a content that is there already.

    The fact's source is the conversation, because a model that writes is no person that writes by hand.
    """
    source = Source("unknown") if thread_id is None else Source("conversation", thread_id)

    def added() -> JsonObject:
        fact = memory.add(content, category=category, confidence=confidence, source=source)
        return {"fact_id": fact.id, "status": "added"}

    return _answered("memory_add", added)


def update(
    memory: Memory,
    fact_id: str,
    content: str | None = None,
    category: str | None = None,
    confidence: float | None = None,
) -> str:
    """`{"fact_id", "status": "updated"}`; or `{"error"}`, which names an id that is not there."""

    def updated() -> JsonObject:
        if content is None and category is None and confidence is None:
            raise InvalidInput("nothing is to be changed", hint="give content, category or confidence")
        fact = memory.update(fact_id, content, category=category, confidence=confidence)
        return {"fact_id": fact.id, "status": "updated"}

    return _answered("memory_update", updated)


def delete(memory: Memory, fact_id: str) -> str:
    """`{"fact_id", "status": "deleted"}`; or `{"error"}`, which names an id that is not there."""

    def deleted() -> JsonObject:
        memory.delete(fact_id)
        return {"fact_id": fact_id, "status": "deleted"}

    return _answered("memory_delete", deleted)


def error(text: str) -> str:
    """`{"error": text}`."""
    return _json({"error": text})


def _shown(fact: Fact) -> JsonObject:
    return {
        "fact_id": fact.id,
        "content": fact.content,
        "category": fact.category,
        "confidence": round(fact.confidence, 2),
        "updated": fact.updated_at.date().isoformat(),
    }


def _answered(tool: str, act: Callable[[], JsonObject]) -> str:
    try:
        return _json(act())
    except DuplicateFact as problem:
        known = "" if problem.existing is None else f": {problem.existing.id} says so already"
        return error(f"Duplicate fact{known}")
    except FactNotFound as problem:
        # Its hint names a command of the shell.
        return error(f"{problem.message}; memory_search shows the ids")
    except (InvalidInput, NotStored, Conflict) as problem:
        return error(str(problem))
    except Exception:  # noqa: BLE001 - a tool that raises ends the agent's run, and the text may name paths
        _log.warning("%s failed", tool, exc_info=True)
        return error(f"{tool} failed, and nothing is known of the outcome; go on without it")


def _json(answer: JsonObject) -> str:
    return json.dumps(answer, ensure_ascii=False)
