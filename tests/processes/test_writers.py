"""Many writers and readers of one bucket at once: every write is kept, every view is whole, nobody starves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from process_tools import Worker, alarming, contents, document, engine, revision, start_together

from deermem import ChangeSet, DeerMem, Draft, FactConflict
from deermem.store.files import Files

Start = Callable[..., Worker]


def written(workers: list[Worker]) -> dict[str, str]:
    """Id → content of everything that the writers were told is stored; ids must not repeat."""
    said = [line for worker in workers for line in worker.finish()]
    facts = {str(line["id"]): str(line["content"]) for line in said}
    assert len(facts) == len(said)
    return facts


def all_kept(start: Start, root: Path, processes: int, count: int, *, search: bool = False) -> None:
    workers = [
        start("add", root=str(root), prefix=f"writer{number}", count=count, search=search)
        for number in range(processes)
    ]
    start_together(workers)
    facts = written(workers)
    assert len(facts) == processes * count
    # Not even the index was in anybody's way.
    assert [worker.complaints() for worker in workers] == [""] * processes
    with engine(root) as opened:
        assert contents(opened.memory("ann")) == facts
        assert revision(root) == processes * count
        assert alarming(opened) == []
        hits = opened.memory("ann").search("keeper", top_k=len(facts))
        assert {hit.fact.id for hit in hits} == set(facts)
        assert {hit.match for hit in hits} == {"fts5"}


def test_eight_processes_lose_no_write(start: Start, root: Path) -> None:
    all_kept(start, root, 8, 15)


def test_two_processes_lose_no_write(start: Start, root: Path) -> None:
    all_kept(start, root, 2, 20)


def test_eight_processes_search_and_write_without_an_error(start: Start, root: Path) -> None:
    all_kept(start, root, 8, 6, search=True)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("search", [False, True])
def test_eight_processes_lose_none_of_many_writes(start: Start, root: Path, search: bool) -> None:
    all_kept(start, root, 8, 150, search=search)


def test_five_threads_lose_no_write(root: Path) -> None:
    with engine(root) as opened:
        memory = opened.memory("ann")
        together = threading.Barrier(5)
        ids: list[str] = []

        def add(number: int) -> None:
            together.wait(30)
            ids.extend(memory.add(f"thread {number} says {item}").id for item in range(4))

        threads = [threading.Thread(target=add, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(set(ids)) == 20
        assert set(contents(memory)) == set(ids)
        assert revision(root) == 20
        assert alarming(opened) == []


def test_of_writers_with_one_token_exactly_one_wins(start: Start, root: Path) -> None:
    rounds = 5
    with engine(root) as opened:
        memory = opened.memory("ann")
        memory.apply(ChangeSet([Draft(content="the beginning", id="shared")]))
        workers = [start("update", root=str(root), name=f"writer{number}", rounds=rounds) for number in range(4)]
        for number in range(rounds):
            start_together(workers)
            said = [worker.read() for worker in workers]
            winners = [line for line in said if "won" in line]
            assert len(winners) == 1, said
            now = memory.get("shared")
            assert (now.content, now.version) == (winners[0]["won"], winners[0]["version"])
            losers = [(line["lost"], line["version"]) for line in said if "lost" in line]
            assert losers == [(now.content, now.version)] * 3
            assert now.revision == number + 2
            # Nobody begins the next round before everybody has ended this one.
            start_together(workers)
        for worker in workers:
            assert worker.finish() == []
        assert contents(memory) == {"shared": now.content}


def test_an_update_decided_on_an_old_view_keeps_the_other_writers_facts(start: Start, root: Path) -> None:
    """A loads, B writes, A writes: what B wrote stays, and A's stale decision about the same fact is refused."""
    with engine(root) as opened:
        memory = opened.memory("ann")
        mine, shared = memory.add("mine"), memory.add("shared by both")
        worker = start("add", root=str(root), prefix="other", count=1)
        start_together([worker])
        (other,) = written([worker])
        with engine(root) as second:
            second.memory("ann").update(shared.id, "shared, as the second left it")
        memory.update(mine.id, "mine, changed", expected=mine.version)
        with pytest.raises(FactConflict) as caught:
            memory.update(shared.id, "shared, from a stale view", expected=shared.version)
        assert caught.value.current is not None
        assert caught.value.current.content == "shared, as the second left it"
        assert contents(memory)[mine.id] == "mine, changed"
        assert contents(memory)[shared.id] == "shared, as the second left it"
        assert other in contents(memory)


