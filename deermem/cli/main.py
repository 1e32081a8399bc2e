"""The program: its commands, and the outermost handler that turns every error into one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click

from deermem.cli import bulk, demo, edit, facts, init, prompt, search, upkeep, watch
from deermem.cli.invocation import Group, Invocation, pass_invocation
from deermem.cli.notices import RAISE_CAP
from deermem.cli.output import OutputRefused, emit, fact_object, one_line, say, tolerate_any_character
from deermem.errors import DeerMemError, DuplicateFact, FactConflict, NotStored
from deermem.model.fact import Fact

DEBUG_VARIABLE: Final = "DEERMEM_DEBUG"
INTERRUPTED: Final = 130


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


for _family in (init, facts, search, edit, prompt, bulk, upkeep, watch, demo):
    for _name, _command in _family.COMMANDS.items():
        program.add_command(_command, _name)


def main() -> None:
    """The entry point of the installed program."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Makes one call, prints its answer or its error, and gives the exit code."""
    invocation = Invocation()
    tolerate_any_character()
    try:
        code = _call(arguments, invocation)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _drop_output()
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


def _drop_output() -> None:
    """Keeps the interpreter's last flush from complaining about a pipe that was closed, or a full disk."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@dataclass(frozen=True, slots=True)
class _Failure:
    kind: str
    message: str
    hint: str
    code: int


def _report(error: Exception, invocation: Invocation) -> int:
    if os.environ.get(DEBUG_VARIABLE):
        import traceback

        traceback.print_exception(error)
    failure = _failure(error)
    tail = f"; {failure.hint}" if failure.hint else ""
    click.echo(f"deermem: {one_line(failure.message + tail)}", err=True)
    if isinstance(error, OutputRefused):
        _drop_output()
    elif invocation.json:
        emit({"error": {"type": failure.kind, "message": failure.message, "hint": failure.hint, **_fact_of(error)}})
    return failure.code


def _failure(error: Exception) -> _Failure:
    kind = type(error).__name__
    if isinstance(error, NotStored):
        return _Failure(kind, error.message, f"{error.hint}; {RAISE_CAP}", error.exit_code)
    if isinstance(error, DeerMemError):
        return _Failure(kind, error.message, error.hint, error.exit_code)
    if isinstance(error, click.ClickException):
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "deermem"
        message, _, hint = error.format_message().rstrip(".").partition("; ")
        if isinstance(error, click.NoSuchOption):
            hint = f"see {where} --help, or put -- before a text that begins with a dash"
        return _Failure(kind, message, hint or f"see {where} --help", error.exit_code)
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        hint = f"set {DEBUG_VARIABLE}=1 to see where it came from"
        return _Failure(kind, f"{error.strerror or error}{where}", hint, 1)
    return _Failure(
        kind, f"unexpected {kind}: {error}", f"set {DEBUG_VARIABLE}=1 for the traceback, and report it with that", 1
    )


def _fact_of(error: Exception) -> dict[str, object]:
    fact: Fact | None = None
    if isinstance(error, FactConflict):
        fact = error.current
    elif isinstance(error, DuplicateFact):
        fact = error.existing
    return {"fact": fact_object(fact)} if fact else {}
