"""Nothing here is about power cuts: waiting for the disk would only make these tests slow."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def unflushed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda descriptor: None)
