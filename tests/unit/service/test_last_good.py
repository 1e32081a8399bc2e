"""A file in the middle of being saved: what it said before stays served, for a minute at most."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from builders_store import edit, facts_of, place

from deermem import Corruption, DeerMem, Fact, FactNotFound, Memory, Settings

WHOLE = "---\ncategory: goal\nconfidence: 0.9\n---\n\n# Learn Rust\n\nWants to learn Rust\n"
HALVES = [
    WHOLE[:20].encode(),
    b"---\n",
    b"---\ncateg",
    b"---\ncategory: goal\nconf: [",
    b"---\ncategory: {a: b\n---\n\ntext\n",
    b"---\ntitle: L2 (Split: Core): x\n---\n\ntext\n",
    b"---\ncategory: goal\n---\n\nWants to learn R\xc3",
    WHOLE.encode() + b"\0\0\0\0",
    WHOLE.encode("utf-16"),
]
EMPTIED = [b"", b"\n", b" \t\r\n \n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\r\n", WHOLE[: WHOLE.index("# L")].encode()]


@pytest.fixture
def engine(root, clock):
    with DeerMem(root, clock=clock) as opened:
        yield opened


@pytest.fixture
def memory(engine) -> Memory:
    return engine.memory("alice", "coder")


@pytest.fixture(params=["canonical", "elsewhere"])
def path(request, memory, root) -> Path:
    """A fact that was read while it was whole, in its own place or wherever a person put it."""
    place(facts_of(root) / "other.md", "Another fact\n")
    made = place(facts_of(root) / "mine" / "rust.md", WHOLE)
    if request.param == "canonical":
        made = place(memory.path("rust"), WHOLE)
        target = made.parent.parent / _shard("rust") / "rust.md"
        target.parent.mkdir()
        made = made.rename(target)
    memory.list()
    memory.search("rust")
    return made


def _shard(fact_id: str) -> str:
    from builders_store import shard

    return shard(fact_id)


def served(memory: Memory) -> list[Fact]:
    """The fact by every way there is; all must agree."""
    listed = [fact for fact in memory.list() if fact.id == "rust"]
    try:
        got = [memory.get("rust")]
    except (Corruption, FactNotFound):
        got = []
    assert got == listed
    assert [hit.fact for hit in memory.search("learn rust", top_k=50) if hit.fact.id == "rust"] == listed
    assert ("learn Rust" in memory.context()) is bool(listed)
    assert len(memory.document()["facts"]) == len(listed) + 1
    return listed


@pytest.mark.parametrize("half", HALVES)
def test_it_stays_served_for_a_minute_and_is_named(engine, memory, path, clock, half):
    (whole,) = served(memory)
    path.write_bytes(half)
    for _ in range(3):
        assert served(memory) == [whole]
        clock.advance(seconds=19)
    assert served(memory) == [whole]
    (named,) = [finding for finding in engine.check("alice") if finding.severity == "error"]
    assert (named.path, named.line > 0, bool(named.hint)) == (str(path), True, True)
    clock.advance(seconds=3)
    assert served(memory) == []
    assert [finding.path for finding in engine.check("alice") if finding.severity == "error"] == [str(path)]
    assert path.read_bytes() == half


@pytest.mark.parametrize("emptied", EMPTIED)
def test_an_emptied_file_says_nothing_at_once(engine, memory, path, emptied):
    """Nor a person's own file whose text alone was removed; and nothing of it comes back when it breaks later."""
    path.write_bytes(emptied)
    assert served(memory) == []
    assert [finding.path for finding in engine.check("alice") if finding.severity == "error"] == [str(path)]
    path.write_bytes(HALVES[0])
    assert served(memory) == []


@pytest.mark.parametrize("left", ["---", "---\n", "---\n\n", "---\n\n#", "---\n\n# "])
def test_a_file_of_the_engine_without_its_text_is_half_a_save(engine, memory, path, clock, left):
    """An engine writes no fact without text: unlike a note that a person emptied, this one was cut off."""
    memory.update("rust", confidence=0.8)
    (whole,) = served(memory)
    path.write_text(path.read_text().partition("\n---\n")[0] + f"\n{left}")
    assert served(memory) == [whole]
    (named,) = [finding for finding in engine.check("alice") if finding.severity == "error"]
    assert (named.code, named.path) == ("cut-off", str(path))
    with pytest.raises(Corruption, match="ends before its text"):
        memory.update("rust", confidence=0.7)
    clock.advance(seconds=61)
    assert served(memory) == []


def test_every_cut_of_a_file_of_the_engine_before_its_text(memory, path):
    memory.update("rust", confidence=0.8)
    (whole,) = served(memory)
    data = path.read_bytes()
    for end in range(1, data.index(b"# Learn Rust") + 2):
        path.write_bytes(data[:end])
        assert memory.get("rust") == whole


def test_a_file_of_another_owner_says_nothing_at_once(memory, path):
    path.write_text(WHOLE.replace("---\n\n", "agent_name: writer\n---\n\n"))
    assert served(memory) == []


def test_breaking_it_again_does_not_start_a_new_minute(memory, path, clock):
    (whole,) = served(memory)
    for half in (HALVES[0], HALVES[2], HALVES[3]):
        path.write_bytes(half)
        assert served(memory) == [whole]
        clock.advance(seconds=25)
    path.write_bytes(HALVES[1])
    assert served(memory) == []


