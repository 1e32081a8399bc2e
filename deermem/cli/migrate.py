"""Version 1 to version 2, and back: the operator's command."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import click

from deermem.cli.invocation import Command, Invocation, pass_invocation
from deermem.cli.live import live_line
from deermem.cli.notices import note_other_owner, note_passed_over
from deermem.cli.output import count, done, emit, note, record_object, say
from deermem.cli.stopping import INTERRUPTED, Stopper
from deermem.config import Settings
from deermem.errors import StoreUnavailable

if TYPE_CHECKING:
    from deermem.engine import DeerMem
    from deermem.model.reports import MigrationReport, UserMigration, UserRestore, Verification

_NAMED: Final = 20
Tell = Callable[[str], None]


@click.command("migrate", cls=Command)
@click.option("--all-users", is_flag=True, help="Every user of the store.")
@click.option("--user-id", "user_ids", multiple=True, metavar="ID", help="This user; may be given several times.")
@click.option("--storage-path", metavar="DIR", help="The store, as --root.")
@click.option("--dry-run", is_flag=True, help="Check everything, change nothing.")
@click.option("--verify", is_flag=True, help="Afterwards hold the files against the backups.")
@click.option("--restore", "restored", multiple=True, metavar="USER", help="Put the version 1 documents back instead.")
@pass_invocation
def migrate(  # noqa: PLR0913 - click gives each option
    invocation: Invocation,
    *,
    all_users: bool,
    user_ids: tuple[str, ...],
    storage_path: str | None,
    dry_run: bool,
    verify: bool,
    restored: tuple[str, ...],
) -> int:
    """Turn version 1 JSON stores into Markdown files; each source is kept as a verified backup."""
    if verify and (dry_run or restored):
        other = "--restore" if restored else "--dry-run"
        raise click.UsageError(f"--verify and {other} exclude each other; leave one of them out")
    users = _selection(invocation, all_users, user_ids, restored)
    _choose_root(invocation, storage_path)
    with invocation.engine() as engine:
        if not dry_run:
            note_other_owner(engine)
        if restored:
            return _restore(invocation, engine, users or [], dry_run)
        if users is None:
            note_passed_over(engine)
        report, number = _migrate(invocation, engine, users, dry_run, verify)
    _print_report(invocation, report)
    if report.interrupted:
        note(f"deermem: stopped after {len(report.users)} of {count(number, 'user')}; the next run goes on from there")
        return INTERRUPTED
    return 0 if report.ok else 1


def _migrate(
    invocation: Invocation, engine: DeerMem, users: Sequence[str] | None, dry_run: bool, verify: bool
) -> tuple[MigrationReport, int]:
    """The report, and how many users there were to take."""
    number = 0
    # A terminal that went away must not end a migration half-way; a dry run is nothing but its answer.
    tell = say if dry_run else done
    stopper = Stopper()
    line = None if invocation.json else live_line(stopper)
    stopper.aloud = line is None
    above = line.tell if line is not None and sys.stdout.isatty() else tell

    def begin(found: int) -> None:
        nonlocal number
        number = found
        if line is not None:
            line.begin(found)

    def progress(result: UserMigration) -> None:
        if invocation.json:
            _note_migration(result)
        else:
            _say_migration(above, result)
        if line is not None:
            line.advance(result)

    with ExitStack() as stack:
        stack.enter_context(stopper)
        if line is not None:
            stack.enter_context(line)
        report = engine.migrate(users, dry_run, progress, verify=verify, begin=begin, stop=lambda: stopper.asked)
    return report, number


def _print_report(invocation: Invocation, report: MigrationReport) -> None:
    if invocation.json:
        counts = {kind: report.count(kind) for kind in ("migrated", "planned", "current", "failed")}
        emit({**record_object(report), **counts})
    else:
        (say if report.dry_run else done)(str(report))


def _selection(
    invocation: Invocation, all_users: bool, user_ids: tuple[str, ...], restored: tuple[str, ...]
) -> list[str] | None:
    invocation.refuse_agent("all agents of a user are migrated together")
    named = [*user_ids, *([invocation.user] if invocation.user is not None else [])]
    if restored and (all_users or named):
        raise click.UsageError("--restore names its users itself; leave --all-users, --user-id and --user out")
    if all_users and named:
        raise click.UsageError("--all-users and single users were both given; give one of them")
    if not all_users and not named and not restored:
        raise click.UsageError("no user is selected; give --all-users, or --user-id ID")
    return None if all_users else list(dict.fromkeys([*named, *restored]))


def _choose_root(invocation: Invocation, storage_path: str | None) -> None:
    if storage_path is not None and invocation.root not in (None, storage_path):
        raise click.UsageError("--root and --storage-path name different stores; give one of them")
    if storage_path == "":
        raise click.UsageError("--storage-path is empty; give the folder of the store")
    invocation.root = storage_path or invocation.root
    root = Settings(root=invocation.root).resolved_root()
    if not os.path.lexists(root):
        raise StoreUnavailable(f"there is no store at {root}", hint="give its folder with --storage-path")


# --- one user's lines


def _migration_lines(result: UserMigration) -> list[str]:
    facts = count(result.facts, "fact")
    outcome = {
        "migrated": f"migrated {facts}",
        "planned": f"would migrate {facts}",
        "current": "already current",
        "failed": f"failed, but {facts} migrated" if result.facts else "failed",
    }[result.outcome]
    verified = "" if result.verified is None else f", {_proof(result.verified)}"
    changed = () if result.verified is None else result.verified.changed
    lines = [*result.problems, *changed[:_NAMED]]
    if len(changed) > _NAMED:
        lines.append(f"and {len(changed) - _NAMED} more were changed since; --json names them all")
    return [f"{result.user}: {outcome}{verified}", *(f"  {line}" for line in lines)]


def _proof(found: Verification) -> str:
    if not found.backups:
        return "no backup to verify it by"
    summaries = "1 summary" if found.summaries == 1 else f"{found.summaries} summaries"
    changed = f", {len(found.changed)} changed since" if found.changed else ""
    return f"verified {count(found.facts, 'fact')} and {summaries}{changed}"


def _say_migration(tell: Tell, result: UserMigration) -> None:
    """One user's result, and what a dry run would do, where the answer is a text: there and nowhere else."""
    steps = [f"  {step}" for step in result.steps[1:]]
    tell("\n".join([*_migration_lines(result), *steps]))


