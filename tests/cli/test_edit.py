"""edit and add --edit, with editors that are programs of their own."""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TEXT = "User prefers TypeScript"


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes $EDITOR a program: Python statements with `path` (the file to edit) and `text` (what it holds)."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.delenv("VISUAL", raising=False)

    def become(*statements: str, variable: str = "EDITOR") -> None:
        script = tmp_path / f"{variable.lower()}.py"
        head = "import os, sys\nfrom pathlib import Path\npath = Path(sys.argv[-1])\ntext = path.read_text('utf-8')\n"
        script.write_text(head + "\n".join(statements), encoding="utf-8")
        monkeypatch.setenv(variable, f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}")

    return become


@pytest.fixture
def copies(tmp_path: Path) -> Callable[[], list[Path]]:
    """The texts that lie in the folder for temporary files."""
    return lambda: sorted(path for path in (tmp_path / "temporary").rglob("*") if path.is_file())


def write(new: str) -> str:
    return f"path.write_text({new}, 'utf-8')"


def shown(call, fact_id: str) -> dict[str, object]:
    return call("--json", "show", fact_id, user="alice").json


def file_of(call, fact_id: str) -> Path:
    return Path(str(shown(call, fact_id)["path"]))


# --- edit


def test_what_is_saved_is_stored(call, add, editor, copies):
    fact_id = add(TEXT, "--confidence", "0.8")
    editor(write("text.replace('TypeScript', 'Rust')"))
    answer = call("edit", fact_id, user="alice")
    assert (answer.code, answer.out, answer.err) == (0, f"updated {fact_id}: User prefers Rust\n", "")
    found = shown(call, fact_id)
    assert (found["content"], found["revision"], found["confidence"]) == ("User prefers Rust", 2, 0.8)
    assert found["updatedAt"] > found["createdAt"]
    assert copies() == []
    assert call("check", user="alice").out == "everything is in order\n"
    assert len(call("--json", "search", "rust", user="alice").json) == 1


def test_the_persons_own_bytes_stay(call, add, editor):
    """Comments, the order of keys, quoting and unknown keys are as the person left them."""
    fact_id = add(TEXT)
    path = file_of(call, fact_id)
    keys = {line.partition(":")[0]: line for line in path.read_text().split("---\n")[1].splitlines() if line[0] != " "}
    head = [
        "# mine: keep",
        "confidence: 0.90   # quite sure",
        "mine: {a: [1, two]}",
        "topics: [ci, deploy]",
        *(keys[name] for name in ("category", "id", "schemaVersion", "status", "createdAt", "user_id", "agent_name")),
        "source: thread-9",
        *(keys[name] for name in ("updatedAt", "revision", "digest")),
    ]
    new = "---\n" + "\n".join(head) + "\n---\n\n# My own heading\n\nRust,\n\n    indented.\n"
    editor(write(repr(new)))
    assert call("edit", fact_id, user="alice").code == 0
    data = path.read_text()
    fresh = [line for line in data.splitlines() if line.startswith(("updatedAt:", "revision:", "digest:"))]
    assert [line for line in data.splitlines() if line not in fresh] == [
        line for line in new.splitlines() if not line.startswith(("updatedAt:", "revision:", "digest:"))
    ]
    assert "revision: 2" in fresh
    found = shown(call, fact_id)
    assert (found["title"], found["content"], found["mine"]) == (
        "My own heading",
        "Rust,\n\n    indented.",
        {"a": [1, "two"]},
    )
    assert (found["source"], found["topics"], found["version"][:2]) == ("thread-9", ["ci", "deploy"], "2-")


def test_a_text_left_as_it_was_changes_nothing(call, add, editor, root, memory_files, copies):
    fact_id = add(TEXT)
    before = memory_files(root)
    editor("pass")
    answer = call("edit", fact_id, user="alice")
    assert (answer.code, answer.out) == (0, "nothing changed\n")
    assert call("--json", "edit", fact_id, user="alice").json["revision"] == 1
    assert memory_files(root) == before
    assert copies() == []


