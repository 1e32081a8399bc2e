"""A fact at its stages: `Draft` (proposed), `Fact` (stored); and what may stand in one."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from deermem.errors import InvalidInput
from deermem.model.values import JsonValue

SCHEMA_VERSION: Final = 2
MAX_ID: Final = 128
MAX_TITLE: Final = 160
MAX_CONTENT_BYTES: Final = 65_536
DEFAULT_CATEGORY: Final = "context"
DEFAULT_CONFIDENCE: Final = 0.5
CATEGORIES: Final = frozenset(
    [
        "preference",
        "correction",
        "context",
        "goal",
        "behavior",
        "identity",
        "constraint",
        "decision",
        "knowledge",
        "other",
    ]
)
SOURCE_TYPES: Final = frozenset(["conversation", "manual", "consolidation", "import", "unknown"])
_ID = re.compile(r"[A-Za-z0-9_-]+")
_LEADING_BLANK_LINES = re.compile(r"\A(?:[^\S\n]*\n)+")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a statement comes from. `extra` keeps further keys (messageId, uri)."""

    type: str = "unknown"
    thread_id: str | None = None
    extra: Mapping[str, JsonValue] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, value: Source | str | Mapping[str, JsonValue] | None, *, missing: str = "unknown") -> Source:
        """From any accepted form. A known type word is the type, any other text is a thread id (the v1 form).

        Raises InvalidInput for a `type` or `threadId` that isn't text.
        """
        if value is None or value == "":
            return cls(missing)
        if isinstance(value, Source):
            return value
        if isinstance(value, str):
            return cls(value) if value in SOURCE_TYPES else cls("conversation", value)
        if not isinstance(value, Mapping):
            raise InvalidInput(
                f"source is {type(value).__name__}", hint="give a string or a mapping with type and threadId"
            )
        thread = value.get("threadId")
        kind = value.get("type") or ("conversation" if thread else missing)
        if not isinstance(kind, str) or not (thread is None or isinstance(thread, str)):
            raise InvalidInput("source.type and source.threadId must be text", hint="quote them")
        extra = {key: item for key, item in value.items() if key not in ("type", "threadId")}
        return cls(kind, thread, extra)

    @property
    def label(self) -> str:
        """The v1 string form: the thread id of a conversation, else the type."""
        return (self.thread_id if self.type == "conversation" else None) or self.type or "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What is proposed for storing. Normalised and checked by `checked()`, not before."""

    content: str
    id: str | None = None
    category: str = DEFAULT_CATEGORY
    confidence: float = DEFAULT_CONFIDENCE
    topics: Sequence[str] = ()
    source: Source | str | Mapping[str, JsonValue] | None = None
    expected_valid_days: int | None = None
    source_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One stored fact.

    `revision` is the effective one (a hand edit counts); `version` is the token for `expected=`; `category` is
    the word as the person or model wrote it; times are aware UTC; `extra` holds the person's own keys as read.
    """

    id: str
    content: str
    title: str
    category: str = DEFAULT_CATEGORY
    confidence: float = DEFAULT_CONFIDENCE
    topics: tuple[str, ...] = ()
    source: Source = Source()
    created_at: datetime
    updated_at: datetime
    revision: int = 1
    version: str = ""
    status: str = "active"
    user_id: str | None = None
    agent_name: str | None = None
    source_error: str | None = None
    expected_valid_days: int | None = None
    expires_at: datetime | None = None
    last_confirmed_at: datetime | None = None
    confirmation_count: int | None = None
    consolidated_from: tuple[str, ...] = ()
    consolidated_at: datetime | None = None
    extra: Mapping[str, JsonValue] = field(default_factory=dict, hash=False)

    def expired_by(self, now: datetime) -> bool:
        """Whether its time is over: then it is neither served nor found, and the next write deletes it."""
        return self.expires_at is not None and self.expires_at <= now


def check_id(fact_id: str, name: str = "fact id") -> str:
    """The id itself; raises InvalidInput where it can't be a file name here."""
    if not isinstance(fact_id, str) or not _ID.fullmatch(fact_id):
        raise InvalidInput(f"{name} {fact_id!r:.80} is not valid", hint="use letters, digits, _ and -")
    if len(fact_id) > MAX_ID:
        raise InvalidInput(f"{name} {fact_id[:40]!r}… has {len(fact_id)} characters", hint=f"at most {MAX_ID} fit")
    return fact_id


