"""Which retrieval the settings ask for; what is not asked for is not loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deermem.config import Settings

if TYPE_CHECKING:
    from deermem.service.ports import Adapter
    from deermem.store.layout import UserPaths


def adapters(settings: Settings) -> Callable[[UserPaths], Adapter | None]:
    """Makes each user's retrieval of the settings; None for the built-in one, and for none at all.

    Raises InvalidInput for a factory that can't be imported.
    """
    if settings.retrieval_adapter in ("fts5", ""):
        return lambda _: None
    from deermem.service.retrieval import AdapterRetrieval, load_factory

    factory = load_factory(settings.retrieval_adapter)
    return lambda paths: AdapterRetrieval(factory, paths, settings)
