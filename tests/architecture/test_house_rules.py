"""What code may not do, and the few named places that may."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

TYPED_LAYERS = ("model/", "policy/", "service/")

# Derived state may fail without failing what it is derived from; each of these logs what it swallows.
MAY_CATCH_ALL = {
    "cli/main.py": "the last line of defence: an unforeseen error becomes one line and an exit code",
    "service/commit.py": "the index is told of a commit that is already on disk",
    "watch/watcher.py": "a listener that fails, or a sweep, must not end the watcher",
    "service/retrieval.py": "a search that can't use its adapter falls back to the files",
    "extract/pipeline.py": "a model is code of others: whatever it raises, the conversation waits on disk",
    "extract/hooks.py": "a hook of the host stands beside an update: where it fails, no memory is lost",
    "migrate/crew.py": "what ends one user's thread is raised in the calling one, which waits for it",
    "integrations/langchain/middleware.py": "an agent whose memory fails in any way still answers",
    "integrations/tool_answers.py": "a tool that raises ends the run of the agent that called it",
    "service/token_counter.py": "a tokenizer that can't be loaded costs nobody the prompt: tokens are estimated",
}

# One door to the disk, so that tests can stop at every call and no rename goes unflushed.
MAY_MOVE_FILES = {
    "store/files.py": "the door itself",
    "index/schema.py": "a corrupt index is derived: it is removed and built again, and needs no flush",
    "cli/bulk.py": "an export goes to a file that the person names, outside the store",
    "cli/edit.py": "the copy that a person edits lies outside the store",
    "testing/engines.py": "plays the editor that saves a fact file by rename, for the tests of others",
    "cli/demo.py": "the demonstration plays the editor that saves a fact file by rename",
}
MOVING = {"replace", "rename", "renames", "fsync", "fdatasync", "unlink", "remove", "rmdir", "link"}
MOVING_PATH_METHODS = {"unlink", "rename", "rmdir", "hardlink_to", "write_text", "write_bytes"}
MOVING_SHUTIL = {"move", "rmtree", "copy", "copy2", "copyfile", "copytree"}


def loose_mappings(tree: ast.AST) -> Iterator[int]:
    """Lines with dict[str, Any] or its like."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            names = [ast.unparse(item).rpartition(".")[2] for item in (node.value, *node.slice.elts)]
            if names[0].endswith(("dict", "Dict", "Mapping")) and names[1:] == ["str", "Any"]:
                yield node.lineno


def literal_getattrs(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1):
            continue
        if node.func.id == "getattr" and isinstance(node.args[1], ast.Constant):
            yield node.lineno


