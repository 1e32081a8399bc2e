"""A memory.json that can't be used or was written by hand: nothing is thrown away, and the facts are still read."""

from __future__ import annotations

import errno
import json
import logging
import os
import re

import pytest
from builders_store import facts_of, place, tree

from deermem import Corruption, DeerMem, StoreUnavailable
from deermem.store.files import Files

V1 = {"version": "1.0", "user": {"workContext": {"summary": "Work"}}, "facts": [{"id": "f1", "content": "Old"}]}
V2 = '{"version": "2.0", "revision": 3, "lastUpdated": "", "user": {}, "history": {}%s}'


@pytest.fixture
def home(root):
    """The folder of user alice."""
    return root / "users/alice"


def put(kind, path, tmp_path):
    """Something that is no regular file, in the place of memory.json."""
    path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(place(tmp_path / "real.json", V2 % ""))
    elif kind == "dangling":
        path.symlink_to(tmp_path / "nowhere.json")
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)


KINDS = {"link": "a link", "dangling": "a link", "folder": "a folder", "pipe": "a pipe, socket or device"}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_regular_file_is_neither_read_nor_written(engine, memory, home, tmp_path, caplog, kind):
    """Summaries and writes are refused with the mend; facts are read, and context goes on with a warning."""
    fact = memory.add("Kept fact.")
    path = home / "memory.json"
    put(kind, path, tmp_path)
    before = tree(home)
    calls = [
        memory.summaries,
        lambda: memory.update_summaries({"workContext": "NEW"}),
        lambda: memory.add("New"),
        lambda: memory.delete(fact.id),
        lambda: memory.import_document({"facts": [{"content": "c"}], "user": {"workContext": "IMP"}}),
        memory.clear,
    ]
    for call in calls:
        with pytest.raises(Corruption) as caught:
            call()
        assert caught.value.path == str(path)
        assert caught.value.reason == f"it is {KINDS[kind]}, not a regular file"
        assert "links are not followed; put a regular file there" in str(caught.value)
    assert [item.content for item in memory.list()] == ["Kept fact."]
    assert memory.get(fact.id).content == "Kept fact."
    assert [hit.fact.content for hit in memory.search("kept")] == ["Kept fact."]
    with caplog.at_level(logging.WARNING, "deermem"):
        assert "Kept fact." in memory.context()
    assert "it goes on without the summaries" in caplog.text
    errors = [finding for finding in engine.check("alice") if finding.severity == "error"]
    assert [(finding.path, finding.message) for finding in errors] == [(str(path), caught.value.reason)]
    assert tree(home) == before
    assert not (tmp_path / "nowhere.json").exists()


def test_an_old_document_of_an_agent_is_not_taken_where_its_summaries_would_go_nowhere(engine, home, tmp_path):
    """The migration would remove it, and could not write memory.json."""
    old = place(home / "agents/coder/memory.json", json.dumps(V1))
    put("link", home / "memory.json", tmp_path)
    source = old.read_bytes()
    with pytest.raises(Corruption, match="it is a link"):
        engine.memory("alice", "coder").list()
    for dry_run in (True, False):
        (user,) = engine.migrate(["alice"], dry_run=dry_run).users
        assert user.outcome == "failed"
        assert "it is a link" in user.problems[0]
    assert old.read_bytes() == source


def test_a_section_typed_as_text_survives_every_write(engine, memory, home):
    """A summary in a hand-made memory.json is read as what it says."""
    place(home / "memory.json", V2.replace('"user": {}', '"user": {"workContext": "I work at ACME"}') % "")
    assert memory.summaries().work_context.summary == "I work at ACME"
    assert "I work at ACME" in memory.context()
    memory.add("A fact.")
    memory.update_summaries({"topOfMind": "Top"})
    assert DeerMem(home.parent.parent).memory("alice").summaries().work_context.summary == "I work at ACME"
    assert engine.check("alice") == []


