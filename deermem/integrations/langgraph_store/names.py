"""Namespaces and keys as names of folders and files: never two under one name, also where a disk knows no case."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from deermem.errors import InvalidInput
from deermem.model.fact import MAX_ID, check_text
from deermem.model.scope import MAX_NAME

Namespace = tuple[str, ...]

_SHORT: Final = "ns-"
_LONG: Final = "nsx-"
_BETWEEN: Final = "--"
# `q` begins an escape, so it never stands for itself; capital letters would fold with small ones.
_ESCAPED = re.compile(rb"[^a-pr-z0-9-]")
_LOOSE_HYPHEN = re.compile(r"^-|-$|(?<=-)-")
_ESCAPE = re.compile(rb"q([0-9a-f]{2})")
_PLAIN_KEY = re.compile(r"[a-z0-9_-]{1,96}")
_FACT_ID = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_ID}}}")
_HASHED = re.compile(r".*-[0-9a-f]{16}")
_OUTSIDE_A_SLUG = re.compile(r"[^a-z0-9]+")
# No label holds a full stop, so that its escape may be written as the one of the character itself.
_FULL_STOP: Final = "~2E"
# What deepagents takes in a namespace, but for the full stop, which LangGraph refuses.
_NOT_IN_A_LABEL = re.compile(rb"[^A-Za-z0-9_@+:-]")
_LABEL_ESCAPE = re.compile(rb"~([0-9A-F]{2})")


def namespace_label(text: str) -> str:
    """A label for any text, `alice@example.com` for one: LangGraph takes no full stop in a namespace.

    Letters, digits and `_ @ + : -` stay; each other byte of the UTF-8 is `~` and two hex digits, which deepagents takes
    too. Two texts never share a label. Raises InvalidInput for the empty text and for NUL.
    """
    if not isinstance(text, str) or not text:
        raise InvalidInput(f"a namespace label for {text!r:.60}", hint="give text that is not empty")
    data = check_text(text, "a namespace label").encode()
    return _NOT_IN_A_LABEL.sub(lambda found: b"~%02X" % found.group()[0], data).decode()


def text_of_label(label: str) -> str:
    """The text that `namespace_label` made a label of; a label of other making is its own text."""
    try:
        text = _LABEL_ESCAPE.sub(_byte, label.encode()).decode()
        return text if namespace_label(text) == label else label
    except (UnicodeDecodeError, InvalidInput):
        return label


def agent_of(namespace: Namespace) -> str:
    """The agent whose facts a namespace's items are; says the namespace wherever that fits into 128 characters."""
    readable = _BETWEEN.join(_escaped(label) for label in namespace)
    if len(_SHORT) + len(readable) <= MAX_NAME:
        return f"{_SHORT}{readable}"
    # A length before each label: two namespaces must not join to one text.
    exact = "".join(f"{len(label)}:{label}" for label in namespace)
    digest = hashlib.sha256(exact.encode()).hexdigest()[:32]
    return f"{_LONG}{readable[:64].rstrip('-')}-{digest}"


def namespace_of(agent: str) -> Namespace | None:
    """The namespace that an agent's name says; None for one that was too long, and for agents of other programs."""
    if not agent.startswith(_SHORT):
        return None
    try:
        labels = [_ESCAPE.sub(_byte, label.encode()).decode() for label in agent[len(_SHORT) :].split(_BETWEEN)]
    except UnicodeDecodeError:
        return None
    namespace = tuple(label.replace(".", _FULL_STOP) for label in labels)
    return namespace if all(namespace) and agent_of(namespace) == agent else None


def is_long(agent: str) -> bool:
    """Whether an agent's name is that of a namespace which only its files can say."""
    return agent.startswith(_LONG)


def check_namespace(namespace: Namespace) -> None:
    """Raises InvalidInput for half a character in a label: no folder can be called so."""
    for label in namespace:
        check_text(label, "a namespace label")


def ids_of(key: str) -> tuple[str, ...]:
    """The fact ids that an item of this key may have, the one for a new item first.

    Keys of small letters, digits, `_` and `-` are ids themselves, but for those that look like an id with a hash.
    """
    hashed = f"{_slug(key)}-{_digest(key)}"
    if _PLAIN_KEY.fullmatch(key) and not _HASHED.fullmatch(key):
        return key, hashed
    return (hashed, key) if _FACT_ID.fullmatch(key) else (hashed,)


def part_id(key: str, number: int) -> str:
    """The fact id of a further file of an item; no key has such an id as its own."""
    # No key of another item is the same text, for a key has no NUL.
    digest = _digest(f"{key}\0{number}")
    return f"{_slug(key)}-{number}-{digest}"


def _slug(key: str) -> str:
    return _OUTSIDE_A_SLUG.sub("-", key.lower())[:80].strip("-") or "item"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _escaped(label: str) -> str:
    text = _ESCAPED.sub(lambda found: b"q%02x" % found.group()[0], label.replace(_FULL_STOP, ".").encode()).decode()
    return _LOOSE_HYPHEN.sub("q2d", text)


def _byte(found: re.Match[bytes]) -> bytes:
    return bytes.fromhex(found[1].decode())
