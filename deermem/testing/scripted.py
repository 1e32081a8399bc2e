"""A model for extraction that follows a script, and the answers that such a model gives."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, TypeGuard

from deermem.errors import InvalidInput
from deermem.extract.models import Messages, answer_text
from deermem.model.fact import DEFAULT_CATEGORY
from deermem.model.summaries import HISTORY_SECTIONS, USER_SECTIONS

_FACT: Final[Mapping[str, object]] = {
    "category": DEFAULT_CATEGORY,
    "confidence": 0.9,
    "scope": "user",
    "durability": "durable",
    "authority": "descriptive",
}
_REMOVAL: Final[Mapping[str, object]] = {"scope": "user", "reason": "the person said so"}
_FACT_KEYS: Final = frozenset({"content", *_FACT, "sourceError", "expected_valid_days"})
_REMOVAL_KEYS: Final = frozenset({"id", *_REMOVAL, "replacementFactIndex"})


class ScriptedModel:
    """A model for `DeerMem(model=…)` that gives these answers, one a call, and keeps what it was asked in `prompts`.

    An answer is what `answer` makes, a text, an exception to be raised, or a function of the messages that gives one
    of these. After the last it raises AssertionError. Deermem takes that as a model that fails, and the conversation
    waits on disk; so end the test with `assert_done`. Raises InvalidInput for what is no answer.

    Safe for threads. Several users are asked for at once, and which of them gets which answer is chance: there, give
    functions of the messages.
    """

    def __init__(self, *answers: object) -> None:
        self.prompts: list[Messages] = []
        self._script = [_checked(item) for item in answers]
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
        """More answers, after those that are left. Raises InvalidInput for what is none, and adds nothing then."""
        checked = [_checked(item) for item in answers]
        with self._lock:
            self._script += checked

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
    mapping with `id`, and optionally `reason` and `replacementFactIndex`. Raises InvalidInput for an unknown summary
    or key, and for facts or removals that are no list of these.
    """
    told = dict(summaries or {})
    unknown = sorted(set(told) - {*USER_SECTIONS, *HISTORY_SECTIONS})
    if unknown:
        hint = f"use {', '.join((*USER_SECTIONS, *HISTORY_SECTIONS))}"
        raise InvalidInput(f"there is no summary {', '.join(unknown)}", hint=hint)
    for name, text in told.items():
        if not isinstance(text, str):
            raise InvalidInput(f"the summary {name} is {text!r:.60}", hint="give a text")
    return {
        "user": _summaries(told, USER_SECTIONS),
        "history": _summaries(told, HISTORY_SECTIONS),
        "newFacts": [{**_FACT, **item} for item in _items(facts, "facts", "content", _FACT_KEYS)],
        "factsToRemove": [{**_REMOVAL, **item} for item in _items(remove, "remove", "id", _REMOVAL_KEYS)],
    }


def resolved(item: object, messages: Sequence[object]) -> object:
    """What an item of a script comes to: a function is asked, an exception raised."""
    found = item(messages) if is_function(item) else item
    if is_exception(found):
        raise found
    return found


def is_exception(item: object) -> TypeGuard[BaseException | type[BaseException]]:
    """Whether the item is to be raised."""
    return isinstance(item, BaseException) or (isinstance(item, type) and issubclass(item, BaseException))


def is_function(item: object) -> TypeGuard[Callable[[Sequence[object]], object]]:
    """Whether the item is to be asked."""
    return callable(item) and not isinstance(item, type)


def _checked(item: object) -> object:
    """The item, if a model can say it. Found when it is asked for, it would be one more model that fails."""
    if not (isinstance(item, Awaitable) or is_exception(item) or is_function(item)):
        try:
            answer_text(item)
        except InvalidInput as problem:
            hint = "give what answer() makes, a text, an exception, or a function of the messages"
            raise InvalidInput(f"an item of the script is {item!r:.60}", hint=hint) from problem
    return item


def _items(
    given: Iterable[str | Mapping[str, object]], name: str, key: str, known: Collection[str]
) -> list[Mapping[str, object]]:
    """Each as a mapping. A bare text would be taken for its letters, a bare mapping for its keys."""
    hint = f"give a list of texts, or of mappings with {key}"
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InvalidInput(f"{name} is {given!r:.60}", hint=hint)
    items = [{key: item} if isinstance(item, str) else item for item in given]
    for item in items:
        if not isinstance(item, Mapping):
            raise InvalidInput(f"{name} has {item!r:.60}", hint=hint)
        unknown = ", ".join(sorted(map(str, {*item} - {*known})))
        if unknown:
            raise InvalidInput(f"{name} has an item with {unknown}", hint=f"use {', '.join(sorted(known))}")
        if not isinstance(item.get(key), str):
            raise InvalidInput(f"{name} has an item whose {key} is {item.get(key)!r:.60}", hint="give a text")
    return items


def _summaries(told: Mapping[str, str], names: Iterable[str]) -> dict[str, object]:
    labels = {"scope": "user", "authority": "descriptive"}
    return {name: {"summary": told[name], "shouldUpdate": True, **labels} for name in names if name in told}
