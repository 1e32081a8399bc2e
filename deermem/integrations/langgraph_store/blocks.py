"""A `with` block that may be an `async with` block too."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")


class Block(Generic[T]):
    """As the context manager that it is made of; in `async with`, opening and closing keep no event loop waiting."""

    def __init__(self, block: AbstractContextManager[T, bool | None]) -> None:
        self._block = block

    def __enter__(self) -> T:
        return self._block.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> bool | None:
        return self._block.__exit__(kind, error, at)

    async def __aenter__(self) -> T:
        return await asyncio.to_thread(self._block.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> bool | None:
        return await asyncio.to_thread(self._block.__exit__, kind, error, at)
