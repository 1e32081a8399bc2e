"""Reading a conversation from a file: JSON or JSON lines, in the shapes that hosts write them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Final

from deermem.cli.input import STANDARD_STREAM, decode, read_file, read_stdin
from deermem.errors import InvalidInput

_FORMS: Final = 'give {"messages": […]}, a list of messages, or one message a line'
_MESSAGE_KEYS: Final = frozenset({"role", "type", "content"})


def read_conversation(file: str) -> tuple[list[object], str]:
    """The messages of a file, or of standard input for `-`, and a thread id that is the same each time.

    Raises StoreUnavailable for a file that can't be read, InvalidInput with the line for what is no conversation.
    """
    is_stream = file == STANDARD_STREAM
    data = read_stdin() if is_stream else read_file(file)
    origin = "standard input" if is_stream else file
    messages = [_restored(message) for message in _messages(decode(data, origin), origin)]
    name = f"stdin-{hashlib.sha256(data).hexdigest()[:16]}" if is_stream else Path(file).stem
    return messages, name


def _messages(text: str, origin: str) -> list[object]:
    try:
        document = json.loads(text)
    except RecursionError:
        raise InvalidInput(f"{origin} is nested too deep", hint=_FORMS) from None
    except ValueError as error:
        return _lines(text, origin, error)
    return _of_document(document, origin)


def _lines(text: str, origin: str, whole: ValueError) -> list[object]:
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    found: list[object] = []
    for number, line in lines:
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            # A document over several lines fails at its first one already: there the whole says more.
            told = whole if number == lines[0][0] else f"line {number}: {error}"
            raise InvalidInput(f"{origin} is no JSON: {told}", hint=_FORMS) from None
    if not found:
        raise InvalidInput(f"{origin} is empty", hint=_FORMS)
    if any(isinstance(entry, dict) and isinstance(entry.get("messages"), list) for entry in found):
        hint = "give one conversation a file"
        raise InvalidInput(f"{origin} holds {len(found)} conversations, one a line", hint=hint)
    return found


def _of_document(document: object, origin: str) -> list[object]:
    if isinstance(document, list):
        return document
    if isinstance(document, dict) and "messages" in document:
        if isinstance(document["messages"], list):
            return document["messages"]
        raise InvalidInput(f"messages in {origin} is {type(document['messages']).__name__}, not a list", hint=_FORMS)
    if isinstance(document, dict) and _MESSAGE_KEYS & document.keys():
        return [document]
    raise InvalidInput(f"{origin} holds no messages", hint=_FORMS)


def _restored(message: object) -> object:
    """The message in LangChain's dump of a constructor, which names no role of its own."""
    inner = message.get("kwargs") if isinstance(message, dict) and message.get("type") == "constructor" else None
    return inner if isinstance(inner, dict) else message
