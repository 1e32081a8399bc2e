"""import of what other programs keep, and dry runs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

GRAPH = [
    {"type": "entity", "name": "Mira", "entityType": "person", "observations": ["Speaks Finnish", "Rows on Sundays"]},
    {"type": "entity", "name": "Saltworks", "entityType": "company", "observations": []},
    {"type": "relation", "from": "Mira", "to": "Saltworks", "relationType": "works_at"},
]
MEMORIES = {"results": [{"id": "m-1", "memory": "Prefers trains", "categories": ["travel"], "user_id": "mira"}]}
NOTE = "---\ntitle: Tea\ntags: [drinks]\n---\n\nWater first.\n\n- [method] Green tea wants 70 degrees #brewing\n"


@pytest.fixture
def sources(tmp_path) -> dict[str, Path]:
    """One of each kind, by its name."""
    graph, memories, notes = tmp_path / "memory.jsonl", tmp_path / "memories.json", tmp_path / "vault"
    graph.write_text("\n".join(map(json.dumps, GRAPH)))
    memories.write_text(json.dumps(MEMORIES))
    for name, text in {
        "ideas/tea.md": NOTE,
        "day.md": "Just a thought.",
        ".obsidian/hidden.md": "Hidden",
        "Templates/daily.md": "A template",
        "picture.png": "no note",
    }.items():
        (notes / name).parent.mkdir(parents=True, exist_ok=True)
        (notes / name).write_text(text)
    return {"mcp-memory": graph, "mem0": memories, "notes": notes}


def everything(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, operational ones too."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def contents(call, user: str = "mira") -> list[str]:
    return sorted(fact["content"] for fact in call("--json", "list", user=user).json)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("mcp-memory", ["Mira works at Saltworks", "Mira: Rows on Sundays", "Mira: Speaks Finnish"]),
        ("mem0", ["Prefers trains"]),
        ("notes", ["Green tea wants 70 degrees", "Just a thought.", "Water first."]),
    ],
)
def test_each_kind_comes_in_and_a_second_time_changes_nothing(call, root, memory_files, sources, kind, said):
    number = f"{len(said)} fact{'s' if len(said) > 1 else ''}"
    first = call("import", "--from", kind, sources[kind], user="mira")
    assert first.out == f"imported {number} for the new user mira\n"
    assert contents(call) == said
    before = memory_files(root)
    again = call("import", "--from", kind, sources[kind], user="mira")
    assert (again.code, again.out) == (0, f"imported no new facts: {len(said)} already there\n")
    os.utime(sources[kind], (1, 1))
    report = call("--json", "import", "--from", kind, sources[kind], user="mira").json
    assert (report["added"], report["updated"], len(report["present"])) == ([], [], len(said))
    assert memory_files(root) == before


def test_an_edited_source_changes_its_fact(call, sources):
    call("import", "--from", "notes", sources["notes"], user="mira")
    (sources["notes"] / "day.md").write_text("Another thought.")
    answer = call("import", "--from", "notes", sources["notes"], user="mira")
    assert answer.out == "imported 3 facts (1 updated, 2 already there)\n"
    assert "Another thought." in contents(call)


def test_what_a_person_made_of_it_here_stays(call, sources):
    call("import", "--from", "mem0", sources["mem0"], user="mira")
    call("update", "m-1", "--confidence", "0.9", user="mira")
    again = call("import", "--from", "mem0", sources["mem0"], user="mira")
    assert again.out == "imported no new facts: 1 already there\n"
    assert call("--json", "show", "m-1", user="mira").json["confidence"] == 0.9


def test_what_is_said_already_is_not_added_again(call, add, sources):
    own = add("prefers  TRAINS", user="mira")
    report = call("--json", "import", "--from", "mem0", sources["mem0"], user="mira").json
    assert (report["added"], report["present"]) == ([], [own])
    assert contents(call) == ["prefers  TRAINS"]
    assert call("import", "-", user="mira", stdin=b'{"facts": [{"content": "Prefers trains"}]}').out == (
        "imported no new facts: 1 already there\n"
    )


def test_what_is_about_to_say_something_else_says_nothing_already(call):
    """Else the words would be left out as known, and then be gone."""
    first = [{"id": "one", "memory": "Rows"}]
    second = [{"id": "two", "memory": "Rows"}, {"id": "one", "memory": "Swims"}, {"id": "three", "memory": "swims"}]
    for memories, said in ((first, ["Rows"]), (second, ["Rows", "Swims"]), (second, ["Rows", "Swims"])):
        call("import", "--from", "mem0", "-", user="mira", stdin=json.dumps(memories).encode())
        assert contents(call) == said


def test_replace_deletes_what_is_not_in_it_and_no_summary(call, add, sources):
    same = add("Prefers trains", user="mira")
    add("Prefers boats", user="mira")
    call("summaries", "set", "workContext", "Rower.", user="mira")
    answer = call("import", "--from", "mem0", "--replace", sources["mem0"], user="mira")
    assert answer.out == "imported no new facts: 1 already there, deleted 1\n"
    assert [fact["id"] for fact in call("--json", "list", user="mira").json] == [same]
    assert "Rower." in call("summaries", user="mira").out


def test_a_stream_is_read_as_a_file(call, sources):
    piped = sources["mcp-memory"].read_bytes()
    answer = call("import", "--from", "mcp-memory", "-", user="mira", stdin=piped)
    assert answer.out == "imported 3 facts for the new user mira\n"
    bad = call("import", "--from", "mem0", "-", user="mira", stdin=b"{}")
    assert (bad.code, bad.complaint.split(":")[0]) == (2, "standard input")


def test_what_is_passed_over_is_named(call, sources):
    answer = call("import", "--from", "notes", sources["notes"], user="mira")
    assert answer.err.splitlines() == [
        "deermem: passed over Templates: it holds templates",
        "deermem: passed over files that are no notes: 1",
    ]
    report = call("--json", "import", "--from", "mcp-memory", sources["mcp-memory"], user="mira").json
    assert report["skipped"] == ["line 2: entity 'Saltworks' has no observations"]


def test_nothing_outside_the_folder_is_read(call, sources, tmp_path):
    (tmp_path / "secret.md").write_text("Outside")
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "other.md").write_text("Outside too")
    (sources["notes"] / "link.md").symlink_to(tmp_path / "secret.md")
    (sources["notes"] / "linked").symlink_to(tmp_path / "beside")
    answer = call("import", "--from", "notes", sources["notes"], user="mira")
    assert not any("Outside" in text for text in contents(call))
    assert "passed over link.md: it is a link" in answer.err
    assert "passed over linked: it is a link" in answer.err


def test_a_pipe_among_the_notes_holds_nobody_up(call, sources):
    os.mkfifo(sources["notes"] / "pipe.md")
    answer = call("import", "--from", "notes", sources["notes"], user="mira")
    assert (answer.code, "files that are no notes: 2" in answer.err) == (0, True)


def test_a_store_among_the_notes_is_left_out(call, add, root, tmp_path):
    """Another user's facts lie there."""
    add("Otto's secret", user="otto")
    (tmp_path / "day.md").write_text("A thought.")
    assert root.parent == tmp_path
    call("import", "--from", "notes", tmp_path, user="mira")
    assert contents(call) == ["A thought."]
    inside = call("import", "--from", "notes", root / "users" / "otto", user="mira")
    assert (inside.code, "lies inside the store" in inside.complaint) == (2, True)


