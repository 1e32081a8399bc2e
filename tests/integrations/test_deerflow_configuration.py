"""DeerFlow's `backend_config`: every name of its own DeerMem means what it means there."""

from __future__ import annotations

import importlib
import logging
import sys
import types
from pathlib import Path
from typing import Any

import deerflow_double
import pytest
from deerflow_stage import Manager, Scripted, opened

import deermem.integrations.deerflow
from deermem.config import ModelSettings

FULL: dict[str, Any] = {
    "storage_class": "file",
    "strict_user_scope": False,
    "manifest_filename": "memory.json",
    "file_lock_timeout_seconds": 10,
    "retrieval_adapter": "fts5",
    "debounce_seconds": 30,
    "queue_max_depth": 1000,
    "max_facts": 100,
    "fact_eviction_policy": "confidence",
    "fact_eviction_shadow_enabled": False,
    "eviction_confidence_weight": 0.65,
    "eviction_confirmation_weight": 0.25,
    "eviction_access_weight": 0.1,
    "eviction_confirmation_half_life_days": 90,
    "eviction_access_half_life_days": 30,
    "eviction_correction_reserved_fraction": 0.1,
    "eviction_correction_reserved_max": 10,
    "eviction_audit_max_entries": 200,
    "fact_confidence_threshold": 0.7,
    "max_injection_tokens": 2000,
    "token_counting": "tiktoken",
    "guaranteed_categories": ["correction"],
    "guaranteed_token_budget": 500,
    "staleness_review_enabled": True,
    "staleness_age_days": 90,
    "staleness_min_candidates": 3,
    "staleness_max_removals_per_cycle": 10,
    "staleness_protected_categories": ["correction"],
    "staleness_max_lifetime_multiplier": 20.0,
    "staleness_max_extension_days": 3650,
    "consolidation_enabled": False,
    "consolidation_min_facts": 8,
    "consolidation_max_groups_per_cycle": 3,
    "consolidation_max_sources": 8,
    "watermark_max_keys": 4096,
    "patterns_dir": "",
    "prompts_dir": "",
    "model": None,
}
"""Every key with the value that DeerFlow's example configuration has, or tells of in a comment.

`storage_path` is empty there; DeerFlow puts its home in the place of it.
"""

ALTERNATIVES: list[tuple[str, Any]] = [
    ("storage_class", ""),
    ("storage_class", "deerflow.somewhere.storage.FileMemoryStorage"),
    ("strict_user_scope", True),
    ("retrieval_adapter", ""),
    ("queue_max_depth", 0),
    ("watermark_max_keys", 0),
    ("fact_eviction_policy", "hybrid-v1"),
    ("fact_eviction_shadow_enabled", True),
    ("eviction_audit_max_entries", 0),
    ("token_counting", "char"),
    ("guaranteed_categories", []),
    ("staleness_review_enabled", False),
    ("staleness_protected_categories", []),
    ("consolidation_enabled", True),
    ("model", {"provider": None, "model": None, "api_key": None, "base_url": None, "temperature": None}),
    ("failure_policy", {"read": "fail_closed"}),
    ("failure_policy", {"read": "fail_open", "write": "log_and_drop"}),
    ("failure_policy", {}),
]


def settings_of(root: Path, **config: Any) -> Any:
    with opened(root, **config) as manager:
        return manager.engine.settings


def test_a_whole_configuration_of_deerflow_opens_without_a_word(root: Path, caplog: pytest.LogCaptureFixture):
    """15"""
    with caplog.at_level(logging.WARNING):
        settings = settings_of(root, **FULL)
        settings_of(root, **dict.fromkeys(FULL))
        for name, value in ALTERNATIVES:
            settings_of(root, **{**FULL, name: value})
        assert settings_of(root, storage_path=root, index_root=root / "index").root == str(root)
    assert caplog.messages == []
    assert (settings.root, settings.mode, settings.fact_eviction_policy) == (str(root), "middleware", "confidence")
    assert settings.guaranteed_categories == ("correction",)
    assert settings.model is None


def test_every_bound_of_deerflow_is_within_ours(root: Path):
    lowest = {"debounce_seconds": 1, "max_facts": 10, "max_injection_tokens": 100, "guaranteed_token_budget": 50}
    highest = {
        "debounce_seconds": 300,
        "max_facts": 500,
        "max_injection_tokens": 8000,
        "file_lock_timeout_seconds": 120,
    }
    assert settings_of(root, **lowest).max_facts == 10
    assert settings_of(root, **highest).max_facts == 500


