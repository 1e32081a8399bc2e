"""A settings file for the command line: what no option or variable says."""

from __future__ import annotations

import pytest


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Writes the file that the variable names."""

    def write(text: str):
        file = tmp_path / "settings.toml"
        file.write_text(text, encoding="utf-8")
        monkeypatch.setenv("DEERMEM_SETTINGS", str(file))
        return file

    return write


def listed(call) -> int:
    return len(call("--json", "list", user="alice").json)


def test_options_come_before_variables_and_variables_before_the_file(call, settings, monkeypatch):
    settings('max_facts = 10\nfact_eviction_policy = "hybrid-v1"\n')
    for number in range(12):
        call("add", f"Fact number {number}", "--confidence", f"0.{50 + number}", user="alice")
    assert listed(call) == 10
    assert call("--json", "evictions", user="alice").json[0]["policy"] == "hybrid-v1"
    monkeypatch.setenv("DEERMEM_MAX_FACTS", "11")
    call("add", "One more", "--confidence", "0.9", user="alice")
    assert listed(call) == 11
    call("--max-facts", "0", "add", "And another", "--confidence", "0.9", user="alice")
    assert listed(call) == 12


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("max_facts = ", "is no TOML"),
        ('root = "/elsewhere"', "names a root"),
        ("max_facts = 3", "setting max_facts is 3"),
        ('fact_eviction_policy = "none"', "setting fact_eviction_policy is 'none'"),
    ],
)
def test_a_file_that_can_not_be_used_is_named(call, settings, text, told):
    settings(text)
    answer = call("list", user="alice")
    assert answer.code == 2
    assert told in answer.complaint


def test_a_file_that_is_not_there_is_named(call, tmp_path, monkeypatch):
    monkeypatch.setenv("DEERMEM_SETTINGS", str(tmp_path / "none.toml"))
    answer = call("list", user="alice")
    assert answer.code == 2
    assert "$DEERMEM_SETTINGS" in answer.complaint
    assert "none.toml" in answer.complaint
