"""What the cap decided: evictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from deermem.cli.invocation import Command, Invocation, pass_invocation
from deermem.cli.missing import note_missing
from deermem.cli.output import count, emit, note, one_line, record_object, say, table
from deermem.clock import format_timestamp
from deermem.model.evictions import CONFIDENCE, HYBRID

if TYPE_CHECKING:
    from deermem.model.evictions import Eviction, Score


@click.command("evictions", cls=Command)
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="How many decisions at most; else all.")
@pass_invocation
def evictions(invocation: Invocation, limit: int | None) -> None:
    """Show which facts went to keep the cap, when and why, the newest decision first."""
    with invocation.engine() as engine:
        found = invocation.handle(engine).evictions(limit)
        missing = note_missing(invocation, engine)
    if invocation.json:
        emit([{**record_object(item), "disagrees": item.disagrees} for item in found])
        return
    for item in found:
        _print(item)
    if not found and not missing and limit != 0:
        note("nothing was evicted, or no audit was kept")


def _print(decision: Eviction) -> None:
    kept = f", {count(decision.reserved, 'place')} kept for corrections" if decision.reserved else ""
    say(one_line(f"{format_timestamp(decision.at)}  cap of {decision.max_facts}, by {decision.policy}{kept}"))
    if decision.evicted:
        table(
            ("", item.id, item.category, f"{item.score.total:.3f}", _parts(item.score, decision.policy))
            for item in decision.evicted
        )
    if decision.would_evict is not None:
        chosen = ", ".join(decision.would_evict) or "facts that were deleted since"
        say(one_line(f"{HYBRID} would have evicted {chosen if decision.disagrees else 'the same'}"))


def _parts(score: Score, policy: str) -> str:
    if policy == CONFIDENCE:
        return ""
    return f"confidence {score.confidence:.3f}, confirmation {score.confirmation:.3f}, access {score.access:.3f}"


COMMANDS: Final[dict[str, click.Command]] = {"evictions": evictions}
