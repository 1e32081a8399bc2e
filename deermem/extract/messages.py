"""What a conversation holds for memory: what the person said, and what the assistant finally answered."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from deermem.errors import InvalidInput
from deermem.extract.blocks import without_host_blocks, without_uploads
from deermem.extract.shapes import Message, Role, encodable, read_message

KeepHidden = Callable[[dict[object, object]], bool]
"""A host's answer to whether a message that it hides, by its `additional_kwargs`, still is a person's own word."""

_LONGEST_ID: Final = 200
_SUMMARY: Final = "summarization"
_HASH: Final = "sha256:"


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing said. `key` tells it from the others: the message's id, else a hash of role and text, never the text.

    Two messages without an id that say the same in one role have one key.
    """

    role: Role
    text: str
    key: str


def read_turns(messages: Iterable[object], *, keep_hidden: KeepHidden | None = None) -> tuple[Turn, ...]:
    """The person's messages and the final answers, in order.

    A message is a LangChain message, or any object with its attributes; a mapping with `role` or `type` and `content`;
    or a `(role, text)` pair. Content is text or a list of blocks, of which the text counts.

    Left out: tool calls and results, system and developer text, a host's own summary of the conversation, what a host
    hides from its screen (`additional_kwargs.hide_from_ui`), and a message that is nothing but injected memory. Of
    what is hidden, a person's answer to a question of the agent stays; `keep_hidden` decides instead where it is
    given. Lists of uploads and injected memory are cut out of what the person said. An exchange in which the person
    said nothing, because there was only an upload, goes with its answers.

    The messages are never changed. Raises InvalidInput, with the position, for what can't be a message.
    """
    turns: list[Turn] = []
    said_nothing = False
    for message in _messages(messages):
        if not _is_for_memory(message, keep_hidden):
            continue
        text = _words(message)
        if text is None:
            continue
        if message.role == "user":
            said_nothing = not text
        if message.role and text and not said_nothing:
            turns.append(Turn(message.role, text, _key(message.id, message.role, text)))
    return tuple(turns)


def has_both_sides(turns: Iterable[Turn]) -> bool:
    """Whether there is anything to learn from: something a person said, and something that was answered."""
    return {turn.role for turn in turns} == {"user", "assistant"}


def without_exchanges(turns: Iterable[Turn], is_empty: Callable[[str], bool]) -> tuple[Turn, ...]:
    """The turns without those of the person whose text is empty in that sense, and without the answers to them."""
    kept: list[Turn] = []
    empty = False
    for turn in turns:
        if turn.role == "user":
            empty = is_empty(turn.text)
        if not empty:
            kept.append(turn)
    return tuple(kept)


def _messages(messages: Iterable[object]) -> Iterable[Message]:
    hint = "give a list of messages"
    if isinstance(messages, str | bytes | Mapping):
        raise InvalidInput(f"messages is {type(messages).__name__}, not a list", hint=hint)
    try:
        found = enumerate(messages)
    except TypeError:
        raise InvalidInput(f"messages is {type(messages).__name__}, not a list", hint=hint) from None
    return (read_message(message, f"messages[{position}]") for position, message in found)


def _is_for_memory(message: Message, keep_hidden: KeepHidden | None) -> bool:
    if message.role is None or message.calls_tool:
        return False
    extra = message.extra or {}
    # A summary comes as the person's message; read as one, what was extracted once would be extracted again.
    if extra.get("lc_source") == _SUMMARY or (message.role == "user" and message.name == "summary"):
        return False
    if not extra.get("hide_from_ui"):
        return True
    if keep_hidden is not None:
        return bool(keep_hidden(dict(extra)))
    return message.role == "user" and _human_answer(extra) is not None


def _words(message: Message) -> str | None:
    """What is left of the text, stripped; None where a host's block was all there was, so that nobody spoke."""
    text = message.text.strip()
    own = without_host_blocks(text).strip()
    if text and not own:
        return None
    if message.role == "assistant":
        return text
    return without_uploads(own).strip() or _human_answer(message.extra or {}) or ""


def _human_answer(extra: Mapping[object, object]) -> str | None:
    """The value of a well-formed answer that a person gave to a question of the agent; None where it is none."""
    answer = extra.get("human_input_response")
    if not isinstance(answer, Mapping):
        return None
    version = answer.get("version")
    if isinstance(version, bool) or version != 1 or answer.get("kind") != "human_input_response":
        return None
    needed = ["source", "request_id", "value"]
    if answer.get("response_kind") == "option":
        needed.append("option_id")
    elif answer.get("response_kind") != "text":
        return None
    values = [answer.get(name) for name in needed]
    if not all(isinstance(value, str) and value.strip() for value in values):
        return None
    return encodable(str(answer["value"])).strip()


def is_hash(key: str) -> bool:
    """Whether a key is a hash, which may stand for several messages, and no message's id."""
    return key.startswith(_HASH)


def _key(identity: str, role: Role, text: str) -> str:
    if identity and len(identity) <= _LONGEST_ID:
        return identity
    hashed = hashlib.sha256(f"{role}\0{identity or text}".encode())
    return f"{_HASH}{hashed.hexdigest()}"
