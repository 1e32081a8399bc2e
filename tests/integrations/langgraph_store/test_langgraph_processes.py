"""Many threads and processes in one store: nothing is lost, nothing raises."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("langgraph.store.base")

import deermem
from deermem.integrations.langgraph_store import DeerMemStore

NS = ("memories", "alice")
PACKAGE = str(Path(deermem.__file__).resolve().parent.parent)
WRITER = """
import json, sys
sys.path.insert(0, sys.argv[4])
from deermem.integrations.langgraph_store import DeerMemStore
root, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with DeerMemStore.open(root, "alice") as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        store.put(("memories", "alice"), f"{name}-{number}", {"text": f"{name} {number}"})
        store.put(("memories", "alice"), "both", {"by": name, "n": number})
        if number % 10 == 0:
            assert store.get(("memories", "alice"), f"{name}-{number}").value == {"text": f"{name} {number}"}
            store.put(("memories", "alice"), "gone", {"by": name})
            store.delete(("memories", "alice"), "gone")
            assert store.search((), query=f"{name} {number}", limit=3)
    print(json.dumps(len(store.search(("memories",), limit=10_000))), flush=True)
"""


def run_writers(root: Path, count: int) -> list[int]:
    """What each of two processes counts when both have put `count` items, all the while at one key too."""
    arguments = [sys.executable, "-W", "error::DeprecationWarning", "-c", WRITER, str(root)]
    writers = [
        subprocess.Popen(
            [*arguments, name, str(count), PACKAGE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in ("one", "two")
    ]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("\n")
            writer.stdin.flush()
        outputs = [writer.communicate(timeout=100)[0] for writer in writers]
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    assert [writer.returncode for writer in writers] == [0, 0]
    return [int(json.loads(output)) for output in outputs]


def all_kept(root: Path, count: int) -> None:
    counts = run_writers(root, count)
    assert max(counts) >= 2 * count + 1
    with DeerMemStore.open(root, "alice") as store:
        kept = {item.key: item.value for item in store.search(NS, limit=10_000)}
        both = kept.pop("both")
        assert both["n"] == count - 1
        kept.pop("gone", None)
        assert kept == {
            f"{name}-{number}": {"text": f"{name} {number}"} for name in ("one", "two") for number in range(count)
        }


def test_two_processes_lose_no_put(root):
    all_kept(root, 15)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_two_processes_lose_none_of_many_puts(root):
    all_kept(root, 200)


def test_threads_lose_no_put_and_the_last_of_one_key_stays(store):
    def put(number: int) -> None:
        store.put(NS, f"k{number}", {"text": f"number {number}"})
        store.put(NS, "both", {"n": number})
        assert store.get(NS, f"k{number}").value == {"text": f"number {number}"}
        store.delete(NS, f"gone{number % 3}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(24)))
    assert len(store.search(NS, limit=100)) == 25
    assert store.get(NS, "both").value["n"] in range(24)
