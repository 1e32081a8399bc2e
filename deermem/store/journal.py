"""The record that seals a commit, and the names of what is staged or displaced: encode and parse, no I/O.

A record is one line of header and a JSON body. A checksum covers both, so that a record which power tore while
it was written is never taken for a sealed one.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import secrets
from dataclasses import dataclass
from typing import Final, Literal

RECORD_FORMAT: Final = 1
_HEADER: Final = re.compile(rb"deermem-record (\d+) (sealed|empty) ([0-9]+) ([0-9a-f]{64})\n", re.ASCII)
_NAME: Final = re.compile(r"([sd])\.(.{1,200})\.([0-9a-f]{16}|none)\.([0-9a-f]{16}|none)\.[0-9a-f]{8}")
_MANIFEST: Final = re.compile(r"[mx]\.([0-9a-f]{16}|none)\.([0-9a-f]{16}|none)\.[0-9a-f]{8}")
ABSENT: Final = "none"
MAX_STEM_BYTES: Final = 128

State = Literal["sealed", "empty"]


def digest(data: bytes | None) -> str:
    """What states are compared by: SHA-256 in hex, "none" for absent."""
    return ABSENT if data is None else hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Step:
    """One path of a sealed commit. Paths and names are relative: `path` to the user's folder, names to `.journal/`.

    `staged` None means delete; `displaced` is the name that what stood there is moved to where it is moved aside.
    """

    path: str
    before: str
    after: str
    staged: str | None
    displaced: str


@dataclass(frozen=True, slots=True)
class Record:
    """What the record file says. `manifest_after` is None in an empty record and where memory.json stays."""

    sequence: int
    state: State
    steps: tuple[Step, ...] = ()
    manifest_before: str = ABSENT
    manifest_after: str | None = None
    revision: int = 0
    summaries_changed: bool = False


def first_sequence() -> int:
    """Random, so that a number from before the record was lost never comes again."""
    return secrets.randbits(48)


def encode_record(record: Record) -> bytes:
    """The bytes of the record file."""
    body = b""
    if record.state == "sealed":
        body = json.dumps(
            {
                "steps": [[step.path, step.before, step.after, step.staged, step.displaced] for step in record.steps],
                "manifestBefore": record.manifest_before,
                "manifestAfter": record.manifest_after,
                "revision": record.revision,
                "summariesChanged": record.summaries_changed,
            },
            ensure_ascii=True,
        ).encode()
    head = f"deermem-record {RECORD_FORMAT} {record.state} {record.sequence} "
    return f"{head}{hashlib.sha256(head.encode() + body).hexdigest()}\n".encode() + body


def parse_record(data: bytes | None) -> Record | None:
    """The record; None where the bytes are no whole record of a known format."""
    match = _HEADER.match(data) if data else None
    if match is None or data is None or int(match[1]) != RECORD_FORMAT:
        return None
    # An emptying that was cut short leaves the old body behind the new header: it is empty all the same.
    body = b"" if match[2] == b"empty" else data[match.end() :]
    head = data[: match.start(4)]
    if hashlib.sha256(head + body).hexdigest().encode() != match[4]:
        return None
    if match[2] == b"empty":
        return Record(int(match[3]), "empty")
    try:
        said = json.loads(body)
        return Record(
            sequence=int(match[3]),
            state="sealed",
            steps=tuple(Step(*row) for row in said["steps"]),
            manifest_before=said["manifestBefore"],
            manifest_after=said["manifestAfter"],
            revision=said["revision"],
            summaries_changed=said["summariesChanged"],
        )
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True, slots=True)
class JournalName:
    """A staged ("s") or displaced ("d") file's name: it carries what its content may be, and whose it is."""

    kind: str
    stem: str
    before: str
    after: str


def step_of(path: str, before: str, after: str) -> Step:
    """The step that takes a path from one state to another; its fresh names carry the states, cut to 16 hex digits.

    They never end in `.md`, so that no reader takes what lies there for a fact.
    """
    stem = _short(posixpath.splitext(posixpath.basename(path))[0])
    tail = f"{stem}.{before[:16]}.{after[:16]}.{secrets.token_hex(4)}"
    return Step(path, before, after, None if after == ABSENT else f"s.{tail}", f"d.{tail}")


def parse_journal_name(name: str) -> JournalName | None:
    """The parts of a staged or displaced name, None for any other."""
    match = _NAME.fullmatch(name)
    return JournalName(*match.groups()) if match else None


def manifest_name(kind: Literal["m", "x"], before: str, after: str) -> str:
    """A fresh name for a staged or displaced memory.json; "m" tells the next holder that a one-file commit died."""
    return f"{kind}.{before[:16]}.{after[:16]}.{secrets.token_hex(4)}"


def manifest_states(name: str) -> tuple[str, ...]:
    """What the content behind such a name may be, if it is ours; () for any other name."""
    match = _MANIFEST.fullmatch(name)
    return (match[1], match[2]) if match else ()


def is_state(data: bytes, *states: str) -> bool:
    """Whether a content is one of the states, given whole or cut to 16 digits."""
    found = digest(data)
    return any(state != ABSENT and found.startswith(state) for state in states)


def conflict_name(stem: str, suffix: str) -> str:
    """A fresh name for a text whose place a person took; it keeps its ending so that an editor opens it."""
    return f"conflict.{_short(stem)}.{secrets.token_hex(4)}{suffix}"


def _short(stem: str) -> str:
    """A person's file name may be as long as the file system allows, and a journal name is longer."""
    if len(stem) <= MAX_STEM_BYTES // 4:
        return stem if stem.isascii() else stem.encode(errors="replace").decode()
    return stem.encode(errors="replace")[:MAX_STEM_BYTES].decode(errors="ignore")
