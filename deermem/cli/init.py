"""Making a store ready: its folder, and what git or a sync client must leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from deermem.cli.invocation import Command, Invocation, pass_invocation
from deermem.cli.output import done, emit, record_object

if TYPE_CHECKING:
    from deermem.model.reports import Prepared


@click.command("init", cls=Command)
@click.option("--git", is_flag=True, help="Also write .gitignore and .gitattributes; lines that are there stay.")
@pass_invocation
def init(invocation: Invocation, git: bool) -> None:
    """Make the folder of a store, and say what must not travel with git or a sync client."""
    invocation.refuse_agent("the whole store is prepared")
    if invocation.user is not None:
        raise click.UsageError("--user does not go with this command; the whole store is prepared")
    with invocation.engine() as engine:
        prepared = engine.init(git=git)
    if invocation.json:
        emit({**record_object(prepared), "changed": prepared.changed})
    else:
        done("\n".join(_lines(prepared, git)))


def _lines(prepared: Prepared, git: bool) -> list[str]:
    lines = [f"made {prepared.root}"] if prepared.created else []
    lines += [f"wrote {path}" for path in prepared.written]
    if not lines:
        lines = [f"{prepared.root} is ready: nothing to do"]
    if not git:
        lines.append(f"a sync client must leave out, at any depth: {'  '.join(prepared.exclude)}")
        lines.append("under git, init --git writes that down")
    lines.append("the search index can be kept outside: give --index-root DIR, or the setting index_root")
    return lines


COMMANDS: Final[dict[str, click.Command]] = {"init": init}
