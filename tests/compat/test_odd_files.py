"""Odd files: each loads or is named with line and mend; a rewrite keeps what it does not change."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace

import pytest
from builders_store import facts_of, place, tree
from odd_corpus import ODD, Odd, Refused

from deermem import Corruption, DeerMem, FactNotFound

SERVED = {name: odd for name, odd in ODD.items() if isinstance(odd, Odd)}
REFUSED = {name: odd for name, odd in ODD.items() if isinstance(odd, Refused)}
ENGINE_LINES = re.compile(
    r"(id|schemaVersion|category|categoryExtension|confidence|status|topics|source|revision|createdAt|updatedAt|"
    r"user_id|agent_name|digest|-|  type|  threadId)\b.*|- .*"
)


@pytest.fixture
def engine(root, clock):
    with DeerMem(root, clock=clock) as opened:
        yield opened


@pytest.fixture
def memory(engine):
    return engine.memory("alice", "coder")


@pytest.fixture
def folder(root):
    return facts_of(root) / "notes"


def test_there_are_enough_of_them():
    assert len(ODD) >= 60


def test_all_at_once(engine, memory, root, folder):
    """Every file of the corpus in one bucket: the good are served, the bad are named, and not one byte changes."""
    for name, odd in ODD.items():
        place(folder / f"{name}.md", odd.data)
    before = tree(root)
    served = {fact.id: fact.content for fact in memory.list()}
    assert served == {odd.fact_id or name: odd.content for name, odd in SERVED.items()}
    errors = {finding.path: finding for finding in engine.check("alice") if finding.severity == "error"}
    assert errors.keys() == {str(folder / f"{name}.md") for name in REFUSED}
    for finding in errors.values():
        assert finding.hint
    memory.search("text")
    memory.context()
    memory.document()
    engine.reindex("alice")
    assert {fact.id: fact.content for fact in memory.list()} == served
    assert tree(root) == before


@pytest.mark.parametrize("name", SERVED)
def test_it_says_the_right_thing(memory, root, folder, name):
    odd = SERVED[name]
    place(folder / f"{name}.md", odd.data)
    (fact,) = memory.list()
    assert (fact.id, fact.content) == (odd.fact_id or name, odd.content)
    if odd.title:
        assert fact.title == odd.title
    said = {
        "category": fact.category,
        "topics": fact.topics,
        "confidence": fact.confidence,
        "year": fact.created_at.year,
    }
    assert said == {**said, **odd.values}
    assert {key: fact.extra.get(key) for key in odd.extra} == odd.extra
    assert memory.get(fact.id) == fact
    word = re.search(r"\w{3,}", odd.content)
    assert word
    assert [hit.fact for hit in memory.search(word.group())] == [fact]
    with DeerMem(root) as other:
        assert other.memory("alice", "coder").list() == [fact]


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_named_with_line_and_mend(engine, memory, folder, name):
    odd = REFUSED[name]
    path = place(folder / f"{name}.md", odd.data)
    place(folder / "good.md", "A good one\n")
    assert [fact.content for fact in memory.list()] == ["A good one"]
    (finding,) = [found for found in engine.check("alice") if found.severity == "error"]
    assert (finding.path, finding.code, finding.line) == (str(path), odd.code, odd.line)
    assert finding.hint
    with pytest.raises((Corruption, FactNotFound)):
        memory.get(name)
    with pytest.raises((Corruption, FactNotFound)):
        memory.update(name, "Written over")
    assert path.read_bytes() == odd.data


def parts(odd: Odd, data: bytes) -> tuple[list[str], str]:
    """Front matter lines with their ends, and what follows."""
    text = data.decode().removeprefix("\ufeff")
    found = re.match(r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", text, re.S | re.M)
    if found is None or (data == odd.data and odd.letterhead):
        return [], text
    return re.findall(r"[^\n]*\n", found.group(1)), text[found.end() :]


@pytest.mark.parametrize("name", SERVED)
def test_an_update_keeps_everything_else(memory, root, folder, name):
    """M8, M12, M14, M19: comments, order, unknown keys and line ends, byte for byte; then only what must change."""
    odd = SERVED[name]
    path = place(folder / f"{name}.md", odd.data)
    place(folder / "beside.md", "Untouched  \r\nneighbour\n\n\n")
    beside = (folder / "beside.md").read_bytes()
    fact = memory.get(odd.fact_id or name)
    changed = memory.update(fact.id, "A new text\nin two lines", expected=fact.version)
    first = path.read_bytes()
    assert (changed.content, changed.extra, changed.category) == ("A new text\nin two lines", fact.extra, fact.category)
    assert memory.get(fact.id) == changed
    assert replace(changed, content="", title="", version="", revision=0, updated_at=fact.updated_at) == replace(
        fact, content="", title="", version="", revision=0, user_id="alice", agent_name=changed.agent_name
    )
    if not odd.anew:
        keeps_the_lines(odd, first)
    again = memory.update(fact.id, "A third text", expected=changed.version)
    assert again.revision == changed.revision + 1
    only_what_must_change(first, path.read_bytes())
    assert (folder / "beside.md").read_bytes() == beside
    assert set(tree(facts_of(root))) == {f"notes/{name}.md", "notes/beside.md"}


def keeps_the_lines(odd: Odd, after: bytes) -> None:
    assert after.startswith(b"\xef\xbb\xbf") is odd.data.startswith(b"\xef\xbb\xbf")
    old, _ = parts(odd, odd.data)
    new, body = parts(odd, after)
    for change in difflib.ndiff(old, new):
        line = change[2:].rstrip("\r\n")
        if change.startswith("- "):
            key = line.partition(":")[0]
            assert key in ("digest", "confidence", "revision", "updatedAt", "createdAt"), change
        elif change.startswith("+ "):
            assert ENGINE_LINES.fullmatch(line), change
    crlf = old[0].endswith("\r\n") if old else b"\r\n" in odd.data
    ends = {line.endswith("\r\n") for line in new}
    assert ends == {crlf}
    assert body.replace("\r\n", "\n").endswith("\nA new text\nin two lines\n")


def only_what_must_change(first: bytes, second: bytes) -> None:
    before, after = (data.decode().split("\n") for data in (first, second))
    kept = ("revision:", "updatedAt:", "digest:")
    for change in difflib.ndiff(before, after):
        if change[0] in "-+":
            line = change[2:].rstrip("\r")
            assert line.startswith(kept) or line.removeprefix("# ") in (
                "A new text", "in two lines", "A third text", ""
            ), change  # fmt: skip
