"""The program: its commands, and the outermost handler that turns every error into one line and an exit code."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click

from deermem.cli import (
    bulk,
    capture,
    demo,
    edit,
    evictions,
    facts,
    importing,
    init,
    migrate,
    prompt,
    queue,
    search,
    upkeep,
    watch,
)
from deermem.cli.invocation import Group, Invocation, pass_invocation
from deermem.cli.log import shown_warnings
from deermem.cli.notices import RAISE_CAP
from deermem.cli.output import (
    OutputRefused,
    drop,
    emit,
    fact_object,
    fill_closed_streams,
    flush,
    note,
    say,
    tolerate_any_character,
)
from deermem.cli.stopping import INTERRUPTED
from deermem.errors import DeerMemError, DuplicateFact, FactConflict, NotStored
from deermem.model.fact import Fact

DEBUG_VARIABLE: Final = "DEERMEM_DEBUG"
_TOO_MANY: Final = "Got unexpected extra argument"
_NO_NUMBER: Final = re.compile(r"is not a valid (?:integer|float)(?: range)?")
_HINTS: Final = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EROFS: "the file system is read-only",
    errno.EISDIR: "move the folder away",
    errno.EMFILE: "raise the limit of open files",
}


@click.group("deermem", cls=Group, invoke_without_command=True)
@click.option("--version", is_flag=True, help="Print the version.")
@pass_invocation
@click.pass_context
def program(context: click.Context, invocation: Invocation, version: bool) -> None:
    """The memory of AI agents as Markdown files."""
    if version:
        _print_version(invocation)
        context.exit(0)
    if context.invoked_subcommand is not None:
        return
    if invocation.json:
        raise click.UsageError("no command is given", context)
    click.echo(context.get_help(), err=True)
    context.exit(2)


for _family in (
    init,
    facts,
    search,
    edit,
    prompt,
    capture,
    queue,
    bulk,
    importing,
    migrate,
    evictions,
    upkeep,
    watch,
    demo,
):
    for _name, _command in _family.COMMANDS.items():
        program.add_command(_command, _name)


def main() -> None:
    """The entry point of the installed program."""
    fill_closed_streams()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Makes one call, prints its answer or its error, and gives the exit code."""
    invocation = Invocation()
    tolerate_any_character()
    try:
        with shown_warnings():
            code = _call(arguments, invocation)
            flush()
        return code
    except BrokenPipeError:
        drop(sys.stdout)
        return 0
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001  # whatever it is, a person gets one line
        if isinstance(error, click.UsageError):
            invocation.json = invocation.json or _wants_json(arguments)
        return _report(error, invocation)


def _call(arguments: Sequence[str], invocation: Invocation) -> int:
    _refuse_nul(arguments)
    try:
        with program.make_context("deermem", list(arguments), obj=invocation) as context:
            result = program.invoke(context)
    except click.exceptions.Exit as ending:
        return ending.exit_code
    return result if isinstance(result, int) else 0


def _refuse_nul(arguments: Sequence[str]) -> None:
    """No path and no fact can hold one; further in, the error could not tell which argument it was."""
    for number, argument in enumerate(arguments, start=1):
        if "\0" in argument:
            option = argument.partition("=")[0] if argument.startswith("--") else (["", *arguments])[number - 1]
            named = option if option.startswith("--") and "\0" not in option else f"argument {number}"
            raise click.UsageError(f"{named} holds a NUL character; remove it")


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether a call that can't even be parsed asked for JSON."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options


def _print_version(invocation: Invocation) -> None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        number = version("deermem")
    except PackageNotFoundError:
        number = "(not installed)"
    if invocation.json:
        emit({"version": number})
    else:
        say(f"deermem {number}")


@dataclass(frozen=True, slots=True)
class _Failure:
    kind: str
    message: str
    hint: str
    code: int


def _report(error: Exception, invocation: Invocation) -> int:
    if os.environ.get(DEBUG_VARIABLE):
        _print_traceback(error)
    failure = _failure(error)
    note(f"deermem: {failure.message}{f'; {failure.hint}' if failure.hint else ''}")
    try:
        if invocation.json and not isinstance(error, OutputRefused):
            emit({"error": {"type": failure.kind, "message": failure.message, "hint": failure.hint, **_fact_of(error)}})
    except (OutputRefused, BrokenPipeError):
        # Reported once more on the stream that just failed, it would end in a traceback.
        drop(sys.stdout)
    if isinstance(error, OutputRefused):
        drop(sys.stdout)
    return failure.code


def _print_traceback(error: Exception) -> None:
    import traceback

    try:
        traceback.print_exception(error)
    except OSError:
        drop(sys.stderr)


def _failure(error: Exception) -> _Failure:
    kind = type(error).__name__
    if isinstance(error, NotStored):
        return _Failure(kind, error.message, f"{error.hint}; {RAISE_CAP}", error.exit_code)
    if isinstance(error, DeerMemError):
        return _Failure(kind, error.message, error.hint, error.exit_code)
    if isinstance(error, click.ClickException):
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "deermem"
        message, _, hint = error.format_message().rstrip(".").partition("; ")
        message = _NO_NUMBER.sub("is not a number", message)
        if isinstance(error, click.NoSuchOption):
            hint = f"see {where} --help, or put -- before a text that begins with a dash"
        elif message.startswith(_TOO_MANY) and _takes_text(error):
            hint = f"see {where} --help, or put quotes around a text of several words"
        return _Failure(kind, message, hint or f"see {where} --help", error.exit_code)
    if isinstance(error, OSError):
        return _refusal(kind, error)
    return _Failure(
        kind, f"unexpected {kind}: {error}", f"set {DEBUG_VARIABLE}=1 for the traceback, and report it with that", 1
    )


def _takes_text(error: click.ClickException) -> bool:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return context is not None and bool({"text", "content"} & {param.name for param in context.command.params})


def _refusal(kind: str, error: OSError) -> _Failure:
    """What the operating system refused, by the file's name."""
    reason = error.strerror or str(error)
    if error.filename is None:
        return _Failure(kind, reason, f"set {DEBUG_VARIABLE}=1 to see where it came from", 1)
    where = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else str(error.filename)
    return _Failure(kind, f"{where}: {reason}", _HINTS.get(error.errno or 0, "check its owner and permissions"), 1)


def _fact_of(error: Exception) -> dict[str, object]:
    fact: Fact | None = None
    if isinstance(error, FactConflict):
        fact = error.current
    elif isinstance(error, DuplicateFact):
        fact = error.existing
    return {"fact": fact_object(fact)} if fact else {}
