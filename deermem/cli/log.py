"""What the engine logs, on standard error: a line for each warning, as every other line of the program."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

from deermem.cli.output import note

_ENGINE: Final = "deermem"
_UNSERVED: Final = "deermem.unserved"
_INDEX: Final = "deermem.index"
# They list the files that are not served as their answer.
_LISTING: Final = ("check", "doctor")


class _StandardError(logging.Handler):
    """Says everything once. Of the indexes that can't be written, one a user, only the first is named."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Prints a record on one line."""
        context = click.get_current_context(silent=True)
        if record.name == _UNSERVED and context is not None and context.info_name in _LISTING:
            return
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text = f"{text}: {record.exc_info[1]}"
        key = _INDEX if record.name == _INDEX else text
        if key not in self._said:
            self._said.add(key)
            note(f"deermem: {text}")


@contextmanager
def shown_warnings() -> Iterator[None]:
    """Shows the engine's warnings as long as it is open."""
    logger = logging.getLogger(_ENGINE)
    handler = _StandardError()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
