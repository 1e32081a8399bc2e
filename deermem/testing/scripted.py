"""A model for extraction that follows a script, and the answers that such a model gives."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from deermem.errors import InvalidInput
from deermem.extract.models import Messages
from deermem.model.fact import DEFAULT_CATEGORY
from deermem.model.summaries import HISTORY_SECTIONS, USER_SECTIONS

_LABELS: Final = {"scope": "user", "durability": "durable", "authority": "descriptive"}
_REASON: Final = "the person said so"
_CONFIDENCE: Final = 0.9


class ScriptedModel:
    """A model for `DeerMem(model=…)` that gives these answers, one a call, and keeps what it was asked in `prompts`.

    An answer is what `answer` makes, a text, an exception to be raised, or a function of the messages that gives one
    of these. After the last it raises AssertionError. Deermem takes that as a model that fails, and the conversation
    waits on disk; so end the test with `assert_done`. Safe for threads.
    """

    def __init__(self, *answers: object) -> None:
        self.prompts: list[Messages] = []
        self._script = list(answers)
        self._beyond = 0
        self._lock = threading.Lock()

    def __call__(self, messages: Messages) -> object:
        """The next answer; raises AssertionError where there is none."""
        with self._lock:
            self.prompts.append([dict(message) for message in messages])
            if not self._script:
                self._beyond += 1
                raise AssertionError(f"the script has no answer to call {len(self.prompts)}")
            found = self._script.pop(0)
        return resolved(found, messages)

    def add(self, *answers: object) -> None:
        """More answers, after those that are left."""
        with self._lock:
            self._script += answers

    def assert_done(self) -> None:
        """Raises AssertionError where answers are left, or where it was asked more often than there were answers."""
        with self._lock:
            left, beyond = len(self._script), self._beyond
        if left or beyond:
            said = f"{left} answers are left" if left else f"{beyond} calls came after the last answer"
            raise AssertionError(f"{said}; the model was asked {len(self.prompts)} times")


def answer(
    *,
    facts: Iterable[str | Mapping[str, object]] = (),
    remove: Iterable[str | Mapping[str, object]] = (),
    summaries: Mapping[str, str] | None = None,
) -> dict[str, object]:
    """What a model answers that read a conversation: new facts, ids to remove, summaries by name (`workContext` …).

    A fact is its content, or a mapping that says more, such as `category`, `confidence` (0 to 1), `sourceError` and
    the labels `scope`, `durability` and `authority`; without them it passes the gate. A removal is an id, or a
    mapping with `id`, and optionally `reason` and `replacementFactIndex`. Raises InvalidInput for an unknown summary.
    """
    told = dict(summaries or {})
    unknown = sorted(set(told) - {*USER_SECTIONS, *HISTORY_SECTIONS})
    if unknown:
        hint = f"use {', '.join((*USER_SECTIONS, *HISTORY_SECTIONS))}"
        raise InvalidInput(f"there is no summary {', '.join(unknown)}", hint=hint)
    return {
        "user": _summaries(told, USER_SECTIONS),
        "history": _summaries(told, HISTORY_SECTIONS),
        "newFacts": [_fact(fact) for fact in facts],
        "factsToRemove": [_removal(item) for item in remove],
    }


def resolved(item: object, messages: Sequence[object]) -> object:
    """What an item of a script comes to: a function is asked, an exception raised."""
    found = item(messages) if callable(item) and not isinstance(item, type) else item
    if isinstance(found, BaseException):
        raise found
    return found


def _fact(fact: str | Mapping[str, object]) -> dict[str, object]:
    given = {"content": fact} if isinstance(fact, str) else fact
    return {"category": DEFAULT_CATEGORY, "confidence": _CONFIDENCE, **_LABELS, **given}


def _removal(item: str | Mapping[str, object]) -> dict[str, object]:
    given = {"id": item} if isinstance(item, str) else item
    return {"scope": "user", "reason": _REASON, **given}


def _summaries(told: Mapping[str, str], names: Iterable[str]) -> dict[str, object]:
    labels = {"scope": "user", "authority": "descriptive"}
    return {name: {"summary": told[name], "shouldUpdate": True, **labels} for name in names if name in told}
