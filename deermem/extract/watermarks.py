"""How far each conversation was extracted: the keys of its last turns, never their text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from deermem.extract.messages import Turn, is_hash

_TAIL: Final = 8
"""As many as a person may take back, by editing what they said or asking for another answer, and one."""

_DISTINCT: Final = 4
"""A stretch of fewer different turns, "continue" and "Done." over and over, may have been said anew."""


class Place(NamedTuple):
    """One extracted turn: its key, and `path`, a hash of its key and all those before it, "" where that is unknown."""

    key: str
    path: str = ""


Tail: TypeAlias = tuple[Place, ...]
"""The last turns of a conversation that were extracted, in their order."""


def mark_of(agent: str, thread: str) -> str:
    """The key of a conversation; an agent's name holds no slash."""
    return f"{agent}/{thread}"


def tail_of(turns: Sequence[Turn], known: Tail = ()) -> Tail:
    """The watermark of a conversation that was extracted to its end. `known` is what stands before these turns."""
    return _places(turns, known)[-_TAIL:]


def beyond(turns: Sequence[Turn], tail: Tail, known: Tail = ()) -> tuple[Tail, tuple[Turn, ...]]:
    """The turns that came after a watermark, all of them where it is not among them, and what is known before them.

    Where its last turns were replaced by others, in a branch of the conversation, these others came after it. Turns
    that a host removed from the front are not missed. In doubt it is the earlier place: what is extracted again is
    refused as known, what is passed over is lost. `known` is what stands before these turns, where some were left out
    already; told again with it, the same turns come back.
    """
    places = _places(turns, known)
    end = max(_end(places, tail), len(known))
    return places[:end][-_TAIL:], tuple(turns[end - len(known) :])


def _places(turns: Sequence[Turn], known: Tail) -> Tail:
    places = list(known)
    path = known[-1].path if known else ""
    for turn in turns:
        path = hashlib.sha256(f"{path}\0{turn.key}".encode(errors="surrogatepass")).hexdigest()[:16]
        places.append(Place(turn.key, path))
    return tuple(places)


def _end(places: Tail, tail: Tail) -> int:
    """How many of the places were extracted.

    That is certain where all is the same from the beginning, and from a message with an id. Where the host cut the
    conversation, what it begins with stands in the watermark, or the watermark stands in it as a whole.
    """
    end = _end_of_path(places, tail) or _end_of_whole(places, tail)
    return end or max(_end_of_id(places, tail), _end_of_front(places, tail))


def _end_of_path(places: Tail, tail: Tail) -> int:
    ends = {place.path: end for end, place in enumerate(places, 1) if place.path}
    return next((ends[place.path] for place in reversed(tail) if place.path in ends), 0)


def _end_of_whole(places: Tail, tail: Tail) -> int:
    wanted, keys = [place.key for place in tail], [place.key for place in places]
    # A shorter watermark is all that there was: it stands at the front, or a part of it.
    if len(wanted) < _TAIL or len(set(wanted)) < _DISTINCT:
        return 0
    ends = range(len(wanted), len(keys) + 1)
    return next((end for end in ends if keys[end - len(wanted) : end] == wanted), 0)


def _end_of_id(places: Tail, tail: Tail) -> int:
    ends = {place.key: end for end, place in reversed(list(enumerate(places, 1))) if not is_hash(place.key)}
    return next((ends[place.key] for place in reversed(tail) if place.key in ends), 0)


def _end_of_front(places: Tail, tail: Tail) -> int:
    wanted, keys = [place.key for place in tail], [place.key for place in places]
    for stop in range(len(wanted), 0, -1):
        for length in range(min(stop, len(keys)), 0, -1):
            if wanted[stop - length : stop] == keys[:length]:
                return length
    return 0


def read_watermarks(data: bytes | None) -> dict[str, Tail]:
    """Conversation → tail, the least recently used first; empty for a missing or damaged file. Never raises."""
    try:
        document = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    found = {name: read_tail(tail) for name, tail in document.items()}
    return {name: tail for name, tail in found.items() if tail}


def write_watermarks(before: Mapping[str, Tail], mark: str, tail: Tail, *, max_keys: int) -> bytes:
    """The file with one conversation moved on, the `max_keys` most recently used of them; 0 keeps all."""
    kept = {name: places for name, places in before.items() if name != mark}
    kept[mark] = tail
    names = list(kept)[-max_keys:] if max_keys else list(kept)
    return json.dumps({name: kept[name] for name in names}, ensure_ascii=True, separators=(",", ":")).encode()


def read_tail(value: object) -> Tail:
    """A tail from JSON; () for what is none. Never raises."""
    if not isinstance(value, list) or len(value) > _TAIL:
        return ()
    places = [place for place in map(_place, value) if place is not None]
    return tuple(places) if len(places) == len(value) else ()


def _place(value: object) -> Place | None:
    # Keys alone are what an earlier release wrote.
    pair = [value, ""] if isinstance(value, str) else value
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
        return None
    return Place(pair[0], pair[1])
