"""What a clear drops counts as extracted, or the next capture of the whole conversation would bring it back."""

from __future__ import annotations

from collections.abc import Sequence

from deermem.extract import items
from deermem.extract.items import Item
from deermem.extract.watermarks import Tail, beyond, mark_of, read_watermarks, tail_of, write_watermarks


def beyond_dropped(before: bytes | None, spooled: Sequence[bytes], *, max_keys: int) -> bytes:
    """The watermarks `before`, moved to the end of each spooled conversation; what is no item is passed over."""
    dropped = [item for item in map(items.decode, spooled) if item is not None and item.turns]
    data = before or b"{}"
    # What waits goes on where an emergency, which holds the front of a conversation, ends.
    for item in sorted(dropped, key=lambda item: (not item.urgent, item.first_at)):
        known, mark = read_watermarks(data), mark_of(item.agent, item.thread)
        tail = _moved(known.get(mark, ()), item)
        data = write_watermarks(known, mark, tail, max_keys=max_keys)
    return data


def _moved(tail: Tail, item: Item) -> Tail:
    known, rest = beyond(item.turns, tail, item.known)
    is_further_on = bool(rest) and (bool(known) or not item.urgent)
    return tail_of(rest, known) if is_further_on or not tail else tail
