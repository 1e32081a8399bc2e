"""What a body must hold: phrases of tokens, joined by AND, OR and NOT; as an FTS5 expression and as a plain test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, Union

Operator: TypeAlias = Literal["AND", "OR", "NOT"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """Consecutive tokens; `prefix` lets the last one go on. Tokens come from `tokens`, so none holds a quote."""

    tokens: tuple[str, ...]
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """At least two children under one operator; NOT is the first without the others."""

    operator: Operator
    children: tuple[Node, ...]


Node: TypeAlias = Union[Leaf, Group]


def joined(operator: Operator, nodes: tuple[Node, ...]) -> Node | None:
    """The nodes under one operator; a single one is itself, none is None."""
    distinct = nodes if operator == "NOT" else tuple(dict.fromkeys(nodes))
    if len(distinct) < 2:
        return distinct[0] if distinct else None
    return Group(operator, distinct)


def render(node: Node | None) -> str:
    """The FTS5 MATCH expression, every token quoted; "" for None."""
    if node is None:
        return ""
    if isinstance(node, Leaf):
        return f'"{" ".join(node.tokens)}"{"*" if node.prefix else ""}'
    parts = (f"({render(child)})" if isinstance(child, Group) else render(child) for child in node.children)
    return f" {node.operator} ".join(parts)


def holds(node: Node, body: str) -> bool:
    """Whether a body (as `index_text` makes it) matches, as FTS5 would say."""
    if isinstance(node, Leaf):
        return f" {' '.join(node.tokens)}{'' if node.prefix else ' '}" in f" {body} "
    verdicts = (holds(child, body) for child in node.children)
    if node.operator == "AND":
        return all(verdicts)
    if node.operator == "OR":
        return any(verdicts)
    return next(verdicts) and not any(verdicts)
