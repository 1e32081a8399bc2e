"""Settings: what can be set, its bounds, and where it comes from."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Final, Literal

from deermem.errors import InvalidInput

ROOT_VARIABLE: Final = "DEERMEM_DATA_DIR"
MAX_FACTS_VARIABLE: Final = "DEERMEM_MAX_FACTS"
MODEL_VARIABLE: Final = "DEERMEM_MODEL"
SETTINGS_VARIABLE: Final = "DEERMEM_SETTINGS"
_FACTORY_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_WHOLE_NUMBER = re.compile(r"[0-9]{1,6}")
_MANIFEST_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*\.json")
_TOLERANCE: Final = 1e-6
_log = logging.getLogger("deermem")

_BOUNDS: Final[dict[str, tuple[float, float]]] = {
    "file_lock_timeout_seconds": (0.0, 3600.0),
    "max_injection_tokens": (100, 8_000),
    "guaranteed_token_budget": (0, 8_000),
    "eviction_confidence_weight": (0, 1),
    "eviction_confirmation_weight": (0, 1),
    "eviction_access_weight": (0, 1),
    "eviction_confirmation_half_life_days": (1, 3650),
    "eviction_access_half_life_days": (1, 3650),
    "eviction_correction_reserved_fraction": (0, 1),
    "fact_confidence_threshold": (0, 1),
    "staleness_max_lifetime_multiplier": (1, 100),
    "debounce_seconds": (1, 300),
    "close_timeout_seconds": (0, 3600),
}
_WHOLE: Final[dict[str, tuple[int, int]]] = {
    "eviction_correction_reserved_max": (0, 100),
    "eviction_audit_max_entries": (0, 10_000),
    "staleness_age_days": (30, 365),
    "staleness_min_candidates": (1, 50),
    "staleness_max_removals_per_cycle": (1, 50),
    "staleness_max_extension_days": (90, 36_500),
    "consolidation_min_facts": (3, 30),
    "consolidation_max_groups_per_cycle": (1, 10),
    "consolidation_max_sources": (2, 20),
    "queue_max_depth": (0, sys.maxsize),
    "watermark_max_keys": (0, sys.maxsize),
}
_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "mode": ("middleware", "tool"),
    "token_counting": ("tiktoken", "char"),
    "fact_eviction_policy": ("confidence", "hybrid-v1"),
}
_WORD_LISTS: Final = ("guaranteed_categories", "staleness_protected_categories")
_FOLDERS: Final = ("root", "index_root", "prompts_dir", "patterns_dir")
_SWITCHES: Final = (
    "strict_user_scope",
    "fact_eviction_shadow_enabled",
    "staleness_review_enabled",
    "consolidation_enabled",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The language model that extracts facts, as LangChain's `init_chat_model` takes it.

    `model` is a name, "provider:name" where no `provider` is given. What is None is left to the provider and its own
    variables; without a provider, a `base_url` speaks OpenAI's protocol. The key is in no repr. Raises InvalidInput
    that names the setting and never shows the key.
    """

    model: str
    provider: str | None = None
    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = field(default=None, repr=False)
    temperature: float | None = None

    def __post_init__(self) -> None:
        for name in ("model", "provider", "api_key", "base_url"):
            value = getattr(self, name)
            if value is None and name != "model":
                continue
            # A line break that a key was pasted with would be named, and the key with it, by the HTTP library.
            if not isinstance(value, str) or not value.strip() or value != value.strip() or not value.isprintable():
                raise InvalidInput(f"setting model.{name} can't be used", hint="give one word of text, or leave it out")
        value = self.temperature
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 2:
            raise InvalidInput(f"setting model.temperature is {value!r:.60}", hint="give a number from 0 to 2")

    @classmethod
    def of(cls, given: object) -> ModelSettings | None:
        """From a name, or a mapping of the fields in which null is the default; None where it names nothing at all.

        Unknown keys are ignored with one warning.
        """
        if given is None or isinstance(given, cls):
            return given
        if isinstance(given, str):
            return cls(model=given)
        if not isinstance(given, Mapping):
            hint = 'give a name such as "openai:gpt-5-mini", or a mapping with model; a model itself goes to the engine'
            raise InvalidInput(f"setting model is {type(given).__name__}", hint=hint)
        known = {item.name for item in fields(cls)}
        unknown = sorted(str(key) for key in given if key not in known)
        if unknown:
            _log.warning("settings of model ignored because nothing is known of them: %s", ", ".join(unknown))
        kept = {key: value for key, value in given.items() if key in known and value not in (None, "")}
        if not kept:
            return None
        if "model" not in kept:
            raise InvalidInput(f"setting model has {', '.join(sorted(kept))} and no model", hint="name the model")
        return cls(**kept)

    @property
    def label(self) -> str:
        """The model's name with its provider's, for messages."""
        return f"{self.provider}:{self.model}" if self.provider else self.model

    @property
    def chosen_provider(self) -> str | None:
        """The provider; None where LangChain is to tell it from the model's name."""
        return self.provider or ("openai" if self.base_url and ":" not in self.model else None)

    def options(self) -> dict[str, str | float]:
        """What is set besides provider and model, by LangChain's names."""
        given = {"api_key": self.api_key, "base_url": self.base_url, "temperature": self.temperature}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an engine behaves; every bound is checked when one is made (InvalidInput names the setting).

    `root` None means $DEERMEM_DATA_DIR, else ~/.deermem. `max_facts` is per agent bucket, 0 for no limit.
    `retrieval_adapter` is "fts5", "" for substring search only, or "package.module:factory" for a retrieval of
    one's own (`docs/search.md`). `index_root` keeps the derived index outside the root. `mode` "tool" injects
    summaries only. `token_counting` "tiktoken" counts with it where its data is at hand; "char" always estimates.
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
    token_counting: Literal["tiktoken", "char"] = "tiktoken"
    guaranteed_categories: tuple[str, ...] = ("correction",)
    guaranteed_token_budget: int = 500
    fact_eviction_policy: Literal["confidence", "hybrid-v1"] = "confidence"
    fact_eviction_shadow_enabled: bool = False
    eviction_confidence_weight: float = 0.65
    eviction_confirmation_weight: float = 0.25
    eviction_access_weight: float = 0.10
    eviction_confirmation_half_life_days: float = 90
    eviction_access_half_life_days: float = 30
    eviction_correction_reserved_fraction: float = 0.10
    eviction_correction_reserved_max: int = 10
    eviction_audit_max_entries: int = 200
    staleness_review_enabled: bool = True
    staleness_age_days: int = 90
    staleness_min_candidates: int = 3
    staleness_max_removals_per_cycle: int = 10
    staleness_protected_categories: tuple[str, ...] = ("correction",)
    staleness_max_lifetime_multiplier: float = 20
    staleness_max_extension_days: int = 3650
    consolidation_enabled: bool = False
    consolidation_min_facts: int = 8
    consolidation_max_groups_per_cycle: int = 3
    consolidation_max_sources: int = 8
    fact_confidence_threshold: float = 0.7
    debounce_seconds: float = 30
    queue_max_depth: int = 1000
    watermark_max_keys: int = 4096
    close_timeout_seconds: float = 5
    model: ModelSettings | Mapping[str, object] | str | None = None
    prompts_dir: str | None = None
    patterns_dir: str | None = None

    def __post_init__(self) -> None:
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        _check_kinds(values)
        for name in _WORD_LISTS:
            object.__setattr__(self, name, _words(name, values[name]))
        for name in _FOLDERS:
            object.__setattr__(self, name, _folder(name, values[name]))
        object.__setattr__(self, "model", ModelSettings.of(self.model))
        weights = [values[f"eviction_{part}_weight"] for part in ("confidence", "confirmation", "access")]
        if abs(sum(weights) - 1) > _TOLERANCE:
            raise InvalidInput(
                f"settings eviction_confidence_weight, eviction_confirmation_weight and eviction_access_weight add up "
                f"to {sum(weights):g}",
                hint="let them add up to 1",
            )
        if isinstance(self.max_facts, bool) or not isinstance(self.max_facts, int):
            raise InvalidInput(f"setting max_facts is {self.max_facts!r}", hint="give a whole number")
        if not _is_cap(self.max_facts):
            raise InvalidInput(f"setting max_facts is {self.max_facts}", hint="give 0 (no limit) or 10 to 100000")
        if not isinstance(self.manifest_filename, str) or not _MANIFEST_NAME.fullmatch(self.manifest_filename):
            raise InvalidInput(
                f"setting manifest_filename is {self.manifest_filename!r}", hint="give a plain name that ends in .json"
            )
        if self.retrieval_adapter not in ("fts5", "") and not _names_a_factory(self.retrieval_adapter):
            hint = 'give "fts5", "", or "package.module:factory"'
            raise InvalidInput(f"setting retrieval_adapter is {self.retrieval_adapter!r}", hint=hint)

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Settings:
        """From a host's configuration: null means the default, unknown keys are ignored with one warning."""
        known = {item.name for item in fields(cls)}
        unknown = sorted(set(given) - known)
        if unknown:
            _log.warning("settings ignored because nothing is known of them: %s", _with_likely(unknown, known))
        kept = {key: value for key, value in given.items() if key in known and value is not None}
        return cls(**kept)  # type: ignore[arg-type]

    @classmethod
    def from_environment(cls, **given: object) -> Settings:
        """The settings that are given, else those of the file that $DEERMEM_SETTINGS names, in TOML.

        The command line's way. $DEERMEM_MAX_FACTS stands between the two. Raises InvalidInput that names the variable
        and the file. $DEERMEM_DATA_DIR counts with or without it.
        """
        given = {name: value for name, value in given.items() if value is not None}
        word = os.environ.get(MAX_FACTS_VARIABLE, "").strip()
        if word and "max_facts" not in given:
            if not (_WHOLE_NUMBER.fullmatch(word) and _is_cap(int(word))):
                hint = "give 0 (no limit) or a whole number from 10 to 100000, or unset it"
                raise InvalidInput(f"${MAX_FACTS_VARIABLE} is {word!r:.60}", hint=hint)
            given["max_facts"] = int(word)
        return cls.from_mapping({**_of_file(os.environ.get(SETTINGS_VARIABLE, "").strip()), **given})

    def resolved_root(self) -> str:
        """The absolute root folder; it need not exist."""
        chosen = self.root or os.environ.get(ROOT_VARIABLE) or os.path.join("~", ".deermem")
        return os.path.abspath(os.path.expanduser(chosen))


