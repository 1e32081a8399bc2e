"""A whole memory at once: clear, export."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from deermem.cli.input import STANDARD_STREAM
from deermem.cli.invocation import Command, Invocation, pass_invocation
from deermem.cli.missing import note_missing
from deermem.cli.notices import note_backups
from deermem.cli.output import count, done, emit, note, to_json
from deermem.config import Settings
from deermem.errors import InvalidInput, StoreUnavailable
from deermem.model.values import JsonValue

if TYPE_CHECKING:
    from deermem.model.changes import Commit


@click.command("clear", cls=Command)
@click.option("--all-agents", is_flag=True, help="Every agent's facts of this user, and the summaries.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@pass_invocation
def clear(invocation: Invocation, all_agents: bool, yes: bool) -> None:
    """Delete all facts of one agent, or with --all-agents all that is known of a user."""
    if all_agents:
        invocation.refuse_agent("--all-agents names them all")
    if not yes and not _confirmed(invocation, all_agents):
        note("nothing was deleted")
        raise click.exceptions.Exit(1)
    with invocation.engine() as engine:
        note_missing(invocation, engine)
        commit = engine.clear(user_id=invocation.user) if all_agents else invocation.handle(engine).clear()
        note_backups(invocation, engine, all_agents=all_agents)
    _answer(invocation, commit, f"deleted {count(len(commit.deleted), 'fact')}")


def _confirmed(invocation: Invocation, all_agents: bool) -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError("clear deletes for good and there is no terminal to ask on; add --yes")
    whose = "the no-user root" if invocation.user is None else f"user {invocation.user}"
    agents = "every agent" if all_agents else f"agent {invocation.agent or '(default)'}"
    return click.confirm(f"Delete all facts of {whose}, {agents}?", err=True)


@click.command("export", cls=Command)
@click.argument("file", metavar="[FILE|-]", default=STANDARD_STREAM)
@pass_invocation
def export(invocation: Invocation, file: str) -> None:
    """Write facts and summaries as one JSON document, to FILE or standard output."""
    if file != STANDARD_STREAM:
        _refuse_place_in_store(invocation, file)
    with invocation.engine() as engine:
        document = invocation.handle(engine).document()
        note_missing(invocation, engine)
    if file == STANDARD_STREAM:
        emit(document)
        return
    facts = document.get("facts")
    number = len(facts) if isinstance(facts, list) else 0
    _write(Path(file), to_json(document))
    if invocation.json:
        emit({"path": os.path.abspath(file), "facts": number})
    else:
        done(f"exported {count(number, 'fact')} to {file}")


def _refuse_place_in_store(invocation: Invocation, file: str) -> None:
    """Prevents an export named memory.json from taking the place of the store's own."""
    root = Path(Settings(root=invocation.root).resolved_root()).resolve()
    if Path(file).resolve().is_relative_to(root):
        raise InvalidInput(f"{file} lies inside the store {root}", hint="write the export somewhere else")


def _write(path: Path, document: JsonValue) -> None:
    import json

    text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
        else:
            _write_beside(path, text)
    except OSError as error:
        raise StoreUnavailable(
            f"{path} can't be written: {error.strerror}", hint="check the path and its rights"
        ) from None


def _write_beside(path: Path, text: str) -> None:
    """An export that fails half-way must not cost the one that was there."""
    import tempfile

    handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _answer(invocation: Invocation, commit: Commit, text: str) -> None:
    if invocation.json:
        emit(commit)
    else:
        done(text)


COMMANDS: Final[dict[str, click.Command]] = {
    "clear": clear,
    "export": export,
}
