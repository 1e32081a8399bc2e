"""Taking in what lies elsewhere: a document of our own, or what another program keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from deermem.cli.input import STANDARD_STREAM, read_stdin
from deermem.cli.invocation import Command, Invocation, pass_invocation
from deermem.cli.notices import RAISE_CAP, note_evicted
from deermem.cli.output import count, done, emit, note, say
from deermem.errors import DeerMemError, InvalidInput
from deermem.model.imports import KINDS

if TYPE_CHECKING:
    from deermem.engine import DeerMem
    from deermem.model.imports import ImportReport

_NAMED: Final = 10
_OTHER_SHAPES: Final = ('no "facts" list', "not a JSON object", "Extra data")


class WouldBeRefused(DeerMemError):
    """A dry run's answer: the import would end with this error."""


@click.command("import", cls=Command)
@click.argument("file", metavar="FILE|FOLDER|-")
@click.option("--from", "kind", type=click.Choice(KINDS), default=KINDS[0], help="What it is; a deermem document.")
@click.option("--replace", is_flag=True, help="Also delete the facts that it lacks.")
@click.option("--dry-run", is_flag=True, help="Check everything, change nothing, say what would come of it.")
@pass_invocation
def import_document(invocation: Invocation, file: str, kind: str, replace: bool, dry_run: bool) -> None:
    """Take in a JSON document of facts and summaries, or what another program keeps; it wins where an id is there."""
    if file == STANDARD_STREAM and kind == "notes":
        raise click.UsageError("notes can't come from standard input; give their folder")
    origin = read_stdin() if file == STANDARD_STREAM else file
    with invocation.engine() as engine, _refusals(dry_run), _naming(file, kind):
        report = invocation.handle(engine).import_from(kind, origin, replace=replace, dry_run=dry_run)
        _note_left_out(engine, report)
        note_evicted(engine, [name for name in report.evicted if name not in report.left_out], would=dry_run)
    _note_skipped(report.skipped)
    if invocation.json:
        emit(report)
    elif dry_run:
        say(_summary(report))
    else:
        done(_summary(report))


def _note_left_out(engine: DeerMem, report: ImportReport) -> None:
    """What the cap keeps out was never in the memory: it must not look as if it had been taken from it."""
    if report.left_out:
        verb = "would not be" if report.dry_run else "not"
        cap = count(engine.settings.max_facts, "fact")
        more = ", …" if len(report.left_out) > _NAMED else ""
        named = ", ".join(report.left_out[:_NAMED]) + more
        number = count(len(report.left_out), "fact")
        note(f"deermem: {number} {verb} taken in, to keep the cap of {cap}: {named}; {RAISE_CAP}")


@contextmanager
def _refusals(dry_run: bool) -> Iterator[None]:
    """A refusal is what a dry run was to find out: no fault of the call, so it doesn't end as one."""
    try:
        yield
    except DeerMemError as error:
        if dry_run:
            raise WouldBeRefused(error.message, hint=error.hint) from None
        raise


@contextmanager
def _naming(file: str, kind: str) -> Iterator[None]:
    """Says what the engine can't: that the bytes came from a stream, and how to name another kind."""
    try:
        yield
    except InvalidInput as error:
        if kind == KINDS[0] and any(word in error.message for word in _OTHER_SHAPES):
            error.hint += f"; what another program wrote needs --from {', '.join(KINDS[1:-1])} or {KINDS[-1]}"
        if file == STANDARD_STREAM:
            error.message = f"standard input: {error.message}"
        raise


def _note_skipped(skipped: Sequence[str]) -> None:
    for line in skipped[:_NAMED]:
        note(f"deermem: passed over {line}")
    if len(skipped) > _NAMED:
        note(f"deermem: and {len(skipped) - _NAMED} more; --json names them all")


def _summary(report: ImportReport) -> str:
    """What became of the facts, told apart where it isn't the same for all."""
    kinds = {"added": report.added, "updated": report.updated, "already there": report.present}
    total = count(sum(map(len, kinds.values())), "fact")
    counts = ", ".join(f"{len(ids)} {kind}" for kind, ids in kinds.items() if ids)
    told = f"{total} ({counts})" if report.updated or report.present else total
    if not report.dry_run:
        return f"imported {told}" + (f", deleted {len(report.deleted)}" if report.deleted else "")
    deleted = f", delete {len(report.deleted)}" if report.deleted else ""
    return f"would import {told}{deleted}" + (f", evict {len(report.evicted)}" if report.evicted else "")


COMMANDS: Final[dict[str, click.Command]] = {"import": import_document}
