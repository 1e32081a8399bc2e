"""A fact file read: bytes to a fact."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Final, NamedTuple

from deermem.format import canonical, exact, fields, frontmatter
from deermem.format.body import CUT_OFF, Body, read_body
from deermem.format.conflict_markers import START, refuse_conflict
from deermem.format.digest import effective_revision, parse_digest, text_hash
from deermem.format.keys import NULLABLE, REQUIRED, Fields
from deermem.format.problems import FormatError
from deermem.format.split import Split, split
from deermem.model.fact import MAX_ID, Fact

_REQUIRED: Final = frozenset(REQUIRED)
_NOT_NULL: Final = itemgetter(*(_REQUIRED - NULLABLE))
_CONFLICT: Final = START.encode()
_CUT_HINT: Final = "write the fact below the front matter, or delete the file"
_BAD_CHARACTER = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A file as read.

    `fact` has the effective revision and version; its owner is as the file says, None where it says nothing.
    `edited`: a person changed the file since an engine wrote it. An integer expectation may match only with
    `has_digest` and without `edited`. Without `complete` the file is hand-made: keys or the heading are missing.
    """

    fact: Fact
    edited: bool
    has_digest: bool
    complete: bool


class Document(NamedTuple):
    """A file taken apart. `digest_at` is the span of the digest line in the bytes, (0, 0) for none."""

    fields: Fields
    body: str
    crlf: bool
    digest_at: tuple[int, int]


def note_id(stem: str) -> str:
    """A valid id for any file stem; a stem that had to be changed gets 8 hex digits, so that two stay two."""
    name = _BAD_CHARACTER.sub("-", stem)
    if name == stem and 0 < len(name) <= MAX_ID:
        return name
    return f"{name[: MAX_ID - 9]}-{hashlib.sha256(stem.encode(errors='surrogatepass')).hexdigest()[:8]}"


def decode(data: bytes, *, stem: str, when: datetime) -> Parsed:
    """The fact in a file. `stem` is the file's name without suffix, `when` stands in for missing times.

    Raises FormatError naming line and mend for whatever can't be read safely.
    """
    text = _text(data)
    if _CONFLICT in data:
        refuse_conflict(text)
    if (known := _exact(text, data)) is not None:
        return known
    document = _canonical(text, data) or general_document(text)
    body = _read_body(document, text)
    try:
        return _parsed(data, document, body, stem, when)
    except fields.FieldError as error:
        line = _line_of(text, error.key)
        raise FormatError(error.code, error.message, line=line, hint=error.hint) from None


def _exact(text: str, data: bytes) -> Parsed | None:
    try:
        found = exact.read(text, data)
    except FormatError:
        # The slower way says where.
        return None
    if found is None:
        return None
    fact, edited, headed = found
    return Parsed(fact=fact, edited=edited, has_digest=True, complete=headed)


def _text(data: bytes) -> str:
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise FormatError("nul", "the file holds a NUL byte", line=line, hint="remove it")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FormatError("not-utf8", "the file is not UTF-8", line=line, hint="save it as UTF-8") from None
    if not text or text.isspace():
        raise FormatError("empty-file", "the file is empty", line=1, hint="write the fact into it, or delete the file")
    return text


def _canonical(text: str, data: bytes) -> Document | None:
    if not text.startswith("---\n") or "\r" in text:
        return None
    end = text.find("\n---\n", 3)
    if not 3 < end <= frontmatter.MAX_BLOCK or (found := canonical.parse(text[4 : end + 1])) is None:
        return None
    span = (0, 0)
    if "digest" in found:
        start = data.find(b"\ndigest:", 3) + 1
        span = (start, data.index(b"\n", start) + 1)
    return Document(found, text[end + 5 :], False, span)


def general_document(text: str) -> Document:
    """Any file taken apart; raises FormatError."""
    parts = split(text)
    front = frontmatter.parse(parts.block) if parts.opening else frontmatter.FrontMatter()
    return Document(front.fields, parts.body, parts.crlf, digest_span(parts, front))


def digest_span(parts: Split, front: frontmatter.FrontMatter) -> tuple[int, int]:
    """The bytes of the digest line, its line end included; (0, 0) where there is no well-formed one."""
    found = front.entries.get("digest")
    if found is None or front.inline or parse_digest(found.value) is None:
        return 0, 0
    start = parts.block.rfind("\n", 0, found.start) + 1
    stop = parts.block.find("\n", found.end) + 1 or len(parts.block)
    if parts.block[start : found.start].strip(" ") or "\n" in parts.block[found.start : found.end]:
        return 0, 0
    head = len(f"{parts.bom}{parts.opening}{parts.block[:start]}".encode())
    return head, head + len(parts.block[start:stop].encode())


def _read_body(document: Document, text: str) -> Body:
    try:
        # A person who empties a note of their own means it; an engine never writes one without text, so what has
        # its digest and no text is half a save, and its last good version may stand in.
        if CUT_OFF.fullmatch(document.body) and parse_digest(document.fields.get("digest")) is not None:
            raise FormatError("cut-off", "the file ends before its text", hint=_CUT_HINT)
        title = fields.title_key(document.fields) if "title" in document.fields else ""
        return read_body(document.body, crlf=document.crlf, title=title)
    except FormatError as error:
        problem = error.problem
        line = text.count("\n", 0, len(text) - len(document.body)) + 1
        raise FormatError(problem.code, problem.message, line=line, hint=problem.hint) from None


def _line_of(text: str, key: str) -> int:
    parts = split(text)
    found = frontmatter.parse(parts.block).entries.get(key)
    return parts.block.count("\n", 0, found.start) + 2 if found else 1


def _parsed(data: bytes, document: Document, body: Body, stem: str, when: datetime) -> Parsed:
    found = document.fields
    fields.check_constants(found)
    digest = parse_digest(found.get("digest"))
    start, stop = document.digest_at
    hashed = text_hash(data[:start] + data[stop:] if stop else data)
    revision, edited = effective_revision(fields.whole(found, "revision") or 1, digest, hashed)
    fields.check_revision(revision)
    created = fields.moment(found, "createdAt") or when
    fact = Fact(
        id=fields.fact_id(found) or note_id(stem),
        content=body.content,
        title=body.title,
        category=fields.category(found),
        confidence=fields.confidence(found),
        topics=fields.topics(found),
        source=fields.source(found),
        created_at=created,
        updated_at=fields.moment(found, "updatedAt") or when,
        revision=revision,
        version=f"{revision}-{hashed}",
        user_id=fields.owner(found, "user_id"),
        agent_name=fields.owner(found, "agent_name"),
        extra=fields.extra(found),
        **({} if fields.RARE.isdisjoint(found) else fields.rare(found)),
    )
    return Parsed(fact=fact, edited=edited, has_digest=digest is not None, complete=_complete(found, body))


def _complete(found: Fields, body: Body) -> bool:
    return body.heading is not None and found.keys() >= _REQUIRED and None not in _NOT_NULL(found)
