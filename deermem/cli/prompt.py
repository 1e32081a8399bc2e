"""What a prompt gets: context, and the summaries that all agents of a user share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from deermem.cli.input import text_or_stdin
from deermem.cli.invocation import Command, Group, Invocation, pass_invocation
from deermem.cli.missing import newcomer, note_missing, note_missing_store
from deermem.cli.notices import note_nothing
from deermem.cli.output import count, done, emit, put, say, table, to_json
from deermem.model.summaries import HISTORY_SECTIONS, SECTIONS, USER_SECTIONS, Summaries
from deermem.model.values import JsonObject

if TYPE_CHECKING:
    from deermem.model.context_block import ContextBlock

_COUNTED: Final = {"tiktoken": "counted by tiktoken", "estimate": "an estimate"}
_WHY: Final = {
    "budget": "it, or one that comes before it, is too long for the room that was left",
    "expired": "its time is over",
    "tool-mode": "the model has tools for facts",
    "blank": "nothing of it can be seen",
}


@click.command("context", cls=Command)
@click.option("--explain", is_flag=True, help="Show which facts are in it, which are left out, and why.")
@click.option("--max-tokens", type=int, metavar="N", help="The budget, 100 to 8000; else 2000.")
@click.option("--mode", type=click.Choice(["middleware", "tool"]), help="tool: the summaries only; else middleware.")
@click.option("--counting", type=click.Choice(["tiktoken", "char"]), help="char: estimate the tokens; else tiktoken.")
@pass_invocation
def context(
    invocation: Invocation, *, explain: bool, max_tokens: int | None, mode: str | None, counting: str | None
) -> None:
    """Print the block of memory that goes into a prompt."""
    with invocation.engine(max_injection_tokens=max_tokens, mode=mode, token_counting=counting) as engine:
        # A program that ends at once would never see tiktoken ready.
        engine.prompting.tokens.load()
        block = invocation.handle(engine).context_block()
        unmade = note_missing_store(engine)
        missing = unmade or note_missing(invocation, engine)
        if not (block.text or missing or explain or invocation.json):
            note_nothing(invocation, engine, "nothing is remembered yet", "")
    if invocation.json:
        emit(_block_object(block))
    elif explain and not unmade:
        _print_explanation(block)
    elif block.text:
        put(block.text)


def _block_object(block: ContextBlock) -> JsonObject:
    found = to_json(block)
    assert isinstance(found, dict)
    return {"context": found.pop("text"), **found}


def _print_explanation(block: ContextBlock) -> None:
    guaranteed = f"{block.guaranteed_tokens} of {count(block.guaranteed_limit, 'token')}"
    table(
        [
            ("tokens:", f"{block.tokens} of {block.max_tokens}, {_COUNTED[block.counted_by]}"),
            ("guaranteed:", f"{guaranteed}, for {count(len(block.guaranteed), 'fact')}"),
            ("summaries:", block.summaries),
            ("digest:", block.digest),
        ]
    )
    say(f"\nin the block, {count(len(block.facts), 'fact')}:")
    lines = block.text.split("\n")[-len(block.facts) :]
    for fact_id, line in zip(block.facts, lines, strict=False):
        marks = ", ".join(word for word, ids in _marks(block) if fact_id in ids)
        say(f"  {fact_id} ({marks})" if marks else f"  {fact_id}")
        say(f"    {line.removeprefix('- ')}")
    if block.left_out:
        say(f"\nleft out, {count(len(block.left_out), 'fact')}:")
        table((item.id, item.category, f"{item.confidence:.2f}", _WHY[item.why]) for item in block.left_out)


def _marks(block: ContextBlock) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return ("guaranteed", block.guaranteed), ("cut", block.shortened)


@click.group("summaries", cls=Group, invoke_without_command=True)
@pass_invocation
@click.pass_context
def summaries(click_context: click.Context, invocation: Invocation) -> None:
    """Show the summaries of a user; `set` changes one."""
    if click_context.invoked_subcommand is not None:
        return
    with invocation.engine() as engine:
        found = invocation.handle(engine).summaries()
        if not note_missing(invocation, engine) and found.is_empty() and not invocation.json:
            note_nothing(invocation, engine, "no summaries", "")
    if invocation.json:
        emit(_summaries_object(found))
    elif not found.is_empty():
        said = {key: found.section(key).summary for key in SECTIONS}
        say("\n".join(f"{key}: {text}" for key, text in said.items() if text))


@summaries.command("set")
@click.argument("section")
@click.argument("text")
@click.option("--expected", type=int, metavar="REVISION", help="Change it only if the revision is still this one.")
@pass_invocation
def set_summary(invocation: Invocation, section: str, text: str, expected: int | None) -> None:
    """Make TEXT the summary SECTION (workContext, topOfMind, …); - reads it from standard input."""
    new_text = text_or_stdin(text)
    with invocation.engine() as engine:
        whose = newcomer(invocation, engine)
        commit = invocation.handle(engine).update_summaries({section: new_text}, expected_revision=expected)
    if invocation.json:
        emit(commit)
    else:
        done(f"set {section}{whose}, revision {commit.revision}")


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