@pytest.mark.parametrize("fresh", [False, True])
def test_readers_see_bulk_imports_and_clears_whole_or_not_at_all(start: Start, root: Path, fresh: bool) -> None:
    watch_generations(start, root, fresh=fresh, count=30, rounds=15)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("count", [5, 60, 400])
def test_readers_see_hundreds_of_bulk_imports_whole(start: Start, root: Path, fresh: bool, count: int) -> None:
    watch_generations(start, root, fresh=fresh, count=count, rounds=30 + 1_000 // count)


class HalfWritten(Files):
    """A reader's file layer that meets the record in the middle of being written: as each of these bytes, once."""

    def __init__(self, *looks: bytes) -> None:
        self.looks = list(looks)

    def read(self, path: str) -> bytes | None:
        return self.looks.pop(0) if self.looks and path.endswith("/.journal/record") else super().read(path)


class Stopped(Files):
    """A writer's file layer that lets a reader look after the first of several swaps."""

    def __init__(self, between: Callable[[bytes], None]) -> None:
        self.between: Callable[[bytes], None] | None = between

    def exchange(self, staged: str, target: str, displaced: str) -> None:
        super().exchange(staged, target, displaced)
        between, self.between = self.between, None
        if between is not None:
            between(Path(staged).with_name("record").read_bytes())


def test_a_record_met_half_written_twice_does_not_pass_for_no_commit(root: Path) -> None:
    """Torn while it is sealed and torn while it is emptied: in between, only some of the files are swapped."""
    old, new = ({f"fact_{number}": f"{word} {number}" for number in range(5)} for word in ("old", "new"))
    seen: list[dict[str, str]] = []

    def look(sealed: bytes) -> None:
        emptied = b"deermem-record 1 empty 7 "
        files = HalfWritten(sealed[: len(sealed) // 2], emptied + sealed[len(emptied) :])
        with DeerMem(root, files=files) as reader:
            seen.append(contents(reader.memory("ann")))
            assert files.looks == []

    with engine(root) as opened:
        opened.memory("ann").import_document(document(old))
    with DeerMem(root, files=Stopped(look)) as writer:
        writer.memory("ann").import_document(document(new))
        assert contents(writer.memory("ann")) == new
    assert seen == [new]


def watch_generations(start: Start, root: Path, *, fresh: bool, count: int, rounds: int) -> None:
    writer = start("generations", root=str(root), count=count, rounds=rounds)
    readers = [start("watch", root=str(root), count=count, fresh=fresh) for _ in range(2)]
    start_together([*readers, writer])
    assert writer.finish() == [{"written": rounds}]
    for reader in readers:
        reader.tell()
        (seen,) = reader.finish()
        assert int(seen["looks"]) > 0  # type: ignore[call-overload]
    with engine(root) as opened:
        assert alarming(opened) == []
        opened.memory("ann").add("nobody is in the way")


def test_two_processes_may_reindex_beside_a_writer(start: Start, root: Path) -> None:
    reindex_together(start, root, rounds=5)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_two_processes_may_reindex_many_times(start: Start, root: Path) -> None:
    reindex_together(start, root, rounds=100)


def reindex_together(start: Start, root: Path, rounds: int) -> None:
    facts = {f"fact_{number:03}": f"the harbour keeps boat number{number}" for number in range(100)}
    with engine(root) as opened:
        opened.memory("ann").import_document(document(facts))
    indexers = [start("reindex", root=str(root), rounds=rounds) for _ in range(2)]
    writer = start("add", root=str(root), prefix="beside", count=10)
    start_together([*indexers, writer])
    facts |= written([writer])
    for indexer in indexers:
        reports = indexer.finish()
        assert [report["failed"] for report in reports] == [0] * rounds
        assert all(100 <= int(report["indexed"]) <= 110 for report in reports)  # type: ignore[call-overload]
        assert "Traceback" not in indexer.complaints()
        assert "is damaged" not in indexer.complaints()
        assert "given up" not in indexer.complaints()
    with engine(root) as opened:
        memory = opened.memory("ann")
        assert contents(memory) == facts
        hits = memory.search("harbour keeper", top_k=200)
        assert {hit.fact.id for hit in hits} == set(facts)
        assert {hit.match for hit in hits} == {"fts5"}
