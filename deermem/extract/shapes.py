"""One message of a host, whatever its shape, as a typed value.

Nothing of a framework is imported: an object counts by its attributes, a mapping by its keys. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from deermem.errors import InvalidInput

Role = Literal["user", "assistant"]

_ROLES: Final[Mapping[str, Role | None]] = {
    "user": "user",
    "human": "user",
    "humanmessagechunk": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "aimessagechunk": "assistant",
    "system": None,
    "developer": None,
    "tool": None,
    "function": None,
}
_TEXT_BLOCKS: Final = frozenset({"text", "input_text", "output_text"})
_CALL_BLOCKS: Final = frozenset({"tool_use", "tool_call", "invalid_tool_call", "function_call"})
_RESULT_BLOCKS: Final = frozenset({"tool_result", "function_call_output"})
_CALLS: Final = ("tool_calls", "invalid_tool_calls", "function_call")
_MISSING: Final = object()
_FORMS: Final = "give a message object, a mapping with role and content, or a (role, text) pair"


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it was found. `role` None: system text, a tool's, or what no person and no assistant said.

    `id` is "" where there is none. `calls_tool` also covers calls that the model wrote badly: such a message is no
    final answer. `extra` is what the host attached (`additional_kwargs`).
    """

    role: Role | None
    text: str = ""
    id: str = ""
    name: str = ""
    calls_tool: bool = False
    extra: Mapping[object, object] | None = None


@dataclass(frozen=True, slots=True)
class _Content:
    text: str
    kinds: frozenset[str] = frozenset()


def read_message(message: object, place: str) -> Message:
    """The message at `place`, which errors name. Raises InvalidInput for what can't be a message at all."""
    if isinstance(message, tuple | list):
        return _pair(message, place)
    if isinstance(message, str | bytes):
        raise InvalidInput(f"{place} is bare text, so nobody said it", hint=_FORMS)
    source = _unwrapped(message)
    found = (_field(message, "type"), _field(message, "role"), _field(source, "role"), _field(source, "type"))
    names = [name for name in found if isinstance(name, str)]
    if not names:
        raise InvalidInput(f"{place} is {type(message).__name__} without a role", hint=_FORMS)
    known = [name for name in map(_folded, names) if name in _ROLES]
    role = _ROLES[known[0]] if known else None
    return _spoken(source, role, place) if role else Message(role=None)


def _pair(message: Sequence[object], place: str) -> Message:
    if len(message) != 2 or not isinstance(message[0], str):
        raise InvalidInput(f"{place} is no (role, text) pair", hint=_FORMS)
    name = _folded(message[0])
    # A pair has no other sign of being a message: with any word as its role, every two texts would be one.
    if name not in _ROLES:
        raise InvalidInput(f"{place} has the role {message[0]!r:.40}", hint="use user, assistant, system or tool")
    role = _ROLES[name]
    content = _content(message[1], place)
    return Message(role=_speaker(role, content), text=content.text, calls_tool=_calls(content))


def _spoken(source: object, role: Role, place: str) -> Message:
    attached = _field(source, "additional_kwargs")
    extra = attached if isinstance(attached, Mapping) else None
    called = any(_field(owner, name) for owner in (source, extra) for name in _CALLS)
    raw = _field(source, "content", _MISSING)
    if raw is _MISSING and not called:
        raise InvalidInput(f"{place} has no content", hint="give its text, or a list of blocks")
    content = _Content("") if raw is _MISSING else _content(raw, place)
    return Message(
        role=_speaker(role, content),
        text=content.text,
        id=_identity(_field(source, "id")),
        name=_text(_field(source, "name")),
        calls_tool=role == "assistant" and (called or _calls(content)),
        extra=extra,
    )


def _speaker(role: Role | None, content: _Content) -> Role | None:
    """Some hosts send a tool's result under the person's name; nobody said that."""
    return None if role == "user" and not content.text.strip() and content.kinds & _RESULT_BLOCKS else role


def _calls(content: _Content) -> bool:
    return bool(content.kinds & _CALL_BLOCKS)


def _unwrapped(message: object) -> object:
    """The inner mapping of `{"type": "human", "data": {…}}`, which is how LangChain stores a message, and of
    `{"type": "constructor", "kwargs": {…}}`, which is how it serialises any object of its own.
    """
    if not isinstance(message, Mapping) or "content" in message:
        return message
    inner = message.get("kwargs" if message.get("type") == "constructor" else "data")
    return inner if isinstance(inner, Mapping) else message


def _content(raw: object, place: str) -> _Content:
    """Text as it is; of blocks the text: adjacent strings joined as they are, text blocks on lines of their own."""
    if raw is None:
        return _Content("")
    if isinstance(raw, str):
        return _Content(encodable(raw))
    if isinstance(raw, Mapping):
        raw = [raw]
    if not isinstance(raw, list | tuple):
        hint = "give text, or a list of blocks"
        raise InvalidInput(f"the content of {place} is {type(raw).__name__}", hint=hint)
    runs: list[list[str]] = []
    kinds: set[str] = set()
    in_run = False
    for block in raw:
        if isinstance(block, str) and in_run:
            runs[-1].append(block)
            continue
        in_run = isinstance(block, str)
        kind = _field(block, "type")
        text = block if in_run else _field(block, "text")
        if isinstance(kind, str):
            kinds.add(kind)
        if isinstance(text, str) and (kind is None or in_run or kind in _TEXT_BLOCKS):
            runs.append([text])
    return _Content(encodable("\n".join(map("".join, runs))), frozenset(kinds))


def _field(owner: object, name: str, default: object = None) -> object:
    if isinstance(owner, Mapping):
        return owner.get(name, default)
    return getattr(owner, name, default)


def _identity(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        # `hex` has no limit of digits, which `str` has.
        return str(value) if -(2**63) <= value < 2**64 else hex(value)
    return _text(value)


def _text(value: object) -> str:
    return encodable(value).strip() if isinstance(value, str) else ""


def _folded(name: str) -> str:
    return name.strip().casefold()


def encodable(text: str) -> str:
    """The text with halves of surrogate pairs joined, and lone ones as U+FFFD: no file and no request takes them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
