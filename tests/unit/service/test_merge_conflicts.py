"""A store that a git merge left in two: what is named, what check --fix joins, and what stays for a person."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders_store import fact_text, facts_of, place, shard, tree

from deermem import Corruption, DeerMem, Finding, InvalidInput, Memory, Settings
from deermem.store.files import Files

OWNED = {"source": "manual", "user_id": "alice", "agent_name": "coder"}


@pytest.fixture
def engine(root: Path, clock) -> Iterator[DeerMem]:
    with DeerMem(root, clock=clock) as opened:
        opened.memory("alice", "coder").add("In order.")
        yield opened


@pytest.fixture
def memory(engine: DeerMem) -> Memory:
    return engine.memory("alice", "coder")


@pytest.fixture
def document(root: Path) -> Path:
    return root / "users/alice/memory.json"


def side(revision: int, updated: str, **sections: tuple[str, str]) -> list[str]:
    """A version 2 document as its lines."""
    user = {name: {"summary": text, "updatedAt": when} for name, (text, when) in sections.items()}
    whole = {"version": "2.0", "revision": revision, "lastUpdated": updated, "user": user, "history": {}, "mine": 1}
    return json.dumps(whole, indent=2).split("\n")


OURS = side(7, "2026-03-01T00:00:00Z", workContext=("A parser.", "2026-03-01T00:00:00Z"), topOfMind=("Rust.", ""))
THEIRS = side(
    9, "2026-02-01T00:00:00Z", workContext=("A compiler.", "2026-02-01T00:00:00Z"), topOfMind=("", "2026-02-01")
)


def conflicted(ours: list[str], theirs: list[str], *, diff3: bool = False) -> str:
    """As git leaves it where everything but the first and last line differs."""
    base = ["||||||| 1a2b3c4", *ours[1:-1]] if diff3 else []
    middle = ["<<<<<<< HEAD", *ours[1:-1], *base, "=======", *theirs[1:-1], ">>>>>>> branch"]
    return "\n".join([ours[0], *middle, ours[-1]]) + "\n"


def named(findings: list[Finding]) -> list[tuple[str, str, bool]]:
    return [(finding.severity, finding.code, finding.fixed) for finding in findings]


# --- memory.json


@pytest.mark.parametrize("diff3", [False, True])
def test_a_conflicted_document_is_named_and_keeps_writers_out(engine, memory, root, document, diff3):
    place(document, conflicted(OURS, THEIRS, diff3=diff3))
    before = tree(root)
    (finding,) = engine.check()
    assert (finding.severity, finding.code, finding.path, finding.line) == (
        "error",
        "summaries-conflict",
        str(document),
        2,
    )
    assert "git merge" in finding.message
    assert "check --fix" in finding.hint
    assert "one of them" in finding.hint
    for call in (memory.summaries, lambda: memory.add("More."), lambda: memory.update_summaries({"topOfMind": "x"})):
        with pytest.raises(Corruption, match=r"memory\.json:2: .*git merge.*check --fix"):
            call()
    assert tree(root) == before


def test_facts_are_served_beside_a_conflicted_document(engine, memory, document, caplog):
    (fact,) = memory.list()
    place(document, conflicted(OURS, THEIRS))
    assert memory.list() == [fact]
    assert memory.get(fact.id) == fact
    assert [hit.fact for hit in memory.search("order")] == [fact]
    assert memory.path(fact.id).is_file()
    assert engine.stats("alice").facts == 1
    for call in (memory.context, lambda: json.dumps(memory.document())):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "deermem"):
            assert "In order." in call()
        (record,) = caplog.records
        assert f"{document}:2" in record.getMessage()


@pytest.mark.parametrize("diff3", [False, True])
def test_fix_joins_the_two_sides(engine, memory, root, document, diff3):
    text = conflicted(OURS, THEIRS, diff3=diff3)
    place(document, text)
    assert named(engine.check(fix=True)) == [("error", "summaries-conflict", True)]
    summaries = memory.summaries()
    assert (summaries.work_context.summary, summaries.top_of_mind.summary) == ("A parser.", "Rust.")
    assert (summaries.revision, summaries.last_updated) == (10, "2026-03-01T00:00:00Z")
    assert json.loads(document.read_bytes())["mine"] == 1
    (copy,) = (root / "users/alice/.journal").glob("kept.memory.*.json")
    assert copy.read_text() == text
    assert engine.check() == []
    assert memory.add("More.").content == "More."
    assert memory.summaries().revision == 11
    assert "A parser." in memory.context()


def test_sections_that_both_changed_at_one_time_are_left_to_a_person(engine, memory, root, document):
    theirs = side(9, "", workContext=("A compiler.", "2026-03-01T01:00:00+01:00"))
    text = conflicted(OURS, theirs)
    place(document, text)
    findings = engine.check(fix=True)
    assert named(findings) == [("error", "summaries-conflict", False), ("warning", "not-mended", False)]
    assert "workContext" in findings[1].message
    assert "topOfMind" not in findings[1].message
    assert (findings[1].path, "keep one" in findings[1].hint) == (str(document), True)
    assert document.read_text() == text
    assert list((root / "users/alice/.journal").glob("kept.*")) == []


def test_a_side_of_version_1_is_left_to_a_person(engine, document):
    old = json.dumps({"version": "1.0", "facts": [{"id": "fact_a", "content": "Old."}]}, indent=2).split("\n")
    text = conflicted(OURS, old)
    place(document, text)
    findings = engine.check(fix=True)
    assert named(findings) == [("error", "summaries-conflict", False), ("warning", "not-mended", False)]
    assert "version 1" in findings[1].message
    assert document.read_text() == text


def test_fix_joins_beside_a_document_that_waits_for_migration(engine, memory, root, document):
    place(document, conflicted(OURS, THEIRS))
    waiting = {"version": "1.0", "facts": [{"id": "fact_a", "content": "Waited."}]}
    place(root / "users/alice/agents/writer/memory.json", json.dumps(waiting))
    assert ("error", "summaries-conflict", True) in named(engine.check(fix=True))
    assert memory.summaries().work_context.summary == "A parser."
    assert [fact.content for fact in engine.memory("alice", "writer").list()] == ["Waited."]


class Killed(BaseException):
    """The process is gone."""


class MortalFiles(Files):
    """Dies at one of the calls that make or move a file."""

    def __init__(self, dies_at: int) -> None:
        self.left = dies_at

    def _step(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1

    def create(self, path: str, data: bytes, *, flush: bool = True) -> None:
        self._step()
        super().create(path, data, flush=flush)

    def rewrite(self, path: str, data: bytes) -> None:
        self._step()
        super().rewrite(path, data)

    def rename(self, source: str, target: str) -> None:
        self._step()
        super().rename(source, target)

    def exchange(self, staged: str, target: str, displaced: str) -> None:
        self._step()
        super().exchange(staged, target, displaced)

    def unlink(self, path: str) -> None:
        self._step()
        super().unlink(path)


def test_a_kill_at_any_call_leaves_the_old_text_or_the_joined_one(root, clock):
    text = conflicted(OURS, THEIRS)
    settings = Settings(retrieval_adapter="")
    for number in range(100):
        place(root / str(number) / "users/alice/memory.json", text)
        with DeerMem(root / str(number), settings, clock=clock, files=MortalFiles(number)) as engine:
            try:
                engine.check(fix=True)
            except Killed:
                pass
            else:
                break
        with DeerMem(root / str(number), settings, clock=clock) as engine:
            assert {finding.code for finding in engine.check()} <= {"summaries-conflict", "leftovers", "sealed-record"}
            assert all(finding.fixed for finding in engine.check(fix=True)), number
            assert engine.check() == []
            summaries = engine.memory("alice").summaries()
            assert summaries.work_context.summary == "A parser."
            assert summaries.revision in (10, 11)
    assert number > 5


# --- fact files


def in_two(text: str, ours: str, theirs: str) -> str:
    """A fact file whose given lines differ on the two sides."""
    assert text.count(ours) == 1
    return text.replace(ours, f"<<<<<<< HEAD\n{ours}=======\n{theirs}>>>>>>> branch\n")


@pytest.mark.parametrize(
    ("ours", "theirs", "line"),
    [("revision: 1\n", "revision: 2\n", 9), ("Likes tea.\n", "Likes coffee.\n", 17)],
    ids=["front-matter", "body"],
)
def test_a_conflicted_fact_is_named_and_never_served(engine, memory, root, ours, theirs, line):
    text = fact_text("fact_a", "A fact.", **OWNED).replace("\n\nA fact.\n", "\n\nLikes tea.\n")
    path = place(facts_of(root) / shard("fact_a") / "fact_a.md", in_two(text, ours, theirs))
    (finding,) = engine.check()
    assert (finding.severity, finding.code, finding.path, finding.line) == ("error", "merge-conflict", str(path), line)
    assert "resolve the merge" in finding.hint
    assert [fact.content for fact in memory.list()] == ["In order."]
    assert memory.search("tea") == []
    with pytest.raises(Corruption, match=rf"fact_a\.md:{line}: .*git merge"):
        memory.get("fact_a")
    before = path.read_bytes()
    with pytest.raises(Corruption):
        memory.update("fact_a", "Something else.")
    assert named(engine.check(fix=True)) == [("error", "merge-conflict", False)]
    assert path.read_bytes() == before
    path.write_text(text)
    assert memory.get("fact_a").content == "Likes tea."


def test_the_last_good_version_stays_served_for_its_minute(engine, memory, root, clock):
    text = fact_text("fact_a", "Likes tea.", **OWNED)
    path = place(facts_of(root) / shard("fact_a") / "fact_a.md", text)
    assert memory.get("fact_a").content == "Likes tea."
    memory.list()
    path.write_text(in_two(text, "revision: 1\n", "revision: 2\n"))
    assert {fact.content for fact in memory.list()} == {"In order.", "Likes tea."}
    clock.advance(seconds=61)
    assert [fact.content for fact in memory.list()] == ["In order."]


def test_a_text_with_a_conflict_is_not_taken_in(memory):
    text = "<<<<<<< HEAD\nOurs.\n=======\nTheirs.\n>>>>>>> branch\n"
    takes: list[Callable[[], object]] = [lambda: memory.add(text), lambda: memory.add_text(text.encode())]
    for take in takes:
        with pytest.raises(InvalidInput, match="git merge"):
            take()
    assert memory.add(f"Quoted:\n\n```\n{text}```").content.endswith("```")
