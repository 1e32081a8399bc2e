"""What `model`, `prompts_dir` and `patterns_dir` may be."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from deermem import InvalidInput, Settings
from deermem.config import ModelSettings

KEY = "sk-not-a-real-key-1234567890"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (None, None),
        ({}, None),
        ({"provider": None, "model": "", "api_key": None}, None),
        ("openai:small", ModelSettings(model="openai:small")),
        ({"model": "small", "temperature": 0}, ModelSettings(model="small", temperature=0)),
        (ModelSettings(model="small"), ModelSettings(model="small")),
    ],
)
def test_a_model_is_a_name_or_a_mapping(given: object, meant: ModelSettings | None):
    assert Settings(model=given).model == meant  # type: ignore[arg-type]
    assert Settings.from_mapping({"model": given}).model == meant


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (3, "setting model is int"),
        ([KEY], "setting model is list"),
        ("", "setting model.model"),
        ({"provider": "openai", "api_key": KEY}, "setting model has api_key, provider and no model"),
        ({"model": 4}, "setting model.model"),
        ({"model": "a", "api_key": f"{KEY}\n"}, "setting model.api_key"),
        ({"model": "a", "api_key": f"{KEY[:5]}\x00{KEY[5:]}"}, "setting model.api_key"),
        ({"model": "a", "api_key": [KEY]}, "setting model.api_key"),
        ({"model": "a", "temperature": "hot"}, "setting model.temperature"),
        ({"model": "a", "temperature": True}, "setting model.temperature"),
        ({"model": "a", "temperature": float("nan")}, "setting model.temperature"),
    ],
)
def test_what_is_no_model_is_named_without_its_key(given: object, named: str):
    with pytest.raises(InvalidInput) as caught:
        Settings(model=given)  # type: ignore[arg-type]
    assert named in str(caught.value)
    assert KEY[:5] not in str(caught.value)


def test_unknown_keys_of_a_model_are_ignored_with_a_warning(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "deermem"):
        assert ModelSettings.of({"model": "a", "api_kee": KEY}) == ModelSettings(model="a")
    assert "api_kee" in caplog.text
    assert KEY not in caplog.text


@pytest.mark.parametrize("name", ["prompts_dir", "patterns_dir"])
def test_folders_are_text_or_paths_and_a_tilde_is_the_home(guarded_home: Path, name: str):
    assert Settings(**{name: "~/own"}) == Settings(**{name: guarded_home / "own"})  # type: ignore[arg-type]
    for wrong in ("", " ", 3, "a\0b", ["x"]):
        with pytest.raises(InvalidInput, match=f"setting {name} is "):
            Settings(**{name: wrong})  # type: ignore[arg-type]
