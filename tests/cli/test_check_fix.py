"""check --fix: what it prints, what it ends with."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def hand_made(call, add, root) -> Path:
    """A note that a person put beside alice's facts."""
    add("In order.", "--agent", "coder")
    path = root / "users/alice/agents/coder/facts/idea.md"
    path.write_text("Just an idea.\n", encoding="utf-8")
    return path


def test_it_names_what_it_mended(call, hand_made):
    answer = call("check", "--fix", user="alice")
    line, verdict = answer.out.splitlines()
    assert (answer.code, answer.err) == (0, "")
    assert line.startswith(f"info: {hand_made}: made by hand")
    assert line.endswith(" (fixed)")
    assert verdict == "everything is in order; 1 fixed"
    assert not hand_made.exists()
    assert "Just an idea." in call("show", "idea", "--agent", "coder", user="alice").out


def test_the_second_time_there_is_nothing_to_do(call, hand_made, root, memory_files):
    call("check", "--fix")
    before = memory_files(root)
    answer = call("check", "--fix")
    assert (answer.code, answer.out) == (0, "everything is in order\n")
    assert memory_files(root) == before


def test_without_it_a_check_says_what_it_would_do(call, hand_made, root, memory_files):
    before = memory_files(root)
    answer = call("check")
    assert "deermem check --fix completes its front matter and moves it to" in answer.out
    assert answer.out.splitlines()[-1] == "0 errors, 0 warnings, 1 info"
    assert memory_files(root) == before


def test_what_is_left_is_counted_apart(call, hand_made):
    broken = hand_made.with_name("broken.md")
    broken.write_bytes(b"---\nid: [\n---\n\nbroken\n")
    answer = call("check", "--fix")
    assert answer.code == 1
    assert answer.out.splitlines()[-1] == "1 error, 0 warnings, 0 infos; 1 fixed"
    assert broken.read_bytes() == b"---\nid: [\n---\n\nbroken\n"


def test_as_json_each_finding_says_whether_it_was_mended(call, hand_made):
    hand_made.with_name("broken.md").write_bytes(b"")
    answer = call("--json", "doctor", "--fix", "--all")
    assert answer.code == 1
    assert [(item["code"], item["fixed"]) for item in answer.json] == [
        ("empty-file", False),
        ("deerflow-cannot-read", True),
    ]


def test_one_user_is_mended_alone(call, add, hand_made, root):
    add("Bob's.", "--agent", "coder", user="bob")
    other = root / "users/bob/agents/coder/facts/idea.md"
    other.write_text("Bob's idea.\n", encoding="utf-8")
    assert call("check", "--fix", user="bob").code == 0
    assert (other.exists(), hand_made.exists()) == (False, True)


def test_nothing_is_mended_where_nothing_is(call, root):
    assert call("check", "--fix").out == "everything is in order\n"
    assert not root.exists()
