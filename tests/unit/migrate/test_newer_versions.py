"""A store of a later version is refused on every path, by name and with what to do, and not touched by one byte."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders_store import tree
from builders_v1 import as_json, old_fact_file, v1_document, v1_fact, write_store

from deermem import ChangeSet, DeerMem, DeerMemError, Draft
from deermem.format.paths import fact_path

DOORS: dict[str, Callable[[DeerMem], object]] = {
    "list": lambda engine: engine.memory("ann").list(),
    "get": lambda engine: engine.memory("ann").get("fact_1"),
    "path": lambda engine: engine.memory("ann").path("fact_1"),
    "text": lambda engine: engine.memory("ann").text("fact_1"),
    "search": lambda engine: engine.memory("ann").search("cello"),
    "search all": lambda engine: engine.search("ann", "cello"),
    "count": lambda engine: engine.memory("ann").count("cello"),
    "context": lambda engine: engine.memory("ann").context(),
    "summaries": lambda engine: engine.memory("ann").summaries(),
    "document": lambda engine: engine.memory("ann").document(),
    "add": lambda engine: engine.memory("ann").add("New."),
    "update": lambda engine: engine.memory("ann").update("fact_1", "New."),
    "delete": lambda engine: engine.memory("ann").delete("fact_1"),
    "apply": lambda engine: engine.memory("ann").apply(ChangeSet([Draft(content="New.")])),
    "update_summaries": lambda engine: engine.memory("ann").update_summaries({"topOfMind": "New."}),
    "import": lambda engine: engine.memory("ann").import_document({"facts": [{"content": "New."}]}),
    "replace": lambda engine: engine.memory("ann").import_document({"facts": [{"content": "New."}]}, replace=True),
    "clear": lambda engine: engine.memory("ann").clear(),
    "clear all": lambda engine: engine.clear("ann"),
}


@pytest.fixture(params=["shared", "agent"])
def store(request: pytest.FixtureRequest, root: Path) -> str:
    """Where the document of a later version lies: ann's own, or that of the default agent."""
    newer = as_json({**v1_document(v1_fact("fact_9", "Of a later kind.")), "version": "3.0", "shape": ["new"]})
    path = "memory.json" if request.param == "shared" else "agents/__default__/memory.json"
    fact = old_fact_file("fact_1", "Plays the cello.", agent="__default__")
    write_store(root / "users/ann", {fact_path("__default__", "fact_1"): fact, path: newer})
    return f"users/ann/{path}"


@pytest.fixture
def engine(root: Path, clock) -> Iterator[DeerMem]:
    with DeerMem(root, clock=clock) as opened:
        yield opened


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_it(engine, root, store, door):
    before = tree(root)
    with pytest.raises(DeerMemError) as caught:
        DOORS[door](engine)
    message = str(caught.value)
    assert message.startswith(f"{store} has version '3.0', newer than the 2.x that this deermem knows")
    assert message.endswith("; upgrade deermem")
    assert tree(root) == before


@pytest.mark.parametrize("how", [{}, {"dry_run": True}, {"verify": True}])
def test_a_migration_fails_that_user_and_goes_on(engine, root, store, how):
    write_store(root / "users/bob", {"memory.json": as_json(v1_document(v1_fact()))})
    before = tree(root / "users/ann")
    ann, bob = engine.migrate(**how).users
    assert (ann.outcome, bob.outcome) == ("failed", "planned" if how == {"dry_run": True} else "migrated")
    assert len(ann.problems) == 1
    assert store in ann.problems[0]
    assert ann.problems[0].endswith("; upgrade deermem")
    assert tree(root / "users/ann") == before


def test_check_names_it_and_nothing_else_touches_it(engine, root, store):
    before = tree(root)
    for fix in (False, True):
        named = [finding for finding in engine.check(fix=fix) if "version" in finding.message]
        assert named
        assert "upgrade deermem" in "".join(finding.hint for finding in named)
    assert engine.stats().facts >= 1
    engine.reindex()
    engine.warm()
    assert engine.restore("ann").outcome == "failed"
    assert tree(root) == before


def test_the_command_line_says_it_in_one_line(root, store, capsys):
    from deermem.cli.main import run

    for command in (["--user", "ann", "list"], ["--user", "ann", "add", "New."]):
        assert run(["--root", str(root), *command]) == 1
        printed = capsys.readouterr()
        assert printed.err.count("\n") == 1
        assert "upgrade deermem" in printed.err
    assert run(["--root", str(root), "migrate", "--all-users", "--json"]) == 1
    assert "upgrade deermem" in json.loads(capsys.readouterr().out)["users"][0]["problems"][0]
