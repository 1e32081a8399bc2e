"""Printing: text for people, one JSON document for programs."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

import click

from deermem.clock import format_timestamp
from deermem.errors import DeerMemError
from deermem.model.fact import Fact, derive_title

if TYPE_CHECKING:
    from deermem.model.values import JsonObject, JsonValue

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LINE_BREAKS: Final = re.compile(r"\s*[\n\r\x0b\x0c\x85\u2028\u2029]+\s*")


def visible(text: str) -> str:
    """The text with control characters spelled out, so that a stored fact can't steer the terminal."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def one_line(text: str) -> str:
    """The text on one line, safe for a terminal."""
    return visible(_LINE_BREAKS.sub(" ", text.strip()))


class OutputRefused(DeerMemError):
    """Standard output can't be written: the disk is full, or nobody is there to read."""


def put(text: str, nl: bool = True) -> None:
    """Writes to standard output as it is; raises OutputRefused, and BrokenPipeError where the reader left."""
    try:
        click.echo(text, nl=nl)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        hint = "nothing that was changed is undone; look where it is printed to"
        raise OutputRefused(f"standard output can't be written: {error.strerror}", hint=hint) from None


def say(text: str = "") -> None:
    """One or more lines of the answer, on standard output."""
    put(visible(text))


def note(text: str) -> None:
    """Progress or a warning, on standard error."""
    click.echo(one_line(text), err=True)


def table(rows: Iterable[Sequence[str]]) -> None:
    """Rows in columns; the last column is as long as it is."""
    lines = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for cells in lines:
        padded = [cell.ljust(width) for cell, width in zip(cells[:-1], widths, strict=False)]
        put("  ".join([*padded, cells[-1]]).rstrip())


def count(number: int, noun: str) -> str:
    """`1 fact`, `2 facts`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def emit(value: object) -> None:
    """The one JSON document of a call."""
    import json

    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
    put(json.dumps(to_json(value), ensure_ascii=ascii_only, indent=2))


def to_json(value: object) -> JsonValue:
    """Facts in their document shape, other values with the names of their fields, times as ISO 8601 with Z."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, datetime):
        return format_timestamp(value)
    if isinstance(value, Fact):
        return fact_object(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    return record_object(value)


def record_object(value: object) -> JsonObject:
    """A record of the engine as a JSON object."""
    if isinstance(value, type) or not is_dataclass(value):
        raise TypeError(f"{type(value).__name__} has no JSON form")
    return {item.name: to_json(getattr(value, item.name)) for item in fields(value)}


def fact_object(fact: Fact) -> JsonObject:
    """A fact as it stands in an exported document, with the token for `--expected`."""
    from deermem.format.fact_mapping import fact_to_mapping

    return {**fact_to_mapping(fact), "version": fact.version}


def headline(fact: Fact) -> str:
    """A fact in one line: the first one of its content, since a heading may be older than an edited content."""
    return derive_title(fact.content)


def tolerate_any_character() -> None:
    """Keeps an output stream from failing on a character that its encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
