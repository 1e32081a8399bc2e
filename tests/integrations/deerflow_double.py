"""DeerFlow's memory contract, retold: what a host demands of a manager, and what it does where a manager has nothing.

`test_deerflow_host.py` holds the signatures against a real DeerFlow where there is one.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Document = dict[str, Any]


class MemoryCallbacks:
    """A host's tracer. It may write into `invoke_config` before a call."""

    def on_memory_llm_call(
        self,
        invoke_config: Document,
        *,
        thread_id: str | None,
        user_id: str | None,
        trace_id: str | None,
        model_name: str | None,
    ) -> None:
        """Before a model is asked."""

    def on_memory_llm_result(
        self,
        invoke_config: Document,
        *,
        prompt: Any,
        response: Any,
        error: BaseException | None,
        duration_ms: float,
        model_name: str | None,
    ) -> None:
        """After it answered or failed."""


class MemoryManagerError(RuntimeError):
    """What the host's callers catch of a memory."""


class MemoryConflictError(MemoryManagerError):
    """HTTP 409."""


class MemoryCorruptionError(MemoryManagerError):
    """HTTP 500, without the message."""


class MemoryManager(BaseModel):
    """The base class: two methods and the constructor are demanded, search is declared and held to it."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    backend_config: Document = Field(default_factory=dict)
    mode: Literal["middleware", "tool"] = "middleware"
    callbacks: MemoryCallbacks | None = None

    supports_search: ClassVar[bool] = False
    requires_passive_writes_in_tool_mode: ClassVar[bool] = False

    @field_validator("backend_config", mode="before")
    @classmethod
    def _nothing_is_empty(cls, value: Any) -> Document:
        return value or {}

    @model_validator(mode="after")
    def _search_is_as_declared(self) -> MemoryManager:
        searches = type(self).search is not MemoryManager.search
        if searches != type(self).supports_search:
            raise ValueError("supports_search says otherwise than the class")
        if self.mode == "tool" and not searches:
            raise ValueError("tool mode needs search")
        return self

    @classmethod
    @abstractmethod
    def from_config(
        cls, backend_config: Document, *, mode: Literal["middleware", "tool"] = "middleware", **host_hooks: Any
    ) -> MemoryManager: ...

    @abstractmethod
    def add(
        self,
        thread_id: str,
        messages: list[Any],
        *,
        agent_name: str | None = None,
        user_id: str | None = None,
        trace_id: str | None = None,
    ) -> None: ...

    @abstractmethod
    def get_context(
        self, user_id: str | None, *, agent_name: str | None = None, thread_id: str | None = None
    ) -> str: ...

    def add_nowait(
        self, thread_id: str, messages: list[Any], *, agent_name: str | None = None, user_id: str | None = None
    ) -> None:
        self.add(thread_id, messages, agent_name=agent_name, user_id=user_id)

    def search(
        self,
        query: str,
        top_k: int = 5,
        *,
        user_id: str | None = None,
        agent_name: str | None = None,
        category: str | None = None,
    ) -> list[Document]:
        raise NotImplementedError

    def get_memory(self, *, user_id: str | None = None, agent_name: str | None = None) -> Document:
        raise NotImplementedError

    def delete_memory(self, *, user_id: str | None = None, agent_name: str | None = None) -> None:
        raise NotImplementedError

    def clear_memory(self, *, user_id: str | None = None, agent_name: str | None = None) -> Document:
        raise NotImplementedError

    def import_memory(
        self, memory_data: Document, *, user_id: str | None = None, agent_name: str | None = None
    ) -> Document:
        raise NotImplementedError

    def export_memory(self, *, user_id: str | None = None, agent_name: str | None = None) -> Document:
        raise NotImplementedError

    def reload_memory(self, *, user_id: str | None = None, agent_name: str | None = None) -> Document:
        raise NotImplementedError

    def create_fact(
        self,
        content: str,
        category: str = "context",
        confidence: float = 0.5,
        *,
        agent_name: str | None = None,
        user_id: str | None = None,
    ) -> tuple[Document, str | None]:
        raise NotImplementedError

    def update_fact(
        self,
        fact_id: str,
        content: str | None = None,
        category: str | None = None,
        confidence: float | None = None,
        *,
        agent_name: str | None = None,
        user_id: str | None = None,
    ) -> Document:
        raise NotImplementedError

    def delete_fact(self, fact_id: str, *, agent_name: str | None = None, user_id: str | None = None) -> Document:
        raise NotImplementedError

    def shutdown_flush(self, timeout: float) -> bool:
        return True

    def warm(self) -> bool | None:
        return None

    def on_pre_compress(self, messages: list[Any]) -> str:
        return ""

    def on_turn_start(self, turn_number: int, message: Any, **kwargs: Any) -> None:
        return None

    async def aadd(
        self,
        thread_id: str,
        messages: list[Any],
        *,
        agent_name: str | None = None,
        user_id: str | None = None,
        trace_id: str | None = None,
    ) -> None:
        self.add(thread_id, messages, agent_name=agent_name, user_id=user_id, trace_id=trace_id)

    async def aget_context(
        self, user_id: str | None, *, agent_name: str | None = None, thread_id: str | None = None
    ) -> str:
        return self.get_context(user_id, agent_name=agent_name, thread_id=thread_id)

    async def asearch(
        self,
        query: str,
        top_k: int = 5,
        *,
        user_id: str | None = None,
        agent_name: str | None = None,
        category: str | None = None,
    ) -> list[Document]:
        return self.search(query, top_k, user_id=user_id, agent_name=agent_name, category=category)

    def close(self) -> None:
        return None
