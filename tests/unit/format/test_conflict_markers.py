"""Unresolved git merges in fact files and in memory.json: found, or let pass where they are only quoted."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from deermem.errors import InvalidInput
from deermem.format import manifest
from deermem.format.conflict_markers import both_sides
from deermem.format.markdown import decode, encode
from deermem.format.problems import FormatError
from deermem.model.fact import Fact

WHEN = datetime(2026, 11, 30, 12, tzinfo=UTC)
TRIPLE = "<<<<<<< HEAD\nOurs.\n=======\nTheirs.\n>>>>>>> branch\n"
DIFF3 = "<<<<<<< HEAD\nOurs.\n||||||| 3f2a1c\nBefore.\n=======\nTheirs.\n>>>>>>> branch\n"
FRONT = "---\nid: fact_a\ncategory: goal\n---\n"


def read(text: str) -> Fact:
    return decode(text.encode(), stem="fact_a", when=WHEN).fact


def refused(text: str) -> tuple[str, int]:
    with pytest.raises(FormatError) as caught:
        read(text)
    assert "resolve the merge" in caught.value.problem.hint
    return caught.value.problem.code, caught.value.problem.line


@pytest.mark.parametrize("conflict", [TRIPLE, DIFF3, TRIPLE.replace("\n", "\r\n")])
@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("", "", 1),
        ("\ufeff", "", 1),
        ("\ufeff---\nid: fact_a\n", "---\n\nText.\n", 3),
        (f"{FRONT}\n# Title\n\nText.\n\n", "More.\n", 10),
        ("Text.\n\n", "", 3),
        ("Text.\n\n```\ncode\n```\n", "", 6),
        ("```\ncode\n\n", "", 4),
    ],
    ids=["whole", "behind-a-mark", "front", "body", "hand-made", "behind-a-fence", "in-an-open-fence"],
)
def test_a_whole_conflict_is_refused_with_its_line(conflict: str, before: str, after: str, line: int) -> None:
    assert refused(before + conflict + after) == ("merge-conflict", line)


def test_half_a_conflict_in_the_front_matter_is_refused_too() -> None:
    assert refused("---\nid: fact_a\n<<<<<<< HEAD\nrevision: 2\n---\n\nText.\n") == ("merge-conflict", 3)


def test_a_conflict_that_takes_in_the_end_of_the_front_matter_is_refused() -> None:
    side = "digest: 2-0123456789abcdef\n---\n\n# A\n"
    text = f"---\nid: fact_a\n<<<<<<< HEAD\n{side}=======\n{side}>>>>>>> x\n\nText.\n"
    assert refused(text) == ("merge-conflict", 3)


def test_a_fence_that_either_side_opens_is_no_quotation() -> None:
    text = "How to:\n\n<<<<<<< HEAD\n```sh\na\n=======\n```bash\nb\n>>>>>>> x\n```\n"
    assert refused(text) == ("merge-conflict", 3)


def test_the_second_of_two_conflicts_counts_where_the_first_is_quoted() -> None:
    assert refused(f"```\n{TRIPLE}```\n\n{TRIPLE}") == ("merge-conflict", 9)


@pytest.mark.parametrize("mark", ["```", "````", "~~~", "   ```"])
def test_a_conflict_in_a_closed_fence_is_text(mark: str) -> None:
    body = f"{FRONT}\n# Markers\n\nGit writes this:\n\n{mark}diff\n{TRIPLE}{mark}\n"
    assert read(body).content == body.split("# Markers\n\n")[1].strip()


@pytest.mark.parametrize(
    "body",
    [
        "    <<<<<<< HEAD\n    =======\n    >>>>>>> x",
        "A << B\n\n<<<<<<< HEAD stands first.",
        ">>>>>>> x\n=======\n<<<<<<< HEAD",
        "Title\n=======\n\nQuoted:\n>>>>>>> seven deep",
    ],
    ids=["indented", "alone", "backwards", "headings-and-quotes"],
)
def test_what_only_looks_like_a_conflict_is_text(body: str) -> None:
    assert read(f"{FRONT}\n# T\n\n{body}\n").content == body.strip("\n")


def test_a_fact_that_would_read_as_a_conflict_is_not_written() -> None:
    fact = Fact(id="fact_a", title="T", content=f"Once more:\n{TRIPLE}", created_at=WHEN, updated_at=WHEN)
    with pytest.raises(InvalidInput, match="unresolved git merge"):
        encode(fact)
    quoted = Fact(id="fact_a", title="T", content=f"Once more:\n\n```\n{TRIPLE}```", created_at=WHEN, updated_at=WHEN)
    assert read(encode(quoted).decode()).content == quoted.content


# --- memory.json


@pytest.mark.parametrize("conflict", [TRIPLE, DIFF3])
def test_a_document_with_markers_says_so(conflict: str) -> None:
    with pytest.raises(FormatError) as caught:
        manifest.decode(f'{{\n  "version": "2.0",\n{conflict}}}\n'.encode())
    problem = caught.value.problem
    assert (problem.code, problem.line, "git merge" in problem.message) == ("merge-conflict", 3, True)
    assert "check --fix" in problem.hint


@pytest.mark.parametrize(
    ("text", "sides"),
    [
        (f"a\n{TRIPLE}b\n", ("a\nOurs.\nb\n", "a\nTheirs.\nb\n")),
        (f"a\n{DIFF3}b\n{TRIPLE}", ("a\nOurs.\nb\nOurs.\n", "a\nTheirs.\nb\nTheirs.\n")),
        (TRIPLE.replace("\n", "\r\n"), ("Ours.\r\n", "Theirs.\r\n")),
        ("a\u2028<<<<<<< HEAD", ("a\u2028<<<<<<< HEAD",) * 2),
        (TRIPLE.replace("=======\n", ""), None),
        (TRIPLE.replace(">>>>>>> branch\n", ""), None),
        (TRIPLE + ">>>>>>> branch\n", None),
        (TRIPLE.replace("Ours.", "<<<<<<< again"), None),
        ("=======\n", None),
    ],
)
def test_a_conflicted_text_is_taken_apart(text: str, sides: tuple[str, str] | None) -> None:
    assert both_sides(text) == sides
