"""Prompts of one's own: whose file counts, and what a file that can't be used says of itself."""

from __future__ import annotations

import re
import shutil
from importlib.resources import files
from pathlib import Path

import pytest
from builders_prompts import template_file

from deermem.errors import InvalidInput
from deermem.extract.templates import fill, load_prompts


def test_the_prompts_of_the_package_are_read_once_and_serve_every_agent():
    assert load_prompts().template("coder") is load_prompts().template("__default__")


def test_an_agents_own_file_beats_that_of_all(tmp_path: Path):
    """129"""
    template_file(tmp_path / "extract.yaml", system="For all.")
    template_file(tmp_path / "coder" / "extract.yaml", system="For coder.")
    prompts = load_prompts(tmp_path)
    assert prompts.template("coder").system == prompts.template("Coder").system == "For coder."
    assert prompts.template("writer").system == prompts.template("__default__").system == "For all."


def test_a_copy_of_the_packages_file_is_a_template(tmp_path: Path):
    shutil.copy(str(files("deermem.extract") / "prompts" / "extract.yaml"), tmp_path)
    assert load_prompts(tmp_path).template("a") == load_prompts().template("a")


def test_nothing_of_the_package_stands_in_for_a_missing_file(tmp_path: Path):
    """129"""
    template_file(tmp_path / "coder" / "extract.yaml")
    with pytest.raises(InvalidInput, match=re.escape(f"{tmp_path / 'extract.yaml'} is missing")):
        load_prompts(tmp_path)


def test_an_agents_broken_file_is_an_error_and_counts_once_it_is_mended(tmp_path: Path):
    template_file(tmp_path / "extract.yaml")
    own = tmp_path / "coder" / "extract.yaml"
    template_file(own, user="{facts}")
    prompts = load_prompts(tmp_path)
    with pytest.raises(InvalidInput, match=re.escape(str(own))):
        prompts.template("coder")
    template_file(own, system="Mended.")
    assert prompts.template("coder").system == "Mended."


def test_no_agent_name_leads_out_of_the_folder(tmp_path: Path):
    template_file(tmp_path / "own" / "extract.yaml")
    template_file(tmp_path / "extract.yaml", system="Outside.")
    with pytest.raises(InvalidInput, match="agent name"):
        load_prompts(tmp_path / "own").template("..")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"user": "{summaries} {facts} {staleness} {consolidation}"}, "user in FILE lacks the placeholder {con"),
        ({"staleness": "Look!"}, "staleness in FILE lacks the placeholder {candidates}"),
        ({"consolidation": "{groups} {facts}"}, "consolidation in FILE has the unknown placeholder {facts}"),
        ({"staleness": "{candidates} {Count}"}, "unknown placeholder {Count}; known are {candidates}, {count}"),
        ({"system": "Here are {facts}"}, "system in FILE has the placeholder {facts}"),
        ({"system": None}, "FILE has no text system"),
        ({"user": " "}, "FILE has no text user"),
        ({"sytem": "x"}, "FILE has 'sytem'; the texts are system, user, staleness, consolidation"),
    ],
)  # fmt: skip
def test_a_file_that_lacks_something_says_what(tmp_path: Path, changes: dict[str, str | None], told: str):
    file = template_file(tmp_path / "extract.yaml", **changes)
    with pytest.raises(InvalidInput) as caught:
        load_prompts(tmp_path)
    assert told.replace("FILE", str(file)) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"- a", b"user: [", b"", b"\xff\xfe", b"user: 2026-13-45", b"[" * 3000])
def test_a_file_that_is_no_mapping_of_texts_is_named(tmp_path: Path, data: bytes):
    (tmp_path / "extract.yaml").write_bytes(data)
    with pytest.raises(InvalidInput, match=re.escape(str(tmp_path / "extract.yaml"))):
        load_prompts(tmp_path)


def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path):
    (tmp_path / "extract.yaml").mkdir()
    with pytest.raises(InvalidInput, match="can't be read"):
        load_prompts(tmp_path)


def test_braces_in_a_system_text_are_text(tmp_path: Path):
    template_file(tmp_path / "extract.yaml", system='Answer {"user": {}} or {this}.')
    assert load_prompts(tmp_path).template("a").system == 'Answer {"user": {}} or {this}.'


def test_what_a_value_holds_is_never_replaced_and_braces_break_nothing():
    values = {"a": "{b} {} {0} {a!r} %s \\1 {", "b": "B"}
    assert fill('{a}|{b}|{"json": {}}', values) == '{b} {} {0} {a!r} %s \\1 {|B|{"json": {}}'


def test_a_paragraph_of_which_nothing_is_left_goes_and_a_value_keeps_its_own():
    assert fill("A\n\n{a}\n\n\n{b}\n", {"a": " ", "b": "x\n\n\ny"}) == "A\n\nx\n\n\ny"
