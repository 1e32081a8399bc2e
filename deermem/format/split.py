"""Where the front matter of a file begins and ends."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from deermem.format.problems import FormatError

BOM: Final = "\ufeff"
_OPENING = re.compile(r"---[ \t]*(?:\r?\n|\Z)")
_CLOSING = re.compile(r"^---[ \t]*(?:\r?\n|\r?\Z)", re.MULTILINE)
_PAIR = re.compile(r"(?:[\"'][^\"'\n]*[\"']|[^\W\d_][^:\n#]*|_[^:\n#]*|[0-9][^:\n#]*)[ \t]*:(?:[ \t\r]|\Z)")
# A save that was cut off within its first key: no fact says `---` or `---\ncateg`.
_TORN = re.compile(r"\w*")
# A save that was cut off within its opening fence: alone, no fact is a dash or two.
_TORN_FENCE = re.compile(r"--?\s*")
# With CR alone for line ends, the front matter and the owner that it names would pass for text.
_CR_ONLY = re.compile(r"---[ \t]*\r(?!\n)")
_COLLECTION = re.compile(r"-[ \t\r]|-\Z|[\[{]")


@dataclass(frozen=True, slots=True)
class Split:
    """One file's text in five parts; without front matter all is body but the BOM."""

    bom: str
    opening: str
    block: str
    closing: str
    body: str

    @property
    def crlf(self) -> bool:
        """Whether CRLF pairs are line ends here: the first line decides."""
        first = self.opening or self.body.partition("\n")[0] + "\n"
        return first.endswith("\r\n")


def split(text: str) -> Split:
    """The parts of a file.

    Raises FormatError `no-closing-fence` for an open block of `key: value` lines, `line-ends` for a fence that a bare
    carriage return ends.

    A `---` that opens no mapping (a letterhead, a thematic break) is body.
    """
    bom = BOM if text.startswith(BOM) else ""
    opening = _OPENING.match(text, len(bom))
    if _CR_ONLY.match(text, len(bom)):
        message = "the front matter has carriage returns for line ends"
        raise FormatError("line-ends", message, line=1, hint="save the file with LF line ends")
    if _TORN_FENCE.fullmatch(text, len(bom)):
        raise _no_closing_fence()
    if opening is None:
        return Split(bom, "", "", "", text[len(bom) :])
    closing = _CLOSING.search(text, opening.end())
    block = text[opening.end() : closing.start() if closing else len(text)]
    if closing is None and (_TORN.fullmatch(block) or _first_is_pair(block)):
        raise _no_closing_fence()
    if closing is None or not _is_header(block):
        return Split(bom, "", "", "", text[len(bom) :])
    return Split(bom, opening.group(), block, closing.group(), text[closing.end() :])


def _no_closing_fence() -> FormatError:
    message = "the front matter has no closing ---"
    return FormatError("no-closing-fence", message, line=1, hint="add a line --- after the last key")


def _lines(block: str) -> list[str]:
    return [line for line in block.split("\n") if line.strip() and not line.startswith("#")]


def _first_is_pair(block: str) -> bool:
    lines = _lines(block)
    return bool(lines) and _PAIR.match(lines[0].lstrip(" ")) is not None


def _is_header(block: str) -> bool:
    lines = _lines(block)
    return not lines or _COLLECTION.match(lines[0]) is not None or any(_PAIR.match(line.lstrip()) for line in lines)
