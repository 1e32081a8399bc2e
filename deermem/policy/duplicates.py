"""Whether new contents repeat what is stored, or each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from deermem.model.fact import content_key


def first_repeat(contents: Iterable[str], stored: Mapping[bytes, str]) -> tuple[int, str | None] | None:
    """The position of the first content that is there already, and the id of the fact that says it.

    `stored` maps the content keys of the facts that stay as they are to their ids. The id is None where an earlier
    one of `contents` says it; the result is None where all of them are new. Contents are checked ones
    (`check_content`).
    """
    seen: set[bytes] = set()
    for position, content in enumerate(contents):
        key = content_key(content)
        if key in stored or key in seen:
            return position, stored.get(key)
        seen.add(key)
    return None