def test_the_copy_is_for_its_owner_alone_and_an_editor_knows_its_kind(call, add, editor, tmp_path):
    fact_id = add(TEXT)
    report = tmp_path / "report.json"
    editor(
        "import json",
        "modes = [os.stat(path).st_mode, os.stat(path.parent).st_mode]",
        f"Path({str(report)!r}).write_text(json.dumps([path.name, *modes]))",
    )
    call("edit", fact_id, user="alice")
    name, mode, folder = json.loads(report.read_text())
    assert name == f"{fact_id}.md"
    assert (stat.S_IMODE(mode), stat.S_IMODE(folder)) == (0o600, 0o700)


def test_an_editor_that_saves_by_rename_works_too(call, add, editor, copies):
    fact_id = add(TEXT)
    editor(
        "path.with_name('backup~').write_text(text)",
        "new = path.with_name('.new'); new.write_text(text.replace('TypeScript', 'Rust'))",
        "os.replace(new, path)",
    )
    assert call("edit", fact_id, user="alice").code == 0
    assert shown(call, fact_id)["content"] == "User prefers Rust"
    assert copies() == []


def test_visual_comes_before_editor(call, add, editor):
    fact_id = add(TEXT)
    editor(write("text.replace('TypeScript', 'EDITOR')"))
    editor(write("text.replace('TypeScript', 'VISUAL')"), variable="VISUAL")
    call("edit", fact_id, user="alice")
    assert shown(call, fact_id)["content"] == "User prefers VISUAL"


def test_without_either_it_is_vi(call, add, monkeypatch, tmp_path):
    fact_id = add(TEXT)
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.setenv(name, " ")
    vi = tmp_path / "bin" / "vi"
    vi.parent.mkdir()
    vi.write_text('#!/bin/sh\nsed s/TypeScript/vi/ "$1" > "$1.new" && mv "$1.new" "$1"\n')
    vi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{vi.parent}{os.pathsep}{os.environ['PATH']}")
    assert call("edit", fact_id, user="alice").code == 0
    assert shown(call, fact_id)["content"] == "User prefers vi"


@pytest.mark.parametrize("save", ["pass", write("text.replace('TypeScript', 'Rust')")], ids=["untouched", "saved"])
def test_an_editor_that_fails_changes_nothing(call, add, editor, root, memory_files, copies, save):
    fact_id = add(TEXT)
    before = memory_files(root)
    editor(save, "sys.exit(3)")
    answer = call("edit", fact_id, user="alice")
    assert answer.code == 1
    assert "ended with 3; nothing was changed" in answer.complaint
    assert memory_files(root) == before
    kept = copies()
    assert len(kept) == (save != "pass")
    assert all(f"your text is kept at {path}" in answer.complaint for path in kept)


@pytest.mark.parametrize(("value", "said"), [("no-such-editor-here", "can't be started"), ("'open", "no command")])
def test_an_editor_that_is_none_is_named(call, add, monkeypatch, value, said):
    fact_id = add(TEXT)
    monkeypatch.setenv("VISUAL", value)
    answer = call("edit", fact_id, user="alice")
    assert answer.code in (1, 2)
    assert said in answer.complaint


def test_a_text_that_can_not_be_read_is_kept_and_named_with_line_and_mend(
    call, add, editor, root, memory_files, copies
):
    fact_id = add(TEXT)
    before = memory_files(root)
    editor(write("text.replace('confidence: 0.5', 'confidence: high')"))
    answer = call("edit", fact_id, user="alice")
    assert answer.code == 2
    (copy,) = copies()
    assert answer.complaint == (f"line 5: confidence is 'high'; give a number from 0 to 1; your text is kept at {copy}")
    assert "confidence: high\n" in copy.read_text()
    assert memory_files(root) == before


def test_on_a_terminal_it_can_be_mended_at_once(call, add, editor, copies):
    fact_id = add(TEXT)
    editor(
        "bad = 'confidence: high' in text",
        write("text.replace('high', '0.9') if bad else text.replace('confidence: 0.5', 'confidence: high')"),
    )
    answer = call("edit", fact_id, user="alice", terminal=True, stdin=b"y\n")
    assert answer.code == 0
    assert "line 5: confidence is 'high'" in answer.err
    assert "Edit it again?" in answer.err
    assert shown(call, fact_id)["confidence"] == 0.9
    assert copies() == []


