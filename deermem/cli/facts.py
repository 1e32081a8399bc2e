"""Facts one at a time: add, list, show, update, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import click

from deermem.cli.edit import add_in_editor
from deermem.cli.input import (
    STANDARD_STREAM,
    confidence_option,
    expectation,
    text_or_stdin,
)
from deermem.cli.invocation import Command, Invocation, pass_invocation
from deermem.cli.missing import newcomer, note_missing
from deermem.cli.notices import note_backups, note_evicted, note_nothing
from deermem.cli.output import done, emit, fact_object, headline, say, table
from deermem.clock import format_timestamp
from deermem.model.fact import DEFAULT_CATEGORY, DEFAULT_CONFIDENCE, Draft, Fact

if TYPE_CHECKING:
    from deermem.memory import Memory
    from deermem.model.changes import Commit


class _New(TypedDict):
    category: str
    confidence: float
    topics: tuple[str, ...]
    source: str | None
    expected_valid_days: int | None


class _Changes(TypedDict):
    category: str | None
    confidence: float | None
    topics: tuple[str, ...]


@click.command("add", cls=Command)
@click.argument("text", required=False)
@click.option(
    "--category", default=DEFAULT_CATEGORY, show_default=True, metavar="WORD", help="What kind of fact it is."
)
@click.option(
    "--confidence",
    callback=confidence_option,
    default=str(DEFAULT_CONFIDENCE),
    show_default=True,
    metavar="NUMBER",
    help="From 0 to 1.",
)
@click.option("--topic", "topics", multiple=True, metavar="WORD", help="A topic; may be given several times.")
@click.option("--source", metavar="THREAD", help="The conversation it comes from; else it counts as written by hand.")
@click.option(
    "--valid-days",
    "expected_valid_days",
    type=int,
    metavar="N",
    help="After how many days it should be looked at again.",
)
@click.option("--edit", "in_editor", is_flag=True, help="Write it in $VISUAL or $EDITOR; TEXT may be left out.")
@pass_invocation
def add(invocation: Invocation, text: str | None, in_editor: bool, **options: Unpack[_New]) -> None:
    """Store TEXT as a new fact; - reads it from standard input."""
    if text is None and not in_editor:
        raise click.UsageError("no TEXT is given; give it, - for standard input, or --edit")
    if text == STANDARD_STREAM and in_editor:
        raise click.UsageError("--edit needs the terminal, so the text can't come from standard input; leave - out")
    content = text_or_stdin(text or "")
    draft = Draft(content=content, **options)
    with invocation.engine() as engine:
        memory = invocation.handle(engine)
        whose = newcomer(invocation, engine)
        commit = add_in_editor(invocation, memory, draft) if in_editor else _add(memory, draft)
        note_evicted(engine, commit.evicted)
    fact = commit.facts[0]
    if invocation.json:
        emit({**fact_object(fact), "evicted": commit.evicted})
    else:
        done(f"added {fact.id}{whose}: {headline(fact)}")


def _add(memory: Memory, draft: Draft) -> Commit:
    from deermem.model.changes import ChangeSet

    return memory.apply(ChangeSet([draft]))


@click.command("list", cls=Command)
@click.option("--category", metavar="WORD", help="Only facts of this category.")
@click.option("--limit", type=click.IntRange(min=0), help="How many at most; else all.")
@click.option("--offset", type=click.IntRange(min=0), default=0, help="How many to pass over first.")
@click.option("--all-agents", is_flag=True, help="The facts of all agents of the user, each with its agent.")
@pass_invocation
def list_facts(invocation: Invocation, category: str | None, limit: int | None, offset: int, all_agents: bool) -> None:
    """Show every fact: its id, category, confidence and first line."""
    if all_agents:
        invocation.refuse_agent("--all-agents names them all")
    end = None if limit is None else offset + limit
    with invocation.engine() as engine:
        if all_agents:
            agents = engine.agents(invocation.user)
            everything = [
                (name, fact) for name in agents for fact in engine.memory(invocation.user, name).list(category)
            ]
            found = everything[offset:end]
        else:
            found = [("", fact) for fact in invocation.handle(engine).list(category, limit, offset)]
        missing = note_missing(invocation, engine)
        if not found and not missing and not invocation.json:
            narrowed = _narrowed(category, limit, offset)
            mend = "" if all_agents or narrowed else "list --all-agents shows them"
            note_nothing(invocation, engine, f"no facts{narrowed}", mend)
    if invocation.json:
        emit([{**fact_object(fact), "agent": name} if all_agents else fact for name, fact in found])
    else:
        table([(name, *columns(fact)) if all_agents else columns(fact) for name, fact in found])


def _narrowed(category: str | None, limit: int | None, offset: int) -> str:
    """What was asked for that may leave nothing over."""
    wanted = "" if category is None else f" of the category {category!r}"
    return f"{wanted} beyond the first {offset}" if offset else f"{wanted} with --limit 0" if limit == 0 else wanted


@click.command("show", cls=Command)
@click.argument("fact_id", metavar="ID")
@pass_invocation
def show(invocation: Invocation, fact_id: str) -> None:
    """Show one fact and the file that it lies in."""
    with invocation.memory() as memory:
        fact = memory.get(fact_id)
        path = str(memory.path(fact_id))
    if invocation.json:
        emit({**fact_object(fact), "path": path})
        return
    # A title that the content gave says nothing more than the content.
    if fact.title != headline(fact):
        say(f"{fact.title}\n")
    table((f"{name}:", value) for name, value in _details(fact, path).items() if value)
    say(f"\n{fact.content}")


def _details(fact: Fact, path: str) -> dict[str, str]:
    return {
        "id": fact.id,
        "category": fact.category,
        "confidence": f"{fact.confidence:.2f}",
        "topics": ", ".join(fact.topics),
        "source": fact.source.label,
        "created": format_timestamp(fact.created_at),
        "updated": format_timestamp(fact.updated_at),
        "version": fact.version,
        "file": path,
    }


@click.command("update", cls=Command)
@click.argument("fact_id", metavar="ID")
@click.option("--content", metavar="TEXT", help="The new text; - reads it from standard input.")
@click.option("--category", metavar="WORD", help="The new category.")
@click.option("--confidence", callback=confidence_option, metavar="NUMBER", help="The new confidence, from 0 to 1.")
@click.option(
    "--topic", "topics", multiple=True, metavar="WORD", help='The new topics; may be given several times; "" for none.'
)
@click.option("--expected", metavar="TOKEN", help="Change it only if its version (see show) is still this one.")
@pass_invocation
def update(
    invocation: Invocation, fact_id: str, content: str | None, expected: str | None, **changes: Unpack[_Changes]
) -> None:
    """Change what is given of one fact; the rest stays."""
    topics = None if not changes["topics"] else () if changes["topics"] == ("",) else changes["topics"]
    if content is None and topics is None and changes["category"] is None and changes["confidence"] is None:
        raise click.UsageError("nothing to change is given; use --content, --category, --confidence or --topic")
    new_content = None if content is None else text_or_stdin(content)
    with invocation.memory() as memory:
        fact = memory.update(
            fact_id,
            content=new_content,
            category=changes["category"],
            confidence=changes["confidence"],
            topics=topics,
            expected=expectation(expected),
        )
    if invocation.json:
        emit(fact)
    else:
        done(f"updated {fact.id}: {headline(fact)}")


@click.command("delete", cls=Command)
@click.argument("fact_ids", nargs=-1, required=True, metavar="ID...")
@click.option("--expected", metavar="TOKEN", help="Delete it only if its version (see show) is still this one.")
@pass_invocation
def delete(invocation: Invocation, fact_ids: tuple[str, ...], expected: str | None) -> None:
    """Delete facts: all that are named, or none where one can't be."""
    ids = list(dict.fromkeys(fact_ids))
    if expected is not None and len(ids) > 1:
        raise click.UsageError("--expected goes with one ID; delete the facts one by one")
    with invocation.engine() as engine:
        memory = invocation.handle(engine)
        if len(ids) == 1:
            commit = memory.delete(ids[0], expected=expectation(expected))
        else:
            commit = _delete_together(memory, ids)
        note_backups(invocation, engine)
    if invocation.json:
        emit(commit)
    else:
        done("\n".join(f"deleted {fact_id}" for fact_id in commit.deleted))


def _delete_together(memory: Memory, ids: Sequence[str]) -> Commit:
    from deermem.model.changes import ChangeSet, Delete

    return memory.apply(ChangeSet(deletes=[Delete(fact_id, memory.get(fact_id).version) for fact_id in ids]))


def columns(fact: Fact) -> tuple[str, str, str, str]:
    """A fact on one line: id, category, confidence, the first line of its content."""
    return fact.id, fact.category, f"{fact.confidence:.2f}", headline(fact)


COMMANDS: Final[dict[str, click.Command]] = {
    "add": add,
    "list": list_facts,
    "show": show,
    "update": update,
    "delete": delete,
}
