"""The digest line: how a writer knows that a person was there."""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple

from deermem.model.values import JsonValue

_DIGEST = re.compile(r"([1-9][0-9]{0,14})-([0-9a-f]{16})")
_BOM: Final = b"\xef\xbb\xbf"


class Digest(NamedTuple):
    """What the last engine wrote: the revision, and the hash of the text it wrote."""

    revision: int
    hash: str

    def __str__(self) -> str:
        return f"{self.revision}-{self.hash}"


def parse_digest(value: JsonValue) -> Digest | None:
    """The digest in a front matter value; None where it is malformed, which counts as none."""
    match = _DIGEST.fullmatch(value) if isinstance(value, str) else None
    return Digest(int(match[1]), match[2]) if match else None


def text_hash(data: bytes) -> str:
    """The first 16 hex digits of a text's SHA-256, less BOM and carriage returns; its digest line is not in `data`."""
    if data.startswith(_BOM):
        data = data[3:]
    if b"\r" in data:
        data = data.replace(b"\r", b"")
    return hashlib.sha256(data).hexdigest()[:16]


def effective_revision(written: int, digest: Digest | None, found: str) -> tuple[int, bool]:
    """The revision that counts, and whether a person edited the file since an engine wrote it.

    `written` is the revision in the file, `found` the hash of its text. A higher revision than the digest's
    means that another engine wrote it: nothing is added.
    """
    if digest is None or written > digest.revision:
        return written, False
    if written < digest.revision or digest.hash != found:
        return digest.revision + 1, True
    return written, False
