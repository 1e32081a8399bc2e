"""How a query text was understood: what is looked for, what was left out, which operators it has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from deermem.index.query import Query, Term, TermKind, items_of
from deermem.index.structure import Operand
from deermem.index.tokens import is_run, scan
from deermem.index.words import ENGLISH, stop_marks
from deermem.model.explanations import QueryReading, TermWord

_NAMES: Final[dict[TermKind, TermWord]] = {
    "token": "word",
    "character": "character",
    "prefix": "prefix",
    "phrase": "phrase",
}


def reading(query: Query) -> QueryReading:
    """The query as it was understood."""
    items = items_of(query.text)
    if query.is_empty:
        return QueryReading(text=query.text, form="nothing", dropped=tuple(_distinct(_pieces(items, wanted=False))))
    if query.form != "words":
        operators = tuple(item.text for item in items if item.kind in ("AND", "OR", "NOT"))
        kept = tuple(_distinct(_operands(items, ("word", "phrase", "prefix"))))
        return QueryReading(text=query.text, form=query.form, words=kept, operators=operators, expression=query.match)
    marked = list(_distinct(_operands(items, ("phrase", "prefix"))))
    words = list(_distinct(_pieces(items, wanted=True)))
    dropped = list(_distinct(_pieces(items, wanted=False)))
    if not words and not marked:
        # A question of nothing but stop words is asked as it stands.
        words, dropped = dropped, []
    return QueryReading(
        text=query.text, form="words", words=(*marked, *words), dropped=tuple(dropped), expression=query.match
    )


def term_word(kind: TermKind) -> TermWord:
    """What a kind of term is called in an explanation."""
    return _NAMES[kind]


def times_in(body: str, term: Term) -> int:
    """How often a term stands in a body, counted as ranking does."""
    needle = f" {term.text}" if term.kind in ("character", "prefix") else f" {term.text} "
    return f" {body} ".count(needle)


def _operands(items: Sequence[Operand], kinds: tuple[str, ...]) -> Iterator[str]:
    for item in items:
        if item.kind in kinds:
            yield f'"{item.text}"' if item.kind == "phrase" else f"{item.text}{'*' if item.kind == 'prefix' else ''}"


def _pieces(items: Sequence[Operand], *, wanted: bool) -> Iterator[str]:
    """The words that are looked for or, with `wanted` false, the stop words; a run is parted where those begin."""
    for word in scan(" ".join(item.text for item in items if item.kind not in ("phrase", "prefix"))).words:
        if not is_run(word):
            if (word not in ENGLISH) == wanted:
                yield word
            continue
        for stops, piece in groupby(zip(stop_marks(word), word, strict=True), key=lambda pair: pair[0]):
            if stops != wanted:
                yield "".join(character for _, character in piece)


def _distinct(words: Iterator[str]) -> Iterator[str]:
    return iter(dict.fromkeys(words))
