"""A value that is too long for one file, in several: cut at line ends, each file below the limit, joined on reading."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from deermem.errors import InvalidInput
from deermem.format import markdown
from deermem.integrations.langgraph_store.names import part_id
from deermem.integrations.langgraph_store.values import (
    MAX_VALUE_BYTES,
    OWN_KEYS,
    Put,
    as_json,
    as_text,
    fenced,
    is_json,
    mapping,
    text_of,
    trimmed,
)
from deermem.model.fact import MAX_CONTENT_BYTES, MAX_TITLE, Fact, check_text
from deermem.model.values import JsonObject

_MAX_PARTS: Final = 10_000
_OWN_TITLE: Final = re.compile(r"(?:^| )\(\d+/\d+\)$")


@dataclass(frozen=True, slots=True)
class Part:
    """Which of an item's files one is, from 1, and of how many. `put` names the text that was cut into them."""

    number: int
    count: int
    put: str

    @classmethod
    def of(cls, fact: Fact) -> Part | None:
        """As a file says, whoever wrote it; None for a file that is all of its item."""
        item = mapping(fact.extra.get("item"))
        if "part" not in item:
            return None
        number, count, put = item["part"], item.get("of"), item.get("put")
        if isinstance(number, bool) or not isinstance(number, int) or not isinstance(count, int):
            return None
        fits = 1 <= number <= count and 2 <= count <= _MAX_PARTS
        return cls(number, count, str(put)) if fits else None


def is_further(fact: Fact) -> bool:
    """Whether a file only goes on with what another one begins."""
    part = Part.of(fact)
    return part is not None and part.number > 1


# --- writing


def files_of(put: Put, base: Fact, further: Callable[[int], Fact], limit: int = MAX_CONTENT_BYTES) -> list[Fact]:
    """The facts that hold a put's value, the first over `base`, each other over what `further` has for its number.

    A base has id, times and whatever a person set. The text of a value is the files' text wherever they can say it,
    else its JSON is. One file is enough for `limit` bytes. Raises InvalidInput for what no files hold.
    """
    whole = as_text(put, base)
    if whole is not None:
        try:
            return _checked(_split(put.key, whole, further, limit))
        except InvalidInput:
            pass
    return _checked(_split(put.key, as_json(put, base), further, limit))


def _checked(files: list[Fact]) -> list[Fact]:
    for fact in files:
        markdown.encode(fact)
    return files


def _split(key: str, whole: Fact, further: Callable[[int], Fact], limit: int) -> list[Fact]:
    size = len(whole.content.encode(errors="surrogatepass"))
    if size <= limit:
        return [whole]
    if size > MAX_VALUE_BYTES:
        raise InvalidInput(
            f"the value of {key!r:.60} takes {size} bytes", hint=f"at most {MAX_VALUE_BYTES} fit; split it"
        )
    text = check_text(text_of(whole), "the value")
    # A person may add some lines to each file.
    chunks = list(_cut(text, limit - limit // 10))
    put = hashlib.sha256(text.encode()).hexdigest()[:8]
    parts = [Part(number, len(chunks), put) for number in range(1, len(chunks) + 1)]
    first = _first(whole, chunks[0], parts[0])
    pairs = zip(chunks[1:], parts[1:], strict=True)
    return [first, *(_further(key, first, (chunk, part), further(part.number)) for chunk, part in pairs)]


def _first(whole: Fact, chunk: str, part: Part) -> Fact:
    item = {name: said for name, said in mapping(whole.extra.get("item")).items() if name not in ("before", "after")}
    content, around = _piece(whole, chunk)
    return replace(whole, content=content, extra={**whole.extra, "item": {**item, **around, **_numbers(part)}})


def _further(key: str, first: Fact, piece: tuple[str, Part], base: Fact) -> Fact:
    chunk, part = piece
    content, around = _piece(first, chunk)
    chose = base.title and not _OWN_TITLE.search(base.title)
    form: JsonObject = {"json": True} if is_json(first) else {}
    own = {name: said for name, said in base.extra.items() if name not in OWN_KEYS}
    return replace(
        base,
        content=content,
        title=base.title if chose else _title(first, content, part),
        expires_at=first.expires_at,
        extra={"namespace": first.extra["namespace"], "item": {"key": key, **form, **around, **_numbers(part)}, **own},
    )


def _title(first: Fact, content: str, part: Part) -> str:
    # Without a word, which a query might look for.
    made = f"({part.number}/{part.count})"
    title = f"{first.title[: MAX_TITLE - len(made) - 1].rstrip()} {made}"
    # A content that is the heading is none, see `_said`.
    return made if title == content else title


def _piece(whole: Fact, chunk: str) -> tuple[str, JsonObject]:
    return fenced(chunk) if is_json(whole) else trimmed(chunk)


def _numbers(part: Part) -> JsonObject:
    return {"part": part.number, "of": part.count, "put": part.put}


def _cut(text: str, limit: int) -> Iterator[str]:
    """The text in pieces of at most `limit` bytes, cut behind a line end or a blank where one is near enough."""
    data = text.encode()
    at = 0
    while len(data) - at > limit:
        window = data[at : at + limit]
        end = window.rfind(b"\n") + 1
        if end <= limit // 2:
            end = window.rfind(b" ") + 1
        if end <= limit // 2:
            end = limit
            while data[at + end] & 0xC0 == 0x80:
                end -= 1
        yield data[at : at + end].decode()
        at += end
    yield data[at:].decode()


# --- reading


@dataclass(slots=True)
class Assembly:
    """The files of a key: those of its item by part, what else says the key, and the parts that are missing."""

    files: list[Fact]
    left: list[Fact] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    count: int = 1

    @classmethod
    def of(cls, key: str, first: Fact | None, further: Sequence[Fact]) -> Assembly:
        """From the file that begins an item, and those that say they go on with it."""
        part = Part.of(first or further[0])
        if part is None:
            return cls([first] if first else [], list(further))
        found = {} if first is None else {1: first}
        left: list[Fact] = []
        for fact in further:
            said = Part.of(fact)
            if said is None or (said.count, said.put) != (part.count, part.put):
                left.append(fact)
            elif said.number not in found:
                found[said.number] = fact
            elif fact.id == part_id(key, said.number):
                left.append(found[said.number])
                found[said.number] = fact
            else:
                left.append(fact)
        missing = [number for number in range(1, part.count + 1) if number not in found]
        return cls([found[number] for number in sorted(found)], left, missing, part.count)

    @property
    def problem(self) -> str:
        """What is wrong, in words."""
        return f"of its {self.count} files, part {', '.join(map(str, self.missing[:9]))} is missing or of another put"

    def joined(self) -> Fact:
        """One fact with the whole text, as if a file could hold it; it ends with the first of its files.

        It is to be read and never to be written.
        """
        first = self.files[0]
        if len(self.files) == 1:
            return first
        text = "".join(map(_said, self.files))
        item = mapping(first.extra.get("item"))
        whole: JsonObject = {name: said for name, said in item.items() if name not in ("before", "after")}
        return replace(
            first,
            content=fenced(text)[0] if is_json(first) else text,
            version="+".join(fact.version for fact in self.files),
            expires_at=min((fact.expires_at for fact in self.files if fact.expires_at is not None), default=None),
            extra={**first.extra, "item": whole},
        )


def _said(fact: Fact) -> str:
    """The text of a file; "" where a person took all of it out and left the heading that was made for it."""
    is_empty = is_further(fact) and fact.content == fact.title and _OWN_TITLE.search(fact.title)
    return "" if is_empty else text_of(fact)
