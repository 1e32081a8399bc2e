"""A LangGraph store over an engine whose clock stands still."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deermem import DeerMem, Settings


@pytest.fixture
def engine(root: Path, clock: Any) -> Iterator[DeerMem]:
    """An engine without a cap, as the store asks for."""
    with DeerMem(root, Settings(max_facts=0), clock=clock) as opened:
        yield opened


@pytest.fixture
def store(engine: DeerMem) -> Any:
    """A store of the user alice."""
    pytest.importorskip("langgraph.store.base")
    from deermem.integrations.langgraph_store import DeerMemStore

    return DeerMemStore(engine, "alice")
