"""From a conversation to memory: capture."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import click

from deermem.cli.input import STANDARD_STREAM, decode, read_file
from deermem.cli.invocation import Command, Invocation, pass_invocation
from deermem.cli.missing import newcomer
from deermem.cli.notices import note_evicted
from deermem.cli.output import count, done, emit, headline, one_line, table, to_json
from deermem.errors import DeerMemError, ExtractionFailed, StoreUnavailable
from deermem.model.proposals import REASONS

if TYPE_CHECKING:
    from deermem.extract.outcome import Outcome
    from deermem.memory import Memory
    from deermem.model.fact import Fact
    from deermem.model.proposals import ProposalKind, Refusal
    from deermem.model.values import JsonObject, JsonValue

MODEL_NEEDED: Final = "no model is named; give --model, such as openai:gpt-5-mini, or set $DEERMEM_MODEL"
_NOTHING: Final = "the conversation holds nothing for memory: it needs something a person said and an answer to it"
# In the order in which an answer has them.
_KINDS: Final[Mapping[ProposalKind, str]] = {
    "summary": "summary",
    "fact": "new fact",
    "reinforcement": "confirmation of",
    "removal": "removal of",
    "stale_removal": "retirement of",
    "extension": "extension of",
    "merge": "merge of",
}


@click.command("capture", cls=Command)
@click.argument("file", metavar="FILE|-")
@click.option("--thread", metavar="ID", help="The conversation's id; else the file's name without its ending.")
@click.option("--model", metavar="NAME", help="Which model to ask, as provider:name; else $DEERMEM_MODEL.")
@click.option("--answer", metavar="FILE", help="Ask no model: take the answer that a model gave from this file.")
@click.option("--save-answer", metavar="FILE", help="Also keep the model's answer in this new file.")
@click.option("--prompts", metavar="DIR", help="A folder whose prompts take the place of the package's.")
@click.option("--patterns", metavar="DIR", help="A folder whose signal patterns take the place of the package's.")
@pass_invocation
def capture(invocation: Invocation, /, file: str, thread: str | None, **how: str | None) -> None:
    """Extract facts from one conversation now: what is stored, what is refused, and why."""
    from deermem.cli.conversation import read_conversation

    model = _model(how["model"], how["answer"], how["save_answer"])
    messages, name = read_conversation(file)
    thread = name if thread is None else thread
    with invocation.engine(prompts_dir=how["prompts"], patterns_dir=how["patterns"]) as engine:
        extraction = engine.conversations.alone(model)
        turns = extraction.worth(messages)
        if not turns:
            _say_nothing(invocation, thread)
            return
        memory = invocation.handle(engine)
        before = {fact.id: fact for fact in memory.list()}
        whose = newcomer(invocation, engine)
        with _failures(replayed=how["answer"] is not None):
            outcome = extraction.extract(memory.scope, messages, thread)
        result = _Result(thread, turns, outcome, before, _after(memory), _summaries(memory, outcome), whose)
        note_evicted(engine, outcome.evicted)
    if invocation.json:
        emit(result.as_json())
    else:
        result.print()


def _model(name: str | None, answer: str | None, save: str | None) -> object:
    """What is asked: the model that is named, or one that gives the recorded answer."""
    from deermem.config import ModelSettings, model_from_environment
    from deermem.extract.models import as_model

    if answer is not None:
        if name is not None or save is not None:
            raise click.UsageError("--answer asks no model; leave out --model and --save-answer")
        if answer == STANDARD_STREAM:
            raise click.UsageError("--answer can't come from standard input; give a file")
        recorded = _recorded(decode(read_file(answer), answer))
        return as_model(lambda _: recorded)
    name = name or model_from_environment()
    if name is None:
        raise click.UsageError(f"{MODEL_NEEDED}, or --answer for a recorded one")
    model = as_model(ModelSettings.of(name))
    return model if save is None else as_model(_Keeping(model, save))


def _recorded(text: str) -> object:
    """The answer itself, or the message around it as a host's log has it."""
    import json

    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return document if isinstance(document, dict) and "content" in document else text


