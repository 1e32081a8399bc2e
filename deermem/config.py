"""Settings: what can be set, its bounds, and where it comes from."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final, Literal

from deermem.errors import InvalidInput

ROOT_VARIABLE: Final = "DEERMEM_DATA_DIR"
MAX_FACTS_VARIABLE: Final = "DEERMEM_MAX_FACTS"
_FACTORY_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_WHOLE_NUMBER = re.compile(r"[0-9]{1,6}")
_MANIFEST_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*\.json")
_log = logging.getLogger("deermem")

_BOUNDS: Final[dict[str, tuple[float, float]]] = {
    "file_lock_timeout_seconds": (0.0, 3600.0),
    "max_injection_tokens": (100, 8_000),
    "guaranteed_token_budget": (0, 8_000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an engine behaves; every bound is checked when one is made (InvalidInput names the setting).

    `root` None means $DEERMEM_DATA_DIR, else ~/.deermem. `max_facts` is per agent bucket, 0 for no limit.
    `retrieval_adapter` is "fts5", "" for substring search only, or "package.module:factory" for a retrieval of
    one's own (`docs/search.md`). `index_root` keeps the derived index outside the root. `mode` "tool" injects
    summaries only.
    """

    root: str | None = None
    strict_user_scope: bool = False
    manifest_filename: str = "memory.json"
    file_lock_timeout_seconds: float = 10.0
    retrieval_adapter: str = "fts5"
    index_root: str | None = None
    max_facts: int = 100
    mode: Literal["middleware", "tool"] = "middleware"
    max_injection_tokens: int = 2_000
    guaranteed_categories: tuple[str, ...] = ("correction",)
    guaranteed_token_budget: int = 500

    def __post_init__(self) -> None:
        for name, (low, high) in _BOUNDS.items():
            value = {item.name: getattr(self, item.name) for item in fields(self)}[name]
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
                raise InvalidInput(f"setting {name} is {value!r}", hint=f"give a number from {low:g} to {high:g}")
        if isinstance(self.max_facts, bool) or not isinstance(self.max_facts, int):
            raise InvalidInput(f"setting max_facts is {self.max_facts!r}", hint="give a whole number")
        if not _is_cap(self.max_facts):
            raise InvalidInput(f"setting max_facts is {self.max_facts}", hint="give 0 (no limit) or 10 to 100000")
        if not _MANIFEST_NAME.fullmatch(self.manifest_filename):
            raise InvalidInput(
                f"setting manifest_filename is {self.manifest_filename!r}", hint="give a plain name that ends in .json"
            )
        if self.mode not in ("middleware", "tool"):
            raise InvalidInput(f"setting mode is {self.mode!r}", hint='give "middleware" or "tool"')
        if self.retrieval_adapter not in ("fts5", "") and not _names_a_factory(self.retrieval_adapter):
            hint = 'give "fts5", "", or "package.module:factory"'
            raise InvalidInput(f"setting retrieval_adapter is {self.retrieval_adapter!r}", hint=hint)
        if isinstance(self.guaranteed_categories, str):
            raise InvalidInput("setting guaranteed_categories is a string", hint="give a list of category words")
        object.__setattr__(self, "guaranteed_categories", tuple(self.guaranteed_categories))

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Settings:
        """From a host's configuration: null means the default, unknown keys are ignored with one warning."""
        known = {item.name for item in fields(cls)}
        unknown = sorted(set(given) - known)
        if unknown:
            _log.warning("settings ignored because nothing is known of them: %s", ", ".join(unknown))
        kept = {key: value for key, value in given.items() if key in known and value is not None}
        return cls(**kept)  # type: ignore[arg-type]

    @classmethod
    def from_environment(cls, **given: object) -> Settings:
        """The settings that are given, as `from_mapping` takes them; $DEERMEM_MAX_FACTS where `max_facts` is not.

        The command line's way. Raises InvalidInput that names the variable. $DEERMEM_DATA_DIR counts with or
        without it.
        """
        word = os.environ.get(MAX_FACTS_VARIABLE, "").strip()
        if word and given.get("max_facts") is None:
            if not (_WHOLE_NUMBER.fullmatch(word) and _is_cap(int(word))):
                hint = "give 0 (no limit) or a whole number from 10 to 100000, or unset it"
                raise InvalidInput(f"${MAX_FACTS_VARIABLE} is {word!r:.60}", hint=hint)
            given["max_facts"] = int(word)
        return cls.from_mapping(given)

    def resolved_root(self) -> str:
        """The absolute root folder; it need not exist."""
        chosen = self.root or os.environ.get(ROOT_VARIABLE) or os.path.join("~", ".deermem")
        return os.path.abspath(os.path.expanduser(chosen))


def _is_cap(number: int) -> bool:
    return number == 0 or 10 <= number <= 100_000


def _names_a_factory(name: object) -> bool:
    return isinstance(name, str) and _FACTORY_NAME.fullmatch(name) is not None
