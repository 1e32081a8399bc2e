"""The house numbers: how long, how deep and how wide code may get."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import pytest

MAX_FILE_LINES = 350
MAX_FUNCTION_LINES = 60
MAX_FUNCTION_LINES_AT_95_PERCENT = 40
MAX_POSITIONAL_PARAMETERS = 5
MAX_NESTING = 3

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPOUND = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, FUNCTIONS))


def lines(node: Any) -> int:
    return node.end_lineno - node.lineno + 1


def methods(tree: ast.AST) -> set[ast.AST]:
    """Functions whose first parameter is the object or the class."""
    found: set[ast.AST] = set()
    for owner in ast.walk(tree):
        if isinstance(owner, ast.ClassDef):
            found.update(node for node in owner.body if isinstance(node, FUNCTIONS) and not is_static(node))
    return found


def is_static(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(item, ast.Name) and item.id == "staticmethod" for item in node.decorator_list)


def positional(node: ast.FunctionDef | ast.AsyncFunctionDef, is_method: bool) -> int:
    return len(node.args.posonlyargs) + len(node.args.args) - is_method


def nesting(node: ast.AST) -> int:
    """Levels of compound statements below `node`. An elif chain is one level; an inner function counts on its own."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        deepest = max(deepest, nesting(child) + (isinstance(child, COMPOUND) and not is_elif))
    return deepest


def percentile_95(values: list[int]) -> int:
    return sorted(values)[int(0.95 * (len(values) - 1))]


def test_files_are_short(sources):
    assert [f"{s.path}: {n}" for s in sources if (n := len(s.text.splitlines())) > MAX_FILE_LINES] == []


def test_functions_are_short(sources):
    long = [
        f"{source.path}: {node.name} has {lines(node)} lines"
        for source in sources
        for node in functions(source.tree)
        if lines(node) > MAX_FUNCTION_LINES
    ]
    assert long == []


def test_most_functions_are_very_short(sources):
    sizes = [lines(node) for source in sources for node in functions(source.tree)]
    assert percentile_95(sizes) <= MAX_FUNCTION_LINES_AT_95_PERCENT


def test_functions_take_few_positional_parameters(sources):
    wide = []
    for source in sources:
        bound = methods(source.tree)
        for node in functions(source.tree):
            if positional(node, node in bound) > MAX_POSITIONAL_PARAMETERS:
                wide.append(f"{source.path}: {node.name}")
    assert wide == []


def test_functions_are_flat(sources):
    deep = [
        f"{source.path}: {node.name} nests {nesting(node)} deep"
        for source in sources
        for node in functions(source.tree)
        if nesting(node) > MAX_NESTING
    ]
    assert deep == []


@pytest.mark.parametrize(
    ("body", "depth"),
    [
        ("return 1", 0),
        ("if a: pass", 1),
        ("if a: pass\nelif b: pass\nelif c: pass\nelse: pass", 1),
        ("if a: pass\nelse:\n  for b in c: pass", 2),
        ("if a: pass\nelif b:\n  for c in d: pass", 2),
        ("for a in b:\n  with c:\n    try:\n      if d: pass\n    finally: pass", 4),
        ("try: pass\nexcept ValueError:\n  while a: pass", 2),
        ("match a:\n  case 1:\n    if b: pass", 2),
        ("if a:\n  def inner():\n    if b:\n      if c: pass", 1),
    ],
)
def test_nesting_is_counted_as_the_house_counts_it(body, depth):
    indented = "\n".join("  " + line for line in body.splitlines())
    assert nesting(ast.parse(f"def f():\n{indented}").body[0]) == depth


def test_self_and_keyword_only_parameters_are_not_counted():
    tree = ast.parse(
        "class A:\n def f(self, a, b, /, c, *, d): ...\n @staticmethod\n def g(a, b): ...\ndef h(self, a): ..."
    )
    bound = methods(tree)
    assert {node.name: positional(node, node in bound) for node in functions(tree)} == {"f": 3, "g": 2, "h": 2}


def test_the_percentile_ignores_only_the_longest_twentieth():
    assert percentile_95([1] * 95 + [50] * 5) == 1
    assert percentile_95([1] * 90 + [50] * 10) == 50
