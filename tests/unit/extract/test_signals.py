"""Signals: which turns count, how pattern files are read, and that no text makes a pattern take long."""

from __future__ import annotations

import re
import shutil
from importlib.resources import files
from pathlib import Path

import pytest

from deermem.errors import InvalidInput
from deermem.extract.messages import Turn, read_turns
from deermem.extract.repeats import repeats_a_repeat
from deermem.extract.signals import SIGNALS, folded, load_patterns

PATTERNS = [pattern for patterns in load_patterns().patterns.values() for pattern in patterns]
CLASS = re.compile(r"\[(?:\\.|[^\]\\])*\]")


def said(text: str) -> Turn:
    return Turn("user", text, text)


def answered(text: str) -> Turn:
    return Turn("assistant", text, text)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with a copy of the package's pattern files."""
    shutil.copytree(str(files("deermem.extract") / "patterns"), tmp_path / "own")
    return tmp_path / "own"


def test_each_signal_has_patterns_in_both_languages():
    assert set(load_patterns().patterns) == set(SIGNALS)
    han = re.compile("[\u4e00-\u9fff]")
    for signal in SIGNALS:
        chinese = [pattern for pattern in load_patterns().patterns[signal] if han.search(pattern.pattern)]
        assert 5 < len(chinese) < len(load_patterns().patterns[signal]) - 5


def test_the_last_six_turns_count():
    turns = [said("I prefer tea."), *[said("What next?"), answered("This.")] * 3]
    assert load_patterns().detect(turns) == set()
    assert load_patterns().detect(turns[:6]) == {"preference"}


def test_the_words_of_the_assistant_never_count():
    assert (
        load_patterns().detect([said("Hello there"), answered("My name is Bot. I prefer tea. That's wrong.")]) == set()
    )
    assert load_patterns().detect([]) == set()


def test_the_signals_of_several_turns_are_joined():
    turns = [said("My name is Ann."), answered("Hello"), said("From now on answer in French.")]
    assert load_patterns().detect(turns) == {"identity", "preference"}


def test_list_content_is_read():
    content = [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "I prefer tea"}]
    assert load_patterns().detect(read_turns([{"role": "user", "content": content}])) == {"preference"}


@pytest.mark.parametrize(
    "text",
    ["Hello.   I   prefer\ttea", "Hello!\nI’D PREFER tea", "Ｉ ｐｒｅｆｅｒ tea", f"{'x' * 2000} I prefer tea"],
)
def test_white_space_width_and_apostrophes_do_not_matter(text: str) -> None:
    assert load_patterns().detect([said(text)]) == {"preference"}


def test_each_sentence_stands_on_a_line_of_its_own():
    assert folded("One. Two! 好。再来；行？Yes") == "One.\nTwo!\n好。\n再来;\n行?Yes"


def test_the_patterns_of_the_package_are_read_once():
    assert load_patterns() is load_patterns()


def test_a_folder_takes_the_place_of_the_package(own: Path) -> None:
    (own / "goal.yaml").write_text("german:\n  - 'mein ziel'\n", encoding="utf-8")
    (own / "identity.yaml").write_text("# switched off\n", encoding="utf-8")
    (own / "decision.yaml").write_text("english:\nchinese: []\n", encoding="utf-8")
    loaded = load_patterns(own)
    shutil.rmtree(own)
    assert loaded.detect([said("Mein Ziel: fünf Sprachen. My name is Ann. I prefer tea. We decided to go.")]) == {
        "goal",
        "preference",
    }
    assert loaded.detect([said("My goal is to win.")]) == set()


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_missing_file_is_named(own: Path, signal: str) -> None:
    (own / f"{signal}.yaml").unlink()
    with pytest.raises(InvalidInput, match=rf"{signal}\.yaml is missing"):
        load_patterns(own)


def test_a_missing_folder_names_its_first_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"correction\.yaml is missing"):
        load_patterns(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"english: [", "is no YAML"),
        (b"a: 2026-13-45", "is no YAML"),
        (b"english:\n  - '\xff'", "can't be read"),
        (b"- just\n- a list", "is no mapping"),
        (b"just text", "is no mapping"),
        (b"english:\n  - a\nenglish:\n  - b", "names a language twice"),
        (b"? [a]\n: []", "is no YAML"),
        (b"english: text", "'english' in .* is no list"),
        (b"english:\n  a: b", "is no list"),
        (b"english:\n  - no", "False under 'english' in .* is no text"),
        (b"english:\n  - 12", "is no text"),
        (b"english:\n  - 'broken('", "'broken\\(' in .* is no regular expression"),
        (b"english:\n  - 'a{99999999999999999999}'", "is no regular expression"),
        (b"english:\n  - 'maybe|'", "matches everything"),
        (b"english:\n  - '(a+)+b'", "repeats a repeat"),
    ],
)
def test_a_malformed_file_is_named(own: Path, text: bytes, problem: str) -> None:
    (own / "goal.yaml").write_bytes(text)
    with pytest.raises(InvalidInput, match=problem) as raised:
        load_patterns(own)
    assert str(own / "goal.yaml") in raised.value.message
    assert raised.value.hint


def test_a_folder_in_the_place_of_a_file_is_named(own: Path) -> None:
    (own / "goal.yaml").unlink()
    (own / "goal.yaml").mkdir()
    with pytest.raises(InvalidInput, match=r"goal\.yaml can't be read"):
        load_patterns(own)


@pytest.mark.parametrize(
    "pattern",
    [r"(a+)+", r"(?:\w*\s)*x", r"(a|b{2,})+", r"((a+))*", r"(x(a{1,5}))+", r"([ab]*c){2,}", r"(?P<n>a*)*", r"(a+[)])+"],
)
def test_a_repeated_repeat_is_found(pattern: str) -> None:
    assert repeats_a_repeat(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"a+b+",
        r"(?:ab)+",
        r"(a+)?",
        r"(a+){0,3}",
        r"(?:ab?)+",
        r"[(a+)]+",
        r"\(a+\)+",
        r"(a{3})+",
        r"(?<!a)b+",
        "(",
        ")+",
        r"a+(b)+",
    ],
)
def test_other_patterns_are_not(pattern: str) -> None:
    assert not repeats_a_repeat(pattern)


def test_no_pattern_of_the_package_repeats_without_limit():
    """What looks at a bounded stretch from each place takes time in proportion to the text, whatever the text."""
    outside = {pattern.pattern: CLASS.sub("[]", pattern.pattern) for pattern in PATTERNS}
    assert [whole for whole, text in outside.items() if re.search(r"(?<!\\)[*+]|\{\d*,\}", text)] == []


@pytest.mark.parametrize(
    "piece",
    [
        "i ",
        "that's ",
        "please no, ",
        "i really absolutely ",
        "use x ",
        "my goal for a ",
        "我",
        "我还是",
        "就",
        "。",
        "不对",
        " ",
        "\n",
        "a",
    ],
)
def test_a_huge_text_takes_linear_time(piece: str) -> None:
    """Quadratic work on these would run into the time limit of the test by far."""
    text = piece * (20_000 // len(piece)) + "!"
    assert [pattern.pattern for pattern in PATTERNS if pattern.search(text) and pattern.search("")] == []
    assert load_patterns().detect([said(text)]) <= set(SIGNALS)
