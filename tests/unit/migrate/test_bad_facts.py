"""Every kind of bad fact stops its document by name: id or position, field, value, mend; all of them at once."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from builders_v1 import ANN, MemoryFiles, as_json, one, stop, v1_document, v1_fact, write_store

from deermem import DeerMem
from deermem.errors import MigrationError
from deermem.migrate.legacy import needs_migration

HUGE = "x" * 70_000

# What is bad → the words that say so: field or value, and what to do.
BAD: dict[str, tuple[object, list[str]]] = {
    "confidence is a word": ({"confidence": "abc"}, ["confidence 'abc'", "give a number from 0 to 1"]),
    "confidence is NaN": ({"confidence": math.nan}, ["confidence nan", "give a number from 0 to 1"]),
    "confidence is infinite": ({"confidence": math.inf}, ["confidence inf", "from 0 to 1"]),
    "confidence is too high": ({"confidence": 1.5}, ["confidence 1.5", "from 0 to 1"]),
    "confidence is negative": ({"confidence": -0.1}, ["confidence -0.1", "from 0 to 1"]),
    "confidence is true": ({"confidence": True}, ["confidence True", "from 0 to 1"]),
    "confidence is a list": ({"confidence": [1]}, ["confidence is [1]", "from 0 to 1"]),
    "content is blank": ({"content": " \n\t"}, ["content is empty", "visible character"]),
    "content is invisible": ({"content": "\u200b"}, ["content is empty", "visible character"]),
    "content is a number": ({"content": 17}, ["content is 17", "give text"]),
    "content is a list": ({"content": ["a"]}, ["content is ['a']", "give text"]),
    "content is too long": ({"content": HUGE}, ["content has 70000 bytes", "split the fact"]),
    "content holds NUL": ({"content": "a\0b"}, ["content holds a NUL", "remove it"]),
    "content is half a character": ({"content": "cut \ud83e"}, ["content is not valid Unicode", "lone surrogate"]),
    "content is an open merge": (
        {"content": "<<<<<<< a\n1\n=======\n2\n>>>>>>> b"},
        ["unresolved git merge", "resolve it"],
    ),
    "id has a slash": ({"id": "a/b"}, ["'a/b'", "letters, digits"]),
    "id climbs": ({"id": "../x"}, ["'../x'", "letters, digits"]),
    "id has a blank": ({"id": "a b"}, ["'a b'", "letters, digits"]),
    "id is a number": ({"id": 7}, ["id is 7", "quote it"]),
    "id is too long": ({"id": "x" * 129}, ["129 characters", "at most 128"]),
    "createdAt is no time": ({"createdAt": "yesterday"}, ["createdAt 'yesterday'", "2026-11-30T10:00:00Z"]),
    "createdAt is no day": ({"createdAt": "2026-02-31T00:00:00Z"}, ["createdAt '2026-02-31", "like 2026"]),
    "createdAt is a number": ({"createdAt": 1700000000}, ["createdAt is 1700000000", "quote it"]),
    "updatedAt is a list": ({"updatedAt": []}, ["updatedAt is []", "quote it"]),
    "topics is a text": ({"topics": "music"}, ["topics is 'music'", "give a list of strings"]),
    "topics holds a number": ({"topics": ["a", 1]}, ["topics is ['a', 1]", "give a list of strings"]),
    "a topic is blank": ({"topics": ["a", " "]}, ["a topic is blank", "one word or phrase"]),
    "category is a number": ({"category": 5}, ["category is 5", "quote it"]),
    "category has two lines": ({"category": "a\nb"}, ["category 'a\\nb'", "one line"]),
    "category is too long": ({"category": "c" * 200}, ["category", "1 to 128 characters"]),
    "status is deleted": ({"status": "deleted"}, ["status is 'deleted'", "leave out what is deleted"]),
    "revision is zero": ({"revision": 0}, ["revision is 0", "whole number"]),
    "revision is a text": ({"revision": "two"}, ["revision is 'two'", "whole number"]),
    "days are negative": ({"expected_valid_days": -1}, ["expected_valid_days -1", "at least 1"]),
    "source is a number": ({"source": 3}, ["source is 3", "give a string or a mapping"]),
    "a source's thread is a number": ({"source": {"threadId": 3}}, ["source.type and source.threadId", "quote them"]),
    "an own key holds NaN": ({"mine": [math.nan]}, ["mine holds nan", "finite number"]),
    "an own key holds half a character": ({"mine": "\udc00"}, ["mine is not valid Unicode", "lone surrogate"]),
    "it names another user": ({"user_id": "bob"}, ["names the user 'bob'", "remove the fact"]),
    "it has another's content": ({"id": "fact_ok", "content": "Other."}, ["'fact_ok' twice", "another id"]),
    "its id differs in case": ({"id": "FACT_ok"}, ["'fact_ok' and 'FACT_ok'", "another id"]),
}
NO_FACT: dict[str, tuple[object, list[str]]] = {
    "a text": ("x", ["a fact is 'x'", "give an object"]),
    "null": (None, ["a fact is None", "give an object"]),
    "nothing": ({}, ["content is missing", "say the fact"]),
    "no content": ({"id": "fact_bad"}, ["fact_bad", "content is missing", "say the fact"]),
    "content null": ({"id": "fact_bad", "content": None}, ["fact_bad", "content is missing", "say the fact"]),
}
CASES = {name: ({**v1_fact("fact_bad", "Bad."), **fields}, words) for name, (fields, words) in BAD.items()} | NO_FACT


def document_of(*facts: object) -> dict[str, bytes]:
    # Python's own form of NaN and of half characters is what such a file would hold.
    return {"memory.json": json.dumps(v1_document(v1_fact("fact_ok"), *facts)).encode()}


@pytest.mark.parametrize("name", CASES)
def test_a_bad_fact_is_named_with_value_and_mend(name):
    bad, words = CASES[name]
    message = stop(MigrationError, document_of(bad), "users/ann/memory.json", *words)
    given = bad.get("id") if isinstance(bad, dict) else None
    assert "facts[1]" in message or (isinstance(given, str) and repr(given) in message), message


def test_all_bad_facts_of_a_document_are_named_at_once():
    bad = [
        {**v1_fact(f"fact_{number}", "Bad."), **dict(CASES[name][0])} for number, name in enumerate(BAD) if number < 9
    ]
    foreign = v1_fact("fact_foreign", "B.", user_id="bob")
    twice = v1_fact("fact_ok", "Another.")
    message = stop(MigrationError, document_of(*bad, foreign, twice), "facts[1] ", "facts[9] ", "'bob'", "'fact_ok'")
    assert message.count(" | ") == 10


def test_the_first_twenty_are_named_and_the_rest_counted():
    message = stop(MigrationError, document_of(*({"id": f"f{number}"} for number in range(25))), "facts[20] ")
    assert "facts[21]" not in message
    assert message.endswith(" | and 5 more")
    twenty = stop(MigrationError, document_of(*({"id": f"f{number}"} for number in range(20))), "facts[20] ")
    assert "more" not in twenty.rpartition(" | ")[2]


def test_bad_entries_of_a_map_of_paths_are_named_together():
    entries = {"a": {"path": "../x.md"}, "b": 7, "c": {"path": "agents/coder/facts/c.md"}}
    files = {"memory.json": as_json({**v1_document(), "facts": entries})}
    assert stop(MigrationError, files, "'a'", "escapes", "'b'", "'c'", "does not exist").count(" | ") == 2


def test_a_dry_run_names_the_bad_facts_of_every_document(root: Path):
    bad = [v1_fact("f1", "A.", confidence="abc"), v1_fact("f2", "B.", status="deleted")]
    own = as_json(v1_document(v1_fact("f3", "C.", topics="x"), v1_fact("f4", " ")))
    home = write_store(root / "users/ann", {**one(), "agents/coder/memory.json": as_json(v1_document(*bad))})
    write_store(home, {"agents/writer/memory.json": own})
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with DeerMem(root) as engine:
        (user,) = engine.migrate(dry_run=True).users
    assert user.outcome == "failed"
    assert [("'f1'" in line, "'f2'" in line) for line in user.problems] == [(True, True), (False, False)]
    assert ["'f3'" in line and "'f4'" in line for line in user.problems] == [False, True]
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("version", ["3.0", 3, "3", "10.1", "2026"])
@pytest.mark.parametrize("place", ["memory.json", "agents/coder/memory.json"])
def test_a_newer_document_is_named_with_what_to_do(version, place):
    files = {place: as_json({**v1_document(), "version": version})}
    message = stop(MigrationError, files, f"users/ann/{place}", f"version {version!r}", "newer than the 2.x")
    assert message.endswith("; upgrade deermem")


def test_a_later_2_is_read():
    """A 2.1 may only add keys, and what is not known is kept."""
    files = MemoryFiles({"memory.json": b'{"version": "2.1", "revision": 3, "new": 1}'})
    assert not needs_migration(files, ANN)