def test_bad_notes_are_all_named_and_nothing_is_written(call, root, sources):
    (sources["notes"] / "bad.md").write_bytes(b"caf\xe9")
    (sources["notes"] / "ideas" / "torn.md").write_text("---\ntitle: x\n")
    answer = call("import", "--from", "notes", sources["notes"], user="mira")
    assert answer.code == 2
    assert answer.complaint.startswith(f"{sources['notes']}: bad.md: it is not valid UTF-8 at byte 3")
    assert "ideas/torn.md:1: the front matter has no closing ---" in answer.complaint
    assert not root.exists()


def test_bad_notes_are_left_out_where_that_is_asked_for(call, root, sources):
    (sources["notes"] / "bad.md").write_bytes(b"caf\xe9")
    (sources["notes"] / "ideas" / "torn.md").write_text("---\ntitle: x\n")
    asked = ["import", "--from", "notes", sources["notes"]]
    assert call(*asked, user="mira").complaint.endswith("; or give --skip-bad to take in the rest")
    dry = call(*asked, "--skip-bad", "--dry-run", user="mira")
    assert (dry.out, root.exists()) == ("would import 3 facts for the new user mira, skip 2 bad items\n", False)
    answer = call(*asked, "--skip-bad", user="mira")
    assert (answer.code, answer.out) == (0, "imported 3 facts for the new user mira, skipped 2 bad items\n")
    assert answer.err.splitlines()[-2:] == [
        "deermem: skipped bad.md: it is not valid UTF-8 at byte 3; save it as UTF-8",
        "deermem: skipped ideas/torn.md:1: the front matter has no closing ---; add a line --- after the last key",
    ]
    again = call("--json", *asked, "--skip-bad", user="mira").json
    assert len(again["present"]) == 3
    assert [line.partition(":")[0] for line in again["bad"]] == ["bad.md", "ideas/torn.md"]