def test_unknown_keys_are_ignored_with_one_warning(root: Path, caplog: pytest.LogCaptureFixture):
    """15"""
    with caplog.at_level(logging.WARNING):
        given = {"storage_path": str(root), "storage_pat": "/elsewhere", "top_kk": 3, "root": "/else", "mode": "tool"}
        given["failure_policy"] = {"reed": "fail_closed"}
        manager = Manager.from_config(given)
        settings = manager.engine.settings
        manager.close()
    (warning,) = caplog.messages
    for name in ("storage_pat", "top_kk", "backend_config.root", "backend_config.mode", "failure_policy.reed"):
        assert name in warning
    assert (settings.root, settings.mode) == (str(root), "middleware")


@pytest.mark.parametrize(
    ("name", "given", "read"),
    [
        ("max_facts", "200", 200),
        ("max_facts", 200.0, 200),
        ("debounce_seconds", "5", 5),
        ("fact_confidence_threshold", "0.5", 0.5),
        ("consolidation_enabled", "true", True),
        ("strict_user_scope", 0, False),
        ("eviction_access_half_life_days", 45.5, 45.5),
    ],
)
def test_numbers_out_of_an_environment_variable_count(root: Path, name: str, given: object, read: object):
    assert vars_of(settings_of(root, **{name: given}))[name] == read


def vars_of(settings: Any) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__slots__}


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("max_facts", 3, "max_facts"),
        ("max_facts", "many", "max_facts"),
        ("token_counting", "guess", "token_counting"),
        ("guaranteed_categories", "correction", "guaranteed_categories"),
        ("eviction_access_weight", 0.5, "add up"),
        ("retrieval_adapter", "somebody.elses.factory", "retrieval_adapter"),
        ("storage_class", "somebody.elses.Storage", "storage_class"),
        ("storage_class", "mine.EncryptedFileMemoryStorage", "storage_class"),
        ("storage_class", "mine.file", 'give "file", or leave it out; an export'),
        ("failure_policy", {"read": "x"}, "failure_policy.read is 'x'; give fail_open or fail_closed"),
        ("failure_policy", {"read": "raise"}, "failure_policy.read"),
        ("failure_policy", {"write": "raise"}, "failure_policy.write is 'raise'; give log_and_drop"),
        ("failure_policy", "fail_closed", "failure_policy"),
        ("index_root", "index", "index_root is 'index', which is relative; give an absolute path"),
        ("storage_path", 5, "storage_path"),
        ("storage_path", 0, "storage_path"),
        ("storage_path", "a\0b", "storage_path"),
        ("index_root", ["x"], "index_root"),
        ("manifest_filename", 5, "manifest_filename"),
        ("extraction_callback", "print", "extraction_callback"),
        ("patterns_dir", "/no/such/folder", "patterns"),
        ("prompts_dir", "/no/such/folder", "prompts"),
        ("model", {"model": "m", "temperature": "hot"}, "temperature"),
        ("host_llm", 5, "model"),
    ],
)
def test_what_can_not_be_used_is_named_when_the_host_starts(root: Path, name: str, value: object, told: str):
    with pytest.raises(ValueError, match=told), opened(root, **{name: value}):
        pass


def test_a_file_as_storage_path_is_refused_and_no_key_is_shown(tmp_path: Path):
    """14"""
    file = tmp_path / "memory.json"
    file.write_text("{}")
    model = {"model": "m", "api_key": "sk-secret"}
    with pytest.raises(ValueError, match=r"memory\.json") as refused:
        Manager.from_config({"storage_path": str(file), "model": model})
    assert "secret" not in str(refused.value)
    manager = Manager.from_config({"storage_path": str(tmp_path / "store"), "model": model})
    assert "secret" not in f"{manager!r} {manager}"
    assert manager.backend_config["model"] == model
    manager.close()