@dataclass(slots=True)
class _Keeping:
    """Writes down what a model answers, before anybody finds it unusable."""

    ask: Callable[[list[dict[str, str]]], object]
    file: str
    name: str = field(default="model")

    def __post_init__(self) -> None:
        if os.path.lexists(self.file):
            raise click.UsageError(f"--save-answer {self.file} is there already; name a new file")

    def __call__(self, messages: list[dict[str, str]]) -> object:
        from deermem.extract.models import answer_text

        answer = self.ask(messages)
        try:
            with open(os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
                stream.write(answer_text(answer))
        except OSError as error:
            hint = "check the path and its rights"
            raise StoreUnavailable(f"{self.file} can't be written: {error.strerror}", hint=hint) from None
        return answer


@contextmanager
def _failures(*, replayed: bool) -> Iterator[None]:
    """Says what can be done about it in this call."""
    try:
        yield
    except ExtractionFailed as error:
        cause = error.__cause__
        if isinstance(cause, DeerMemError):
            raise ExtractionFailed(cause.message, hint=cause.hint) from None
        hint = "nothing was stored; try again, or name another model"
        if replayed:
            hint = "nothing was stored; the file must hold a model's whole answer, see docs/extraction.md"
        raise ExtractionFailed(error.message, hint=hint) from None


def _say_nothing(invocation: Invocation, thread: str) -> None:
    if invocation.json:
        emit({"thread": thread, "turns": 0, "asked": False})
    else:
        done(_NOTHING)


def _after(memory: Memory) -> dict[str, Fact]:
    return {fact.id: fact for fact in memory.list()}


def _summaries(memory: Memory, outcome: Outcome) -> dict[str, str]:
    """The changed ones, by their names in the file."""
    from deermem.model.summaries import SECTIONS

    now = memory.summaries()
    return {key: now.section(name).summary for key, name in SECTIONS.items() if name in outcome.summaries}


@dataclass(frozen=True, slots=True)
class _Result:
    """What became of a conversation, with the facts as they were and as they are."""

    thread: str
    turns: int
    outcome: Outcome
    before: Mapping[str, Fact]
    after: Mapping[str, Fact]
    summaries: Mapping[str, str]
    whose: str = ""

    def as_json(self) -> JsonObject:
        """Facts as every command shows them; one that somebody deleted meanwhile has its id alone."""
        told = self.outcome
        replaced = dict(told.replaced)
        kept = {"stored": told.stored, "confirmed": told.confirmed, "extended": told.extended, "merged": told.merged}
        gone = {"removed": told.removed, "retired": told.retired, "consolidated": told.consolidated}
        facts: JsonObject = {kind: [_shown(fact_id, self.after) for fact_id in ids] for kind, ids in kept.items()}
        lost: JsonObject = {kind: [_lost(one, self.before, replaced) for one in ids] for kind, ids in gone.items()}
        return {
            "thread": self.thread,
            "turns": self.turns,
            "asked": True,
            **facts,
            **lost,
            "summaries": dict(self.summaries),
            "evicted": list(told.evicted),
            "refused": [_refusal(item) for item in _as_answered(told.refused)],
        }

    def print(self) -> None:
        """A line for each item, what was done first, then the counts."""
        rows = [*self._rows()]
        if rows:
            table(rows)
        done(self._counts())

    def _rows(self) -> Iterator[tuple[str, str]]:
        told, replaced = self.outcome, dict(self.outcome.replaced)
        for word, ids, facts in (
            ("stored", told.stored, self.after),
            ("confirmed", told.confirmed, self.after),
            ("extended", told.extended, self.after),
            ("merged", told.merged, self.after),
            ("removed", told.removed, self.before),
            ("retired", told.retired, self.before),
            ("into one", told.consolidated, self.before),
        ):
            for fact_id in ids:
                tail = f"  -> {replaced[fact_id]}" if fact_id in replaced else ""
                yield word, _line(fact_id, facts) + tail
        for key, text in self.summaries.items():
            yield "summary", f"{key}  {text}"
        for item in _as_answered(told.refused):
            yield "refused", _why(item)

    def _counts(self) -> str:
        told = self.outcome
        parts = {
            "stored": told.stored,
            "confirmed": told.confirmed,
            "extended": told.extended,
            "removed": told.removed,
            "retired": told.retired,
            "merged": told.consolidated,
            "summed up": told.summaries,
            "refused": told.refused,
        }
        counts = ", ".join(f"{len(items)} {word}" for word, items in parts.items() if items)
        whose = self.whose if told.stored or told.summaries else ""
        return f"{one_line(self.thread)}, {count(self.turns, 'turn')}{whose}: {counts or 'nothing new'}"


def _shown(fact_id: str, facts: Mapping[str, Fact]) -> JsonValue:
    found = facts.get(fact_id)
    return {"id": fact_id} if found is None else to_json(found)


def _lost(fact_id: str, facts: Mapping[str, Fact], replaced: Mapping[str, str]) -> JsonObject:
    found = facts.get(fact_id)
    told = {} if found is None else {"category": found.category, "content": found.content}
    return {"id": fact_id, **told, "replaced_by": replaced.get(fact_id)}


def _as_answered(refused: Sequence[Refusal]) -> list[Refusal]:
    """In the order of the answer; items without a place of their own come last of their list, as they were judged."""
    from deermem.model.summaries import SECTIONS

    kinds, sections = list(_KINDS), list(SECTIONS)

    def place(item: Refusal) -> tuple[int, float]:
        kind, subject = kinds.index(item.kind), _subject(item.kind, item.subject)
        if item.kind == "summary" and subject in sections:
            return kind, sections.index(subject)
        return kind, int(subject) if _is_place(item.kind, item.subject) else math.inf

    return sorted(refused, key=place)


def _is_place(kind: ProposalKind, subject: str) -> bool:
    return kind in ("fact", "merge") and subject.isdecimal()


def _refusal(item: Refusal) -> JsonObject:
    """With the place in the answer's list as it is there, from 0."""
    subject = item.subject if item.kind != "summary" else _subject(item.kind, item.subject)
    told = {"kind": item.kind, "reason": item.reason, "meaning": REASONS[item.reason]}
    return {**told, "subject": subject, "detail": item.detail}


def _line(fact_id: str, facts: Mapping[str, Fact]) -> str:
    found = facts.get(fact_id)
    return fact_id if found is None else f"{fact_id}  {found.category}  {found.confidence:.2f}  {headline(found)}"


def _why(item: Refusal) -> str:
    subject = _subject(item.kind, item.subject)
    detail = f" ({item.detail})" if item.detail else ""
    return f"{_KINDS[item.kind]} {subject}: {REASONS[item.reason]}{detail}"


def _subject(kind: ProposalKind, subject: str) -> str:
    """New facts have no id yet: they go by their place in the answer, and people count from one."""
    from deermem.model.summaries import SECTIONS

    if _is_place(kind, subject):
        return str(int(subject) + 1)
    return {name: key for key, name in SECTIONS.items()}.get(subject, subject)


COMMANDS: Final[dict[str, click.Command]] = {"capture": capture}
