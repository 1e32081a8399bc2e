"""init: the folder of a store, and what must not travel."""

from __future__ import annotations

import subprocess

import pytest

EXCLUDED = [".retrieval/", ".journal/", ".queue/", ".memory.lock", ".recovery/", ".memory.journal.json"]


def test_the_folder_is_made_for_its_owner_alone(call, root):
    answer = call("init")
    assert (answer.code, answer.err) == (0, "")
    first, *rest = answer.out.splitlines()
    assert first == f"made {root}"
    assert all(name in rest[0] for name in EXCLUDED)
    assert any("--index-root" in line for line in rest)
    assert root.stat().st_mode & 0o777 == 0o700
    assert list(root.iterdir()) == []


def test_the_second_time_there_is_nothing_to_do(call, root):
    call("init", "--git")
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in root.iterdir()}
    answer = call("init", "--git")
    assert answer.code == 0
    assert answer.out.startswith(f"{root} is ready: nothing to do\n")
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in root.iterdir()} == before


def test_a_folder_that_is_there_stays_as_it_is(call, root):
    root.mkdir(mode=0o755)
    root.chmod(0o755)
    (root / "README").write_text("mine")
    call("init", "--git")
    assert root.stat().st_mode & 0o777 == 0o755
    assert (root / "README").read_text() == "mine"


def test_git_is_told_what_must_not_travel(call, root):
    answer = call("init", "--git")
    assert [line for line in answer.out.splitlines() if line.startswith("wrote ")] == [
        f"wrote {root}/.gitignore",
        f"wrote {root}/.gitattributes",
    ]
    assert (root / ".gitignore").read_text().splitlines() == EXCLUDED
    assert (root / ".gitattributes").read_text() == "*.md -text\n"


@pytest.mark.parametrize("ending", ["\n", "", "\r\n"])
def test_lines_that_are_there_stay(call, root, ending):
    root.mkdir()
    present = f"*.log{'' if ending == '' else ending}"
    present = f"# mine{ending or chr(10)}.journal/{ending or chr(10)}{present}".encode()
    (root / ".gitignore").write_bytes(present)
    (root / ".gitattributes").write_bytes(b"*.png binary\n")
    call("init", "--git")
    after = (root / ".gitignore").read_bytes()
    assert after.startswith(present)
    assert after.decode().splitlines() == ["# mine", ".journal/", "*.log", *(x for x in EXCLUDED if x != ".journal/")]
    assert (after.count(b"\r\n") == after.count(b"\n")) is (ending == "\r\n")
    assert (root / ".gitattributes").read_bytes() == b"*.png binary\n*.md -text\n"


def test_git_sees_the_facts_and_nothing_operational(call, add, root):
    """With git itself, which init does not run."""
    call("init", "--git")
    assert not (root / ".git").exists()
    add("A fact.", "--agent", "coder")
    add("Of nobody.", user=None)
    (root / "users/alice/.queue").mkdir()
    (root / "users/alice/.queue/waiting").write_text("x")
    (root / "users/alice/.memory.journal.json").write_text("{}")
    git = ["git", "-C", str(root), "-c", "core.excludesFile=/dev/null"]
    subprocess.run([*git, "init", "-q"], check=True, timeout=60)
    listed = subprocess.run(
        [*git, "ls-files", "-z", "--others", "--exclude-standard"], check=True, capture_output=True, timeout=60
    ).stdout
    names = [name for name in listed.decode().split("\0") if name]
    assert [name for name in names if any(part.startswith(".") for part in name.split("/"))] == [
        ".gitattributes",
        ".gitignore",
    ]
    assert sum(name.endswith(".md") for name in names) == 2
    assert "users/alice/memory.json" in names
    fact = next(name for name in names if name.endswith(".md"))
    told = subprocess.run([*git, "check-attr", "text", fact], check=True, capture_output=True, text=True, timeout=60)
    assert told.stdout == f"{fact}: text: unset\n"


def test_as_json(call, root):
    assert call("--json", "init", "--git").json == {
        "root": str(root),
        "created": True,
        "written": [f"{root}/.gitignore", f"{root}/.gitattributes"],
        "exclude": EXCLUDED,
        "changed": True,
    }
    again = call("--json", "init", "--git").json
    assert (again["created"], again["written"], again["changed"]) == (False, [], False)


def test_a_link_is_not_written_through(call, root, tmp_path):
    root.mkdir()
    (tmp_path / "elsewhere").write_text("mine\n")
    (root / ".gitignore").symlink_to(tmp_path / "elsewhere")
    answer = call("init", "--git")
    assert answer.code == 1
    assert f"{root}/.gitignore is no regular file" in answer.complaint
    assert (tmp_path / "elsewhere").read_text() == "mine\n"


def test_a_file_can_be_no_store(call, root):
    root.write_text("a file")
    answer = call("init")
    assert answer.code == 2
    assert str(root) in answer.complaint
    assert root.read_text() == "a file"


@pytest.mark.parametrize("option", [("--user", "alice"), ("--agent", "coder")])
def test_it_is_for_the_whole_store(call, root, option):
    answer = call("init", *option)
    assert answer.code == 2
    assert option[0] in answer.complaint
    assert not root.exists()


def test_the_index_can_be_kept_outside(call, root, tmp_path):
    index = tmp_path / "index"
    call("--index-root", index, "add", "User prefers TypeScript", user="alice")
    (hit,) = call("search", "typescript", "--index-root", index, "--json", user="alice").json
    assert hit["match"] == "fts5"
    assert [path.name for path in index.rglob("*.sqlite3")] == ["index.sqlite3"]
    assert list(root.rglob(".retrieval")) == []
