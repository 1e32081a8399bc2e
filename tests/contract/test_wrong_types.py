"""A value of another type is the caller's mistake, said in one line; nothing is changed."""

from __future__ import annotations

import pytest

from deermem import ChangeSet, Delete, Draft, FactNotFound, InvalidInput


@pytest.mark.parametrize(
    "call",
    [
        lambda m, f: m.search(None),
        lambda m, f: m.search(5),
        lambda m, f: m.search("x", top_k="5"),
        lambda m, f: m.search("x", top_k=None),
        lambda m, f: m.search("x", top_k=1.5),
        lambda m, f: m.search("x", category=5),
        lambda m, f: m.search("x", source_thread=5),
        lambda m, f: m.list(limit="5"),
        lambda m, f: m.list(offset=-1),
        lambda m, f: m.list(category=5),
        lambda m, f: ChangeSet(["x"]),
        lambda m, f: ChangeSet([None]),
        lambda m, f: ChangeSet(expected_revision="4"),
        lambda m, f: m.update(f.id, "new", expected=True),
        lambda m, f: m.update(f.id, "new", expected=1.5),
        lambda m, f: m.apply(ChangeSet(deletes=[Delete(f.id, expected=["1"])])),
        lambda m, f: m.add(5),
        lambda m, f: m.add("x", category=5),
        lambda m, f: m.add("x", topics="ci"),
        lambda m, f: m.add("x", confidence="high"),
    ],
)
def test_it_is_said_what_is_wrong(memory, call):
    fact = memory.add("The fact.")
    with pytest.raises(InvalidInput) as error:
        call(memory, fact)
    assert "\n" not in str(error.value)
    assert memory.list() == [fact]


def test_every_file_with_a_deleted_id_goes(memory, root):
    """A sync client's copy must not bring a deleted fact back."""
    fact = memory.add("Drinks tea.")
    path = memory.path(fact.id)
    (path.parent.parent / "copy of it.md").write_text(path.read_text().replace("Drinks tea.", "Drank tea."))
    assert [found.content for found in memory.list()] == ["Drinks tea."]
    memory.delete(fact.id)
    assert memory.list() == []
    with pytest.raises(FactNotFound):
        memory.get(fact.id)


def test_an_import_that_replaces_leaves_no_copy_of_what_it_lacks(memory):
    fact = memory.add("Drinks tea.")
    path = memory.path(fact.id)
    (path.parent.parent / "copy.md").write_text(path.read_text().replace("Drinks tea.", "Drank tea."))
    memory.import_document({"facts": [{"id": "other", "content": "Drinks coffee."}]}, replace=True)
    assert [found.content for found in memory.list()] == ["Drinks coffee."]


def test_ids_that_differ_in_case_alone_are_each_found(memory, root):
    folder = root / "users" / "alice" / "agents" / "coder" / "facts"
    (folder / "old").mkdir(parents=True)
    (folder / "tea.md").write_text("---\nid: tea\n---\n\nLower.\n")
    (folder / "old" / "Tea.md").write_text("---\nid: Tea\n---\n\nUpper.\n")
    assert memory.get("tea").content == "Lower."
    assert memory.get("Tea").content == "Upper."
    memory.delete("tea")
    assert [fact.content for fact in memory.list()] == ["Upper."]


def test_an_unresolved_merge_is_refused_before_a_user_comes_to_be(engine, root):
    torn = "Deploys:\n<<<<<<< HEAD\non Monday\n=======\non Friday\n>>>>>>> theirs"
    newcomer = engine.memory("newcomer")
    with pytest.raises(InvalidInput, match="content holds the marks of an unresolved git merge from its line 2 on"):
        newcomer.add(torn)
    assert not (root / "users" / "newcomer").exists()
    fact = newcomer.add(f"```\n{torn}\n```")
    with pytest.raises(InvalidInput, match="code fence"):
        newcomer.update(fact.id, torn)
    assert newcomer.get(fact.id) == fact


@pytest.mark.parametrize("change", [None, [], "x", [Draft(content="x")]])
def test_a_change_that_is_no_change_set_is_named(memory, change):
    with pytest.raises(InvalidInput, match="the change is"):
        memory.apply(change)


@pytest.mark.parametrize("text", [None, 5, [], "\ud800"])
def test_a_text_that_is_none_is_named(memory, text):
    with pytest.raises(InvalidInput, match="the text"):
        memory.add_text(text)


def test_a_file_may_be_given_as_text(memory):
    fact = memory.add_text("# Tea\n\nLikes green tea.\n").facts[0]
    edited = memory.text(fact.id).data.decode().replace("green", "black")
    assert memory.write_text(fact.id, edited).content == "Likes black tea."
