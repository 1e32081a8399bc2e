"""Tests on whole stores of other programs."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def unflushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here is about power cuts: waiting for the disk would only make them slow."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda descriptor: None)
