"""The syntax of meant queries: `"phrases"`, `prefix*`, AND, OR, NOT and brackets; texts only, no tokens.

A query has operators only when all of it is well-formed: one operand on each side of every operator and never
two operands side by side. `do NOT use tabs` fails that, so it is plain advice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, Union

from deermem.index.expression import Operator

MAX_DEPTH: Final = 12
"""Nesting that FTS5's parser surely takes; deeper texts are read as plain words."""

MAX_ITEMS: Final = 64

Kind: TypeAlias = Literal["word", "phrase", "prefix", "AND", "OR", "NOT", "(", ")"]
_ITEM: Final = re.compile(r'"([^"]*)"|([()])|([^\s()"]+)')
_PREFIX: Final = re.compile(r"[^*]*\w\*")
_QUOTES: Final = str.maketrans("“”„", '"""')


@dataclass(frozen=True, slots=True)
class Operand:
    """A word, a phrase without its quotes, or a prefix without its star."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Branch:
    """Two sides of an operator."""

    operator: Operator
    left: Tree
    right: Tree


Tree: TypeAlias = Union[Operand, Branch]


def read_items(text: str) -> list[Operand]:
    """The items of a text in order; with unbalanced quotes there is nothing special in it."""
    plain = text.translate(_QUOTES)
    if plain.count('"') % 2:
        return [Operand("word", word) for word in text.split()]
    return [_item(*match.groups()) for match in _ITEM.finditer(plain)]


def parse_operators(items: Sequence[Operand]) -> Tree | None:
    """The tree of a boolean query, NOT before AND before OR; None where the items are none."""
    if not any(item.kind in ("AND", "OR", "NOT") for item in items) or len(items) > MAX_ITEMS:
        return None
    reader = _Reader(items)
    tree = reader.alternatives(0)
    return tree if reader.finished else None


def _item(phrase: str | None, bracket: str | None, word: str | None) -> Operand:
    if phrase is not None:
        return Operand("phrase", phrase)
    if bracket is not None:
        return Operand("(" if bracket == "(" else ")", bracket)
    assert word is not None
    if word in ("AND", "OR", "NOT"):
        return Operand("AND" if word == "AND" else "OR" if word == "OR" else "NOT", word)
    if _PREFIX.fullmatch(word):
        return Operand("prefix", word[:-1])
    return Operand("word", word)


class _Reader:
    """Recursive descent; every method gives None where the text is not well-formed."""

    def __init__(self, items: Sequence[Operand]) -> None:
        self._items = items
        self._at = 0

    @property
    def finished(self) -> bool:
        return self._at == len(self._items)

    def alternatives(self, depth: int) -> Tree | None:
        tree = self._conjunction(depth)
        while tree is not None and self._take("OR"):
            right = self._conjunction(depth)
            tree = Branch("OR", tree, right) if right is not None else None
        return tree

    def _conjunction(self, depth: int) -> Tree | None:
        tree = self._operand(depth)
        while tree is not None:
            operator: Operator | None = "AND" if self._take("AND") else None
            operator = "NOT" if self._take("NOT") else operator
            if operator is None:
                return tree
            right = self._operand(depth)
            tree = Branch(operator, tree, right) if right is not None else None
        return None

    def _operand(self, depth: int) -> Tree | None:
        if self._take("("):
            tree = self.alternatives(depth + 1) if depth < MAX_DEPTH else None
            return tree if self._take(")") else None
        if self.finished or self._items[self._at].kind not in ("word", "phrase", "prefix"):
            return None
        self._at += 1
        return self._items[self._at - 1]

    def _take(self, kind: Kind) -> bool:
        if self.finished or self._items[self._at].kind != kind:
            return False
        self._at += 1
        return True