def _note_migration(result: UserMigration) -> None:
    """One user's result as progress, where the answer is one JSON document at the end."""
    for line in _migration_lines(result):
        note(line)


# --- back to version 1


def _restore(invocation: Invocation, engine: DeerMem, users: Sequence[str], dry_run: bool) -> int:
    for user in users:
        # A name that can't be one is refused before anything is restored.
        engine.memory(user)
    tell = say if dry_run else done
    results = []
    for user in users:
        results.append(engine.restore(user, dry_run))
        for line in _restore_lines(results[-1]):
            (note if invocation.json else tell)(line)
    kinds = ("restored", "planned", "current", "failed")
    counts = {kind: sum(1 for result in results if result.outcome == kind) for kind in kinds}
    if invocation.json:
        emit({"users": results, "dry_run": dry_run, **counts})
    else:
        tell(" ".join(f"{kind}={number}" for kind, number in counts.items()))
    return 1 if counts["failed"] else 0


def _restore_lines(result: UserRestore) -> list[str]:
    outcome = {
        "restored": f"put back {count(len(result.documents), 'document')}, removed {count(result.facts, 'fact file')}",
        "planned": "would go back to version 1",
        "current": "is of version 1 already",
        "failed": "not restored, nothing was changed",
    }[result.outcome]
    return [f"{result.user}: {outcome}", *(f"  {line}" for line in (*result.problems, *result.steps))]


COMMANDS: Final[dict[str, click.Command]] = {"migrate": migrate}
