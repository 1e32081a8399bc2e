"""`eviction-audit.json` as values: what the cap decided, the latest decision last. Ids and numbers, never content."""

from __future__ import annotations

from typing import Final

from deermem.clock import format_timestamp, parse_timestamp
from deermem.format.sidecars import appended, encode, load
from deermem.model.evictions import CONFIDENCE, HYBRID, Evicted, Eviction, Score
from deermem.model.fact import DEFAULT_CATEGORY
from deermem.model.values import JsonObject, JsonValue

MAX_ENTRIES: Final = 200
_DIGITS: Final = 6


def read_audit(data: bytes | None) -> tuple[Eviction, ...]:
    """The decisions, the oldest first; none for a missing or damaged file.

    What is no decision with a time is left out, and of a decision what names no fact. Never raises.
    """
    said = load(data)
    entries = said if isinstance(said, list) else []
    read = (_eviction(entry) for entry in entries if isinstance(entry, dict))
    return tuple(entry for entry in read if entry is not None)


def write_audit(data: bytes | None, decision: Eviction, *, max_entries: int = MAX_ENTRIES) -> bytes | None:
    """The bytes of the file with one more decision, the latest `max_entries` of them.

    None where nothing is to be written: the decision evicted nobody, or `max_entries` is 0, which is no audit.
    """
    if max_entries < 1 or not decision.evicted:
        return None
    entry = _entry(decision)
    added = appended(data, entry, most=max_entries)
    if added is not None:
        return added
    said = load(data)
    before = [item for item in said if isinstance(item, dict)] if isinstance(said, list) else []
    return encode([*before, entry][-max_entries:])


def _entry(decision: Eviction) -> JsonObject:
    entry: JsonObject = {
        "occurredAt": format_timestamp(decision.at),
        "reason": "capacity",
        "maxFacts": decision.max_facts,
        "policyVersion": decision.policy,
        "reservedCorrectionSlots": decision.reserved,
        "evicted": [_evicted(item, decision.policy) for item in decision.evicted],
    }
    if decision.would_evict is not None:
        entry["shadow"] = {
            "policyVersion": HYBRID,
            "wouldEvict": list(decision.would_evict),
            "disagrees": decision.disagrees,
        }
    return entry


def _evicted(item: Evicted, policy: str) -> JsonObject:
    score = item.score
    parts: JsonObject = {"confidence": round(score.confidence, _DIGITS)}
    if policy != CONFIDENCE:
        parts["confirmationFreshness"] = round(score.confirmation, _DIGITS)
        parts["accessHeat"] = round(score.access, _DIGITS)
    return {"factId": item.id, "category": item.category, "score": round(score.total, _DIGITS), "components": parts}


def _eviction(entry: JsonObject) -> Eviction | None:
    said = entry.get("occurredAt")
    moment = parse_timestamp(said) if isinstance(said, str) else None
    if moment is None:
        return None
    evicted, shadow = entry.get("evicted"), entry.get("shadow")
    read = [_read_evicted(item) for item in evicted if isinstance(item, dict)] if isinstance(evicted, list) else []
    would = shadow.get("wouldEvict") if isinstance(shadow, dict) else None
    return Eviction(
        at=moment,
        policy=_text(entry.get("policyVersion"), CONFIDENCE),
        max_facts=_whole(entry.get("maxFacts")),
        evicted=tuple(item for item in read if item is not None),
        reserved=_whole(entry.get("reservedCorrectionSlots")),
        would_evict=tuple(name for name in would if isinstance(name, str)) if isinstance(would, list) else None,
    )


def _read_evicted(item: JsonObject) -> Evicted | None:
    fact_id = item.get("factId")
    if not isinstance(fact_id, str):
        return None
    said = item.get("components")
    parts = said if isinstance(said, dict) else {}
    score = Score(
        total=_number(item.get("score")),
        confidence=_number(parts.get("confidence")),
        confirmation=_number(parts.get("confirmationFreshness")),
        access=_number(parts.get("accessHeat")),
    )
    return Evicted(fact_id, _text(item.get("category"), DEFAULT_CATEGORY), score)


def _text(value: JsonValue, default: str) -> str:
    return value if isinstance(value, str) else default


def _whole(value: JsonValue) -> int:
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else 0


def _number(value: JsonValue) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    # NaN compares as none of them; a whole number may be too large for a float.
    return float(min(1, value)) if value > 0 else 0.0
