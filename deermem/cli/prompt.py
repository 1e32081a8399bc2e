"""What a prompt gets: context, and the summaries that all agents of a user share."""

from __future__ import annotations

from typing import Final

import click

from deermem.cli.input import text_or_stdin
from deermem.cli.invocation import Command, Group, Invocation, pass_invocation
from deermem.cli.notices import note_missing_store
from deermem.cli.output import done, emit, note, put, say
from deermem.model.summaries import HISTORY_SECTIONS, SECTIONS, USER_SECTIONS, Summaries
from deermem.model.values import JsonObject


@click.command("context", cls=Command)
@pass_invocation
def context(invocation: Invocation) -> None:
    """Print the block of memory that goes into a prompt."""
    with invocation.engine() as engine:
        text = invocation.handle(engine).context()
        missing = note_missing_store(engine)
    if invocation.json:
        emit({"context": text})
    elif text:
        put(text, nl=not text.endswith("\n"))
    elif not missing:
        note("nothing is remembered yet")


@click.group("summaries", cls=Group, invoke_without_command=True)
@pass_invocation
@click.pass_context
def summaries(click_context: click.Context, invocation: Invocation) -> None:
    """Show the summaries of a user; `set` changes one."""
    if click_context.invoked_subcommand is not None:
        return
    with invocation.engine() as engine:
        found = invocation.handle(engine).summaries()
        missing = note_missing_store(engine)
    if invocation.json:
        emit(_summaries_object(found))
    elif not found.is_empty():
        said = {key: found.section(key).summary for key in SECTIONS}
        say("\n".join(f"{key}: {text}" for key, text in said.items() if text))
    elif not missing:
        note("no summaries")


@summaries.command("set")
@click.argument("section")
@click.argument("text")
@click.option("--expected", type=int, metavar="REVISION", help="Change it only if the revision is still this one.")
@pass_invocation
def set_summary(invocation: Invocation, section: str, text: str, expected: int | None) -> None:
    """Make TEXT the summary SECTION (workContext, topOfMind, …); - reads it from standard input."""
    new_text = text_or_stdin(text)
    with invocation.memory() as memory:
        commit = memory.update_summaries({section: new_text}, expected_revision=expected)
    if invocation.json:
        emit(commit)
    else:
        done(f"set {section}, revision {commit.revision}")


def _summaries_object(found: Summaries) -> JsonObject:
    def part(names: dict[str, str]) -> JsonObject:
        sections = {key: found.section(key) for key in names}
        return {key: {"summary": item.summary, "updatedAt": item.updated_at} for key, item in sections.items()}

    return {
        "revision": found.revision,
        "lastUpdated": found.last_updated,
        "user": part(USER_SECTIONS),
        "history": part(HISTORY_SECTIONS),
    }


COMMANDS: Final[dict[str, click.Command]] = {"context": context, "summaries": summaries}
