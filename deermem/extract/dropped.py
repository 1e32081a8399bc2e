"""What a clear drops counts as extracted, or the next capture of the whole conversation would bring it back."""

from __future__ import annotations

from collections.abc import Sequence

from deermem.extract import items
from deermem.extract.watermarks import mark_of, read_watermarks, tail_of, write_watermarks


def beyond_dropped(before: bytes | None, spooled: Sequence[bytes], *, max_keys: int) -> bytes:
    """The watermarks `before`, moved to the end of each spooled conversation; what is no item is passed over."""
    dropped = [item for item in map(items.decode, spooled) if item is not None and item.turns]
    data = before or b"{}"
    for item in sorted(dropped, key=lambda item: item.first_at):
        mark, tail = mark_of(item.agent, item.thread), tail_of(item.turns)
        data = write_watermarks(read_watermarks(data), mark, tail, max_keys=max_keys)
    return data