def checked(settings: object) -> Settings:
    """The settings that an engine is given, the default ones for None; raises InvalidInput for anything else."""
    if settings is None:
        return Settings()
    if isinstance(settings, Settings):
        return settings
    hint = "give Settings(…), or Settings.from_mapping(…) of a mapping"
    raise InvalidInput(f"settings is {type(settings).__name__}, not Settings", hint=hint)


def _with_likely(unknown: Iterable[str], known: Iterable[str]) -> str:
    """Each unknown name and, where one is meant that looks like it, that one."""
    import difflib

    names = sorted(known)
    meant = ((word, difflib.get_close_matches(str(word), names, n=1)) for word in unknown)
    return ", ".join(f"{word} (did you mean {match[0]}?)" if match else word for word, match in meant)


def _of_file(path: str) -> dict[str, object]:
    if not path:
        return {}
    import tomllib

    hint = "give the path of a TOML file with settings, such as max_facts = 500, or unset it"
    try:
        with open(os.path.expanduser(path), "rb") as file:
            found = tomllib.load(file)
    except OSError as error:
        raise InvalidInput(f"${SETTINGS_VARIABLE}: {path} can't be read: {error.strerror}", hint=hint) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"${SETTINGS_VARIABLE}: {path} is no TOML: {error}", hint=hint) from None
    if "root" in found:
        # Which store is meant is asked in many places, and never of a file.
        raise InvalidInput(f"{path} names a root", hint=f"name the store with --root or ${ROOT_VARIABLE}")
    return found


