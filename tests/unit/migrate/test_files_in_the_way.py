"""Fact files that lie in a bucket before an old document comes: which of them counts as the fact, and which as none."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders_v1 import LEAD, as_json, created, old_fact_file, one, plan, stop, v1_document, v1_fact, write_store

from deermem import DeerMem
from deermem.errors import MigrationError, UnexpectedFiles
from deermem.format.paths import fact_path

CELLO, VIOLA = "Ann plays the cello.", "Ann plays the viola."
HOME = fact_path("__default__", "fact_1")
FIRST, SAME_STEM = "agents/__default__/facts/00/copy.md", "agents/__default__/facts/zz/fact_1.md"


def stored(content: str, *, user: str = "ann", agent: str = "__default__") -> bytes:
    return old_fact_file("fact_1", content, user=user, agent=agent)


@pytest.mark.parametrize("spoken", [HOME, SAME_STEM])
def test_the_file_that_speaks_for_an_id_is_the_one_that_is_compared(spoken: str) -> None:
    """Else a fact would pass for stored because of a copy that nobody reads."""
    stop(MigrationError, {**one(v1_fact()), spoken: stored(VIOLA), FIRST: stored(CELLO)}, spoken, "another content")
    done = plan({**one(v1_fact()), spoken: stored(CELLO), FIRST: stored(VIOLA)})
    assert (done.changes, done.facts) == ((), 1)


def test_a_readable_file_speaks_before_one_that_can_not_be_read() -> None:
    broken = "agents/__default__/facts/00/fact_1.md"
    done = plan({**one(v1_fact()), SAME_STEM: stored(CELLO), broken: b"---\nid: [\n---\n"})
    assert (done.changes, done.facts) == ((), 1)


@pytest.mark.parametrize("owner", [{"user": "bob"}, {"agent": "coder"}])
def test_a_file_of_another_owner_is_not_the_fact(owner: dict[str, str]) -> None:
    """Nobody is served such a file: the fact is written beside it, or, in its very place, the user stops."""
    done = plan({**one(v1_fact()), FIRST: stored(CELLO, **owner)})
    assert [fact.content for fact in created(done).values()] == [CELLO]
    stop(MigrationError, {**one(v1_fact()), HOME: stored(CELLO, **owner)}, HOME, "of another owner")


def test_a_path_of_a_thousand_folders_stops_its_user_alone(root: Path) -> None:
    deep = f"agents/__default__/facts/{'a/' * 1500}fact_1.md"
    mapped = as_json({**v1_document(), "facts": {"fact_1": {"path": deep}}})
    write_store(root / "users/ann", {"memory.json": mapped})
    write_store(root / "users/bob", one(v1_fact()))
    with DeerMem(root) as engine:
        ann, bob = engine.migrate(dry_run=True).users
    assert (ann.outcome, bob.outcome) == ("failed", "planned")
    assert "does not exist" in ann.problems[0]


def test_a_thousand_folders_in_each_other_are_walked() -> None:
    deep = f"agents/lead-agent/facts/{'a/' * 1200}x.txt"
    store = {LEAD: old_fact_file("fact_u1", "Deploys on Thursdays."), deep: b"x"}
    stop(UnexpectedFiles, store, "facts/a/a/a")
    litter = deep.replace("x.txt", ".DS_Store")
    assert plan({LEAD: store[LEAD], litter: b""}).remove_dirs[0] == litter.removesuffix("/.DS_Store")


@pytest.mark.parametrize("path", ["agents/lead-agent/a\nzed: migrated 9 facts", "agents/__default__/facts/a\nb.md"])
def test_a_file_name_forges_no_line(path: str) -> None:
    data = stored(VIOLA)
    lead = {LEAD: old_fact_file("fact_u1", "Deploys on Thursdays.")}
    stop(MigrationError, {**one(v1_fact()), **lead, path: data}, "\\n")
    mapped = as_json({**v1_document(), "facts": {"fact_1": {"path": "agents/__default__/facts/x\ny.md"}}})
    stop(MigrationError, {"memory.json": mapped}, "does not exist", "\\n")
