"""An engine on an empty root, and the handle that most tests use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from deermem import DeerMem, Memory


@pytest.fixture(autouse=True)
def unflushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here is about power cuts: waiting for the disk would only make them slow."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda descriptor: None)


@pytest.fixture
def engine(root: Path, clock) -> Iterator[DeerMem]:
    with DeerMem(root, clock=clock) as opened:
        yield opened


@pytest.fixture
def memory(engine: DeerMem) -> Memory:
    """Agent coder of user alice."""
    return engine.memory("alice", "coder")
