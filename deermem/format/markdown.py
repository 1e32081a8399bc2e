"""A fact file: bytes to a fact, and a fact to bytes. The rules are those of the on-disk format, version 2."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Final

from deermem.errors import InvalidInput
from deermem.format.conflict_markers import START, refuse_conflict
from deermem.format.digest import text_hash
from deermem.format.fields import MAX_REVISION
from deermem.format.frontmatter import MAX_BLOCK
from deermem.format.limits import check_own_values, check_size
from deermem.format.problems import FormatError
from deermem.format.reading import Parsed, decode, note_id
from deermem.model.fact import MAX_TITLE, Fact, check_confidence, check_content, check_id, check_text, derive_title

__all__ = ["Parsed", "check_merged", "check_storable", "content_hash", "decode", "encode", "encode_parsed", "note_id"]

# An escape makes six characters of one; what stands around an item takes a few more.
_SURELY_FITS: Final = MAX_BLOCK // 16
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_VALUES: Final = attrgetter(*(item.name for item in fields(Fact) if item.name != "version"))


def content_hash(data: bytes) -> str:
    """The hash that names exactly these bytes: `sha256:` and 64 hex digits."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def encode(fact: Fact, *, base: bytes | None = None) -> bytes:
    """The file of a fact, with a fresh digest; a blank title becomes the content's first line.

    With `base`, the bytes that stand there now, it is a rewrite: order, comments, quoting, unknown keys and newline
    style stay, only values that differ are replaced and missing keys added. Where that would not give the fact
    back, the whole file is written anew, the comments of the front matter on lines of their own. Raises InvalidInput
    for what can't be stored so that it reads back equal, and for a base that can't be read.
    """
    return encode_parsed(fact, base=base)[0]


def encode_parsed(fact: Fact, *, base: bytes | None = None) -> tuple[bytes, Parsed]:
    """As `encode`, with what the bytes read back as: the fact with its version token."""
    wanted = _checked(fact)
    try:
        if base is not None and (rewritten := _rewritten(base, wanted)) is not None:
            return rewritten
        data = _anew(wanted, base)
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
    # A person's edit of the file counts as one more, and must not make it unreadable.
    if not 1 <= fact.revision < MAX_REVISION:
        hint = f"give a whole number from 1 to {MAX_REVISION - 1}"
        raise InvalidInput(f"revision {fact.revision!r} is not valid", hint=hint)
    check_own_values(fact)
    if content == fact.content and title == fact.title:
        return fact
    return replace(fact, content=content, title=title)


def check_storable(fact: Fact) -> None:
    """Raises InvalidInput, naming the key, for what would be refused when it is written.

    For facts whose parts are checked already one by one; so a store need not come to be for a fact that it can't hold.
    """
    check_merged(fact.content)
    if fact.extra or fact.source.extra:
        check_own_values(fact)
    listed = (*fact.topics, *fact.consolidated_from, fact.source_error or "", fact.source.thread_id or "")
    size = sum(map(len, listed)) + len(repr(fact.extra)) + len(repr(fact.source.extra))
    if fact.revision >= MAX_REVISION or size > _SURELY_FITS:
        encode(fact)


def check_merged(content: str) -> None:
    """Raises InvalidInput for a content that a reader would take for a file which git left in two."""
    if START not in content:
        return
    try:
        refuse_conflict(f"\n{content}\n")
    except FormatError as error:
        raise InvalidInput(
            f"content holds the marks of an unresolved git merge from its line {error.problem.line - 1} on",
            hint="resolve it, or put the passage into a code fence",
        ) from None


def _anew(fact: Fact, base: bytes | None) -> bytes:
    """The whole file in the canonical look, in the order of the keys in `base` and with its comments."""
    from deermem.format.emit import entries

    lines = entries(fact)
    check_size(fact.id, lines)
    if base is not None:
        from deermem.format.rewrite import arranged_as

        lines = arranged_as(base, lines)
    head = "---\n" + "".join(lines.values())
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
    differ = [name for name, one, other in zip(names, found, wanted, strict=True) if one != other]
    own = [key for key in fact.extra if parsed.fact.extra.get(key) != fact.extra[key]]
    return ", ".join(f"extra ({', '.join(own)})" if name == "extra" else name for name in differ)
