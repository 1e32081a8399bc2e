"""A changed fact written over the file as it stands: what a person arranged there stays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from operator import attrgetter
from typing import Final, NamedTuple

from deermem.format import frontmatter
from deermem.format.body import heading_start
from deermem.format.digest import text_hash
from deermem.format.emit import entries, in_brackets, scalar, source_value
from deermem.format.frontmatter import Entry, FrontMatter, comments_between
from deermem.format.keys import KNOWN, NULLABLE, REQUIRED
from deermem.format.reading import decode
from deermem.format.split import Split, split
from deermem.model.fact import Fact
from deermem.model.values import JsonValue

_ATTRIBUTES: Final = {
    "id": "id",
    "category": "category",
    "categoryExtension": "category",
    "confidence": "confidence",
    "topics": "topics",
    "source": "source",
    "sourceError": "source_error",
    "expected_valid_days": "expected_valid_days",
    "expiresAt": "expires_at",
    "lastConfirmedAt": "last_confirmed_at",
    "confirmationCount": "confirmation_count",
    "consolidatedFrom": "consolidated_from",
    "consolidatedAt": "consolidated_at",
    "createdAt": "created_at",
    "updatedAt": "updated_at",
    "user_id": "user_id",
    "agent_name": "agent_name",
}
_GETTERS: Final = {key: attrgetter(name) for key, name in _ATTRIBUTES.items()}
# No file can hold NUL, so this mark can't be mistaken for text.
_DIGEST_HERE: Final = "\0"
_KEY_AND_VALUE: Final = 2
# Stands for what is below the last key; no key has a line break in it.
_BELOW: Final = "\n"
_END_MARK = re.compile(r"^\.\.\.(?:[ \t\r].*)?$", re.MULTILINE)


class Edit(NamedTuple):
    """Replace `start` to `end` of a block by `text`."""

    start: int
    end: int
    text: str


def rewrite(base: bytes, fact: Fact) -> bytes | None:
    """The bytes of `base` made to say `fact`; None where its front matter can't be edited line by line.

    Raises FormatError for a base that can't be read.
    """
    old = decode(base, stem=fact.id, when=datetime.fromtimestamp(0, UTC)).fact
    parts = split(base.decode())
    front = frontmatter.parse(parts.block) if parts.opening else FrontMatter()
    # In a file of CRLF lines a carriage return of the content would be taken for half of a line end.
    if front.inline or (parts.crlf and "\r" in fact.content):
        return None
    newline = "\r\n" if parts.crlf else "\n"
    opening = parts.opening or f"---{newline}"
    closing = parts.closing.rstrip("\r\n") or "---"
    body = _body(parts, old, fact)
    if not parts.opening and not body.startswith(("\n", "\r\n")):
        body = newline + body
    block = _block(parts.block, front, old, fact)
    before, _, after = block.partition(_DIGEST_HERE)
    tail, _, after = after.partition(_DIGEST_HERE)
    before = f"{parts.bom}{opening}{_with_newline(before, newline)}"
    after = f"{_with_newline(after, newline)}{closing}{newline}{body}"
    line = f"{_indent(parts.block, front)}digest: {fact.revision}-{text_hash((before + after).encode())}{tail}{newline}"
    return f"{before}{line}{after}".encode()


def _with_newline(text: str, newline: str) -> str:
    """Lines that we made end in a bare newline and a mark; lines that were there keep theirs."""
    return text.replace(_OURS, newline)


_OURS: Final = "\x01\n"


def _ours(lines: str, indent: str) -> str:
    return "".join(f"{indent}{line}{_OURS}" for line in lines.split("\n")[:-1])


def _block(block: str, front: FrontMatter, old: Fact, fact: Fact) -> str:
    """The edited block; the place of the digest is marked, what follows its value on the line between two marks."""
    wanted = entries(fact)
    indent = _indent(block, front)
    edits: list[Edit] = []
    for key, found in front.entries.items():
        if key == "digest":
            edits.append(_digest_edit(block, found, indent))
        elif _differs(key, found, old, fact):
            edits.append(_edit(block, found, wanted.get(key), _value(key, fact), indent))
    missing = (lines for key, lines in wanted.items() if key not in front.entries and _needed(key, front, old, fact))
    marks = "" if "digest" in front.entries else _DIGEST_HERE * 2
    at = _last_place(block, front)
    edits.append(Edit(at, at, _ours("".join(missing), indent) + marks))
    for edit in reversed(edits):
        block = block[: edit.start] + edit.text + block[edit.end :]
    return block


def _indent(block: str, front: FrontMatter) -> str:
    """The blanks that every key of the block stands behind."""
    first = next(iter(front.entries.values()), None)
    line = "" if first is None else _before(block, first)
    return line[: len(line) - len(line.lstrip(" "))]


def _before(block: str, found: Entry) -> str:
    """What stands on the line before a key."""
    return block[: found.start].rpartition("\n")[2]


def _last_place(block: str, front: FrontMatter) -> int:
    """Where new keys go: to the end, but not behind the mark that ends a YAML document."""
    mark = _END_MARK.search(block, max((found.end for found in front.entries.values()), default=0))
    return mark.start() if mark else len(block)


def _needed(key: str, front: FrontMatter, old: Fact, fact: Fact) -> bool:
    if key == "categoryExtension":
        return old.category != fact.category
    return key != "topics" or "tags" not in front.entries or old.topics != fact.topics


def _differs(key: str, found: Entry, old: Fact, fact: Fact) -> bool:
    if key in REQUIRED and key not in NULLABLE and found.value is None:
        return True
    if key == "revision":
        return str(found.value).lstrip("0") != str(fact.revision)
    if key in _GETTERS:
        return bool(_GETTERS[key](old) != _GETTERS[key](fact))
    if key in KNOWN:
        return False
    return key not in fact.extra or repr(fact.extra[key]) != repr(found.value)


def _value(key: str, fact: Fact) -> JsonValue:
    """The value of a key that may be written in brackets."""
    if key == "source":
        return source_value(fact.source)
    if key in ("topics", "consolidatedFrom"):
        return list(fact.topics if key == "topics" else fact.consolidated_from)
    return fact.extra.get(key)


def _stop(block: str, found: Entry) -> int:
    """Where the lines of an entry end; a block scalar ends at a line's start already."""
    if found.end > found.key_end and block[found.end - 1 : found.end] == "\n":
        return found.end
    return block.find("\n", found.end) + 1 or len(block)


