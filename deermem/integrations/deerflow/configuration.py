"""DeerFlow's `backend_config`, whose names are those of its own DeerMem, as an engine's settings, model and hooks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from deermem.config import ModelSettings, Settings
from deermem.errors import InvalidInput
from deermem.extract.hooks import Hooks
from deermem.integrations.deerflow.observers import Observers

_log: Final = logging.getLogger("deermem")

HOOKS: Final = ("should_keep_hidden_message", "trace_context_manager", "extraction_callback")
"""The host's functions that may stand in a `backend_config`, or come beside it."""

_OF_THE_HOST: Final = frozenset({*HOOKS, "host_llm", "storage_path", "storage_class", "failure_policy", "model"})
_NAMED_ELSEWHERE: Final = frozenset({"root", "mode"})
"""Settings of ours that DeerFlow has another place for: `storage_path`, and `mode` beside `backend_config`."""
_OWN_STORAGE: Final = "FileMemoryStorage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What an engine is opened with. `model` None: that of the settings, if any."""

    settings: Settings
    model: object = None
    hooks: Hooks


def with_host_hooks(config: Mapping[str, Any], host_hooks: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with the host's functions in it; what it says itself counts.

    The host's own model is asked for only where the configuration names none.
    """
    merged = {name: host_hooks[name] for name in HOOKS if host_hooks.get(name) is not None}
    merged.update({name: value for name, value in config.items() if value is not None or name not in merged})
    if merged.get("host_llm") is None and _model(config.get("model")) is None:
        factory = host_hooks.get("host_llm_factory")
        merged["host_llm"] = host_hooks.get("host_llm") if factory is None else _function("host_llm_factory", factory)()
    return merged


def read(config: Mapping[str, Any], *, mode: Literal["middleware", "tool"], callbacks: object) -> Configuration:
    """Null is the default; unknown keys are ignored with one warning. Raises InvalidInput that names the key."""
    _check_storage(config.get("storage_class"))
    own = {_warned_of(name): value for name, value in config.items() if name not in _OF_THE_HOST}
    own["root"] = config.get("storage_path") or None
    own["mode"] = mode
    own["model"] = _model(config.get("model"))
    keep, trace, extracted = (_function(name, config.get(name)) for name in HOOKS)
    observers = Observers(callbacks, extracted)
    hooks = Hooks(
        should_keep_hidden_message=keep,
        on_model_call=observers.before_call,
        after_model_call=observers.after_call,
        on_extracted=observers.extracted,
        trace_context=trace,
    )
    return Configuration(settings=Settings.from_mapping(_as_numbers(own)), model=config.get("host_llm"), hooks=hooks)


def _warned_of(name: str) -> str:
    return f"backend_config.{name}" if name in _NAMED_ELSEWHERE else name


def _check_storage(name: object) -> None:
    # Somebody's memory lies elsewhere: an empty one in its place would look like a loss.
    if name and not str(name).endswith(_OWN_STORAGE):
        raise InvalidInput(
            f"backend_config.storage_class is {name!r:.80}, a storage that deermem does not have",
            hint="leave it out, and bring what lies there along with `deermem import`",
        )


def _model(given: object) -> ModelSettings | None:
    """The model that is named; None where none is, which leaves it to the host's own."""
    if not isinstance(given, Mapping):
        return ModelSettings.of(given)
    if not given.get("model"):
        return None
    named = {name: value for name, value in given.items() if value is not None}
    # DeerFlow takes a model without a provider for one of OpenAI's; LangChain would guess from the name.
    if not named.get("provider") and ":" not in str(named["model"]):
        named["provider"] = "openai"
    if isinstance(named.get("temperature"), str):
        named["temperature"] = _number(named["temperature"], float)
    return ModelSettings.of(named)


def _function(name: str, given: Any) -> Any:
    if given is not None and not callable(given):
        raise InvalidInput(f"backend_config.{name} is {type(given).__name__}", hint="give a function, in code")
    return given


def _as_numbers(given: Mapping[str, object]) -> dict[str, object]:
    """Numbers and switches that came as text, out of an environment variable, or as 100.0."""
    kinds = {item.name: type(item.default) for item in fields(Settings)}
    numeric = (bool, int, float)
    return {
        name: _number(value, kinds[name]) if kinds.get(name) in numeric and _is_text_or_number(value) else value
        for name, value in given.items()
    }


def _is_text_or_number(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _number(value: object, kind: type) -> object:
    from pydantic import TypeAdapter, ValidationError

    try:
        number: object = TypeAdapter(kind).validate_python(value)
    except ValidationError:
        # The settings name it, with its bounds.
        return value
    return number
