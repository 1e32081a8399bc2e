"""How far each conversation was extracted: the keys of its last turns, never their text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from deermem.extract.messages import Turn

_TAIL: Final = 8
"""As many as a person may take back, by editing what they said or asking for another answer."""

_SURE: Final = 3
"""Short answers recur word for word; three turns in a row seldom do."""


def mark_of(agent: str, thread: str) -> str:
    """The key of a conversation; an agent's name holds no slash."""
    return f"{agent}/{thread}"


def tail_of(turns: Sequence[Turn]) -> tuple[str, ...]:
    """The watermark of a conversation that was extracted to its end."""
    return tuple(turn.key for turn in turns[-_TAIL:])


def beyond(turns: Sequence[Turn], tail: Sequence[str]) -> tuple[Turn, ...]:
    """The turns that came after a watermark; all of them where it is not among them.

    Where its last turns were replaced by others, in a branch of the conversation, these others came after it. Turns
    that a host removed from the front are not missed. Where a watermark stands twice, the first place counts: what is
    extracted again is refused as known, what is passed over is lost.
    """
    keys = [turn.key for turn in turns]
    for replaced in range(len(tail)):
        kept = list(tail[: len(tail) - replaced])
        for length in range(min(len(kept), len(keys)), 0, -1):
            # A few turns are a match only at the front, where the host cut the conversation, or where it began.
            sure = length >= _SURE or length == len(tail)
            end = _end_of(kept[-length:], keys if sure else keys[:length])
            if end:
                return tuple(turns[end:])
    return tuple(turns)


def _end_of(wanted: list[str], keys: list[str]) -> int:
    """Where the first stretch ends that says the same; 0 where none does."""
    ends = range(len(wanted), len(keys) + 1)
    return next((end for end in ends if keys[end - len(wanted) : end] == wanted), 0)


def read_watermarks(data: bytes | None) -> dict[str, tuple[str, ...]]:
    """Conversation → tail, the least recently used first; empty for a missing or damaged file. Never raises."""
    try:
        document = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {name: tuple(tail) for name, tail in document.items() if _is_tail(tail)}


def write_watermarks(
    before: Mapping[str, tuple[str, ...]], mark: str, tail: tuple[str, ...], *, max_keys: int
) -> bytes:
    """The file with one conversation moved on, the `max_keys` most recently used of them; 0 keeps all."""
    kept = {name: keys for name, keys in before.items() if name != mark}
    kept[mark] = tail
    names = list(kept)[-max_keys:] if max_keys else list(kept)
    return json.dumps({name: kept[name] for name in names}, ensure_ascii=True, separators=(",", ":")).encode()


def _is_tail(value: object) -> bool:
    return isinstance(value, list) and 0 < len(value) <= _TAIL and all(isinstance(key, str) for key in value)