def _edit(block: str, found: Entry, lines: str | None, value: JsonValue, indent: str) -> Edit:
    one_line = lines is not None and lines.count("\n") == 1
    text = lines[len(scalar(found.key)) + 2 : -1] if lines is not None and one_line else ""
    if found.flow and "\n" not in block[found.value_start : found.end] and lines is not None:
        return Edit(found.value_start, found.end, text if one_line else in_brackets(value))
    if found.single and one_line:
        if found.value_start == found.end:
            colon = block.index(":", found.key_end) + 1
            return Edit(colon, colon, f" {text}")
        # A block scalar has one more piece: its mark, behind which a comment may stand.
        if len(found.pieces) == _KEY_AND_VALUE:
            return Edit(found.value_start, found.end, text)
    stop = _stop(block, found)
    comments = "".join(f"{comment}\n" for comment in found.comments(block, stop))
    return Edit(_line_start(block, found), stop, _ours(comments + (lines or ""), indent))


def _line_start(block: str, found: Entry) -> int:
    before = _before(block, found)
    return found.start if before.strip(" ") else found.start - len(before)


def _digest_edit(block: str, found: Entry, indent: str) -> Edit:
    start, stop = _line_start(block, found), _stop(block, found)
    if found.single and "\n" not in block[found.start : found.end]:
        end = block.index(":", found.key_end) + 1 if found.value_start == found.end else found.end
        tail = block[end:stop].rstrip("\r\n")
        if tail.strip()[:1] in ("", "#"):
            return Edit(start, stop, f"{_DIGEST_HERE}{tail}{_DIGEST_HERE}")
    comments = "".join(f"{comment}\n" for comment in found.comments(block, stop))
    return Edit(start, stop, _ours(comments, indent) + _DIGEST_HERE * 2)


def arranged_as(base: bytes, lines: Mapping[str, str]) -> dict[str, str]:
    """The lines of keys in the order of `base`, under the comments that stood at them there.

    A comment belongs to the key on its line, else to the one whose value it stands in or that follows.
    """
    parts = split(base.decode())
    front = frontmatter.parse(parts.block) if parts.opening else FrontMatter()
    comments: dict[str, list[str]] = {}
    at, previous = 0, ""
    for key, entry in front.entries.items():
        for start, stop in entry.pieces:
            _sort_in(comments, parts.block, (at, start), (previous, key))
            at, previous = max(at, stop), key
    _sort_in(comments, parts.block, (at, len(parts.block)), (previous, _BELOW))
    order = dict.fromkeys((*front.entries, _BELOW, *lines))
    return {key: "".join(f"{comment}\n" for comment in comments.get(key, ())) + lines.get(key, "") for key in order}


def _sort_in(found: dict[str, list[str]], block: str, stretch: tuple[int, int], keys: tuple[str, str]) -> None:
    """Adds the comments of a stretch: on the line that it begins on to the first key, the others to the second."""
    start, end = stretch
    for at, text in comments_between(block, start, end):
        same_line = start > 0 and "\n" not in block[start:at]
        found.setdefault(keys[0] if same_line else keys[1], []).append(text)


def _body(parts: Split, old: Fact, fact: Fact) -> str:
    """The body with heading and content as they should be; what already says so stays byte for byte."""
    body = parts.body
    newline = "\r\n" if parts.crlf and ("\r\n" in body or "\n" not in body) else "\n"
    start = heading_start(body)
    lead, rest = body[:start], body[start:]
    heading = ""
    if rest.startswith("# "):
        line, mark, rest = rest.partition("\n")
        heading = f"{line}{mark}" if line[2:].strip() else ""
    only_heading = not rest.strip()
    if not heading:
        heading, rest = f"{lead or newline}# {fact.title}{newline}", f"{newline}{rest}"
    elif old.title != fact.title:
        heading = f"{lead}# {fact.title}{newline}"
    else:
        heading = lead + (heading if heading.endswith("\n") else f"{heading}{newline}")
    if old.content != fact.content or (only_heading and old.title != fact.title):
        gap = rest[: heading_start(rest)] if not only_heading else ""
        rest = (gap or newline) + fact.content.replace("\n", newline)
    return f"{heading}{rest}".rstrip("\r\n") + newline
