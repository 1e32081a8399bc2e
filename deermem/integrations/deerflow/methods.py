"""The methods of DeerFlow's MemoryManager, each one a short way to the engine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

from deermem.engine import DeerMem
from deermem.errors import (
    Conflict,
    Corruption,
    DeerMemError,
    DuplicateFact,
    FactNotFound,
    InvalidInput,
    MigrationError,
    NotStored,
)
from deermem.integrations.deerflow.captured import Captured
from deermem.integrations.deerflow.configuration import read, with_host_hooks
from deermem.integrations.deerflow.documents import completed, host_document, host_fact
from deermem.memory import Memory
from deermem.model.fact import DEFAULT_CATEGORY, check_confidence, check_id

_log: Final = logging.getLogger("deermem")


@dataclass(frozen=True, slots=True)
class HostTypes:
    """The host's contract: the base class of managers, and the errors that its callers know; `home` says its folder."""

    manager: type
    conflict: type[Exception]
    corruption: type[Exception]
    home: Callable[[], str] | None = None


class ManagerMethods:
    """DeerFlow's memory, kept by deermem as Markdown files.

    `backend_config` has the names of DeerFlow's own DeerMem. Raises ValueError that names the key which can't be used.
    """

    supports_search: ClassVar[bool] = True
    host_types: ClassVar[HostTypes]

    if TYPE_CHECKING:
        backend_config: dict[str, Any]
        mode: Literal["middleware", "tool"]
        callbacks: object
        _engine: DeerMem
        _captured: Captured
        _flushed: bool

        def __init__(self, **fields: object) -> None: ...

    @classmethod
    def from_config(
        cls,
        backend_config: Mapping[str, Any] | None = None,
        *,
        mode: Literal["middleware", "tool"] = "middleware",
        **host_hooks: Any,
    ) -> Self:
        """As the host's factory calls it: its functions come beside the configuration, and stay out of it."""
        given = dict(backend_config or {})
        config = with_host_hooks(given, host_hooks)
        manager = cls(backend_config=config, mode=mode, callbacks=host_hooks.get("callbacks"))
        manager.backend_config = given
        return manager

    def model_post_init(self, context: Any, /) -> None:  # noqa: ARG002 - pydantic's signature
        """Opens the engine."""
        found = read(self.backend_config, mode=self.mode, callbacks=self.callbacks, home=self.host_types.home)
        self._engine = DeerMem(settings=found.settings, model=found.model, hooks=found.hooks)
        self._captured = Captured(found.hooks.keep_hidden())

    def __repr_args__(self) -> list[tuple[str, object]]:
        # The configuration holds a model's key.
        return [("root", str(self._engine.root)), ("mode", self.mode)]

    @property
    def engine(self) -> DeerMem:
        """The engine itself, for all that DeerFlow's contract has no name for."""
        return self._engine

    # --- conversations

    def add(
        self,
        thread_id: str,
        messages: list[Any],
        *,
        agent_name: str | None = None,
        user_id: str | None = None,
        trace_id: str | None = None,
    ) -> None:
        """Queues a conversation. What can't be queued is logged and comes again with the next turn."""
        memory = self._memory(user_id, agent_name)
        with _without_failing(thread_id):
            if memory.capture(messages, thread_id, trace_id=trace_id):
                self._captured.note(memory.scope, thread_id, messages)

    def add_nowait(
        self, thread_id: str, messages: list[Any], *, agent_name: str | None = None, user_id: str | None = None
    ) -> None:
        """Extracts at once what the host is about to drop, but for what `add` queued, where none of that waits."""
        memory = self._memory(user_id, agent_name)
        with _without_failing(thread_id):
            waits = self._waits(memory, thread_id)
            lost = list(messages) if waits else self._captured.beyond(memory.scope, thread_id, messages)
            if lost:
                memory.capture_now(lost, thread_id)

    def _waits(self, memory: Memory, thread_id: str) -> bool:
        user_id, agent = memory.scope.user_id, memory.scope.agent
        waiting = self._engine.waiting(user_id)
        return any((item.user_id, item.agent, item.thread_id) == (user_id, agent, thread_id) for item in waiting)

    def shutdown_flush(self, timeout: float) -> bool:
        """Extracts all that waits, `timeout` seconds at most; what was not done by then is on disk."""
        self._flushed = True
        return self._engine.flush(timeout)

    # --- reading

    def get_context(
        self,
        user_id: str | None,
        *,
        agent_name: str | None = None,
        thread_id: str | None = None,  # noqa: ARG002 - memory is of a user, not of a thread
    ) -> str:
        """The block for the prompt; in tool mode the summaries alone."""
        with self._in_the_hosts_words():
            try:
                return self._memory(user_id, agent_name).context()
            except OSError as error:
                # Of any other error the host makes an empty memory, and goes on, although it is to fail closed.
                raise self.host_types.corruption(str(error)) from error

    def search(
        self,
        query: str,
        top_k: int = 5,
        *,
        user_id: str | None = None,
        agent_name: str | None = None,
        category: str | None = None,
    ) -> list[dict[str, Any]]:
        """The best facts for a query, best first; none for a blank query or a `top_k` below 1."""
        with self._in_the_hosts_words():
            hits = self._memory(user_id, agent_name).search(query, top_k, category=category or None)
        return [host_fact(hit.fact) for hit in hits]

    def get_memory(self, *, user_id: str | None = None, agent_name: str | None = None) -> dict[str, Any]:
        """Summaries and facts as one document."""
        with self._in_the_hosts_words():
            return self._document(self._memory(user_id, agent_name))

    def export_memory(self, *, user_id: str | None = None, agent_name: str | None = None) -> dict[str, Any]:
        """As `get_memory`."""
        return self.get_memory(user_id=user_id, agent_name=agent_name)

    def reload_memory(self, *, user_id: str | None = None, agent_name: str | None = None) -> dict[str, Any]:
        """As `get_memory`, which reads what the files say now."""
        return self.get_memory(user_id=user_id, agent_name=agent_name)

    # --- writing

    def create_fact(
        self,
        content: str,
        category: str = DEFAULT_CATEGORY,
        confidence: float = 0.5,
        *,
        agent_name: str | None = None,
        user_id: str | None = None,
    ) -> tuple[dict[str, Any], str | None]:
        """Stores a fact; the document and its id, None where the cap had no room for it."""
        with self._in_the_hosts_words(), _about_confidence(confidence):
            memory = self._memory(user_id, agent_name)
            try:
                fact_id: str | None = memory.add(content, category=_word(category), confidence=confidence).id
            except NotStored as full:
                _log.info("a fact of agent %s was not stored: %s", memory.scope.agent, full)
                fact_id = None
            return self._document(memory), fact_id

    def update_fact(  # noqa: PLR0913 - the contract's signature
        self,
        fact_id: str,
        content: str | None = None,
        category: str | None = None,
        confidence: float | None = None,
        *,
        agent_name: str | None = None,
        user_id: str | None = None,
    ) -> dict[str, Any]:
        """Changes what is given, on the fact as its file says now; raises KeyError for an unknown one."""
        word = None if category is None else _word(category)
        with self._in_the_hosts_words(fact_id), _about_confidence(confidence):
            memory = self._memory(user_id, agent_name)
            memory.update(fact_id, content, category=word, confidence=confidence)
            return self._document(memory)

    def delete_fact(self, fact_id: str, *, agent_name: str | None = None, user_id: str | None = None) -> dict[str, Any]:
        """Removes a fact's file; raises KeyError for an unknown one."""
        with self._in_the_hosts_words(fact_id):
            memory = self._memory(user_id, agent_name)
            memory.delete(fact_id)
            return self._document(memory)

    def import_memory(
        self, memory_data: Mapping[str, Any], *, user_id: str | None = None, agent_name: str | None = None
    ) -> dict[str, Any]:
        """Makes the bucket and the summaries what a document says; what it lacks goes."""
        with self._in_the_hosts_words():
            memory = self._memory(user_id, agent_name)
            memory.import_document(completed(memory_data, memory.list()), replace=True)
            return self._document(memory)

    def clear_memory(self, *, user_id: str | None = None, agent_name: str | None = None) -> dict[str, Any]:
        """Without an agent all that a user has; with one that agent's facts, and the summaries stay."""
        with self._in_the_hosts_words():
            memory = self._memory(user_id, agent_name)
            if agent_name is None:
                self._engine.clear(user_id)
            else:
                memory.clear()
            return self._document(memory)

    def delete_memory(self, *, user_id: str | None = None, agent_name: str | None = None) -> None:
        """As `clear_memory`."""
        self.clear_memory(user_id=user_id, agent_name=agent_name)

    # --- life cycle

    def warm(self) -> bool | None:
        """Gets tiktoken's data ready; None where tokens are estimated anyway."""
        if self._engine.settings.token_counting == "char":
            return None
        return self._engine.prompting.tokens.load()

    def warm_retrieval(self) -> bool:
        """Builds what is missing of every index, so that the first search need not."""
        return self._engine.warm()

    def close(self) -> None:
        """Closes every index. What waits is extracted for `close_timeout_seconds`, after a `shutdown_flush` no more."""
        if self._flushed:
            self._engine.conversations.close(0)
        self._engine.close()

    # --- for callers on an event loop, which must not wait for the disk

    async def aadd(
        self,
        thread_id: str,
        messages: list[Any],
        *,
        agent_name: str | None = None,
        user_id: str | None = None,
        trace_id: str | None = None,
    ) -> None:
        """`add`, in a thread."""
        await asyncio.to_thread(
            self.add, thread_id, messages, agent_name=agent_name, user_id=user_id, trace_id=trace_id
        )

    async def aget_context(
        self, user_id: str | None, *, agent_name: str | None = None, thread_id: str | None = None
    ) -> str:
        """`get_context`, in a thread."""
        return await asyncio.to_thread(self.get_context, user_id, agent_name=agent_name, thread_id=thread_id)

    async def asearch(
        self,
        query: str,
        top_k: int = 5,
        *,
        user_id: str | None = None,
        agent_name: str | None = None,
        category: str | None = None,
    ) -> list[dict[str, Any]]:
        """`search`, in a thread."""
        return await asyncio.to_thread(
            self.search, query, top_k, user_id=user_id, agent_name=agent_name, category=category
        )

    # --- between the two

    def _memory(self, user_id: str | None, agent_name: str | None) -> Memory:
        return self._engine.memory(user_id, agent_name)

    def _document(self, memory: Memory) -> dict[str, Any]:
        return host_document(memory.document())

    @contextmanager
    def _in_the_hosts_words(self, fact_id: str | None = None) -> Iterator[None]:
        """Errors as the host's callers tell them apart; `fact_id` is the fact that a call is about."""
        try:
            if fact_id is not None:
                _check_may_be_there(fact_id)
            yield
        except FactNotFound as error:
            raise KeyError(fact_id) from error
        except DuplicateFact as error:
            raise ValueError("Duplicate fact") from error
        except Conflict as error:
            raise self.host_types.conflict(str(error)) from error
        except (Corruption, MigrationError) as error:
            raise self.host_types.corruption(str(error)) from error


@contextmanager
def _without_failing(thread_id: object) -> Iterator[None]:
    """An agent's turn must not fail because its memory can't be queued."""
    try:
        yield
    except (DeerMemError, OSError) as error:
        _log.warning("the conversation %.80s was not queued for memory: %s", thread_id, error)


@contextmanager
def _about_confidence(confidence: float | None) -> Iterator[None]:
    if confidence is not None:
        try:
            check_confidence(confidence)
        except InvalidInput as error:
            # The host looks for this word in the first argument; the text stays.
            error.args = ("confidence",)
            raise
    yield


def _check_may_be_there(fact_id: str) -> None:
    try:
        check_id(fact_id)
    except InvalidInput as error:
        # No fact has such an id.
        raise KeyError(fact_id) from error


def _word(category: str) -> str:
    return category.strip() or DEFAULT_CATEGORY if isinstance(category, str) else category
