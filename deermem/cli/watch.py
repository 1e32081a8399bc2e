"""watch: one line for each fact file that may have changed, until it is interrupted."""

from __future__ import annotations

import queue
import sys
from typing import TYPE_CHECKING, Final

import click

from deermem.cli.invocation import Command, Invocation, pass_invocation
from deermem.cli.missing import note_missing
from deermem.cli.output import note, one_line, put

if TYPE_CHECKING:
    from deermem.watch import Change

_WAIT_SECONDS: Final = 0.5
_ALL: Final = "*"


@click.command("watch", cls=Command)
@pass_invocation
def watch(invocation: Invocation) -> None:
    """Print which fact files change, until Ctrl-C: time, user, agent, path below the agent's facts/.

    A path that ends in / is a folder that went; * stands for any file of the agent. Without --user every user is
    followed, without --agent every agent.

    Unlike all other commands, --json prints one JSON document a line, as the changes come: "path" is null where any
    file of the agent may have changed, "user" is null in the no-user root.
    """
    from deermem.model.scope import Scope

    scope = Scope.of(invocation.user, invocation.agent)
    changes: queue.SimpleQueue[Change] = queue.SimpleQueue()
    with invocation.engine() as engine, engine.watch() as watcher:
        watcher.subscribe(changes.put)
        note(f"watching {engine.root} by {watcher.mode}; Ctrl-C ends it")
        note_missing(invocation, engine)
        while True:
            try:
                # With a bound, since Windows lets no signal through to a wait without one.
                change = changes.get(timeout=_WAIT_SECONDS)
            except queue.Empty:
                continue
            if invocation.user is not None and change.user != scope.user_folder:
                continue
            if invocation.agent is None or change.agent == scope.agent:
                _print(change, as_json=invocation.json)


def _print(change: Change, *, as_json: bool) -> None:
    from deermem.clock import format_timestamp, utc_now

    time = format_timestamp(utc_now())
    for path in change.paths or [None]:
        if as_json:
            _print_json({"time": time, "user": change.user, "agent": change.agent, "path": path})
        else:
            put("  ".join([time, change.user or "-", change.agent, one_line(path or _ALL)]))


def _print_json(entry: dict[str, str | None]) -> None:
    import json

    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
    put(json.dumps(entry, ensure_ascii=ascii_only))


COMMANDS: Final[dict[str, click.Command]] = {"watch": watch}
