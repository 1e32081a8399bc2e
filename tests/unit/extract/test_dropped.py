"""What a clear drops counts as extracted, in whatever state it lay there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from deermem.extract import items
from deermem.extract.dropped import beyond_dropped
from deermem.extract.items import Item
from deermem.extract.messages import Turn
from deermem.extract.watermarks import beyond, read_watermarks, tail_of, write_watermarks

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def said(keys: str) -> tuple[Turn, ...]:
    return tuple(Turn("user", key, f"sha256:{key}") for key in keys)


def dropped(keys: str, *, after: int = 0, urgent: bool = False) -> bytes:
    at = NOW + timedelta(seconds=after)
    item = Item(id="1", user_id="a", agent="c", thread="t", turns=said(keys), urgent=urgent, first_at=at, due_at=at)
    return items.encode(item)


@pytest.mark.parametrize(
    ("extracted", "spooled", "told", "new"),
    [
        ("", [dropped("abcd")], "abcdef", "ef"),
        ("abcd", [dropped("abcdef")], "abcdefg", "g"),
        ("abcd", [dropped("xy")], "xyz", "z"),
        # An emergency holds the front of a conversation, which goes on without it.
        ("", [dropped("ab", urgent=True)], "abcd", "cd"),
        ("abcdefgh", [dropped("abc", urgent=True)], "defghi", "i"),
        ("", [dropped("abcdefgh"), dropped("abc", after=9, urgent=True)], "defghi", "i"),
        ("ab", [dropped("abcd", urgent=True)], "abcdef", "ef"),
        ("abcdefgh", [dropped("xyz", urgent=True)], "abcdefghi", "i"),
    ],
)
def test_what_was_dropped_is_not_read_again(extracted: str, spooled: list[bytes], told: str, new: str):
    before = write_watermarks({}, "c/t", tail_of(said(extracted)), max_keys=5) if extracted else None
    tail = read_watermarks(beyond_dropped(before, spooled, max_keys=5))["c/t"]
    _, rest = beyond(said(told), tail)
    assert "".join(turn.text for turn in rest) == new
