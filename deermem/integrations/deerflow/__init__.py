"""DeerFlow's memory kept by deermem: `manager_class: deermem.integrations.deerflow:DeerMemManager` is all it takes.

`DeerMemManager` subclasses the MemoryManager of the DeerFlow that is installed, so it is made when it is first asked
for; this module loads without DeerFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deermem.integrations.deerflow.methods import ManagerMethods as DeerMemManager

__all__ = ["DeerMemManager"]


def __getattr__(name: str) -> object:
    if name != "DeerMemManager":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from deermem.integrations.deerflow.binding import installed_host, manager_class

    found = manager_class(installed_host())
    globals()[name] = found
    return found
