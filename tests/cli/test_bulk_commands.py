"""clear, import, export."""

from __future__ import annotations

import json
import os

import pytest


@pytest.fixture
def filled(call, add):
    """Two agents' facts and a summary of alice, and one fact of bob."""
    add("User prefers TypeScript", "--category", "preference", "--confidence", "0.9", "--topic", "code")
    add("回答时先给结论。", "--source", "thread-4")
    add("Type hints in every module", "--agent", "coder")
    add("Bob's fact", user="bob")
    call("summaries", "set", "workContext", "Backend engineer.", user="alice")


def titles(call, *options: str, user: str = "alice") -> list[str]:
    return sorted(fact["content"] for fact in call("--json", "list", *options, user=user).json)


def test_clear_takes_one_agent(call, filled):
    answer = call("clear", "--agent", "coder", "--yes", user="alice")
    assert (answer.code, answer.out) == (0, "deleted 1 fact\n")
    assert titles(call, "--agent", "coder") == []
    assert len(titles(call)) == 2
    assert "Backend" in call("summaries", user="alice").out


def test_clear_of_all_agents_takes_the_summaries_too_and_no_other_user(call, filled):
    commit = call("--json", "clear", "--all-agents", "--yes", user="alice").json
    assert len(commit["deleted"]) == 3
    assert titles(call) == titles(call, "--agent", "coder") == []
    assert call("summaries", user="alice").out == ""
    assert titles(call, user="bob") == ["Bob's fact"]


def test_clear_needs_a_yes_where_there_is_no_terminal(call, filled):
    answer = call("clear", user="alice", stdin=b"y\n")
    assert answer.code == 2
    assert "--yes" in answer.complaint
    assert len(titles(call)) == 2


@pytest.mark.parametrize(("reply", "code", "left"), [(b"y\n", 0, 0), (b"n\n", 1, 2), (b"\n", 1, 2)])
def test_clear_asks_on_a_terminal(call, filled, reply, code, left):
    answer = call("--json", "clear", user="alice", stdin=reply, terminal=True)
    assert answer.code == code
    assert "Delete all facts of user alice, agent (default)?" in answer.err
    assert len(titles(call)) == left


def test_an_export_prints_the_document(call, filled):
    document = call("export", user="alice").json
    assert document["version"] == "2.0"
    assert document["user"]["workContext"]["summary"] == "Backend engineer."
    assert sorted(fact["content"] for fact in document["facts"]) == titles(call)
    assert call("--json", "export", "-", user="alice").json == document


def test_an_export_goes_to_a_private_file(call, filled, tmp_path):
    target = tmp_path / "alice.json"
    target.write_text("an older export")
    assert call("export", target, user="alice").out == f"exported 2 facts to {target}\n"
    assert json.loads(target.read_bytes()) == call("export", user="alice").json
    assert target.stat().st_mode & 0o077 == 0
    assert call("--json", "export", target, user="alice").json == {"path": str(target), "facts": 2}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_an_export_comes_back_as_it_was(call, filled, tmp_path):
    target = tmp_path / "alice.json"
    call("export", target, user="alice")
    before = call("export", user="alice").json
    assert call("import", target, user="carol").out == "imported 2 facts for the new user carol\n"
    assert call("export", user="carol").json["facts"] == before["facts"]
    call("clear", "--all-agents", "--yes", user="alice")
    assert call("import", target, user="alice").code == 0
    assert call("export", user="alice").json["facts"] == before["facts"]


def test_an_import_from_a_pipe_upserts(call, filled):
    piped = json.dumps({"facts": [{"id": "tea", "content": "Green tea"}]}).encode()
    commit = call("--json", "import", "-", user="alice", stdin=piped).json
    assert [fact["id"] for fact in commit["facts"]] == ["tea"]
    assert len(titles(call)) == 3


def test_an_import_with_replace_deletes_what_the_document_lacks(call, filled):
    piped = json.dumps({"facts": [{"id": "tea", "content": "Green tea"}]}).encode()
    answer = call("import", "-", "--replace", user="alice", stdin=piped)
    assert answer.out == "imported 1 fact, deleted 2\n"
    assert titles(call) == ["Green tea"]


