"""Flushes wait for the disk, not for each other: many of them go side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

_FROM: Final = 8
_WORKERS: Final = 8
T = TypeVar("T")


def for_each(work: Callable[[T], object], items: Sequence[T]) -> None:
    """Does the work for every item, a few in turn, many in threads; the first error is raised when all have ended."""
    if len(items) < _FROM:
        for item in items:
            work(item)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_WORKERS) as pool:
        # Runs of items, not single ones: handing over costs as much as a quick flush.
        size = max(1, min(64, len(items) // (_WORKERS * 4)))
        runs = [items[start : start + size] for start in range(0, len(items), size)]
        for _ in pool.map(lambda run: [work(item) for item in run], runs):
            pass