def test_who_does_not_want_to_mend_it_keeps_the_text(call, add, editor, copies):
    fact_id = add(TEXT)
    editor(write("'---\\nid: ['"))
    answer = call("edit", fact_id, user="alice", terminal=True, stdin=b"n\n")
    assert answer.code == 2
    assert [path.read_text() for path in copies()] == ["---\nid: ["]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("text.replace('id: fact_', 'id: other_')", "the id was changed"),
        ("text.replace('user_id: alice', 'user_id: bob')", "'bob'"),
        ("''", "the file is empty"),
        ("text.replace('---\\n\\n', '')", "no closing ---"),
    ],
)
def test_what_would_be_another_fact_is_refused(call, add, editor, root, memory_files, copies, change, said):
    fact_id = add(TEXT)
    before = memory_files(root)
    editor(write(change))
    answer = call("edit", fact_id, user="alice")
    assert answer.code == 2
    assert said in answer.complaint
    assert len(copies()) == 1
    assert memory_files(root) == before


def test_on_a_conflict_both_texts_are_shown_and_the_persons_is_kept(call, add, editor, copies):
    """The fact changes while the editor is open."""
    fact_id = add(TEXT)
    path = file_of(call, fact_id)
    editor(
        f"other = Path({str(path)!r})",
        "other.write_text(other.read_text().replace('TypeScript', 'Go'))",
        write("text.replace('TypeScript', 'Rust')"),
    )
    answer = call("edit", fact_id, user="alice")
    assert answer.code == 3
    (copy,) = copies()
    assert "User prefers Rust" in copy.read_text()
    assert {"--- stored now", "+++ yours", "-User prefers Go", "+User prefers Rust"} <= set(answer.err.splitlines())
    assert answer.err.splitlines()[-1].endswith(f"your text is kept at {copy}")
    assert shown(call, fact_id)["content"] == "User prefers Go"


def test_a_conflict_as_json_holds_the_fact_as_it_is_now(call, add, editor):
    fact_id = add(TEXT)
    path = file_of(call, fact_id)
    editor(
        "print('an editor draws on its standard output')",
        f"other = Path({str(path)!r})",
        "other.write_text(other.read_text().replace('TypeScript', 'Go'))",
        write("text.replace('TypeScript', 'Rust')"),
    )
    answer = call("--json", "edit", fact_id, user="alice")
    assert answer.code == 3
    assert answer.json["error"]["type"] == "FactConflict"
    assert answer.json["error"]["fact"]["content"] == "User prefers Go"


def test_a_fact_that_was_deleted_meanwhile_is_a_conflict(call, add, editor, copies):
    fact_id = add(TEXT)
    editor(f"os.unlink({str(file_of(call, fact_id))!r})", write("text.replace('TypeScript', 'Rust')"))
    answer = call("edit", fact_id, user="alice")
    assert answer.code == 3
    assert f"fact '{fact_id}' is gone" in answer.err
    assert len(copies()) == 1


def test_the_standard_output_is_the_documents_alone(program, add, editor, root, call):
    fact_id = add(TEXT)
    editor("print('drawn')", write("text.replace('TypeScript', 'Rust')"))
    done = program("--root", root, "--user", "alice", "--json", "edit", fact_id)
    assert json.loads(done.stdout)["content"] == "User prefers Rust"
    assert done.stderr == "drawn\n"


@pytest.mark.parametrize(("fact_id", "code"), [("fact_9", 1), ("../x", 2)])
def test_what_is_not_there_opens_no_editor(call, editor, root, copies, fact_id, code):
    editor("sys.exit(7)")
    answer = call("edit", fact_id, user="alice")
    assert answer.code == code
    assert fact_id in answer.complaint
    assert not root.exists()


def test_a_hand_made_file_is_edited_where_it_lies(call, add, editor, root):
    add(TEXT, "--agent", "coder")
    path = root / "users/alice/agents/coder/facts/sub/idea.md"
    path.parent.mkdir()
    path.write_text("Just an idea.\n")
    editor(write("text.replace('an idea', 'a better idea')"))
    assert call("edit", "idea", "--agent", "coder", user="alice").code == 0
    assert path.read_text().endswith("Just a better idea.\n")
    assert "revision: 2\n" in path.read_text()


