"""Printing: text for people, one JSON document for programs."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, TextIO

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

    def __init__(self, error: OSError) -> None:
        reason = "it is closed" if error.errno == errno.EBADF else error.strerror or str(error)
        hint = "nothing that was changed is undone; look where it is printed to"
        super().__init__(f"standard output can't be written: {reason}", hint=hint)


def put(text: str, nl: bool = True) -> None:
    """Writes to standard output as it is; raises OutputRefused, and BrokenPipeError where the reader left."""
    try:
        click.echo(text, nl=nl)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputRefused(error) from None
    flush()


def flush() -> None:
    """Sees to it that what was printed is out; raises as `put` does."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputRefused(error) from None


def done(text: str) -> None:
    """What a change did. A stream that can't take it fails no change: then one line on standard error says so."""
    try:
        say(text)
    except BrokenPipeError:
        drop(sys.stdout)
    except OutputRefused as error:
        note(f"deermem: {error}")
        drop(sys.stdout)


def drop(stream: TextIO) -> None:
    """Lets what is left of a stream go nowhere: the interpreter's last flush would fail and change the exit code."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def fill_closed_streams() -> None:
    """Puts something in the place of standard streams that are closed; using them fails as on any bad descriptor.

    Else a file that is opened later takes the number 1 or 2, and an editor that is started prints into it.
    """
    for number, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)
            os.set_inheritable(number, True)
    # What Python found closed it gave no stream for.
    sys.stdin = sys.stdin or _stream(0, "r")
    sys.stdout = sys.stdout or _stream(1, "w")
    sys.stderr = sys.stderr or _stream(2, "w")


def _stream(number: int, mode: str) -> TextIO:
    stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
    assert isinstance(stream, io.TextIOWrapper)
    return stream


def say(text: str = "") -> None:
    """One or more lines of the answer, on standard output."""
    put(visible(text))


def note(text: str) -> None:
    """Progress, a warning or an error, on standard error; where that can't be written there is no other place."""
    try:
        click.echo(one_line(text), err=True)
    except OSError:
        drop(sys.stderr)


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
