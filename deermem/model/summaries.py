"""The six summaries that all agents of a user share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from deermem.errors import InvalidInput
from deermem.model.fact import check_text

USER_SECTIONS: Final = {
    "workContext": "work_context",
    "personalContext": "personal_context",
    "topOfMind": "top_of_mind",
}
HISTORY_SECTIONS: Final = {
    "recentMonths": "recent_months",
    "earlierContext": "earlier_context",
    "longTermBackground": "long_term_background",
}
SECTIONS: Final = {**USER_SECTIONS, **HISTORY_SECTIONS}
_BY_ANY_NAME: Final = {**SECTIONS, **{name: name for name in SECTIONS.values()}}


@dataclass(frozen=True, slots=True)
class Section:
    """One summary; `updated_at` is the timestamp as it stands in the file, "" when never written."""

    summary: str = ""
    updated_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summaries:
    """What memory.json says, with the shared revision it said it at."""

    work_context: Section = field(default_factory=Section)
    personal_context: Section = field(default_factory=Section)
    top_of_mind: Section = field(default_factory=Section)
    recent_months: Section = field(default_factory=Section)
    earlier_context: Section = field(default_factory=Section)
    long_term_background: Section = field(default_factory=Section)
    revision: int = 0
    last_updated: str = ""

    @property
    def user(self) -> dict[str, Section]:
        """The sections of `user` by their names in the file."""
        return {key: self.section(name) for key, name in USER_SECTIONS.items()}

    @property
    def history(self) -> dict[str, Section]:
        """The sections of `history` by their names in the file."""
        return {key: self.section(name) for key, name in HISTORY_SECTIONS.items()}

    def section(self, name: str) -> Section:
        """One section by its attribute name or its name in the file; raises InvalidInput."""
        found: Section = getattr(self, section_name(name))
        return found

    def with_section(self, name: str, section: Section) -> Summaries:
        """A copy with one section exchanged."""
        return replace(self, **{section_name(name): section})  # type: ignore[arg-type]

    def is_empty(self) -> bool:
        """Whether no section says anything."""
        return not any(self.section(name).summary for name in SECTIONS.values())


def section_name(name: str) -> str:
    """The attribute name of a section, given either spelling; raises InvalidInput naming all six."""
    if name not in _BY_ANY_NAME:
        raise InvalidInput(f"summary section {name!r} does not exist", hint=f"one of {', '.join(SECTIONS)}")
    return _BY_ANY_NAME[name]


def summary_patch(given: Mapping[str, object]) -> dict[str, str]:
    """Attribute name → new text, from nested (`{"user": {"workContext": …}}`) or flat form.

    A value is the text itself or a mapping with `summary`. Raises InvalidInput naming what is wrong.
    """
    if not isinstance(given, Mapping):
        raise InvalidInput("summaries must be a mapping", hint=f"section names are {', '.join(SECTIONS)}")
    patch: dict[str, str] = {}
    for key, value in given.items():
        if key in ("user", "history") and isinstance(value, Mapping):
            patch.update(summary_patch(value))
            continue
        name = section_name(key)
        text = value.get("summary") if isinstance(value, Mapping) else value
        if isinstance(value, Section):
            text = value.summary
        if not isinstance(text, str):
            raise InvalidInput(f"summary {key} must be text", hint='give the text or {"summary": text}')
        patch[name] = check_text(text, f"summary {key}").strip()
    return patch
