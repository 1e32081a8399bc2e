"""Opening, counting, closing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from builders_store import facts_of, place, tree

import deermem
from deermem import DeerMem, DeerMemError


def test_closing_twice_is_fine_and_use_afterwards_says_so(root):
    """93: a handle made before doesn't come back to life."""
    engine = DeerMem(root)
    memory = engine.memory("alice")
    fact = memory.add("A fact.")
    engine.close()
    engine.close()
    for call in (
        memory.list,
        lambda: memory.add("More"),
        lambda: engine.search("alice", "x"),
        lambda: memory.get(fact.id),
    ):
        with pytest.raises(DeerMemError, match="closed"):
            call()
    with DeerMem(root) as again:
        assert again.memory("alice").get(fact.id) == fact


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system doesn't list open files")
def test_many_users_need_few_descriptors(engine, monkeypatch):
    """W7: the least recently used are closed, and open again when asked."""
    monkeypatch.setattr("deermem.service.open_users._OPEN_USERS", 3)
    before = len(os.listdir("/proc/self/fd"))
    for number in range(12):
        engine.memory(f"user{number:02}").add("Docker")
    assert len(os.listdir("/proc/self/fd")) - before <= 3 * 6
    assert all(len(engine.memory(f"user{number:02}").search("docker")) == 1 for number in range(12))
    assert engine.stats().facts == engine.reindex().indexed == 12


def test_statistics_count_what_there_is(engine, root):
    """Facts, unreadable files and bytes, bucket by bucket."""
    engine.memory("alice", "coder").add("One")
    engine.memory("alice").add("Two")
    engine.memory("user@x").add("Three")
    engine.memory().add("Four")
    bad = place(facts_of(root) / "bad.md", b"\xff")
    stats = engine.stats()
    assert (stats.facts, stats.unreadable, stats.users, stats.root) == (4, 1, 3, str(root))
    coder = next(bucket for bucket in stats.buckets if bucket.agent == "coder")
    (fact,) = engine.memory("alice", "coder").list()
    assert (coder.user_id, coder.facts, coder.unreadable) == ("alice", 1, 1)
    assert coder.bytes == bad.stat().st_size + engine.memory("alice", "coder").path(fact.id).stat().st_size
    assert stats.index_bytes > 0
    assert engine.stats("alice").facts == 2


def test_users_and_agents_are_named(engine):
    """By folder, each of which works as a name."""
    for user, agent in (("bob", None), ("alice", "Coder"), ("alice", None), ("user@x", None)):
        engine.memory(user, agent).add("A fact.")
    engine.memory().add("Nobody's")
    users = engine.users()
    assert users == sorted(users)
    assert users[:2] == ["alice", "bob"]
    assert len(users) == 3
    assert engine.agents("alice") == ["__default__", "coder"]
    assert engine.agents() == ["__default__"]
    assert engine.agents("nobody") == []


def test_checking_a_healthy_store_says_nothing_and_changes_nothing(engine, memory, root):
    """One user's, and all."""
    memory.add("A fact.")
    memory.update_summaries({"topOfMind": "T"})
    before = tree(root)
    assert engine.check() == engine.check("alice") == []
    assert tree(root) == before


def test_importing_and_opening_leave_no_trace(tmp_path):
    """P11: no folder in the home, none at the root; import deermem stays light."""
    program = (
        "import sys, deermem\n"
        "heavy = {'sqlite3', 'yaml', 'click', 'filelock', 'Stemmer'} & set(sys.modules)\n"
        "deermem.DeerMem(); print(sorted(heavy))"
    )
    home = tmp_path / "home"
    home.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
    assert list(home.iterdir()) == []


def test_every_public_name_is_there():
    """P: all names of the interface come from the package itself."""
    for name in deermem.__all__:
        assert vars(deermem).get(name) is not None or __import__("operator").attrgetter(name)(deermem) is not None
    with pytest.raises(AttributeError, match="Nonsense"):
        deermem.Nonsense  # noqa: B018
    names = "DeerMem Memory Fact Summaries ChangeSet Commit SearchHit Settings Draft Source Finding Stats DuplicateFact"
    assert set(names.split()) <= set(deermem.__all__)
    assert set(deermem.__all__) <= set(dir(deermem))


def test_a_fork_has_locks_and_indexes_of_its_own(root):
    """A child that goes on with its parent's engine neither hangs nor spoils the index."""
    engine = DeerMem(root)
    memory = engine.memory("alice")
    memory.add("Of the parent")
    memory.search("parent")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            memory.add("Of the child")
            code = 0 if len(memory.search("child")) == 1 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(memory.list()) == 2
    assert len(memory.search("of the child")) >= 1
    engine.close()
