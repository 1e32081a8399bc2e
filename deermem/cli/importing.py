"""Taking in what lies elsewhere: a document of our own, or what another program keeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from deermem.cli.input import STANDARD_STREAM, read_stdin
from deermem.cli.invocation import Command, Invocation, pass_invocation
from deermem.cli.missing import newcomer
from deermem.cli.notices import RAISE_CAP, note_evicted
from deermem.cli.output import count, done, emit, note, say
from deermem.errors import DeerMemError, InvalidInput, StoreUnavailable
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
@click.option("--replace", "lacking", is_flag=True, help="Also delete the facts that it lacks.")
@click.option("--skip-bad", is_flag=True, help="Leave out what is bad and take in the rest; not of a document.")
@click.option("--dry-run", is_flag=True, help="Check everything, change nothing, say what would come of it.")
@pass_invocation
def import_document(  # noqa: PLR0913 - one parameter an option
    invocation: Invocation, file: str, kind: str, *, lacking: bool, skip_bad: bool, dry_run: bool
) -> None:
    """Take in a JSON document of facts and summaries, or what another program keeps; it wins where an id is there."""
    if file == STANDARD_STREAM and kind == "notes":
        raise click.UsageError("notes can't come from standard input; give their folder")
    if skip_bad:
        _refuse_skipping(kind, lacking)
    origin = read_stdin() if file == STANDARD_STREAM else file
    with invocation.engine() as engine, _refusals(dry_run), _naming(file, kind, skip_bad):
        whose = newcomer(invocation, engine)
        memory = invocation.handle(engine)
        report = memory.import_from(kind, origin, replace=lacking, dry_run=dry_run, skip_bad=skip_bad)
        _note_left_out(engine, report)
        note_evicted(engine, [name for name in report.evicted if name not in report.left_out], would=dry_run)
    _note_skipped(report)
    if invocation.json:
        emit(report)
    elif dry_run:
        say(_summary(report, whose))
    else:
        done(_summary(report, whose))


def _refuse_skipping(kind: str, lacking: bool) -> None:
    if kind == KINDS[0]:
        hint = f"--skip-bad is for --from {', '.join(KINDS[1:-1])} or {KINDS[-1]}"
        raise click.UsageError(f"a document is taken in whole or not at all; {hint}")
    if lacking:
        raise click.UsageError("--replace would delete what --skip-bad leaves out; give one of them")


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
def _naming(file: str, kind: str, skip_bad: bool) -> Iterator[None]:
    """Says what the engine can't: that the bytes came from a stream, and which option helps."""
    try:
        yield
    except StoreUnavailable as error:
        if "as 'notes'" in error.hint:
            error.hint += ": --from notes"
        raise
    except InvalidInput as error:
        if kind == KINDS[0] and any(word in error.message for word in _OTHER_SHAPES):
            error.hint += f"; what another program wrote needs --from {', '.join(KINDS[1:-1])} or {KINDS[-1]}"
        if kind != KINDS[0] and not error.hint and not skip_bad:
            error.hint = "or give --skip-bad to take in the rest"
        if file == STANDARD_STREAM:
            error.message = f"standard input: {error.message}"
        raise


def _note_skipped(report: ImportReport) -> None:
    """The first of what says nothing, and all that was bad: it is what somebody has to mend."""
    for line in report.skipped[:_NAMED]:
        note(f"deermem: passed over {line}")
    if len(report.skipped) > _NAMED:
        note(f"deermem: and {len(report.skipped) - _NAMED} more; --json names them all")
    for line in report.bad:
        note(f"deermem: skipped {line}")


def _summary(report: ImportReport, whose: str) -> str:
    """What became of the facts, told apart where it isn't the same for all."""
    kinds = {"added": report.added, "updated": report.updated, "already there": report.present}
    total = count(sum(map(len, kinds.values())), "fact")
    counts = ", ".join(f"{len(ids)} {kind}" for kind, ids in kinds.items() if ids)
    told = f"{total} ({counts})" if report.updated or report.present else total
    if report.present and not report.added and not report.updated:
        told = f"no new facts: {counts}"
    told += whose
    skipped = f", {'skip' if report.dry_run else 'skipped'} {count(len(report.bad), 'bad item')}" if report.bad else ""
    if not report.dry_run:
        return f"imported {told}" + (f", deleted {len(report.deleted)}" if report.deleted else "") + skipped
    deleted = f", delete {len(report.deleted)}" if report.deleted else ""
    evicted = f", evict {len(report.evicted)}" if report.evicted else ""
    return f"would import {told}{deleted}{evicted}{skipped}"


COMMANDS: Final[dict[str, click.Command]] = {"import": import_document}
