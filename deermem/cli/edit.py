"""A fact in the person's own editor: edit, and the editor behind add --edit."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from deermem.cli.invocation import Command, Invocation, pass_invocation
from deermem.cli.output import done, emit, headline, note, visible
from deermem.errors import DeerMemError, FactConflict, InvalidInput

if TYPE_CHECKING:
    from deermem.memory import Memory
    from deermem.model.changes import Commit
    from deermem.model.fact import Draft, Fact

EDITOR_VARIABLES: Final = ("VISUAL", "EDITOR")
_FALLBACK: Final = "vi"
_STANDARD_ERROR: Final = 2
Stored = TypeVar("Stored")


@click.command("edit", cls=Command)
@click.argument("fact_id", metavar="ID")
@pass_invocation
def edit(invocation: Invocation, fact_id: str) -> None:
    """Open a fact in $VISUAL or $EDITOR (else vi) and store what is saved."""
    with invocation.memory() as memory:
        start = memory.text(fact_id)

        def store(text: bytes) -> Fact:
            try:
                return memory.write_text(fact_id, text, expected=start.version)
            except FactConflict:
                _show_both(memory, fact_id, text)
                raise

        changed = write_in_editor(invocation, fact_id, start.data, store)
        fact = changed or memory.get(fact_id)
    if invocation.json:
        emit(fact)
    else:
        done(f"updated {fact.id}: {headline(fact)}" if changed else "nothing changed")


def add_in_editor(invocation: Invocation, memory: Memory, draft: Draft) -> Commit:
    """Opens an empty fact, with what the draft says in it, and stores what is saved.

    Raises DeerMemError where a template without a text was left as it was.
    """
    from deermem.service.edit import template

    text = template(draft)
    commit = write_in_editor(invocation, "new-fact", text, memory.add_text)
    if commit is None and draft.content:
        commit = memory.add_text(text)
    if commit is None:
        raise DeerMemError("the template was left as it was", hint="nothing was added; write the fact below it")
    return commit


def write_in_editor(invocation: Invocation, name: str, text: bytes, store: Callable[[bytes], Stored]) -> Stored | None:
    """Lets a person edit a copy of a text and stores it; None where it was left as it was.

    Whatever goes wrong once it was changed, the copy is kept and the error names it.
    """
    copy = _copy(name, text)
    try:
        stored = _edit_until_stored(invocation, copy, text, store)
    except DeerMemError as error:
        if _read(copy) in (text, None):
            _remove(copy)
        else:
            error.hint = f"{error.hint}; your text is kept at {copy}" if error.hint else f"your text is kept at {copy}"
        raise
    _remove(copy)
    return stored


def _edit_until_stored(
    invocation: Invocation, copy: Path, text: bytes, store: Callable[[bytes], Stored]
) -> Stored | None:
    while True:
        _run_editor(invocation, copy)
        saved = _read(copy)
        if saved is None:
            raise DeerMemError(f"the text {copy} was removed", hint="nothing was changed")
        if saved == text:
            return None
        try:
            return store(saved)
        except InvalidInput as error:
            if not _again(copy, error):
                raise


def _again(copy: Path, error: InvalidInput) -> bool:
    """Whether the person wants to mend the text at once; only a terminal can be asked."""
    if not sys.stdin.isatty():
        return False
    note(f"{copy}: {error}")
    return click.confirm("Edit it again?", default=True, err=True)


def _run_editor(invocation: Invocation, copy: Path) -> None:
    import signal
    import subprocess

    words = _editor()
    try:
        # The document that --json promises must stay alone on standard output.
        process = subprocess.Popen([*words, str(copy)], stdout=_STANDARD_ERROR if invocation.json else None)
    except OSError as error:
        hint = "set $VISUAL or $EDITOR to the editor to use"
        raise DeerMemError(f"the editor {words[0]!r} can't be started: {error.strerror}", hint=hint) from None
    # Ctrl-C is the editor's to understand: it must not leave it alone on the terminal.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    if code:
        raise DeerMemError(f"the editor {words[0]!r} ended with {code}", hint="nothing was changed")


def _editor() -> list[str]:
    """The editor's command, with its arguments."""
    for name in EDITOR_VARIABLES:
        given = os.environ.get(name, "")
        try:
            words = shlex.split(given)
        except ValueError as error:
            raise InvalidInput(f"${name} is {given!r}, which is no command: {error}", hint="mend its quotes") from None
        if words:
            return words
    return [_FALLBACK]


def _copy(name: str, text: bytes) -> Path:
    """A copy that nobody else may read, in a folder of its own: editors leave backups beside what they edit."""
    import tempfile

    path = Path(tempfile.mkdtemp(prefix="deermem-")) / f"{name}.md"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(text)
    return path


def _read(copy: Path) -> bytes | None:
    try:
        return copy.read_bytes()
    except FileNotFoundError:
        return None


def _remove(copy: Path) -> None:
    import shutil

    shutil.rmtree(copy.parent, ignore_errors=True)


def _show_both(memory: Memory, fact_id: str, text: bytes) -> None:
    """The difference between what is stored by now and the person's text."""
    from difflib import unified_diff

    try:
        stored = memory.text(fact_id).data
    except DeerMemError:
        stored = b""
    now, yours = (side.decode("utf-8", "replace").splitlines() for side in (stored, text))
    for line in unified_diff(now, yours, "stored now", "yours", lineterm=""):
        click.echo(visible(line), err=True)


COMMANDS: Final[dict[str, click.Command]] = {"edit": edit}