def test_without_a_path_the_usual_root_is_taken(guarded_home: Path):
    """1"""
    for given in (None, {}, {"storage_path": ""}, {"storage_path": None}):
        manager = Manager.from_config(given)
        assert manager.engine.root == guarded_home / "data"
        assert manager.backend_config == (given or {})
        manager.close()
    manager = Manager()
    assert (manager.mode, manager.engine.root) == ("middleware", guarded_home / "data")
    manager.close()


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"model": "qwen-max"}, ModelSettings(model="qwen-max", provider="openai")),
        ({"model": "claude-x", "provider": "anthropic"}, ModelSettings(model="claude-x", provider="anthropic")),
        ({"model": "openai:gpt-5", "temperature": "0.2"}, ModelSettings(model="openai:gpt-5", temperature=0.2)),
        ({"model": "mistral:7b"}, ModelSettings(model="mistral:7b", provider="openai")),
        ({"model": "ft:gpt-4o:acme::1"}, ModelSettings(model="ft:gpt-4o:acme::1", provider="openai")),
    ],
)
def test_a_model_that_is_named_is_used_and_the_hosts_own_never_built(root: Path, given: Any, read: ModelSettings):
    def built() -> object:
        raise AssertionError("the host's model was built")

    with opened(root, model=given, hooks={"host_llm_factory": built}) as manager:
        assert manager.engine.settings.model == read


def test_an_unknown_key_of_the_model_is_warned_of_once(root: Path, caplog: pytest.LogCaptureFixture):
    """15"""
    config = {"model": {"model": "m", "tempreature": 0}}
    with opened(root, **config) as manager:
        assert manager.engine.settings.model == ModelSettings(model="m", provider="openai")
        assert manager.backend_config["model"] == config["model"]
    (warning,) = caplog.messages
    assert "tempreature" in warning


@pytest.mark.parametrize("given", [None, {}, {"model": None}, {"model": "", "provider": "openai", "temperature": 0}])
def test_without_a_name_the_hosts_model_is_asked(root: Path, given: object):
    built: list[Scripted] = []

    def factory() -> Scripted:
        built.append(Scripted())
        return built[-1]

    with opened(root, model=given, hooks={"host_llm_factory": factory}) as manager:
        assert manager.engine.settings.model is None
    assert len(built) == 1


# --- the lazy class


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The module as a process has it that has not asked for the class yet."""
    module = deermem.integrations.deerflow
    monkeypatch.delitem(vars(module), "DeerMemManager", raising=False)
    return module


def installed(monkeypatch: pytest.MonkeyPatch, contract: types.ModuleType) -> None:
    """A DeerFlow that consists of its memory contract."""
    for name in ("deerflow", "deerflow.agents", "deerflow.agents.memory"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "deerflow.agents.memory.manager", contract)


def test_the_host_finds_a_subclass_of_its_own_base(
    fresh: types.ModuleType, monkeypatch: pytest.MonkeyPatch, root: Path
):
    installed(monkeypatch, deerflow_double)
    found = getattr(importlib.import_module("deermem.integrations.deerflow"), "DeerMemManager", None)
    assert isinstance(found, type)
    assert issubclass(found, deerflow_double.MemoryManager)
    assert fresh.DeerMemManager is found
    with pytest.raises(ValueError, match="give an absolute path"):
        found.from_config({"storage_path": str(root), "index_root": "index"})  # type: ignore[attr-defined]
    paths = types.ModuleType("deerflow.config.runtime_paths")
    paths.runtime_home = lambda: root.parent  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "deerflow.config", types.ModuleType("deerflow.config"))
    monkeypatch.setitem(sys.modules, paths.__name__, paths)
    manager = found.from_config({"storage_path": str(root), "index_root": "index"}, mode="tool")  # type: ignore[attr-defined]
    assert manager.get_memory()["facts"] == []
    assert manager.engine.settings.index_root == str(root.parent / "index")
    manager.close()


def test_without_deerflow_it_says_what_is_missing(fresh: types.ModuleType, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "deerflow", None)
    with pytest.raises(ImportError, match="needs DeerFlow"):
        from deermem.integrations.deerflow import DeerMemManager  # noqa: F401
    with pytest.raises(AttributeError, match="no_such_name"):
        fresh.no_such_name  # noqa: B018


def test_a_deerflow_without_the_contract_is_named(fresh: types.ModuleType, monkeypatch: pytest.MonkeyPatch):
    older = types.ModuleType("deerflow.agents.memory.manager")
    older.MemoryManager = deerflow_double.MemoryManager  # type: ignore[attr-defined]
    installed(monkeypatch, older)
    with pytest.raises(ImportError, match="MemoryConflictError, MemoryCorruptionError"):
        fresh.DeerMemManager  # noqa: B018
