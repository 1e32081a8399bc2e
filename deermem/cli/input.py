"""Reading what a call is given: texts, files, numbers, times."""

from __future__ import annotations

import errno
import re
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import click

from deermem.clock import parse_timestamp
from deermem.errors import InvalidInput, StoreUnavailable

STANDARD_STREAM: Final = "-"
_BARE_DATE: Final = re.compile(r"\d{4}-?\d\d-?\d\d")
_REST_OF_DAY: Final = timedelta(days=1, microseconds=-1)


def confidence_option(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """An option's text as a number, whose bounds are the engine's to check; a usage error names what was given."""
    if value is None:
        return None
    try:
        return float(value)
    except ValueError:
        hint = "give a number from 0 to 1"
        raise click.BadParameter(f"{value!r} is not a number; {hint}", context, parameter) from None


def since_option(context: click.Context, parameter: click.Parameter, value: str | None) -> datetime | None:
    """An option's text as an aware time; a bare date is its first moment."""
    return None if value is None else _moment(context, parameter, value)


def until_option(context: click.Context, parameter: click.Parameter, value: str | None) -> datetime | None:
    """An option's text as an aware time; a bare date is its last moment, so that the day itself is in."""
    if value is None:
        return None
    moment = _moment(context, parameter, value)
    return moment + _REST_OF_DAY if _BARE_DATE.fullmatch(value.strip()) else moment


def _moment(context: click.Context, parameter: click.Parameter, value: str) -> datetime:
    moment = parse_timestamp(value)
    if moment is None:
        hint = "write 2026-11-30 or 2026-11-30T10:00:00Z"
        raise click.BadParameter(f"{value!r} is not a time; {hint}", context, parameter)
    return moment


def expectation(token: str | None) -> str | int | None:
    """The version token, or the revision where only a number was given."""
    return int(token) if token is not None and token.isascii() and token.isdecimal() else token


def text_or_stdin(text: str) -> str:
    """The text itself; for `-` what standard input holds."""
    return decode(read_stdin(), "standard input") if text == STANDARD_STREAM else text


def read_stdin() -> bytes:
    """All of standard input; raises InvalidInput where there is none to read."""
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        reason = "it is closed" if error.errno == errno.EBADF else error.strerror
        raise InvalidInput(f"standard input can't be read: {reason}", hint="pipe a text into it") from None


def read_file(name: str) -> bytes:
    """A file's bytes; raises StoreUnavailable naming the file."""
    try:
        return Path(name).read_bytes()
    except FileNotFoundError:
        raise StoreUnavailable(
            f"there is no file {name}", hint="check the name, or give - for standard input"
        ) from None
    except OSError as error:
        raise StoreUnavailable(
            f"{name} can't be read: {error.strerror}", hint="check the path and its rights"
        ) from None


def decode(data: bytes, origin: str) -> str:
    """UTF-8, with or without a byte-order mark; raises InvalidInput naming the byte."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{origin} is not valid UTF-8 at byte {error.start}", hint="save it as UTF-8") from None