@pytest.mark.parametrize("value", ['"x"', "[]", "7", '{"workContext": ["I work at ACME"]}', '{"workContext": true}'])
def test_a_section_of_another_type_is_named_and_never_overwritten(engine, memory, home, value):
    path = place(home / "memory.json", V2.replace('"user": {}', f'"user": {value}') % "")
    before = path.read_bytes()
    for call in (memory.summaries, lambda: memory.add("x"), lambda: memory.update_summaries({"topOfMind": "T"})):
        with pytest.raises(Corruption, match=r"user(\.workContext)? is .*; give "):
            call()
    assert memory.list() == []
    assert path.read_bytes() == before
    assert [(finding.severity, finding.path) for finding in engine.check("alice")] == [("error", str(path))]


def test_foreign_keys_keep_digits_escapes_and_version_through_writes(memory, home):
    path = place(
        home / "memory.json",
        V2.replace("2.0", "2.1") % r', "n": 1.10, "m": 12345678901234567890.123456789, "s": "\ud800"',
    )
    memory.add("A fact.")
    memory.update_summaries({"workContext": "Work"})
    memory.import_document({"facts": [{"content": "One"}, {"content": "Two"}]})
    text = path.read_text()
    for line in ('"version": "2.1",', '"n": 1.10,', '"m": 12345678901234567890.123456789,', r'"s": "\ud800"'):
        assert f"  {line}\n" in text
    assert json.loads(text)["revision"] == 6


@pytest.mark.parametrize(
    "data",
    [
        *(json.dumps(V1).encode(codec) for codec in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be")),
        json.dumps(V1["facts"]).encode(),
        json.dumps(V1["facts"]).encode("utf-16"),
        b'\xef\xbb\xbf\n [ {"id": "f1"},',
        rb'{"version": "1.0", "\u0066act\u0073": [{"id": "a", "content": "x"}],}',
        b"{'version': '1.0', 'facts': [{'id': 'a', 'content': 'x'}]}",
        b'{version: "1.0", facts: [{id: "a"}]}',
    ],
)
def test_a_document_that_may_hold_facts_never_looks_empty(engine, home, data):
    """Whatever encoding or damage keeps it from being read."""
    path = place(home / "memory.json", data)
    memory = engine.memory("alice")
    calls = [memory.list, lambda: memory.search("old"), memory.context, memory.document, lambda: memory.add("x")]
    for call in [*calls, lambda: memory.update_summaries({"workContext": "x"}), memory.clear]:
        with pytest.raises(Corruption, match=r"memory\.json"):
            call()
    assert path.read_bytes() == data
    assert [finding.severity for finding in engine.check("alice")] == ["error"]
    assert engine.migrate(["alice"]).users[0].outcome == "failed"
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    "data",
    [
        (V2 % "").encode("utf-16"),
        b"[]",
        b"",
        b'{"version": "2.0", "user": {"workContext": {"summary": "some facts: tea"}},}',
        b"\0" * 40,
    ],
)
def test_a_damaged_document_without_facts_leaves_the_facts_readable(engine, memory, home, data):
    memory.add("Kept fact.")
    path = place(home / "memory.json", data)
    assert [fact.content for fact in memory.list()] == ["Kept fact."]
    with pytest.raises(Corruption):
        memory.add("x")
    assert path.read_bytes() == data
    assert [finding.severity for finding in engine.check("alice")] == ["error"]


def test_a_list_that_a_host_keeps_in_an_agents_folder_is_not_ours(engine, home):
    path = place(home / "agents/coder/memory.json", '[{"id": "host"}]')
    engine.memory("alice", "coder").add("A fact.")
    assert [fact.content for fact in engine.memory("alice", "coder").list()] == ["A fact."]
    assert path.read_text() == '[{"id": "host"}]'


# --- permissions, as the operating system would refuse them: root is never refused


@pytest.fixture
def shut(monkeypatch):
    """Paths whose content may not be read; a folder shuts what lies in it."""
    paths = []

    def refusing(method):
        def call(self, path):
            if any(path == shut or path.startswith(f"{shut}/") for shut in paths):
                raise PermissionError(errno.EACCES, "Permission denied", path)
            return method(self, path)

        return call

    for method in (Files.look, Files.listdir):
        monkeypatch.setattr(Files, method.__name__, refusing(method))
    return paths


