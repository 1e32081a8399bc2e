"""Finding facts: search, and what made a search find them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import click

from deermem.cli.facts import columns
from deermem.cli.input import since_option, until_option
from deermem.cli.invocation import Command, Invocation, pass_invocation
from deermem.cli.missing import note_missing
from deermem.cli.notices import note_nothing
from deermem.cli.output import count, emit, say, table

if TYPE_CHECKING:
    from deermem.model.explanations import Absence, ExplainedHit, Explanation, QueryReading
    from deermem.model.records import SearchHit

_FORMS: Final = {
    "words": "any of these words",
    "phrases": "all of these",
    "operators": "an expression",
    "nothing": "nothing to look for",
}


class _Filters(TypedDict):
    category: str | None
    topics: tuple[str, ...]
    source_thread: str | None
    since: datetime | None
    until: datetime | None


@click.command("search", cls=Command)
@click.argument("words", nargs=-1, required=True, metavar="TEXT")
@click.option("-k", "--top-k", type=click.IntRange(min=1), default=5, show_default=True, help="How many at most.")
@click.option("--category", metavar="WORD", help="Only facts of this category.")
@click.option("--topic", "topics", multiple=True, metavar="WORD", help="Only facts with this topic.")
@click.option("--thread", "source_thread", metavar="ID", help="Only facts from this conversation.")
@click.option("--since", callback=since_option, metavar="TIME", help="Only facts changed at this time or later.")
@click.option("--until", callback=until_option, metavar="TIME", help="Only facts changed at this time or earlier.")
@click.option("--all-agents", is_flag=True, help="Search what all agents of the user know.")
@click.option("--explain", is_flag=True, help="Show how the text was understood and what made each score.")
@click.option("--why", metavar="ID", help="With --explain: say why this fact is not among the hits.")
@pass_invocation
def search(  # noqa: PLR0913 - one parameter an option
    invocation: Invocation,
    words: tuple[str, ...],
    *,
    top_k: int,
    all_agents: bool,
    explain: bool,
    why: str | None,
    **filters: Unpack[_Filters],
) -> None:
    """Find the facts that say most about TEXT, the best first."""
    text = " ".join(words)
    if why is not None and not explain:
        raise click.UsageError("--why goes with --explain; give both")
    if explain and all_agents:
        raise click.UsageError("--explain looks at one agent; leave --all-agents out and name one --agent")
    if all_agents:
        invocation.refuse_agent("--all-agents names them all")
    if filters["since"] and filters["until"] and filters["since"] > filters["until"]:
        raise click.UsageError("--since is later than --until, so nothing can lie between; exchange them")
    with invocation.engine() as engine:
        if explain:
            _print_explanation(invocation, invocation.handle(engine).explain(text, top_k, why=why, **filters))
            note_missing(invocation, engine)
            return
        if all_agents:
            hits = engine.search(invocation.user, text, None, top_k, **filters)
        else:
            hits = invocation.handle(engine).search(text, top_k, **filters)
        missing = note_missing(invocation, engine)
        if not hits and not missing and not invocation.json:
            # Whether others have what passes the filters is not known.
            narrowed = all_agents or not text.strip() or any(filters.values())
            mend = "" if narrowed else "search --all-agents looks there too"
            note_nothing(invocation, engine, _nothing(text, filtered=any(filters.values())), mend)
    _print_hits(invocation, hits, with_agent=all_agents)


def _nothing(text: str, *, filtered: bool) -> str:
    if not text.strip():
        return "nothing found: the TEXT is blank"
    return "nothing found that passes the filters" if filtered else "nothing found"


def _print_hits(invocation: Invocation, hits: Sequence[SearchHit], *, with_agent: bool) -> None:
    if invocation.json:
        emit(hits)
        return
    for hit in hits:
        _print_hit(hit, [hit.agent] if with_agent else [])


def _print_hit(hit: SearchHit, before: list[str]) -> None:
    say("  ".join([*before, *columns(hit.fact)]))
    say(f"    {' '.join(hit.snippet.split())}")


# --- explanations


def _print_explanation(invocation: Invocation, found: Explanation) -> None:
    if invocation.json:
        emit(found)
        return
    _print_reading(found.query)
    say(f"{count(len(found.hits), 'hit')} of {found.total}")
    for item in found.hits:
        say()
        _print_hit(item.hit, [f"{item.place}."])
        _print_parts(item)
    if found.why is not None:
        say()
        _print_absence(found.why)


def _print_reading(query: QueryReading) -> None:
    rows = [("looked for:", f"{_FORMS[query.form]}: {', '.join(query.words)}" if query.words else _FORMS[query.form])]
    if query.operators:
        rows.append(("operators:", ", ".join(query.operators)))
    if query.dropped:
        rows.append(("left out:", ", ".join(query.dropped)))
    if query.expression:
        rows.append(("asked of the index:", query.expression))
    table(rows)


def _print_parts(item: ExplainedHit) -> None:
    rows = _parts(item)
    width = max(len(name) for name, _, _ in rows)
    for name, value, remark in rows:
        say(f"    {name.ljust(width)}  {value.rjust(10)}  {remark}".rstrip())


def _parts(item: ExplainedHit) -> list[tuple[str, str, str]]:
    """What adds up to the score; where only confidence or an adapter counts, the terms are told without numbers."""
    rows = [
        (
            term.term,
            f"{term.score:.6f}" if item.hit.match == "fts5" else "",
            f"{term.kind}, {term.times} here" + (f", in {count(term.facts, 'fact')}" if term.facts else ""),
        )
        for term in item.terms
    ]
    parts = (
        ("covers the query", item.coverage),
        ("recency", item.recency),
        ("confidence", item.confidence),
        ("adapter", item.adapter),
    )
    rows += [(f"+ {name}", f"{value:.6f}", "") for name, value in parts if value]
    return [*rows, ("= score", f"{item.hit.score:.6f}", item.hit.match)]


def _print_absence(why: Absence) -> None:
    say(f"{why.fact_id}: {why.reason}: {why.message}")
    if why.path:
        say(f"    {why.path}")


COMMANDS: Final[dict[str, click.Command]] = {"search": search}