# --- add


def test_a_new_fact_can_be_written_in_the_editor(call, editor, root, copies):
    editor(
        "assert text == '---\\ncategory: context\\nconfidence: 0.5\\ntopics: []\\n---\\n\\n', text",
        write(
            "'---\\n# why: asked\\ncategory: goal\\nconfidence: 0.9\\ntopics: [ci]\\nmine: 7\\n---\\n\\nShip it.\\n'"
        ),
    )
    answer = call("--json", "add", "--edit", user="alice")
    assert answer.code == 0, answer.err
    found = shown(call, answer.json["id"])
    assert (found["content"], found["category"], found["confidence"], found["topics"]) == (
        "Ship it.",
        "goal",
        0.9,
        ["ci"],
    )
    assert (found["source"], found["mine"], found["revision"]) == ("manual", 7, 1)
    assert "# why: asked\n" in Path(str(found["path"])).read_text()
    assert call("check", user="alice").out == "everything is in order\n"
    assert copies() == []


def test_what_the_call_says_stands_in_the_template(call, editor):
    editor(write("text.replace('Ship', 'Ship it')"))
    answer = call(
        "--json", "add", "Ship", "--edit", "--category", "team ritual", "--topic", "ci", "--source", "thread-9",
        "--valid-days", "30", user="alice",
    )  # fmt: skip
    found = shown(call, answer.json["id"])
    assert (found["content"], found["category"], found["topics"]) == ("Ship it", "team ritual", ["ci"])
    assert (found["source"], found["expected_valid_days"]) == ("thread-9", 30)


def test_an_empty_template_left_as_it_was_adds_nothing(call, editor, root, copies):
    editor("pass")
    answer = call("add", "--edit", user="alice")
    assert answer.code == 1
    assert "nothing was added" in answer.complaint
    assert not root.exists()
    assert copies() == []


def test_a_text_that_was_given_is_added_as_it_is(call, editor):
    editor("pass")
    assert call("add", "Ship it.", "--edit", user="alice").code == 0
    assert [fact["content"] for fact in call("--json", "list", user="alice").json] == ["Ship it."]


@pytest.mark.parametrize(
    ("saved", "code", "said"),
    [
        ("text + ' \\n\\n'", 2, "the file says nothing"),
        ("text.replace('0.5', '5') + 'Ship it.'", 2, "line 3: confidence"),
        ("text + 'USER  prefers typescript'", 2, "stored already"),
        ("text.replace('---\\n', '---\\nid: taken\\n', 1) + 'Ship it.'", 3, "'taken'"),
    ],
)
def test_what_can_not_be_added_is_kept(call, editor, add, copies, saved, code, said):
    add(TEXT)
    editor(write("'---\\nid: taken\\n---\\n\\nTaken.'"))
    assert call("add", "--edit", user="alice").code == 0
    editor(write(saved))
    answer = call("add", "--edit", user="alice")
    assert answer.code == code
    assert said in answer.complaint
    assert answer.complaint.endswith(f"your text is kept at {copies()[0]}")
    assert len(call("--json", "list", user="alice").json) == 2


@pytest.mark.parametrize(("arguments", "said"), [([], "TEXT"), (["-", "--edit"], "--edit")])
def test_wrong_calls_open_no_editor(call, editor, root, arguments, said):
    editor("sys.exit(7)")
    answer = call("add", *arguments, user="alice")
    assert answer.code == 2
    assert said in answer.complaint
    assert not root.exists()


def test_a_wrong_option_is_named_before_the_editor_opens(call, editor, root):
    editor("sys.exit(7)")
    answer = call("add", "--edit", "--confidence", "95", user="alice")
    assert answer.code == 2
    assert "95" in answer.complaint


def test_a_dash_reads_standard_input(call):
    assert call("add", "-", user="alice", stdin="Größe\nzählt".encode()).code == 0
    assert [fact["content"] for fact in call("--json", "list", user="alice").json] == ["Größe\nzählt"]
