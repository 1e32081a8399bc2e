"""A whole memory at once: clear, import, export, migrate."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from deermem.cli.input import STANDARD_STREAM, decode, read_file, read_stdin
from deermem.cli.invocation import Command, Invocation, pass_invocation
from deermem.cli.notices import note_backups, note_evicted, note_missing_store
from deermem.cli.output import count, done, emit, note, record_object, say, to_json
from deermem.config import Settings
from deermem.errors import InvalidInput, StoreUnavailable
from deermem.model.values import JsonObject, JsonValue

if TYPE_CHECKING:
    from deermem.model.changes import Commit
    from deermem.model.reports import UserMigration


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
        commit = engine.clear(user_id=invocation.user) if all_agents else invocation.handle(engine).clear()
        note_backups(invocation, engine, all_agents=all_agents)
    _answer(invocation, commit, f"deleted {count(len(commit.deleted), 'fact')}")


def _confirmed(invocation: Invocation, all_agents: bool) -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError("clear deletes for good and there is no terminal to ask on; add --yes")
    whose = "the no-user root" if invocation.user is None else f"user {invocation.user}"
    agents = "every agent" if all_agents else f"agent {invocation.agent or '(default)'}"
    return click.confirm(f"Delete all facts of {whose}, {agents}?", err=True)


@click.command("import", cls=Command)
@click.argument("file", metavar="FILE|-")
@click.option("--replace", is_flag=True, help="Also delete the facts that the document lacks.")
@pass_invocation
def import_document(invocation: Invocation, file: str, replace: bool) -> None:
    """Take in a JSON document of facts and summaries; it wins where an id is there already."""
    piped = file == STANDARD_STREAM
    origin = "standard input" if piped else file
    document = _parse(decode(read_stdin() if piped else read_file(file), origin), origin)
    with invocation.engine() as engine:
        try:
            commit = invocation.handle(engine).import_document(document, replace=replace)
        except InvalidInput as error:
            error.message = f"{origin}: {error.message}"
            raise
        note_evicted(engine, commit.evicted)
    deleted = f", deleted {len(commit.deleted)}" if commit.deleted else ""
    _answer(invocation, commit, f"imported {count(len(commit.facts), 'fact')}{deleted}")


def _parse(text: str, origin: str) -> JsonObject:
    import json

    try:
        document = json.loads(text, object_pairs_hook=partial(_object, origin))
    except InvalidInput:
        raise
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidInput(f"{origin} is not valid JSON at {where}: {error.msg}", hint="mend it there") from None
    except (RecursionError, ValueError) as error:
        raise InvalidInput(f"{origin} can't be read as JSON: {error}", hint="give an exported document") from None
    if not isinstance(document, dict):
        raise InvalidInput(f"{origin} is not a JSON object", hint='give a document like {"facts": [{"content": "…"}]}')
    return document


def _object(origin: str, pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    """Of two values of one key, JSON readers silently take the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        key = next(key for number, (key, _) in enumerate(pairs) if key in dict(pairs[:number]))
        raise InvalidInput(f"{origin} has the key {key!r:.80} twice in one object", hint="keep one of the two")
    return found


@click.command("export", cls=Command)
@click.argument("file", metavar="[FILE|-]", default=STANDARD_STREAM)
@pass_invocation
def export(invocation: Invocation, file: str) -> None:
    """Write facts and summaries as one JSON document, to FILE or standard output."""
    if file != STANDARD_STREAM:
        _refuse_place_in_store(invocation, file)
    with invocation.engine() as engine:
        document = invocation.handle(engine).document()
        note_missing_store(engine)
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


@click.command("migrate", cls=Command)
@click.option("--all-users", is_flag=True, help="Every user of the store.")
@click.option("--user-id", "user_ids", multiple=True, metavar="ID", help="This user; may be given several times.")
@click.option("--storage-path", metavar="DIR", help="The store, as --root.")
@click.option("--dry-run", is_flag=True, help="Check everything, change nothing.")
@pass_invocation
def migrate(
    invocation: Invocation, all_users: bool, user_ids: tuple[str, ...], storage_path: str | None, dry_run: bool
) -> int:
    """Turn version 1 JSON stores into Markdown files; each source is kept as a verified backup."""
    users = _selection(invocation, all_users, user_ids)
    _choose_root(invocation, storage_path)
    # A terminal that went away must not end a migration half-way; a dry run is nothing but its answer.
    tell = say if dry_run else done
    progress = _note_migration if invocation.json else partial(_say_migration, tell)
    with invocation.engine() as engine:
        report = engine.migrate(user_ids=users, dry_run=dry_run, progress=progress)
    if invocation.json:
        counts = {kind: report.count(kind) for kind in ("migrated", "planned", "current", "failed")}
        emit({**record_object(report), **counts})
    else:
        tell(str(report))
    return 0 if report.ok else 1


def _selection(invocation: Invocation, all_users: bool, user_ids: tuple[str, ...]) -> list[str] | None:
    invocation.refuse_agent("all agents of a user are migrated together")
    named = [*user_ids, *([invocation.user] if invocation.user is not None else [])]
    if all_users and named:
        raise click.UsageError("--all-users and single users were both given; give one of them")
    if not all_users and not named:
        raise click.UsageError("no user is selected; give --all-users, or --user-id ID")
    return None if all_users else list(dict.fromkeys(named))


def _choose_root(invocation: Invocation, storage_path: str | None) -> None:
    if storage_path is not None and invocation.root not in (None, storage_path):
        raise click.UsageError("--root and --storage-path name different stores; give one of them")
    if storage_path == "":
        raise click.UsageError("--storage-path is empty; give the folder of the store")
    invocation.root = storage_path or invocation.root
    root = Settings(root=invocation.root).resolved_root()
    if not os.path.lexists(root):
        raise StoreUnavailable(f"there is no store at {root}", hint="give its folder with --storage-path")


def _migration_lines(result: UserMigration) -> list[str]:
    facts = count(result.facts, "fact")
    outcome = {
        "migrated": f"migrated {facts}",
        "planned": f"would migrate {facts}",
        "current": "already current",
        "failed": f"failed, but {facts} migrated" if result.facts else "failed",
    }[result.outcome]
    return [f"{result.user}: {outcome}", *(f"  {line}" for line in result.problems)]


def _say_migration(tell: Callable[[str], None], result: UserMigration) -> None:
    """One user's result, and what a dry run would do, where the answer is a text: there and nowhere else."""
    steps = [f"  {step}" for step in result.steps[1:]]
    tell("\n".join([*_migration_lines(result), *steps]))


def _note_migration(result: UserMigration) -> None:
    """One user's result as progress, where the answer is one JSON document at the end."""
    for line in _migration_lines(result):
        note(line)


def _answer(invocation: Invocation, commit: Commit, text: str) -> None:
    if invocation.json:
        emit(commit)
    else:
        done(text)


COMMANDS: Final[dict[str, click.Command]] = {
    "clear": clear,
    "import": import_document,
    "export": export,
    "migrate": migrate,
}