def broad_handlers(tree: ast.AST) -> Iterator[ast.ExceptHandler]:
    """Handlers of everything that do not raise it again."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and is_broad(node.type) and not raises_again(node):
            yield node


def is_broad(kind: ast.expr | None) -> bool:
    if isinstance(kind, ast.Tuple):
        return any(is_broad(item) for item in kind.elts)
    return kind is None or ast.unparse(kind) in ("Exception", "BaseException")


def raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and (last.exc is None or ast.unparse(last.exc) == handler.name)


def says_so(handler: ast.ExceptHandler) -> bool:
    """Whether the handler writes a log line or, on the command line, reports to the person."""
    calls = [ast.unparse(node.func) for node in ast.walk(handler) if isinstance(node, ast.Call)]
    return any("log" in name.lower() or name.endswith((".echo", "_report")) for name in calls)


def file_moves(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and moves(ast.unparse(node.value), node.attr):
            yield f"{node.lineno}: {ast.unparse(node)}"
        # A path's replace takes one argument; that of text takes two, that of dates and dataclasses keywords.
        if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
            called = ast.unparse(node.func)
            if called.endswith(".replace") and called != "os.replace":
                yield f"{node.lineno}: {called}"
        if isinstance(node, ast.ImportFrom) and node.module in ("os", "shutil"):
            taken = {item.name for item in node.names} & (MOVING if node.module == "os" else MOVING_SHUTIL)
            yield from (f"{node.lineno}: from {node.module} import {name}" for name in sorted(taken))


def moves(owner: str, name: str) -> bool:
    """Whether `owner.name` moves or removes files; a `files` object is the door, so asking it is right."""
    if owner == "os":
        return name in MOVING
    if owner == "shutil":
        return name in MOVING_SHUTIL
    return name in MOVING_PATH_METHODS and not owner.endswith("files")


def test_inner_layers_trade_in_typed_values(sources):
    inner = [source for source in sources if source.path.startswith(TYPED_LAYERS)]
    assert inner
    assert [f"{s.path}:{line}" for s in inner for line in loose_mappings(s.tree)] == []


def test_attributes_are_named_not_looked_up_by_text(sources):
    assert [f"{s.path}:{line}" for s in sources for line in literal_getattrs(s.tree)] == []


def test_only_the_named_places_catch_everything(sources):
    broad = [f"{s.path}:{h.lineno}" for s in sources for h in broad_handlers(s.tree) if s.path not in MAY_CATCH_ALL]
    assert broad == []


def test_whoever_catches_everything_says_so(sources):
    silent = [f"{s.path}:{h.lineno}" for s in sources for h in broad_handlers(s.tree) if not says_so(h)]
    assert silent == []


def test_only_the_one_door_moves_flushes_and_removes_files(sources):
    outside = [f"{s.path}:{move}" for s in sources for move in file_moves(s.tree) if s.path not in MAY_MOVE_FILES]
    assert outside == []


def test_only_three_modules_call_the_c_library(sources):
    users = {source.path for source in sources if re.search(r"^\s*(import|from) ctypes", source.text, re.MULTILINE)}
    assert users <= {"store/names.py", "store/inotify.py", "store/syncfs.py"}


def test_nothing_is_left_unfinished(sources):
    # Put together here, so that this file does not name what it looks for.
    words = ["TO" + "DO", "FIX" + "ME", "X" * 3]
    comments = [f"{s.path}: {w}" for s in sources for w in words if f"# {w}" in s.text]
    assert comments == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("x: dict[str, Any]", 1),
        ("def f(a: Mapping[str, typing.Any]) -> list[dict[str, Any]]: ...", 2),
        ("x: dict[str, object]; y: Mapping[str, JsonValue]; z: dict[int, Any]", 0),
    ],
)
def test_loose_mappings_are_found(code, found):
    assert len(list(loose_mappings(ast.parse(code)))) == found


@pytest.mark.parametrize(("code", "found"), [("getattr(a, 'b')", 1), ("getattr(a, name)", 0), ("a.b", 0)])
def test_literal_getattrs_are_found(code, found):
    assert len(list(literal_getattrs(ast.parse(code)))) == found


@pytest.mark.parametrize(
    ("handler", "found"),
    [
        ("except: pass", 1),
        ("except Exception: pass", 1),
        ("except (OSError, BaseException): pass", 1),
        ("except Exception as error: raise Other from error", 1),
        ("except BaseException:\n undo()\n raise", 0),
        ("except (OSError, ValueError): pass", 0),
    ],
)
def test_broad_handlers_are_found(handler, found):
    assert len(list(broad_handlers(ast.parse(f"try: a()\n{handler}")))) == found


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("os.replace(a, b)", 1),
        ("from os import fsync, path", 1),
        ("flush = os.fdatasync", 1),
        ("Path(a).unlink()", 1),
        ("path.write_bytes(b'')", 1),
        ("shutil.rmtree(a)", 1),
        ("Path(a).replace(b)", 1),
        ("text.replace(a, b); when.replace(tzinfo=UTC); seen.remove(a); os.path.join(a)", 0),
        ("self._files.rename(a, b); files.unlink(a)", 0),
    ],
)
def test_file_moves_are_found(code, found):
    assert len(list(file_moves(ast.parse(code)))) == found
