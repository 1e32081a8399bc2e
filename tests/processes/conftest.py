"""Processes that are ended and closed whatever becomes of the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from process_tools import Worker


@pytest.fixture
def start() -> Iterator[Callable[..., Worker]]:
    """Starts a worker: `start("add", root=str(root), …)`."""
    with ExitStack() as stack:
        yield lambda verb, **arguments: stack.enter_context(Worker(verb, **arguments))