def test_facts_are_read_beside_a_memory_json_that_may_not_be(engine, memory, home, shut, caplog):
    fact = memory.add("Kept fact.")
    memory.update_summaries({"workContext": "Work"})
    shut.append(str(home / "memory.json"))
    fresh = DeerMem(home.parent.parent).memory("alice", "coder")
    for reader in (memory, fresh):
        os.utime(home / "memory.json", ns=(1, 1))
        caplog.clear()
        assert [item.content for item in reader.list()] == ["Kept fact."]
        assert reader.get(fact.id) == fact
        assert [hit.fact.id for hit in reader.search("kept")] == [fact.id]
        context = reader.context()
        assert "Kept fact." in context
        assert "Work" not in context
        assert f"{home / 'memory.json'}: Permission denied; facts are read without it" in caplog.text
        for call in (reader.summaries, lambda: reader.add("New")):  # noqa: B023 - called at once
            with pytest.raises(StoreUnavailable, match="Permission denied"):
                call()
    (finding,) = engine.check("alice")
    assert (finding.severity, finding.path) == ("error", str(home / "memory.json"))
    shut.clear()
    assert memory.summaries().work_context.summary == "Work"


def test_a_memory_json_that_may_not_be_read_and_may_hold_all_facts_is_no_empty_memory(engine, home, shut):
    path = place(home / "memory.json", json.dumps(V1))
    shut.append(str(path))
    with pytest.raises(StoreUnavailable, match="Permission denied"):
        engine.memory("alice").list()
    shut.clear()
    assert [fact.content for fact in engine.memory("alice").list()] == ["Old"]


@pytest.mark.parametrize("closed", [".journal", ".journal/record"])
def test_facts_are_read_beside_a_journal_that_may_not_be(engine, memory, home, shut, caplog, closed):
    fact = memory.add("Kept fact.")
    memory.update_summaries({"workContext": "Work"})
    shut.append(str(home / closed))
    assert [item.content for item in memory.list()] == ["Kept fact."]
    assert memory.get(fact.id) == fact
    assert [hit.fact.id for hit in memory.search("kept")] == [fact.id]
    assert memory.summaries().work_context.summary == "Work"
    assert "Kept fact." in memory.context()
    assert f"{home / '.journal/record'}: Permission denied; a commit under way is not seen as one" in caplog.text
    with pytest.raises(StoreUnavailable):
        memory.add("New")
    assert len(list(facts_of(home.parent.parent).rglob("*.md"))) == 1
    errors = [finding for finding in engine.check("alice") if finding.severity == "error"]
    assert [finding.path for finding in errors] == [str(home / closed)]


# --- a dry run asks what the storage would let it do


@pytest.mark.parametrize(
    ("closed", "words"),
    [
        ("", "users/alice is not writable"),
        ("agents", "agents is not writable"),
        ("agents/coder/facts", "agents/coder/facts is not writable"),
        (".memory.lock", r"the lock .*\.memory\.lock can't be opened"),
        (".journal", r"\.journal is not writable"),
    ],
)
def test_a_dry_run_says_where_it_may_not_write(engine, root, home, monkeypatch, closed, words):
    place(home / "memory.json", json.dumps(V1))
    place(home / "agents/coder/memory.json", json.dumps({**V1, "facts": [{"id": "f2", "content": "Other"}]}))
    (home / "agents/coder/facts").mkdir()
    (home / ".journal").mkdir()
    place(home / ".memory.lock", "")
    assert engine.migrate(["alice"], dry_run=True).users[0].outcome == "planned"
    before = tree(root, operational=True)
    target = os.path.normpath(home / closed)
    granted = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: not (os.fspath(path) == target and mode & os.W_OK) and granted(path, mode)
    )
    report = engine.migrate(["alice"], dry_run=True)
    assert (report.ok, report.users[0].outcome) == (False, "failed")
    (problem,) = report.users[0].problems
    assert re.search(words, problem)
    assert tree(root, operational=True) == before


def test_a_dry_run_sees_links_and_files_in_the_way(engine, home, tmp_path):
    place(home / "memory.json", json.dumps(V1))
    place(home / "agents", "a file")
    (home / ".memory.lock").symlink_to(tmp_path / "elsewhere")
    (user,) = engine.migrate(["alice"], dry_run=True).users
    assert user.problems == (
        f"{home / 'agents'} is no folder; move it away",
        f"the lock {home / '.memory.lock'} is no regular file; move it away",
    )
    assert not (tmp_path / "elsewhere").exists()
