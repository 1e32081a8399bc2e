"""What waits for extraction: queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from deermem.cli.capture import MODEL_NEEDED
from deermem.cli.invocation import Command, Invocation, pass_invocation
from deermem.cli.missing import note_missing, note_missing_store
from deermem.cli.output import count, done, emit, note, record_object, table
from deermem.clock import format_timestamp

if TYPE_CHECKING:
    from deermem.extract.pipeline import Metrics
    from deermem.model.reports import Waiting


@click.command("queue", cls=Command)
@click.option("--flush", is_flag=True, help="Extract all of it now, of every user.")
@click.option("--retry", is_flag=True, help="Have what was set aside after too many failures tried again.")
@click.option("--model", metavar="NAME", help="Which model --flush asks, as provider:name; else $DEERMEM_MODEL.")
@click.option("--timeout", type=click.FloatRange(min=0), metavar="S", help="Seconds that --flush takes at most.")
@pass_invocation
def queue(invocation: Invocation, flush: bool, retry: bool, model: str | None, timeout: float | None) -> int:
    """List the conversations that wait for extraction, of one user or of all; or see to them."""
    invocation.refuse_agent("the conversations of all agents are shown")
    if not flush and (model is not None or timeout is not None):
        raise click.UsageError("--model and --timeout go with --flush; add it, or leave them out")
    if flush and invocation.user is not None:
        raise click.UsageError("--flush extracts for every user; leave out --user")
    again = _retry(invocation) if retry else None
    if flush:
        return _flush(invocation, model, timeout, again)
    with invocation.engine() as engine:
        found = engine.waiting(invocation.user)
        missing = note_missing(invocation, engine)
    if invocation.json:
        emit({"retried": again or 0, "waiting": found})
        return 0
    if again is not None:
        done(f"{count(again, 'conversation')} will be tried again")
    if found:
        _print(found)
    elif not missing:
        note("no conversation waits")
    return 0


def _retry(invocation: Invocation) -> int:
    with invocation.engine() as engine:
        return engine.retry(invocation.user)


def _flush(invocation: Invocation, name: str | None, timeout: float | None, again: int | None) -> int:
    """Extracts; 1 where something is left, which then waits as before."""
    from deermem.config import model_from_environment
    from deermem.extract.hooks import Hooks

    name = name or model_from_environment()
    if name is None:
        raise click.UsageError(MODEL_NEEDED)
    told: list[Metrics] = []
    hooks = Hooks(on_extracted=told.append)
    # What failed just now is not to be asked again at the end.
    with invocation.engine(hooks=hooks, model=name, close_timeout_seconds=0) as engine:
        whole = engine.flush(timeout)
        left = [item for item in engine.waiting() if item.state != "failed"]
        note_missing_store(engine)
    if invocation.json:
        emit({"retried": again or 0, "extracted": [_object(item) for item in told], "waiting": left})
    else:
        if told:
            table([_row(item) for item in told])
        done(f"{count(len(told), 'conversation')} extracted, {len(left)} still waiting")
    return 0 if whole else 1


def _object(item: Metrics) -> dict[str, object]:
    return {"user_id": item.user_id, "agent": item.agent, "thread_id": item.thread_id, **record_object(item.outcome)}


def _row(item: Metrics) -> tuple[str, ...]:
    counts = ", ".join(f"{name} {number}" for name, number in item.counts.items())
    return item.user_id or "-", item.agent, item.thread_id, counts or "nothing new"


def _print(found: Sequence[Waiting]) -> None:
    header = ("USER", "AGENT", "THREAD", "TURNS", "SINCE", "STATE")
    table([header, *(_waiting_row(item) for item in found)])


def _waiting_row(item: Waiting) -> tuple[str, ...]:
    failures = f", {count(item.attempts, 'failure')}" if item.attempts else ""
    due = f", due {format_timestamp(item.due.replace(microsecond=0))}" if item.state == "waiting" else ""
    state = "set aside" if item.state == "failed" else item.state
    since = format_timestamp(item.since.replace(microsecond=0))
    return item.user_id or "-", item.agent, item.thread_id, str(item.turns), since, f"{state}{due}{failures}"


COMMANDS: Final[dict[str, click.Command]] = {"queue": queue}
