"""The one clock, the one timestamp format, and its one lenient parser."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]

_CANONICAL = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{6}))?Z")


def utc_now() -> datetime:
    """The wall clock as an aware UTC datetime; tests inject their own `Clock` instead."""
    return datetime.now(UTC)


def format_timestamp(moment: datetime) -> str:
    """ISO 8601, UTC, `Z`; microseconds only where there are any."""
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    return f"{text}Z"


def parse_timestamp(text: str) -> datetime | None:
    """A timestamp as people and programs write them, as aware UTC; None where it is none.

    Accepts a date without time, a blank instead of `T`, any offset, and none at all (read as UTC), because
    hand-written files hold all of these. Never raises, whatever the text.
    """
    match = _CANONICAL.fullmatch(text)
    try:
        if match:
            return datetime(*(int(part or 0) for part in match.groups()), tzinfo=UTC)  # type: ignore[misc,arg-type]
        return _parse_lenient(text.strip())
    except (ValueError, OverflowError):
        return None


def _parse_lenient(text: str) -> datetime:
    joined = re.sub(r"\s+(?=[+-]\d\d|Z$)", "", text)
    moment = datetime.fromisoformat(joined)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
