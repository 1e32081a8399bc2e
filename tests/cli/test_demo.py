"""The demonstration, as a person reads it."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from deermem.cli.main import run


@pytest.fixture
def temporary(tmp_path, monkeypatch) -> Path:
    """Where temporary folders are made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def steps_of(text: str) -> list[tuple[str, str]]:
    """(title, what is shown) of each numbered step."""
    parts = re.split(r"^\d+\. (.*)$", text, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


@pytest.fixture
def bare(capsys) -> Callable[..., tuple[int, str, str]]:
    """Calls the command line without a root: gives the code and both outputs."""

    def bare(*arguments: object) -> tuple[int, str, str]:
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return bare


def test_the_tour(bare, temporary):
    code, out, err = bare("demo")
    assert (code, err) == (0, "")
    steps = steps_of(out)
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", out, re.MULTILINE)]
    assert numbers == list(range(1, len(steps) + 1))
    old, migrated, one_file, changed, edited, found, prompt, whereabouts = steps
    assert "   users/ana/agents/coder/memory.json" in old[1].splitlines()
    assert "   migrated=2 planned=0 current=0 failed=0" in migrated[1].splitlines()
    assert "   users/lin/memory.json.v1.bak" in migrated[1].splitlines()
    assert re.search(r"users/ana/agents/coder/facts/../fact_types\.md", migrated[1])
    assert "   id: fact_deploy" in one_file[1].splitlines()
    assert "   部署窗口是周三晚上。" in one_file[1].splitlines()
    assert "$ deermem --user ana add 'No meetings before eleven.'" in changed[1]
    assert "updated fact_launch: The billing service launches on 22 January." in changed[1]
    assert "+部署窗口是周四晚上 (Thursday night)。" in edited[1]
    english, chinese = found[1].split("$ deermem ")[1:]
    assert "fact_deploy" in english.splitlines()[1]
    assert "fact_deploy" in chinese.splitlines()[1]
    assert "Thursday" in english
    assert "周四晚上 (Thursday night)" in prompt[1]
    assert "负责数据平台的运维" in prompt[1]
    assert '    {"id": "fact_deploy", "content": "部署窗口是周三晚上。", ' in old[1]
    assert "removed" not in whereabouts[0]
    assert whereabouts[1].rstrip().splitlines()[-1].startswith("That folder was temporary and is removed now; ")
    assert list(temporary.iterdir()) == []


def test_a_kept_store_is_where_it_says(bare, temporary, tmp_path, call):
    kept = tmp_path / "kept"
    code, out, _ = bare("demo", "--keep", kept)
    assert code == 0
    assert f"deermem --root {kept} --user ana list" in out
    assert "removed" not in out.partition("\n8. ")[2]
    listed = call("--json", "list", user="ana", at=kept).json
    assert "No meetings before eleven." in [fact["content"] for fact in listed]
    assert len(call("--json", "list", "--agent", "coder", user="ana", at=kept).json) == 2
    assert call("check", "--all", at=kept).code == 0


def test_the_tour_is_one_json_document(bare, temporary, tmp_path):
    code, out, err = bare("--json", "demo", "--keep", tmp_path / "kept")
    tour = json.loads(out)
    assert (code, err) == (0, "")
    assert tour.keys() == {"root", "kept", "steps"}
    assert (tour["root"], tour["kept"]) == (str(tmp_path / "kept"), True)
    assert len(tour["steps"]) == 8
    assert tour["steps"][0].keys() == {"title", "shown"}
    assert tour["steps"][1]["shown"][0]["command"] == "deermem migrate --all-users"


def test_a_folder_in_use_is_refused(bare, tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    code, out, err = bare("demo", "--keep", tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith(f"deermem: {tmp_path} is not empty; ")
    assert list(tmp_path.iterdir()) == [mine]


def test_a_file_in_the_place_of_the_folder_is_refused(bare, tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    code, _, err = bare("demo", "--keep", mine)
    assert code == 1
    assert str(mine) in err
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("option", ["--root", "--user", "--agent", "--max-facts"])
def test_it_has_its_own_store_and_users(bare, temporary, option):
    code, out, err = bare("demo", option, "20")
    assert (code, out) == (2, "")
    assert err.startswith("deermem: demo has users and a store of its own; ")
    assert list(temporary.iterdir()) == []
