"""The text below the front matter: heading and content."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from deermem.format.problems import FormatError
from deermem.model.fact import MAX_CONTENT_BYTES, MAX_TITLE, derive_title, normalize_content

CUT_OFF: Final = re.compile(r"\s*(?:#\s*)?")
"""What is left below the front matter that an engine wrote where its file was cut off before the first word."""
_BLANK_LINES = re.compile(r"(?:[^\S\n]*\n)*")


class Body(NamedTuple):
    """What a body says. `heading` is the whole first line without `# `, None where there is none."""

    title: str
    content: str
    heading: str | None


def read_body(text: str, *, crlf: bool = False, title: str = "") -> Body:
    """The heading and content of a body; `title` is what to call it where it has no heading.

    A body with a heading only has it as its content. Raises FormatError for a blank or overlong one.
    """
    if crlf:
        text = text.replace("\r\n", "\n")
    heading, rest = split_heading(text)
    content = normalize_content(rest) or (heading or "").strip()
    if not (content[:1].isalnum() or _visible(content)):
        raise FormatError(
            "empty", "the file says nothing", hint="write the fact below the front matter, or delete the file"
        )
    if len(content) * 4 > MAX_CONTENT_BYTES and (size := len(content.encode())) > MAX_CONTENT_BYTES:
        raise FormatError(
            "too-large", f"the content has {size} bytes", hint=f"at most {MAX_CONTENT_BYTES} fit; split the fact"
        )
    found = (heading or title)[:MAX_TITLE].rstrip()
    return Body(found or derive_title(content), content, heading or None)


def split_heading(text: str) -> tuple[str | None, str]:
    """The heading without its mark, None for none; and what follows it."""
    start = 1 if text.startswith("\n# ") else heading_start(text)
    if not text.startswith("# ", start):
        return None, text
    line, _, rest = text[start + 2 :].partition("\n")
    return line.strip(), rest


def heading_start(text: str) -> int:
    """Where the first line that is not blank begins."""
    match = _BLANK_LINES.match(text)
    return match.end() if match else 0


def _visible(text: str) -> bool:
    import unicodedata

    return any(unicodedata.category(character)[0] not in "ZC" for character in text)
