"""Whose memory a run of an agent uses: what the run says of itself, and how user and agent are read from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config

from deermem.engine import DeerMem
from deermem.errors import InvalidInput
from deermem.memory import Memory


class _Runtime(Protocol):
    @property
    def context(self) -> object: ...


_TOOLS_NODE: Final = "tools:"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an agent, as far as it says whose it is: `context=` and `config["configurable"]` of the call."""

    context: object = None
    configurable: Mapping[str, object] = field(default_factory=dict)

    def value(self, key: str) -> object:
        """What the context has under this name, as an attribute or a key, else what is configurable; None for none."""
        own = self.context.get(key) if isinstance(self.context, Mapping) else getattr(self.context, key, None)
        return self.configurable.get(key) if own is None else own

    @property
    def thread_id(self) -> str | None:
        """The conversation's id; None where the call gave none."""
        return as_text(self.configurable.get("thread_id"), "thread_id")


@dataclass(frozen=True, slots=True)
class FromRun:
    """Reads a name from each run by its key; raises InvalidInput where it is `required` and the run has none."""

    key: str
    required: bool = True

    def __call__(self, run: Run) -> object:
        """The value; None where there is none and none is needed."""
        found = run.value(self.key)
        if found is None and self.required:
            raise InvalidInput(f"the run says no {self.key}", hint=_HINT.format(key=self.key))
        return found


Named: TypeAlias = str | Callable[[Run], object] | None
"""One for all runs (None: the no-user root, or the default bucket), or how to read it from a run."""

USER_ID: Final = FromRun("user_id")
AGENT_NAME: Final = FromRun("agent_name", required=False)
_HINT: Final = (
    "pass context with {key} or config={{'configurable': {{'{key}': …}}}} to the agent's call, or give {key}=… for all "
    "runs, where None is the memory of no user"
)


@dataclass(frozen=True, slots=True)
class Whose:
    """Finds the memory of a run."""

    engine: DeerMem
    user_id: Named = USER_ID
    agent_name: Named = AGENT_NAME

    def __post_init__(self) -> None:
        """Raises InvalidInput for what is no engine, and a fixed name that can't be, before any run fails for it."""
        if not isinstance(self.engine, DeerMem):
            raise InvalidInput(f"engine is {type(self.engine).__name__}", hint="give a DeerMem")
        user = "-" if callable(self.user_id) else as_text(self.user_id, "user_id")
        self.engine.memory(user, None if callable(self.agent_name) else as_text(self.agent_name, "agent_name"))

    def memory(self, run: Run) -> Memory:
        """The handle. Touches no file; raises InvalidInput for a run without a user, and for a name that can't be."""
        user = as_text(_of(self.user_id, run), "user_id")
        if user is None and self.user_id is not None:
            raise InvalidInput("user_id is None for this run", hint="only user_id=None asks for the memory of no user")
        return self.engine.memory(user, as_text(_of(self.agent_name, run), "agent_name"))


def run_of(runtime: _Runtime | None, config: RunnableConfig | None = None) -> Run:
    """The run that a hook (or a tool, which has its `config`) is called in; outside of an agent there is no runtime."""
    found = _current() if config is None else config
    return Run(None if runtime is None else runtime.context, found.get("configurable") or {})


def called_by_a_tool(run: Run) -> bool:
    """Whether a tool of another agent runs this one, so that what is said to it are the words of a model.

    LangGraph names the nodes that a run is in, from the outermost on, as `node:id|node:id`.
    """
    *outer, _own = str(run.configurable.get("checkpoint_ns") or "").split("|")
    return any(node.startswith(_TOOLS_NODE) for node in outer)


def as_text(value: object, name: str) -> str | None:
    """An id as text: numbers and UUIDs are common keys of users. Raises InvalidInput for anything else."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | UUID) and not isinstance(value, bool):
        return str(value)
    raise InvalidInput(f"{name} is {type(value).__name__}", hint="give text, a whole number or a UUID")


def _of(named: Named, run: Run) -> object:
    return named(run) if callable(named) else named


def _current() -> RunnableConfig:
    try:
        return get_config()
    except RuntimeError:
        # A hook called by hand, outside of any run.
        return RunnableConfig()
