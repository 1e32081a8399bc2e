"""What a person wrote beside the keys outlives every rewrite, whatever form the front matter has."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from deermem.format.markdown import decode, encode
from deermem.model.fact import Fact

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def read(text: str) -> Fact:
    return decode(text.encode(), stem="f", when=WHEN).fact


def rewritten(base: str, **changes: object) -> list[str]:
    """The lines of the front matter after a rewrite, which says the fact and is known as an engine's."""
    fact = replace(read(base), **changes)  # type: ignore[arg-type]
    data = encode(fact, base=base.encode())
    parsed = decode(data, stem="f", when=WHEN)
    assert replace(parsed.fact, version="") == replace(fact, version="")
    assert (parsed.edited, parsed.has_digest, parsed.complete) == (False, True, True)
    assert encode(fact, base=data) == data
    assert decode(data.replace(b"# T", b"# Other"), stem="f", when=WHEN).edited
    lines = data.decode().split("\n---\n", 1)[0].split("\n")
    assert lines.pop(0) == "---"
    return lines


BODY = "---\n# T\n\nx\n"
INDENTED = f"---\n  id: f # my id\n  # free\n  category: goal # why\n  topics: [a] # t\n  mine: 1\n{BODY}"


def test_an_indented_block_keeps_its_arrangement() -> None:
    lines = rewritten(INDENTED, confidence=0.9, topics=("b", "c"))
    assert lines[:5] == [
        "  id: f # my id",
        "  # free",
        "  category: goal # why",
        "  topics: [b, c] # t",
        "  mine: 1",
    ]
    assert "  confidence: 0.9" in lines
    assert lines[lines.index("  source:") + 1 :][:2] == ["    type: unknown", "    threadId: null"]
    assert lines[-1].startswith("  digest: 1-")


def test_a_key_leaves_an_indented_block_without_a_trace_but_its_comment() -> None:
    lines = rewritten(INDENTED.replace("mine: 1", "mine: [1, # one\n    2]\n  last: 2"), extra={"last": 2})
    assert lines[4:6] == ["  # one", "  last: 2"]


def test_a_block_list_in_an_indented_block() -> None:
    base = INDENTED.replace("topics: [a] # t", "topics:\n  - a # first\n  - b")
    assert rewritten(base, topics=("c", "d"))[3:7] == ["  # first", "  topics:", "  - c", "  - d"]


@pytest.mark.parametrize(
    "changes", [{"source_error": "e"}, {"source_error": None}, {"extra": {}}, {"extra": {"mine": 2}}]
)
def test_block_scalars_in_an_indented_block(changes: dict[str, object]) -> None:
    base = INDENTED.replace("mine: 1", "sourceError: > # s\n    text\n\n  # about mine\n  mine: | # m\n    a\n    b")
    lines = rewritten(base, **changes)
    assert [line.strip() for line in lines if line.startswith("  #")][:1] == ["# free"]
    assert all(any(note in line for line in lines) for note in ("# s", "# about mine", "# m", "# t"))


def test_an_indented_block_with_crlf() -> None:
    base = INDENTED.replace("\n", "\r\n")
    data = encode(replace(read(base), confidence=0.9), base=base.encode())
    parsed = decode(data, stem="f", when=WHEN)
    assert (parsed.edited, parsed.has_digest, parsed.fact.confidence) == (False, True, 0.9)
    assert data.startswith(b"---\r\n  id: f # my id\r\n  # free\r\n  category: goal # why\r\n")
    assert data.count(b"\n") == data.count(b"\r\n")


def test_the_mark_that_ends_a_document_stays_last() -> None:
    base = f"---\nid: f # my id\n# free\ncategory: goal\n# last\n... # over\n{BODY}"
    lines = rewritten(base, confidence=0.9)
    assert lines[:4] == ["id: f # my id", "# free", "category: goal", "# last"]
    assert lines[-2].startswith("digest: 1-")
    assert lines[-1] == "... # over"


def test_a_mapping_in_braces_is_written_anew_with_its_keys_in_order_and_every_comment() -> None:
    base = f"---\n# top\n{{mine: 1, # own\n id: f,# my id\n # above\n category: goal # why\n}} # end\n{BODY}"
    lines = rewritten(base, confidence=0.9)
    assert lines[:7] == ["# top", "# own", "mine: 1", "# my id", "id: f", "# above", "# why"]
    assert lines[7:9] == ["category: goal", "# end"]
    assert "confidence: 0.9" in lines
    assert lines[-1].startswith("digest: 1-")


def test_a_file_that_changes_its_line_ends_keeps_its_comments() -> None:
    base = f"---\nmine: 1 # own\n# free\nid: f\n{BODY}".replace("\n", "\r\n")
    data = encode(replace(read(base), content="one\rtwo"), base=base.encode())
    assert data.startswith(b"---\n# own\nmine: 1\n# free\nid: f\n")
    assert read(data.decode()).content == "one\rtwo"


@pytest.mark.parametrize("mark", ["|", ">", ">-", "|2"])
def test_the_comment_behind_the_mark_of_a_block_scalar(mark: str) -> None:
    base = f"---\nid: f\nsourceError: {mark} # why # this\n  text # no comment\n\n# next\nmine: 1\n{BODY}"
    assert rewritten(base, confidence=0.9)[:6] == base.split("\n")[1:7]
    lines = rewritten(base, source_error="e")
    assert lines[:3] == ["id: f", "# why # this", "sourceError: e"]
    assert lines[3 + (lines[3] == "") :][:2] == ["# next", "mine: 1"]
    gone = rewritten(base, source_error=None)
    assert gone[1] == "# why # this"
    assert not any(line.startswith("sourceError") for line in gone)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("digest: none # keep this", ["digest: 1- # keep this"]),
        ("digest: # keep this", ["digest: 1- # keep this"]),
        ("digest: 'x'   # a # b", ["digest: 1-   # a # b"]),
        ("digest: [1, # one\n  2] # two", ["# one", "# two", "digest: 1-"]),
        ("digest: | # mark\n  text", ["# mark", "digest: 1-"]),
        ("digest:\n  # above\n  none", ["# above", "digest: 1-"]),
        ("digest: 4-0123456789abcdef # mine", ["digest: 5- # mine"]),
    ],
)
def test_the_comment_at_a_digest(before: str, after: list[str]) -> None:
    base = f"---\nid: f\n{before}\nmine: 1\n{BODY}"
    lines = rewritten(base, revision=5 if "5-" in after[-1] else 1)
    found = [line[:10] + line[26:] if line.startswith("digest: ") else line for line in lines]
    assert found[: len(after) + 2] == ["id: f", *after, "mine: 1"]