@pytest.mark.parametrize(
    ("kind", "text", "code", "named"),
    [
        ("mem0", '[{"id": "a", "memory": "Rows"}, {"id": "b"}]', 0, "skipped memories[1] (id 'b'): memory is missing"),
        ("mcp-memory", json.dumps(GRAPH[0]) + "\n{torn", 0, "skipped line 2: not valid JSON at line 1"),
        ("mem0", '[{"id": "b"}]', 2, "standard input: memories[0] (id 'b'): memory is missing"),
        ("mem0", '[{"memory": "A", "user_id": "x"}, {"memory": "B", "user_id": "y"}, 3]', 2, "are of 2 users"),
        ("deermem", '{"facts": [{"id": "x", "content": ""}]}', 2, "a document is taken in whole or not at all"),
    ],
)
def test_what_is_bad_is_left_out_but_never_the_whole(call, root, kind, text, code, named):
    answer = call("import", "--from", kind, "--skip-bad", "-", user="mira", stdin=text.encode())
    assert (answer.code, root.exists()) == (code, code == 0)
    assert named in answer.complaint
    refused = call("import", "--from", kind, "--skip-bad", "--replace", "-", user="mira", stdin=text.encode())
    assert refused.code == 2


@pytest.mark.parametrize("kind", ["mcp-memory", "mem0", "notes"])
def test_a_dry_run_says_what_would_come_of_it_and_changes_no_byte(call, root, sources, kind):
    dry = call("--json", "import", "--from", kind, "--dry-run", sources[kind], user="mira").json
    assert dry["dry_run"]
    assert not root.exists()
    done = call("--json", "import", "--from", kind, sources[kind], user="mira").json
    assert not done["dry_run"]
    assert [done[key] for key in ("added", "updated", "present", "deleted", "evicted", "skipped")] == [
        dry[key] for key in ("added", "updated", "present", "deleted", "evicted", "skipped")
    ]
    call("list", user="mira")
    before = everything(root)
    assert call("import", "--from", kind, "--dry-run", sources[kind], user="mira").out.startswith("would import ")
    assert everything(root) == before


def test_a_dry_run_of_a_document_tells_all_that_would_change(call, add, root, memory_files):
    add("Goes", user="mira")
    stays = add("Stays", user="mira")
    facts = [{"id": stays, "content": "Stays otherwise"}, {"id": "new", "content": "New"}]
    piped = json.dumps({"facts": facts}).encode()
    before = memory_files(root)
    dry = call("import", "--dry-run", "--replace", "-", user="mira", stdin=piped)
    assert (dry.code, dry.out) == (0, "would import 2 facts (1 added, 1 updated), delete 1\n")
    assert memory_files(root) == before
    done = call("import", "--replace", "-", user="mira", stdin=piped)
    assert done.out == "imported 2 facts (1 added, 1 updated), deleted 1\n"


