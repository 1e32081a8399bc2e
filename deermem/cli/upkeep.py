"""The state of a store: reindex, check, stats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from deermem.cli.invocation import Command, Invocation, pass_invocation
from deermem.cli.missing import note_missing
from deermem.cli.output import count, done, emit, one_line, record_object, say, table
from deermem.clock import format_timestamp

if TYPE_CHECKING:
    from deermem.model.reports import BucketStats, Finding, IndexReport, Stats


@click.command("reindex", cls=Command)
@click.option("--all", "everyone", is_flag=True, help="Every user; the default where none is named.")
@pass_invocation
def reindex(invocation: Invocation, everyone: bool) -> int:
    """Build the search index anew from the files."""
    user = _whose(invocation, everyone)
    with invocation.engine() as engine:
        report = engine.reindex(user)
        note_missing(invocation, engine)
    if invocation.json:
        emit(report)
    else:
        done(_index_line(report))
    return 0 if report.supported else 1


def _index_line(report: IndexReport) -> str:
    if not report.supported:
        return "there is no index here: searches read the files"
    unread = f", {report.failed} unreadable (see deermem check)" if report.failed else ""
    return f"indexed {count(report.indexed, 'fact')}{unread}"


@click.command("check", cls=Command)
@click.option("--all", "everyone", is_flag=True, help="Every user; the default where none is named.")
@click.option(
    "--fix", is_flag=True, help="Mend what needs nobody's judgement; a copy of each file is kept in .journal/."
)
@pass_invocation
def check(invocation: Invocation, everyone: bool, fix: bool) -> int:
    """Look for files that can't be served and for whatever else is not in order; changes nothing without --fix."""
    user = _whose(invocation, everyone)
    with invocation.engine() as engine:
        findings = engine.check(user, fix=fix)
        note_missing(invocation, engine)
    if invocation.json:
        emit(findings)
    else:
        for finding in findings:
            say(one_line(str(finding)))
        say(_verdict(findings))
    return 1 if any(finding.severity == "error" and not finding.fixed for finding in findings) else 0


def _verdict(findings: Sequence[Finding]) -> str:
    found = Counter(finding.severity for finding in findings if not finding.fixed)
    parts = (count(found["error"], "error"), count(found["warning"], "warning"), count(found["info"], "info"))
    left = ", ".join(parts) if found else "everything is in order"
    fixed = sum(finding.fixed for finding in findings)
    return f"{left}; {fixed} fixed" if fixed else left


@click.command("stats", cls=Command)
@pass_invocation
def stats(invocation: Invocation) -> None:
    """Count users, agents and facts, and what the cap and time mean for them, of one user or of the whole store."""
    invocation.refuse_agent("the counts of every agent are shown")
    with invocation.engine() as engine:
        found = engine.stats(invocation.user)
        note_missing(invocation, engine)
    if invocation.json:
        emit({**record_object(found), "facts": found.facts, "unreadable": found.unreadable, "waiting": found.waiting})
    else:
        _print_stats(found)


def _print_stats(found: Stats) -> None:
    say(f"{found.root}: {count(found.users, 'user')}, {count(found.facts, 'fact')}")
    waiting = f"; {count(found.waiting, 'conversation')} waiting (see deermem queue)" if found.waiting else ""
    say(f"unreadable: {count(found.unreadable, 'file')}; index: {found.index_bytes} bytes{waiting}")
    if found.buckets:
        header = ("USER", "AGENT", "FACTS", "STALE", "EXPIRED", "UNREADABLE", "BYTES", "EVICTIONS")
        table([header, *(_bucket_row(item) for item in found.buckets)])


def _bucket_row(item: BucketStats) -> tuple[str, ...]:
    full = f"{item.facts} of {item.max_facts}" if item.max_facts else str(item.facts)
    numbers = (str(item.stale), str(item.expired), str(item.unreadable), str(item.bytes))
    last = f", last {format_timestamp(item.evicted_at)}" if item.evicted_at else ""
    return item.user_id or "-", item.agent, full, *numbers, f"{item.evictions}{last}"


def _whose(invocation: Invocation, everyone: bool) -> str | None:
    invocation.refuse_agent("all agents of a user are taken together")
    if everyone and invocation.user is not None:
        raise click.UsageError("--all and --user were both given; give one of them")
    return invocation.user


COMMANDS: Final[dict[str, click.Command]] = {"reindex": reindex, "check": check, "doctor": check, "stats": stats}
