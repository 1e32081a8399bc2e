"""The fastest reader: front matter just as this engine writes it, taken in by one pattern.

A rebuild reads tens of thousands of such files. Whatever differs in a single character is left to the other readers.
"""

from __future__ import annotations

import re
from typing import Final

from deermem.format.body import CUT_OFF, read_body
from deermem.format.digest import Digest, effective_revision, text_hash
from deermem.format.fields import MAX_REVISION, fast_moment
from deermem.format.frontmatter import MAX_BLOCK
from deermem.format.keys import NULLS
from deermem.model.fact import CATEGORIES, Fact, Source

# ASCII alone, so that places in the text and in its bytes agree; without what YAML folds, escapes or refuses.
_TEXT: Final = r"(?:([A-Za-z0-9_][A-Za-z0-9_.@/+-]*)|'([A-Za-z0-9_./@+=,()&%!?;: -]*)')"
_MOMENT: Final = r"'([0-9TZ:.-]*)'"
_HEAD: Final = re.compile(
    rf"---\nid: ([A-Za-z_][A-Za-z0-9_-]{{0,127}})\nschemaVersion: 2\ncategory: ([a-z]+)\n"
    rf"confidence: (0(?:\.[0-9]{{1,17}})?|1(?:\.0)?)\nstatus: active\ntopics: \[\]\nsource:\n  type: ([a-z]+)\n"
    rf"  threadId: {_TEXT}\nrevision: ([1-9][0-9]{{0,14}})\ncreatedAt: {_MOMENT}\nupdatedAt: {_MOMENT}\n"
    rf"user_id: {_TEXT}\nagent_name: {_TEXT}\ndigest: ([1-9][0-9]{{0,14}})-([0-9a-f]{{16}})\n---\n",
)


def read(text: str, data: bytes) -> tuple[Fact, bool, bool] | None:
    """(the fact, edited by hand, with a heading); None for a text of any other shape.

    Raises FormatError for a body that says nothing or too much.
    """
    match = _HEAD.match(text)
    if match is None or "\r" in text or match.end() > MAX_BLOCK or CUT_OFF.fullmatch(text, match.end()):
        return None
    (
        fact_id, category, confidence, kind, thread, quoted_thread, revision, created, updated,
        user, quoted_user, agent, quoted_agent, engine_revision, engine_hash,
    ) = match.groups()  # fmt: skip
    created_at, updated_at = fast_moment(created), fast_moment(updated)
    plain = category in CATEGORIES and category != "other" and fact_id not in NULLS and kind not in NULLS
    if created_at is None or updated_at is None or not plain:
        return None
    stop = match.end() - 4
    start = match.start(14) - 8
    hashed = text_hash(data[:start] + data[stop:])
    number, edited = effective_revision(int(revision), Digest(int(engine_revision), engine_hash), hashed)
    if number > MAX_REVISION:
        return None
    body = read_body(text[match.end() :])
    fact = Fact(
        id=fact_id,
        content=body.content,
        title=body.title,
        category=category,
        confidence=float(confidence),
        source=Source(kind, _text(thread, quoted_thread)),
        created_at=created_at,
        updated_at=updated_at,
        revision=number,
        version=f"{number}-{hashed}",
        user_id=_text(user, quoted_user),
        agent_name=_text(agent, quoted_agent),
    )
    return fact, edited, body.heading is not None


def _text(plain: str | None, quoted: str | None) -> str | None:
    if plain is None:
        return quoted
    return None if plain in NULLS else plain
