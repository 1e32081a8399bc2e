"""What waits in the queue: one conversation of one agent, as it was captured; its codec and how two become one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, TypeGuard

from deermem.clock import format_timestamp, parse_timestamp
from deermem.extract.messages import Turn
from deermem.extract.watermarks import Tail, read_tail

_VERSION: Final = 1
_FIRST_DELAY: Final = timedelta(seconds=30)
LONGEST_DELAY: Final = timedelta(hours=1)
MAX_ATTEMPTS: Final = 10
"""After so many failures, the last of them hours after the first, a conversation is set aside for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One conversation that waits.

    `id` names it for good: ids of new facts derive from it, so that a second try after a crash adds nothing twice.
    `known` are the turns before its own, extracted when it was captured, so that its place in the conversation is
    known. `first_at` is when the oldest of its turns was captured. `answer` is what a model said already, at
    `answered_at`, having been `shown` these versions of facts by id and these marks of summaries by section: after a
    crash it is not asked again.
    """

    id: str
    user_id: str | None
    agent: str
    thread: str
    turns: tuple[Turn, ...]
    known: Tail = ()
    signals: frozenset[str] = frozenset()
    urgent: bool = False
    first_at: datetime
    due_at: datetime
    attempts: int = 0
    answer: str | None = None
    answered_at: datetime | None = None
    shown: Mapping[str, str] = field(default_factory=dict)
    shown_summaries: Mapping[str, str] = field(default_factory=dict)
    trace: str | None = None

    @property
    def conversation(self) -> tuple[str | None, str, str]:
        """Whose it is and which: what is captured of one conversation becomes one item."""
        return self.user_id, self.agent, self.thread


def joined(older: Iterable[Turn], newer: Iterable[Turn]) -> tuple[Turn, ...]:
    """The turns of two captures of one conversation: most hosts give all of it each time, some only what is new."""
    newer = tuple(newer)
    keys = {turn.key for turn in newer}
    return (*(turn for turn in older if turn.key not in keys), *newer)


def coalesced(older: Item, newer: Item, *, longest_wait: timedelta) -> Item:
    """The newer item with what the older one still had to say; never later than `longest_wait` after its first turn.

    Steady traffic would put off a debounced conversation for ever.
    """
    first_at = min(older.first_at, newer.first_at)
    turns = joined(older.turns, newer.turns)
    return replace(
        newer,
        turns=turns,
        known=older.known if len(turns) > len(newer.turns) else newer.known,
        signals=older.signals | newer.signals,
        first_at=first_at,
        due_at=min(newer.due_at, first_at + longest_wait),
    )


def put_off(item: Item, now: datetime) -> Item:
    """The item after one more failure: it waits twice as long each time, an hour at most."""
    delay = min(LONGEST_DELAY, _FIRST_DELAY * 2 ** min(item.attempts, 10))
    return replace(item, attempts=item.attempts + 1, due_at=now + delay)


def encode(item: Item) -> bytes:
    """The item as JSON."""
    document = {
        "version": _VERSION,
        "id": item.id,
        "user": item.user_id,
        "agent": item.agent,
        "thread": item.thread,
        "signals": sorted(item.signals),
        "urgent": item.urgent,
        "firstAt": format_timestamp(item.first_at),
        "dueAt": format_timestamp(item.due_at),
        "attempts": item.attempts,
        "answer": item.answer,
        "answeredAt": None if item.answered_at is None else format_timestamp(item.answered_at),
        "shown": dict(item.shown),
        "shownSummaries": dict(item.shown_summaries),
        "trace": item.trace,
        "known": item.known,
        "turns": [[turn.role, turn.text, turn.key] for turn in item.turns],
    }
    return json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode()


def decode(data: bytes) -> Item | None:
    """The item; None for a file of another version, or one that is no item. Never raises."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or document.get("version") != _VERSION:
        return None
    turns = _turns(document.get("turns"))
    first_at, due_at = _moment(document.get("firstAt")), _moment(document.get("dueAt"))
    named = [document.get(name) for name in ("id", "agent", "thread")]
    optional = [document.get(name) for name in ("user", "answer", "trace")]
    if turns is None or first_at is None or due_at is None or not _all_text(named):
        return None
    if not all(isinstance(value, str | None) for value in optional):
        return None
    item_id, agent, thread = named
    user_id, answer, trace = optional
    attempts, signals = document.get("attempts"), document.get("signals")
    answered_at = _moment(document.get("answeredAt"))
    return Item(
        id=item_id,
        user_id=user_id,
        agent=agent,
        thread=thread,
        turns=turns,
        known=read_tail(document.get("known")),
        signals=frozenset(name for name in signals if isinstance(name, str))
        if isinstance(signals, list)
        else frozenset(),
        urgent=document.get("urgent") is True,
        first_at=first_at,
        due_at=due_at,
        attempts=attempts if isinstance(attempts, int) and not isinstance(attempts, bool) else 0,
        answer=answer if answered_at is not None else None,
        answered_at=answered_at,
        shown=_texts(document.get("shown")),
        shown_summaries=_texts(document.get("shownSummaries")),
        trace=trace,
    )


def _turns(value: object) -> tuple[Turn, ...] | None:
    if not isinstance(value, list):
        return None
    turns: list[Turn] = []
    for entry in value:
        if not isinstance(entry, list) or len(entry) != 3 or not _all_text(entry):
            return None
        role, text, key = entry
        if role == "user":
            turns.append(Turn("user", text, key))
        elif role == "assistant":
            turns.append(Turn("assistant", text, key))
        else:
            return None
    return tuple(turns)


def _texts(value: object) -> Mapping[str, str]:
    return value if isinstance(value, dict) and _all_text(list(value.values())) else {}


def _all_text(values: list[object]) -> TypeGuard[list[str]]:
    return all(isinstance(value, str) for value in values)


def _moment(value: object) -> datetime | None:
    return parse_timestamp(value) if isinstance(value, str) else None