def test_an_import_beyond_the_cap_says_so(call):
    document = {"facts": [{"id": f"fact_{number}", "content": f"Fact {number}"} for number in range(120)]}
    answer = call("--json", "import", "-", user="alice", stdin=json.dumps(document).encode())
    evicted = answer.json["evicted"]
    named = ", ".join(answer.json["left_out"][:10])
    raised = "--max-facts N or $DEERMEM_MAX_FACTS raise it, 0 is no limit"
    told = f"deermem: 20 facts not taken in, to keep the cap of 100 facts: {named}, …; {raised}\n"
    assert answer.err == told
    assert sorted(answer.json["left_out"]) == sorted(evicted)
    assert len(evicted) + len(titles(call)) == 120


BAD_DOCUMENTS = {
    "no JSON": (b'{"facts": [', "line 1, column"),
    "no object": (b"[1]", "not a JSON object"),
    "no facts": (b"{}", "facts"),
    "no list": (b'{"facts": "many"}', "facts"),
    "one bad fact": (b'{"facts": [{"content": "Fine"}, {"id": "bad", "content": ""}]}', "bad"),
    "a bad confidence": (b'{"facts": [{"id": "f1", "content": "x", "confidence": 95}]}', "95"),
    "an escaping id": (b'{"facts": [{"id": "../x", "content": "x"}]}', "../x"),
    "no UTF-8": (b'{"facts": ["\xff"]}', "UTF-8 at byte"),
    "a later format": (b'{"version": "3.0", "facts": []}', "version '3.0'"),
    "a later format as a number": (b'{"version": 3, "facts": []}', "version 3"),
    "a key twice": (b'{"facts": [{"content": "Tea", "content": "Coffee"}]}', "the key 'content' twice"),
    "a key twice at the top": (b'{"facts": [], "facts": [{"content": "Tea"}]}', "the key 'facts' twice"),
    "nested too deep": (b"[" * 200_000, "JSON"),
}


@pytest.mark.parametrize("name", BAD_DOCUMENTS)
def test_a_bad_document_is_named_and_changes_nothing(call, filled, root, tmp_path, memory_files, name):
    data, named = BAD_DOCUMENTS[name]
    source = tmp_path / "document.json"
    source.write_bytes(data)
    before = memory_files(root)
    answer = call("import", source, "--replace", user="alice")
    assert answer.code == 2
    assert named in answer.complaint
    assert answer.complaint.startswith(str(source))
    assert memory_files(root) == before


@pytest.mark.parametrize("version", ['"2.7"', '"1.0"', "2", "null"])
def test_a_document_of_this_format_or_an_older_one_is_taken_in(call, version):
    piped = f'{{"version": {version}, "facts": [{{"content": "Green tea"}}]}}'.encode()
    assert call("import", "-", user="alice", stdin=piped).out == "imported 1 fact for the new user alice\n"


def test_a_missing_file_is_named(call, root, tmp_path):
    answer = call("import", tmp_path / "absent.json", user="alice")
    assert answer.code == 1
    assert str(tmp_path / "absent.json") in answer.complaint
    assert not root.exists()


def test_a_folder_is_no_document(call, tmp_path):
    answer = call("import", tmp_path, user="alice")
    assert answer.code == 1
    assert str(tmp_path) in answer.complaint


def test_an_export_to_a_missing_folder_is_named(call, filled, tmp_path):
    answer = call("export", tmp_path / "absent" / "x.json", user="alice")
    assert answer.code == 1
    assert str(tmp_path / "absent") in answer.complaint


def test_an_export_never_lands_in_the_store(call, filled, root, memory_files):
    before = memory_files(root)
    answer = call("export", root / "users" / "alice" / "memory.json", user="alice")
    assert answer.code == 2
    assert "inside the store" in answer.complaint
    assert memory_files(root) == before


def test_an_export_to_a_pipe_or_device_does_not_replace_it(call, filled, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert call("export", pipe, user="alice").code == 0
        assert json.loads(os.read(reader, 1 << 16)) == call("export", user="alice").json
    finally:
        os.close(reader)
    assert pipe.is_fifo()