def model_from_environment() -> str | None:
    """The name in $DEERMEM_MODEL, for commands that ask a model. No engine reads it, or each would begin to ask."""
    return os.environ.get(MODEL_VARIABLE, "").strip() or None


def tokenizer_folder() -> str:
    """Where tiktoken keeps what it downloaded, by its own rules; "" where it is told to keep nothing."""
    for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if name in os.environ:
            return os.environ[name]
    import tempfile

    return os.path.join(tempfile.gettempdir(), "data-gym-cache")


def _check_kinds(values: Mapping[str, object]) -> None:
    for name, (low, high) in _BOUNDS.items():
        value = values[name]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise InvalidInput(f"setting {name} is {value!r:.60}", hint=f"give a number from {low:g} to {high:g}")
    for name, (least, most) in _WHOLE.items():
        value = values[name]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise InvalidInput(f"setting {name} is {value!r:.60}", hint=f"give a whole number from {least} to {most}")
    for name, words in _CHOICES.items():
        if values[name] not in words:
            hint = "give " + " or ".join(f'"{word}"' for word in words)
            raise InvalidInput(f"setting {name} is {values[name]!r:.60}", hint=hint)
    for name in _SWITCHES:
        if not isinstance(values[name], bool):
            raise InvalidInput(f"setting {name} is {values[name]!r:.60}", hint="give true or false")


def _words(name: str, given: object) -> tuple[str, ...]:
    hint = "give a list of category words"
    if isinstance(given, str):
        raise InvalidInput(f"setting {name} is a string", hint=hint)
    if not isinstance(given, Iterable):
        raise InvalidInput(f"setting {name} is {given!r:.60}", hint=hint)
    words = tuple(given)
    if not all(isinstance(word, str) for word in words):
        raise InvalidInput(f"setting {name} is {words!r:.60}", hint=hint)
    return words


def _folder(name: str, given: object) -> str | None:
    if given is None:
        return None
    path = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(path, str) or not path.strip() or "\0" in path:
        raise InvalidInput(f"setting {name} is {given!r:.60}", hint="give the path of a folder, or leave it out")
    return os.path.expanduser(path)


def _is_cap(number: int) -> bool:
    return number == 0 or 10 <= number <= 100_000


def _names_a_factory(name: object) -> bool:
    return isinstance(name, str) and _FACTORY_NAME.fullmatch(name) is not None
