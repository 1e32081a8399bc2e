"""A fact file: bytes to a fact, and a fact to bytes. The rules are those of the on-disk format, version 2."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Final

from deermem.errors import InvalidInput
from deermem.format.digest import text_hash
from deermem.format.problems import FormatError
from deermem.format.reading import Parsed, decode, note_id
from deermem.model.fact import MAX_TITLE, Fact, check_confidence, check_content, check_id, check_text, derive_title

__all__ = ["Parsed", "content_hash", "decode", "encode", "encode_parsed", "note_id"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_VALUES: Final = attrgetter(*(item.name for item in fields(Fact) if item.name != "version"))


def content_hash(data: bytes) -> str:
    """The hash that names exactly these bytes: `sha256:` and 64 hex digits."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def encode(fact: Fact, *, base: bytes | None = None) -> bytes:
    """The file of a fact, with a fresh digest; a blank title becomes the content's first line.

    With `base`, the bytes that stand there now, it is a rewrite: order, comments, quoting, unknown keys and newline
    style stay, only values that differ are replaced and missing keys added. Where that would not give the fact
    back, the whole file is written anew. Raises InvalidInput for what can't be stored so that it reads back equal,
    and for a base that can't be read.
    """
    return encode_parsed(fact, base=base)[0]


def encode_parsed(fact: Fact, *, base: bytes | None = None) -> tuple[bytes, Parsed]:
    """As `encode`, with what the bytes read back as: the fact with its version token."""
    wanted = _checked(fact)
    try:
        if base is not None and (rewritten := _rewritten(base, wanted)) is not None:
            return rewritten
        data = _canonical(wanted)
    except UnicodeEncodeError:
        raise InvalidInput(f"fact {fact.id} holds a lone surrogate", hint="remove it") from None
    parsed = _read_back(data, wanted)
    if isinstance(parsed, str):
        raise InvalidInput(f"fact {fact.id} would not read back as it is: {parsed}", hint="change that value")
    return data, parsed


def only_heading_changed(data: bytes, fact: Fact) -> bool:
    """Whether the heading is all that a person changed in this file since an engine wrote it."""
    old, made = f"\n# {fact.title}".encode(), f"\n# {derive_title(fact.content)}".encode()
    try:
        return not decode(data.replace(old, made, 1), stem=fact.id, when=_EPOCH).edited
    except FormatError:
        return False


def _checked(fact: Fact) -> Fact:
    check_id(fact.id)
    check_confidence(fact.confidence)
    content = check_content(fact.content)
    title = fact.title.strip() or derive_title(content)
    if "\n" in title or len(title) > MAX_TITLE:
        raise InvalidInput(
            f"the title of {fact.id} is too long", hint=f"one line of at most {MAX_TITLE} characters fits"
        )
    check_text(title, "title")
    if fact.revision < 1:
        raise InvalidInput(f"revision {fact.revision!r} is not valid", hint="give a whole number, at least 1")
    if content == fact.content and title == fact.title:
        return fact
    return replace(fact, content=content, title=title)


def _canonical(fact: Fact) -> bytes:
    from deermem.format.emit import entries

    head = "---\n" + "".join(entries(fact).values())
    tail = f"---\n\n# {fact.title}\n\n{fact.content}\n"
    first, last = head.encode(), tail.encode()
    return b"%bdigest: %d-%b\n%b" % (first, fact.revision, text_hash(first + last).encode(), last)


def _rewritten(base: bytes, fact: Fact) -> tuple[bytes, Parsed] | None:
    from deermem.format.rewrite import rewrite

    try:
        data = rewrite(base, fact)
    except FormatError as error:
        raise InvalidInput(f"the file of {fact.id} can't be read: {error}", hint="mend the file first") from None
    parsed = _read_back(data, fact) if data is not None else ""
    return (data, parsed) if data is not None and not isinstance(parsed, str) else None


def _read_back(data: bytes, fact: Fact) -> Parsed | str:
    """What the bytes say, or in words what of the fact they would not give back."""
    try:
        parsed = decode(data, stem="", when=_EPOCH)
    except FormatError as error:
        return str(error)
    if parsed.edited or not parsed.has_digest or not parsed.complete:
        return "it would look hand-made"
    found, wanted = _VALUES(parsed.fact), _VALUES(fact)
    if found == wanted:
        return parsed
    names = [item.name for item in fields(Fact) if item.name != "version"]
    return ", ".join(name for name, one, other in zip(names, found, wanted, strict=True) if one != other)
