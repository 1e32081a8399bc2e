"""Names that differ only in case: refused where the file system folds them, two folders where it does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from builders_store import facts_of, place, tree

from deermem import DeerMem, FactConflict, InvalidInput
from deermem.model.changes import ChangeSet
from deermem.model.fact import Draft
from deermem.store.files import Files
from deermem.store.folding import refuse_folded


class FoldingFiles(Files):
    """A file system that keeps the case of names and does not tell it apart, as those of macOS and Windows."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self.stats = 0

    def stat(self, path: str) -> os.stat_result | None:
        self.stats += 1
        return super().stat(self._real(path))

    def listdir(self, path: str) -> list[str]:
        self.listed.append(path)
        return super().listdir(self._real(path))

    def _real(self, path: str) -> str:
        parent, name = os.path.split(path)
        if not name or os.path.lexists(path):
            return path
        parent = self._real(parent)
        names = os.listdir(parent) if os.path.isdir(parent) else []
        return os.path.join(parent, next((other for other in names if other.lower() == name.lower()), name))


@pytest.fixture
def folding(root: Path, clock):
    with DeerMem(root, clock=clock, files=FoldingFiles()) as engine:
        yield engine


def test_a_second_user_that_differs_only_in_case_is_refused(folding, root):
    folding.memory("alice").add("Lower case.")
    before = tree(root)
    with pytest.raises(InvalidInput, match=r"'Alice' can't have a folder of its own in .*: 'alice' is there") as caught:
        folding.memory("Alice").add("Upper case.")
    assert caught.value.hint
    assert tree(root) == before
    assert [fact.content for fact in folding.memory("alice").list()] == ["Lower case."]


@pytest.mark.parametrize(
    "ask",
    [
        lambda memory: memory.list(),
        lambda memory: memory.summaries(),
        lambda memory: memory.clear(),
        lambda memory: memory.update_summaries({"workContext": "Mine"}),
    ],
    ids=["list", "summaries", "clear", "update_summaries"],
)
def test_nothing_of_the_first_user_is_shown_or_changed(folding, root, ask):
    folding.memory("alice").update_summaries({"workContext": "Alice's"})
    with pytest.raises(InvalidInput, match="'alice' is there"):
        ask(folding.memory("ALICE"))
    assert folding.memory("alice").summaries().work_context.summary == "Alice's"


def test_a_handle_that_was_opened_first_is_refused_at_its_write(folding):
    """The other user came between the opening and the write."""
    late = folding.memory("Alice")
    assert late.list() == []
    folding.memory("alice").add("First.")
    with pytest.raises(InvalidInput, match="'alice' is there"):
        late.add("Second.")


def test_a_hosts_folder_in_another_case_is_no_agents(folding, root):
    folding.memory("alice", "writer").add("A fact.")
    place(root / "users/alice/agents/Coder/SOUL.md", "The host's.\n")
    with pytest.raises(InvalidInput, match="'Coder' is there"):
        folding.memory("alice", "coder").add("Refused.")
    assert sorted(path.name for path in (root / "users/alice/agents").iterdir()) == ["Coder", "writer"]


def test_names_that_differ_in_more_go_side_by_side(folding):
    for user in ("alice", "bob", "123", "Carol"):
        folding.memory(user).add(f"Of {user}.")
        folding.memory(user).add(f"More of {user}.")
    assert folding.users() == ["123", "Carol", "alice", "bob"]
    assert len(folding.memory("Carol").list()) == 2


def test_two_users_where_the_file_system_keeps_them_apart(root, clock):
    if (root.parent / root.name.swapcase()).exists():
        pytest.skip("this file system folds case itself")
    with DeerMem(root, clock=clock) as engine:
        engine.memory("alice").add("Lower case.")
        engine.memory("aLICE").add("Swapped case.")
        engine.memory("alice").add("More.")
        assert engine.users() == ["aLICE", "alice"]
        assert len(engine.memory("alice").list()) == 2
        assert [fact.content for fact in engine.memory("aLICE").list()] == ["Swapped case."]


def test_only_a_folding_file_system_is_asked_for_its_names(root):
    class Counting(Files):
        asked = 0

        def stat(self, path: str) -> os.stat_result | None:
            self.asked += 1
            return super().stat(path)

        def listdir(self, path: str) -> list[str]:
            raise AssertionError(path)

    files = Counting()
    refuse_folded(files, root / "users" / "alice")
    assert files.asked == 1
    (root / "users" / "alice").mkdir(parents=True)
    refuse_folded(files, root / "users" / "alice")
    assert files.asked == 3


def test_a_folder_whose_name_has_no_case_is_its_own(root):
    (root / "123").mkdir(parents=True)
    refuse_folded(FoldingFiles(), root / "123")


def test_a_root_may_be_named_in_another_case(root, clock):
    """It is one folder, and the person's own choice."""
    root.mkdir()
    other = root.with_name(root.name.swapcase())
    if not other.exists():
        other.symlink_to(root, target_is_directory=True)
    with DeerMem(other, clock=clock, files=FoldingFiles()) as engine:
        engine.memory().add("Of nobody.")
        engine.memory("alice").add("Of alice.")
        assert engine.users() == ["alice"]


# --- fact ids


def test_an_id_that_differs_only_in_case_is_refused(root, clock):
    with DeerMem(root, clock=clock) as engine:
        memory = engine.memory("alice", "coder")
        memory.apply(ChangeSet([Draft(id="deploy-day", content="Tuesday.")]))
        with pytest.raises(FactConflict, match="'deploy-day'") as caught:
            memory.apply(ChangeSet([Draft(id="Deploy-Day", content="Wednesday.")]))
        assert caught.value.current == memory.get("deploy-day")
        with pytest.raises(FactConflict, match="'deploy-day'"):
            memory.add_text(b"---\nid: DEPLOY-DAY\n---\n\nThursday.\n")
        assert [fact.content for fact in memory.list()] == ["Tuesday."]


def test_an_id_in_another_case_is_seen_where_a_person_put_it(root, clock):
    with DeerMem(root, clock=clock) as engine:
        memory = engine.memory("alice", "coder")
        place(facts_of(root) / "Notes.md", "By hand.\n")
        with pytest.raises(FactConflict, match="'Notes'"):
            memory.import_document({"facts": [{"id": "notes", "content": "Imported."}]})