def test_a_dry_run_says_what_the_cap_would_take(call, add):
    low = add("Least of all", "--confidence", "0.1", user="mira")
    facts = [{"id": f"f{number}", "content": f"Fact {number}", "confidence": 0.9} for number in range(12)]
    piped = json.dumps({"facts": facts}).encode()
    dry = call("--max-facts", "10", "import", "--dry-run", "-", user="mira", stdin=piped)
    assert dry.out == "would import 10 facts, evict 3\n"
    assert f"fact {low} would be removed to keep the cap of 10 facts" in dry.err
    done = call("--max-facts", "10", "--json", "import", "-", user="mira", stdin=piped).json
    assert (len(done["evicted"]), done["evicted"][0], len(done["added"])) == (3, low, 10)


@pytest.mark.parametrize(
    ("kind", "text"),
    [("deermem", '{"facts": [{"id": "x", "content": ""}]}'), ("mcp-memory", "{}"), ("mem0", '[{"id": "x"}]')],
)
def test_a_dry_run_of_what_would_be_refused_ends_with_one(call, root, kind, text):
    dry = call("--json", "import", "--from", kind, "--dry-run", "-", user="mira", stdin=text.encode())
    assert (dry.code, dry.json["error"]["type"]) == (1, "WouldBeRefused")
    real = call("--json", "import", "--from", kind, "-", user="mira", stdin=text.encode())
    assert (real.code, real.json["error"]["message"]) == (2, dry.json["error"]["message"])
    assert not root.exists()


def test_a_dry_run_leaves_an_old_store_as_it_is(call, root):
    old = root / "users" / "mira" / "memory.json"
    old.parent.mkdir(parents=True)
    old.write_text('{"version": "1.0", "facts": [{"id": "a", "content": "Old", "category": "context"}]}')
    before = everything(root)
    answer = call("import", "--dry-run", "-", user="mira", stdin=b'{"facts": []}')
    assert (answer.code, everything(root)) == (1, before)
    assert "would be migrated first" in answer.complaint


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (["--from", "notes", "-"], 2, "notes can't come from standard input"),
        (["--from", "letters", "x"], 2, "letters"),
        (["--from", "notes", "absent"], 1, "there is no file absent"),
        (["--from", "mem0", "absent"], 1, "there is no file absent"),
        (["--from", "notes", "{file}"], 2, "it is not a folder"),
        (["--from", "mcp-memory", "{folder}"], 1, "take the folder in as 'notes': --from notes"),
    ],
)
def test_a_wrong_call_is_named(call, root, tmp_path, arguments, code, named):
    file = tmp_path / "file.md"
    file.write_text("x")
    given = [word.format(file=file, folder=tmp_path) for word in arguments]
    answer = call("import", *given, user="mira")
    assert (answer.code, named in answer.complaint) == (code, True)
    assert not root.exists()


@pytest.mark.parametrize(
    "text",
    [
        '{"results": [{"id": "1", "memory": "Likes tea"}]}',
        '[{"id": "1", "memory": "Likes tea"}]',
        '{"type": "entity"}\n' * 2,
    ],
    ids=["mem0", "a list of mem0", "mcp-memory"],
)
def test_what_another_program_wrote_is_pointed_to_its_kind(call, root, tmp_path, text):
    file = tmp_path / "other.json"
    file.write_text(text)
    answer = call("import", file, user="mira")
    assert answer.code == 2
    assert answer.complaint.endswith("; what another program wrote needs --from mcp-memory, mem0 or notes")
    assert not root.exists()


def test_a_second_import_beyond_the_cap_changes_nothing(call, root, memory_files, tmp_path):
    source = tmp_path / "memory.jsonl"
    source.write_text(json.dumps({**GRAPH[0], "observations": [f"Rowed race {number}" for number in range(30)]}))
    arguments = ("--max-facts", "10", "--json", "import", "--from", "mcp-memory", source)
    first = call(*arguments, user="mira").json
    before = memory_files(root)
    again = call(*arguments, user="mira").json
    assert (len(first["added"]), len(again["added"]), len(again["present"])) == (10, 0, 10)
    assert memory_files(root) == before