def test_each_break_of_a_mended_file_has_its_own_minute(memory, path, clock):
    for number in range(3):
        path.write_bytes(HALVES[0])
        assert len(served(memory)) == 1
        clock.advance(seconds=50)
        path.write_text(WHOLE.replace("Wants", f"Wants {number}"))
        assert served(memory)[0].content == f"Wants {number} to learn Rust"


def test_a_clock_that_is_set_back_ends_it(memory, path, clock):
    """Else it would be served for as long as the clock was wrong."""
    path.write_bytes(HALVES[0])
    assert len(served(memory)) == 1
    clock.advance(hours=-1)
    assert served(memory) == []


def test_a_broken_file_that_is_deleted_is_gone_at_once(memory, path):
    path.write_bytes(HALVES[0])
    served(memory)
    path.unlink()
    assert served(memory) == []
    path.write_bytes(HALVES[0])
    assert served(memory) == []


def test_a_file_that_was_never_whole_is_not_served(memory, path):
    place(path.with_name("new.md"), HALVES[0])
    assert len(served(memory)) == 1
    with pytest.raises((Corruption, FactNotFound)):
        memory.get("new")


@pytest.mark.parametrize("kind", ["update", "expected", "delete", "import"])
def test_no_write_goes_over_it(memory, path, kind):
    """Not even one that was decided on what is served."""
    (whole,) = served(memory)
    path.write_bytes(HALVES[3])
    served(memory)
    calls = {
        "update": lambda: memory.update("rust", "New text"),
        "expected": lambda: memory.update("rust", "New text", expected=whole.version),
        "delete": lambda: memory.delete("rust"),
        "import": lambda: memory.import_document({"facts": [{"id": "rust", "content": "New text"}]}),
    }
    with pytest.raises(Corruption, match=path.name):
        calls[kind]()
    assert path.read_bytes() == HALVES[3]
    assert served(memory) == [whole]


def test_a_new_process_serves_it_for_the_same_minute(memory, path, root, clock):
    """The catalogue remembers; without one nobody can."""
    path.write_bytes(HALVES[0])
    (whole,) = served(memory)
    clock.advance(seconds=40)
    with DeerMem(root, clock=clock) as fresh:
        assert served(fresh.memory("alice", "coder")) == [whole]
    with DeerMem(root, Settings(retrieval_adapter=""), clock=clock) as fresh:
        assert served(fresh.memory("alice", "coder")) == []
    clock.advance(seconds=21)
    with DeerMem(root, clock=clock) as fresh:
        assert served(fresh.memory("alice", "coder")) == []
    assert served(memory) == []


def test_a_process_that_knows_less_takes_nothing_away(memory, path, root, clock):
    """One without the catalogue's memory must not end the minute of the others."""
    path.write_bytes(HALVES[0])
    (whole,) = served(memory)
    shutil.rmtree(root / "users" / "alice" / ".retrieval")
    with DeerMem(root, clock=clock) as fresh:
        served(fresh.memory("alice", "coder"))
    assert served(memory) == [whole]
    clock.advance(seconds=61)
    assert served(memory) == []


def test_another_file_with_its_id_takes_over_after_the_minute(memory, path, clock):
    place(path.with_name("zcopy.md"), WHOLE.replace("category", "id: rust\ncategory").replace("Wants", "Wished"))
    path.write_bytes(HALVES[0])
    assert memory.get("rust").content == "Wants to learn Rust"
    clock.advance(seconds=61)
    assert [fact.content for fact in memory.list() if fact.id == "rust"] == ["Wished to learn Rust"]


def test_a_torn_text_that_reads_whole_is_what_it_says(memory, path):
    """Nobody can tell half of a text from a short one; a writer that saw the whole gets a conflict."""
    edit(path, "Wants to learn Rust\n", "Wants to")
    assert [fact.content for fact in memory.list() if fact.id == "rust"] == ["Wants to"]


def test_the_log_says_that_the_last_good_version_is_served_meanwhile(memory, path, caplog):
    path.write_bytes(HALVES[0])
    assert "rust" in [fact.id for fact in memory.list()]
    (named,) = [record.getMessage() for record in caplog.records]
    assert named.startswith(f"{path}:1 is not served: ")
    assert named.endswith("; what it said before is, for a minute at most")


def test_a_file_that_is_not_served_is_named_in_the_log_once(root, clock, caplog):
    folder = root / "users" / "alice" / "agents" / "coder" / "facts"
    folder.mkdir(parents=True)
    (folder / "bad.md").write_text("---\nconfidence: high\n---\n\nNo number.\n")
    with DeerMem(root, clock=clock) as engine:
        memory = engine.memory("alice", "coder")
        for _ in range(3):
            assert memory.list() == []
        (named,) = [record.getMessage() for record in caplog.records]
        assert f"{folder}/bad.md:2 is not served: confidence is 'high'" in named
        (folder / "bad.md").write_text("---\nconfidence: higher\n---\n\nNo number.\n")
        memory.list()
        assert len(caplog.records) == 2
    with DeerMem(root, clock=clock) as engine:
        engine.memory("alice", "coder").search("number")
        assert len(caplog.records) == 3
