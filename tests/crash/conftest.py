"""A place in memory for the thousands of small stores that the crash tests make."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deermem.store import inotify


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """An empty folder, in memory where the system has such a file system."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="deermem-crash-", dir=memory))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def no_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of engines for a moment each: giving a kernel watch back costs more than all else."""
    monkeypatch.setattr(inotify, "MAX_WATCHERS", 0)
