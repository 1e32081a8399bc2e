"""A person's file name may be as long as the file system allows; a write of its fact must still find a journal name."""

from __future__ import annotations

import pytest

from deermem import DeerMem


@pytest.mark.parametrize("stem", ["n" * 251, "名" * 83, "é" * 120 + "x", "🦌" * 62])
def test_a_fact_in_a_file_with_a_long_name_can_be_changed_and_deleted(root, stem):
    folder = root / "users" / "alice" / "agents" / "coder" / "facts"
    folder.mkdir(parents=True)
    (folder / f"{stem}.md").write_text("Likes long names.\n", encoding="utf-8")
    with DeerMem(root) as engine:
        memory = engine.memory("alice", "coder")
        (fact,) = memory.list()
        changed = memory.update(fact.id, content="Likes long names a lot.")
        assert (folder / f"{stem}.md").read_text(encoding="utf-8").endswith("Likes long names a lot.\n")
        memory.delete(changed.id)
        assert memory.list() == []
        assert not (folder / f"{stem}.md").exists()
