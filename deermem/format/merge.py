"""memory.json after a git merge that stopped: the two sides joined into one document, section by section."""

from __future__ import annotations

from collections.abc import Mapping

from deermem.clock import parse_timestamp
from deermem.format import manifest
from deermem.format.conflict_markers import both_sides
from deermem.format.manifest import Manifest
from deermem.format.problems import FormatError
from deermem.model.summaries import SECTIONS, Section, Summaries
from deermem.model.values import JsonValue

_HINT = "keep one of the two sides in an editor"


def resolve(data: bytes) -> Manifest:
    """The one document that the two sides of a conflicted memory.json make, its revision above both.

    Of each section the newer text is taken, of one that a side leaves empty the other's; of keys that deermem
    doesn't know, ours wins. Raises FormatError where the markers are out of order, a side can't be read or isn't of
    version 2, or sections differ and neither is newer.
    """
    try:
        sides = both_sides(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise FormatError("not-utf8", "the file is not UTF-8", hint="save it as UTF-8") from None
    if sides is None:
        raise FormatError("merge-conflict", "the markers of the merge are out of order", hint=_HINT)
    ours, theirs = (_side(text, name) for text, name in zip(sides, ("first", "second"), strict=True))
    return merged(ours, theirs)


def merged(ours: Manifest, theirs: Manifest) -> Manifest:
    """Two documents of version 2 as one; raises FormatError that names the sections where neither is newer."""
    one, other = ours.summaries, theirs.summaries
    found = {name: _newer(one.section(name), other.section(name)) for name in SECTIONS.values()}
    unclear = [key for key, name in SECTIONS.items() if found[name] is None]
    if unclear:
        message = f"both sides of the merge changed {', '.join(unclear)}, and neither is newer"
        raise FormatError("merge-conflict", message, hint=_HINT)
    updated = other.last_updated if _is_newer(other.last_updated, one.last_updated) else one.last_updated
    summaries = Summaries(revision=max(one.revision, other.revision) + 1, last_updated=updated)
    for name, section in found.items():
        summaries = summaries.with_section(name, section or Section())
    return Manifest(summaries, manifest.VERSION, {**_united(ours.raw, theirs.raw)})


def _side(text: str, name: str) -> Manifest:
    try:
        side = manifest.decode(text.encode())
    except FormatError as error:
        message = f"the {name} side of the merge can't be read: {error.problem.message}"
        raise FormatError("merge-conflict", message, hint=_HINT) from None
    if manifest.needs_migration(side.raw):
        raise FormatError("merge-conflict", f"the {name} side of the merge is of version 1", hint=_HINT)
    return side


def _newer(one: Section, other: Section) -> Section | None:
    """The section to take, None where both say something else and neither is newer."""
    if one.summary != other.summary and not (one.summary and other.summary):
        return one if one.summary else other
    if _is_newer(other.updated_at, one.updated_at):
        return other
    return one if one.summary == other.summary or _is_newer(one.updated_at, other.updated_at) else None


def _is_newer(one: str, other: str) -> bool:
    """Whether the first of two timestamps is later; one that is none counts as older than any."""
    mine, others = parse_timestamp(one), parse_timestamp(other)
    return mine is not None and (others is None or mine > others)


def _united(ours: Mapping[str, JsonValue], theirs: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """All keys of both, objects joined likewise; any other value that differs is ours."""
    joined: dict[str, JsonValue] = {**ours}
    for key, value in theirs.items():
        mine = joined.get(key)
        if key not in joined:
            joined[key] = value
        elif isinstance(mine, Mapping) and isinstance(value, Mapping):
            joined[key] = dict(_united(mine, value))
    return joined
