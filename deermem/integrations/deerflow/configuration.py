"""DeerFlow's `backend_config`, whose names are those of its own DeerMem, as an engine's settings, model and hooks."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping
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
_POLICIES: Final = {"read": ("fail_open", "fail_closed"), "write": ("log_and_drop",)}
"""DeerFlow's words for a memory that fails: a prompt goes on without it or not, an agent's turn goes on."""
_EMPTY_IS_DEFAULT: Final = ("patterns_dir", "prompts_dir")
_NOT_IN_A_NAME = re.compile("[.:]")
_PROVIDERS: Final = frozenset(
    (
        *("anthropic", "anthropic_bedrock", "azure_ai", "azure_openai", "baseten", "bedrock", "bedrock_converse"),
        *("bedrock_mantle_anthropic", "bedrock_mantle_openai", "cohere", "deepseek", "fireworks", "google_genai"),
        *("google_anthropic_vertex", "google_vertexai", "groq", "huggingface", "ibm", "langsmith", "litellm", "meta"),
        *("mistralai", "nvidia", "ollama", "openai", "openrouter", "perplexity", "together", "upstage", "xai"),
    )
)
"""What LangChain takes for a provider before a colon; else it is part of the name, as in `qwen2.5:7b`."""


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
    if merged.get("host_llm") is None:
        named = _model(config.get("model"))
        if named is not None:
            # Read once, or what it can't use would be warned of twice.
            return {**merged, "model": named}
        factory = host_hooks.get("host_llm_factory")
        merged["host_llm"] = host_hooks.get("host_llm") if factory is None else _function("host_llm_factory", factory)()
    return merged


def read(
    config: Mapping[str, Any],
    *,
    mode: Literal["middleware", "tool"],
    callbacks: object,
    home: Callable[[], str] | None = None,
) -> Configuration:
    """Null is the default; unknown keys are ignored with one warning. `home` gives the host's folder.

    Raises InvalidInput that names the key.
    """
    _check_storage(config.get("storage_class"))
    own = {_warned_of(name): value for name, value in config.items() if name not in _OF_THE_HOST}
    own["root"] = _text(config, "storage_path") or None
    own.update(_unknown_policies(config.get("failure_policy")))
    own.update({name: None for name in _EMPTY_IS_DEFAULT if own.get(name) == ""})
    own["manifest_filename"] = _text(config, "manifest_filename")
    own["index_root"] = _below_home(_text(config, "index_root"), home)
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
    if name and name != "file" and _NOT_IN_A_NAME.split(str(name))[-1] != _OWN_STORAGE:
        raise InvalidInput(
            f"backend_config.storage_class is {name!r:.80}, a storage that deermem does not have",
            hint='give "file", or leave it out; an export of DeerFlow\'s settings page takes along what lies elsewhere',
        )


def _unknown_policies(given: object) -> dict[str, object]:
    """What of a `failure_policy` nothing is known of, by names that a warning can show."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidInput(f"backend_config.failure_policy is {given!r:.60}", hint="give a mapping with read or write")
    policies = dict(given or {})
    for name, known in _POLICIES.items():
        value = policies.pop(name, None)
        if value is not None and value not in known:
            # DeerFlow takes every other word for fail_open, and memory would be missing without a word.
            hint = f"give {' or '.join(known)}, or leave it out"
            raise InvalidInput(f"backend_config.failure_policy.{name} is {value!r:.60}", hint=hint)
    return {f"failure_policy.{name}": value for name, value in policies.items()}


def _below_home(path: str | None, home: Callable[[], str] | None) -> str | None:
    """A relative path is below the host's home, as `storage_path` is: nobody sees what folder a service runs in."""
    if not path:
        return None
    full = os.path.expanduser(path)
    if os.path.isabs(full):
        return full
    try:
        if home is not None:
            return os.path.abspath(os.path.join(home(), full))
    except (ImportError, KeyError):
        _log.debug("this DeerFlow does not say where its home is")
    raise InvalidInput(f"backend_config.index_root is {path!r:.80}, which is relative", hint="give an absolute path")


def _text(config: Mapping[str, Any], name: str) -> str | None:
    """A path or a file's name; raises InvalidInput for what the system would refuse without a word of which key."""
    given = config.get(name)
    text = os.fspath(given) if isinstance(given, os.PathLike) else given
    if text is not None and (not isinstance(text, str) or "\0" in text):
        raise InvalidInput(f"backend_config.{name} is {given!r:.80}", hint="give text, or leave it out")
    return text


def _model(given: object) -> ModelSettings | None:
    """The model that is named; None where none is, which leaves it to the host's own."""
    if not isinstance(given, Mapping):
        return ModelSettings.of(given)
    if not given.get("model"):
        return None
    named = {name: value for name, value in given.items() if value is not None}
    # DeerFlow takes a model without a provider for one of OpenAI's; LangChain would guess from the name.
    prefix, colon, _ = str(named["model"]).partition(":")
    if not named.get("provider") and not (colon and prefix in _PROVIDERS):
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
