"""What the tests of the DeerFlow manager share: a manager over the retold contract, its messages, its model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import deerflow_double
from builders_replies import answer

from deermem.integrations.deerflow.binding import manager_class
from deermem.integrations.deerflow.methods import HostTypes, ManagerMethods

Manager: type[ManagerMethods] = manager_class(
    HostTypes(deerflow_double.MemoryManager, deerflow_double.MemoryConflictError, deerflow_double.MemoryCorruptionError)
)


@dataclass
class Said:
    """A message as LangChain's look from outside."""

    type: str
    content: str
    id: str = ""
    additional_kwargs: dict[str, Any] = field(default_factory=dict)
    tool_calls: list[Any] = field(default_factory=list)


def human(text: str, **values: Any) -> Said:
    return Said("human", text, **values)


def ai(text: str, **values: Any) -> Said:
    return Said("ai", text, **values)


@dataclass
class Reply:
    """A model's answer as LangChain gives it."""

    content: str
    usage_metadata: dict[str, int] = field(default_factory=lambda: {"input_tokens": 7, "output_tokens": 3})


class Scripted:
    """A chat model that answers from a list, and keeps what it was asked and with which configuration."""

    model_name = "scripted"

    def __init__(self, *answers: Mapping[str, Any] | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.configs: list[dict[str, Any]] = []

    def invoke(self, messages: list[dict[str, str]], config: dict[str, Any]) -> Reply:
        self.asked.append("\n".join(message["content"] for message in messages))
        self.configs.append(config)
        told = self.answers.pop(0) if self.answers else answer()
        if isinstance(told, Exception):
            raise told
        return Reply(json.dumps(told))


@contextmanager
def opened(
    root: Path, *, mode: str = "middleware", hooks: Mapping[str, Any] | None = None, **config: Any
) -> Iterator[Any]:
    """A manager as the host's factory makes one; char counting, so that nothing depends on the machine."""
    given = {"storage_path": str(root), "token_counting": "char", **config}
    manager = Manager.from_config(given, mode=mode, **(hooks or {}))  # type: ignore[arg-type]
    try:
        yield manager
    finally:
        manager.close()


def contents(document: Mapping[str, Any]) -> list[str]:
    return sorted(fact["content"] for fact in document["facts"])


def fact_file(root: Path, word: str) -> Path:
    """The one fact file below a root that holds a word."""
    (found,) = [path for path in root.rglob("facts/**/*.md") if word in path.read_text(encoding="utf-8")]
    return found
