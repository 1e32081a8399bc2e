"""The manager class, made on whichever MemoryManager is there."""

from __future__ import annotations

import importlib
import types
from typing import Final

from deermem.integrations.deerflow.methods import HostTypes, ManagerMethods

_CONTRACT: Final = "deerflow.agents.memory.manager"
_PATHS: Final = "deerflow.config.runtime_paths"


def installed_host() -> HostTypes:
    """The contract of the DeerFlow that is installed; raises ImportError that says what is missing."""
    try:
        contract = vars(importlib.import_module(_CONTRACT))
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"DeerMemManager needs DeerFlow, whose module {_CONTRACT} can't be imported ({error}); "
            "name it as manager_class in the configuration of a DeerFlow that has deermem beside it",
            name=error.name,
        ) from error
    names = ("MemoryManager", "MemoryConflictError", "MemoryCorruptionError")
    missing = [name for name in names if not isinstance(contract.get(name), type)]
    if missing:
        raise ImportError(f"this DeerFlow's {_CONTRACT} has no {', '.join(missing)}; use one that has", name=_CONTRACT)
    manager, conflict, corruption = (contract[name] for name in names)
    return HostTypes(manager, conflict, corruption, _home)


def _home() -> str:
    """The folder below which DeerFlow itself puts a relative `storage_path`."""
    return str(vars(importlib.import_module(_PATHS))["runtime_home"]())


def manager_class(host: HostTypes) -> type[ManagerMethods]:
    """A subclass of the host's MemoryManager with the methods of `ManagerMethods`."""
    from pydantic import ConfigDict, PrivateAttr

    # What pydantic doesn't see as a model's own namespace, it doesn't take for a field.
    methods = type("_BoundMethods", (ManagerMethods,), {"host_types": host})

    def fill(namespace: dict[str, object]) -> None:
        namespace.update(
            __module__=ManagerMethods.__module__.rpartition(".")[0],
            __doc__=ManagerMethods.__doc__,
            # A validation error shows its input, and the configuration holds a model's key.
            model_config=ConfigDict(hide_input_in_errors=True),
            model_post_init=ManagerMethods.model_post_init,
            _engine=PrivateAttr(),
            _captured=PrivateAttr(),
            _flushed=PrivateAttr(default=False),
        )

    made: type[ManagerMethods] = types.new_class("DeerMemManager", (methods, host.manager), {}, fill)
    return made
