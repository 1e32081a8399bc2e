"""A query text → what to look for. Plain language is the rule; operators are the exception that must be meant.

Words are OR-ed, without stop words unless nothing else is left. `"phrases"` and `prefix*` alone must all be there;
beside plain words they are further alternatives. AND, OR, NOT and brackets count when the whole text is well-formed
(`structure`) and no operand is a stop word. No text raises, and every path goes through `parse_query`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from deermem.index.expression import Leaf, Node, joined, render
from deermem.index.structure import Branch, Operand, Tree, parse_operators, read_items
from deermem.index.tokens import is_han, is_run, pairs, scan, stem, stream
from deermem.index.words import ENGLISH, stop_marks

MAX_CHARACTERS: Final = 4_000
"""A longer text is read up to here: nobody asks that, but tools paste whole files."""

MAX_TERMS: Final = 96
_SHORTEST_STEM: Final = 4

TermKind: TypeAlias = Literal["token", "character", "prefix", "phrase"]
Form: TypeAlias = Literal["words", "phrases", "operators"]


class Term(NamedTuple):
    """One thing that ranking counts: a token, a Han character, the start of a token, or tokens in a row."""

    text: str
    kind: TermKind = "token"


@dataclass(frozen=True, slots=True)
class Query:
    """What a text asks for. `match` is the FTS5 expression, "" where there is nothing to look for."""

    text: str
    match: str = ""
    terms: tuple[Term, ...] = ()
    form: Form = "words"
    expression: Node | None = field(default=None, repr=False)

    @property
    def is_empty(self) -> bool:
        """Whether no fact can match."""
        return self.expression is None


def parse_query(text: str) -> Query:
    """Reads any text; never raises."""
    # A whole file that was pasted isn't asked twice, and need not be kept.
    return _parsed(text) if len(text) <= MAX_CHARACTERS else _parsed.__wrapped__(text)


@lru_cache(maxsize=32)
def _parsed(text: str) -> Query:
    items = items_of(text)
    form: Form = "operators"
    built = _boolean(items)
    if built is None:
        form = "phrases"
        built = _phrases_alone(items)
    if built is None:
        form = "words"
        built = _plain(items)
    expression, terms = built
    if expression is None:
        return Query(text)
    return Query(text, render(expression), tuple(dict.fromkeys(terms))[:MAX_TERMS], form, expression)


def items_of(text: str) -> list[Operand]:
    """The items of as much of a text as is read."""
    return read_items(text[:MAX_CHARACTERS])


_Built: TypeAlias = "tuple[Node | None, list[Term]]"


def _boolean(items: Sequence[Operand]) -> _Built | None:
    tree = parse_operators(items)
    operands = [item for item in items if item.kind in ("word", "phrase", "prefix")]
    if tree is None or any(_meaningless(item) for item in operands):
        return None
    terms: list[Term] = []
    return _compiled(tree, terms, wanted=True), terms


def _meaningless(item: Operand) -> bool:
    """An operand without a token, or a stop word: then the operator was a word of the sentence."""
    words = scan(item.text).words
    return not words or (item.kind == "word" and all(word in ENGLISH for word in words))


def _compiled(tree: Tree, terms: list[Term], *, wanted: bool) -> Node:
    if isinstance(tree, Branch):
        left = _compiled(tree.left, terms, wanted=wanted)
        right = _compiled(tree.right, terms, wanted=wanted and tree.operator != "NOT")
        node = joined(tree.operator, (left, right))
    else:
        node = _operand(tree)
        terms += _operand_terms(tree) if wanted else ()
    assert node is not None
    return node


def _phrases_alone(items: Sequence[Operand]) -> _Built | None:
    kinds = {item.kind for item in items}
    if not kinds or not kinds <= {"phrase", "prefix"}:
        return None
    meant = [item for item in items if scan(item.text).words]
    nodes = [node for item in meant if (node := _operand(item)) is not None]
    return joined("AND", tuple(nodes)), [term for item in meant for term in _operand_terms(item)]


def _plain(items: Sequence[Operand]) -> _Built:
    leaves: list[Node] = []
    terms: list[Term] = []
    for item in items:
        if item.kind in ("phrase", "prefix"):
            node = _operand(item)
            leaves += [node] if node is not None else []
            terms += _operand_terms(item)
    text = " ".join(item.text for item in items)
    for keep_stop_words in (False, True):
        plain = _Words(text, keep_stop_words=keep_stop_words)
        if leaves or plain.leaves:
            break
    return joined("OR", (*leaves, *plain.leaves)[:MAX_TERMS]), [*plain.terms, *terms]


def _operand(item: Operand) -> Node | None:
    """The tokens of one operand in a row. `c++` is looked for whole, as its one word alone would say less."""
    parts = scan(item.text)
    if not parts.words:
        return None
    if item.kind == "prefix":
        return joined("OR", tuple(_prefix_leaves(parts.words)))
    decorated = [Leaf((whole,)) for whole in parts.compounds if len(scan(whole).words) == 1]
    if decorated and len(parts.words) == 1:
        return joined("AND", tuple(decorated))
    return joined("AND", (_phrase(parts.words), *decorated))


def _phrase(words: Sequence[str]) -> Leaf:
    last = words[-1]
    before = stream(words[:-1])
    if not is_run(last):
        return Leaf((*before, stem(last)))
    return Leaf((*before, *pairs(last))) if len(last) > 1 else Leaf((*before, last), prefix=True)


def _prefix_leaves(words: Sequence[str]) -> Iterator[Leaf]:
    """The index holds stems, so the start of a word may be longer than what is stored: `computat*`, `happy*`."""
    last = words[-1]
    if is_run(last):
        yield _phrase(words)
        return
    before = tuple(stream(words[:-1]))
    yield Leaf((*before, last), prefix=True)
    if not (last.isascii() and last.isalpha()):
        return
    yield Leaf((*before, stem(last)))
    if last.endswith("y"):
        yield Leaf((*before, f"{last[:-1]}i"), prefix=True)
    for size in range(len(last) - 1, max(len(last) - 4, _SHORTEST_STEM - 1), -1):
        yield Leaf((*before, last[:size]))


def _operand_terms(item: Operand) -> list[Term]:
    parts = scan(item.text)
    if item.kind == "prefix":
        return [Term(leaf.tokens[-1], "prefix" if leaf.prefix else "token") for leaf in _prefix_leaves(parts.words)]
    terms = _Words(item.text, keep_stop_words=True).terms
    phrase = _phrase(parts.words) if parts.words else Leaf(())
    return [*terms, Term(" ".join(phrase.tokens), "phrase")] if len(phrase.tokens) > 1 and not phrase.prefix else terms


class _Words:
    """The alternatives and ranking terms of plain words."""

    def __init__(self, text: str, *, keep_stop_words: bool) -> None:
        self.leaves: list[Node] = []
        self.terms: list[Term] = []
        self._keep = keep_stop_words
        self._telling = False
        self._lone: list[str] = []
        parts = scan(text)
        for word in dict.fromkeys(parts.words):
            if is_run(word):
                self._add_run(word)
            elif keep_stop_words or word not in ENGLISH:
                self._add(stem(word), telling=True)
        for whole in dict.fromkeys(parts.compounds):
            self._add(whole, telling=True)
        if not self._telling:
            self.leaves += [Leaf((character,), prefix=True) for character in self._lone]

    def _add(self, token: str, *, telling: bool) -> None:
        self.leaves.append(Leaf((token,)))
        self.terms.append(Term(token))
        self._telling |= telling

    def _add_run(self, run: str) -> None:
        """Pairs and Han characters, but for those that lie in stop words; a run of one character is a prefix."""
        stops = [False] * len(run) if self._keep else stop_marks(run)
        for at, pair in enumerate(pairs(run)):
            if not (stops[at] and stops[at + 1]):
                self._add(pair, telling=not (stops[at] or stops[at + 1]))
        for character, stop in zip(run, stops, strict=True):
            if not stop:
                self._add_character(character, alone=len(run) == 1)

    def _add_character(self, character: str, *, alone: bool) -> None:
        """`我的猫叫什么` holds no telling pair: then its lone 猫 is looked for, which else would cost too much."""
        if alone:
            self.leaves.append(Leaf((character,), prefix=True))
        if alone or is_han(character):
            self.terms.append(Term(character, "character"))
            self._lone.append(character)
