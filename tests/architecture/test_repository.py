"""What lies in the repository: its top level, its words, its links."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

TOP_LEVEL = {
    "deermem", "tests", "docs", "scripts",
    "README.md", "LICENSE", "AGENTS.md", "CHANGELOG.md", "pyproject.toml", "uv.lock",
}  # fmt: skip
EXECUTABLE = ["scripts/demo", "scripts/test", "scripts/check", "scripts/lowest", ".ci/run"]
HOME_PATH = re.compile(r"(?<![\w.~-])/(?:root|home/\w+|Users/\w+)/")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    return {anchor(heading) for heading in HEADING.findall(FENCE.sub("", text))}


def broken_links(page: Path) -> list[str]:
    """Relative links that lead nowhere, and anchors that no heading makes."""
    broken = []
    for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        file = page.parent / name if name else page
        if not file.exists() or (fragment and fragment not in anchors(file.read_text(encoding="utf-8"))):
            broken.append(target)
    return broken


def test_the_top_level_holds_only_what_belongs_there(repository_files):
    top = {name.partition("/")[0] for name in repository_files}
    assert {name for name in top if not name.startswith(".")} - TOP_LEVEL == set()


def test_no_text_names_a_path_of_one_machine(checkout, repository_files):
    own = re.compile(rf"(?<![\w.-]){re.escape(checkout.as_posix())}(?![\w-])")
    patterns = [HOME_PATH] if len(checkout.parts) < 3 else [HOME_PATH, own]
    named = []
    for name in repository_files:
        text = (checkout / name).read_bytes().decode("utf-8", "replace")
        named += [f"{name}: {match[0]}" for pattern in patterns if (match := pattern.search(text))]
    assert named == []


def test_every_link_of_the_documentation_resolves(checkout, repository_files):
    pages = [checkout / name for name in repository_files if re.fullmatch(r"[^/]+\.md|docs/.*\.md", name)]
    assert checkout / "README.md" in pages
    assert {page.name: links for page in pages if (links := broken_links(page))} == {}


def test_scripts_can_be_started(checkout):
    assert [name for name in EXECUTABLE if not os.access(checkout / name, os.X_OK)] == []
    assert all((checkout / name).read_text().startswith("#!/usr/bin/env bash\n") for name in EXECUTABLE)


def test_the_package_carries_a_licence(checkout):
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    assert project["license"] == "MIT"
    assert [(checkout / name).read_text().startswith("MIT License") for name in project["license-files"]] == [True]


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("[a](other.md) [b](#here) [c](other.md#there) [d](https://example.org/x)", []),
        ("[a](gone.md)", ["gone.md"]),
        ("[a](#nowhere)", ["#nowhere"]),
        ("[a](other.md#nowhere)", ["other.md#nowhere"]),
        ("```\n[a](gone.md)\n```", []),
    ],
)
def test_broken_links_are_found(tmp_path, text, broken):
    (tmp_path / "other.md").write_text("# There\n")
    page = tmp_path / "page.md"
    page.write_text(f"# Here\n\n{text}\n")
    assert broken_links(page) == broken


def test_home_paths_are_found():
    assert HOME_PATH.search("see " + "/ho" + "me/alice/notes")
    assert not HOME_PATH.search("~/.deermem, /tmp/x and example.org/home/alice/")


def test_test_files_have_names_of_their_own(checkout):
    """Without packages among the tests, two files of one name can't be collected together."""
    names = [path.name for path in (checkout / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