def check_text(text: str, name: str) -> str:
    """The text itself; raises InvalidInput for what no file and no index can hold."""
    if not isinstance(text, str):
        raise InvalidInput(f"{name} must be text, not {type(text).__name__}")
    if "\0" in text:
        raise InvalidInput(f"{name} holds a NUL character", hint="remove it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"{name} is not valid Unicode at character {error.start}", hint="remove the lone surrogate"
        ) from None
    return text


def normalize_content(text: str) -> str:
    """Blank lines before the first text and blank space at the end go; indentation stays. Idempotent."""
    return _LEADING_BLANK_LINES.sub("", text).rstrip()


def check_content(text: str) -> str:
    """The content as it will be stored; raises InvalidInput for blank, too long or unencodable text."""
    content = normalize_content(check_text(text, "content"))
    if not any(unicodedata.category(character)[0] not in "ZC" for character in content):
        raise InvalidInput("content is empty", hint="say the fact in at least one visible character")
    size = len(content.encode())
    if size > MAX_CONTENT_BYTES:
        raise InvalidInput(f"content has {size} bytes", hint=f"at most {MAX_CONTENT_BYTES} fit; split the fact")
    return content


def check_category(category: str) -> str:
    """The category word as it is stored: known words in lower case, others as they are."""
    word = check_text(category, "category").strip()
    if not word or "\n" in word or len(word) > MAX_ID:
        raise InvalidInput(f"category {category[:40]!r} is not valid", hint=f"one line of 1 to {MAX_ID} characters")
    return word.lower() if word.lower() in CATEGORIES else word


def check_confidence(value: float) -> float:
    """The number as a float; raises InvalidInput for anything but a finite number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"confidence {value!r} is not a number", hint="give a number from 0 to 1")
    if not 0 <= value <= 1:
        raise InvalidInput(f"confidence {value!r} is out of range", hint="give a number from 0 to 1")
    return float(value)


def check_topics(topics: Sequence[str]) -> tuple[str, ...]:
    """The topics as a tuple; raises InvalidInput for a bare string and for items that aren't text."""
    if isinstance(topics, str) or not isinstance(topics, Sequence):
        raise InvalidInput(f"topics {topics!r:.80} is not a list", hint="give a list of strings")
    checked = tuple(check_text(topic, "topic").strip() for topic in topics)
    if not all(checked) or any("\n" in topic for topic in checked):
        raise InvalidInput("a topic is blank or has more than one line", hint="give one word or phrase each")
    return tuple(dict.fromkeys(checked))


def check_valid_days(days: int | None) -> int | None:
    """A positive number of days, or None."""
    if days is None:
        return None
    if isinstance(days, bool) or not isinstance(days, int) or days < 1:
        raise InvalidInput(f"expected_valid_days {days!r} is not valid", hint="give a whole number of days, at least 1")
    return min(days, 36_500)


def derive_title(content: str) -> str:
    """The heading for a content that has none: its first line, one line, at most 160 characters."""
    first = normalize_content(content).split("\n", 1)[0].replace("\r", " ").strip()
    bare = first.lstrip("#").strip() if first.startswith("#") else first
    return (bare or first)[:MAX_TITLE].rstrip()


def content_key(content: str) -> bytes:
    """What makes two contents duplicates: white space folded, case folded, NFC; 16 bytes."""
    if content.isascii():
        folded = " ".join(content.split()).lower()
    else:
        cased = " ".join(unicodedata.normalize("NFC", content).split()).casefold()
        folded = unicodedata.normalize("NFC", cased)
    return hashlib.sha256(folded.encode()).digest()[:16]
