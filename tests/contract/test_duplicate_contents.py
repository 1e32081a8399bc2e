"""The same content twice: refused where it is added, allowed where a document says so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders_store import edit, facts_of, place

from deermem import ChangeSet, DeerMem, Draft, DuplicateFact, InvalidInput, Upsert

SAME = ["User likes tea", "  user   LIKES\ttea \n", "User likes\ntea", "USER LIKES TEA"]


@pytest.mark.parametrize("content", SAME)
def test_content_that_is_there_is_refused(memory, content):
    """119, 171, D5, D7: white space folded, case folded; the error carries the fact that is there."""
    fact = memory.add("User likes tea")
    with pytest.raises(DuplicateFact) as caught:
        memory.add(content)
    assert isinstance(caught.value, InvalidInput)
    assert caught.value.existing == fact
    assert fact.id in str(caught.value)
    assert memory.list() == [fact]


@pytest.mark.parametrize(
    ("first", "second"),
    [("Café", "Cafe\u0301"), ("Straße", "STRASSE"), ("한글", "\u1112\u1161\u11ab\u1100\u1173\u11af")],
)
def test_unicode_forms_of_one_text_are_one_content(memory, first, second):
    """NFC and full case folding."""
    memory.add(first)
    with pytest.raises(DuplicateFact):
        memory.add(second)


def test_other_contents_are_no_duplicates(memory):
    """D14: and no fact retires another."""
    for content in ("User likes tea", "User likes tea.", "User likes green tea", "用户喜欢茶", "用户喜欢绿茶"):
        memory.add(content)
    assert len(memory.list()) == 5


def test_each_bucket_has_its_own_contents(engine):
    """D4."""
    for user, agent in (("alice", "coder"), ("alice", "writer"), ("alice", None), ("bob", "coder"), (None, None)):
        engine.memory(user, agent).add("User likes tea")


def test_a_duplicate_written_elsewhere_or_by_hand_is_noticed(memory, root):
    """171: by another engine; by hand, once any read or search has seen it; and it may come back once gone."""
    with DeerMem(root) as other:
        written = other.memory("alice", "coder").add("Written elsewhere")
    with pytest.raises(DuplicateFact):
        memory.add("written elsewhere")
    place(facts_of(root) / "note.md", "By hand\n")
    memory.list()
    with pytest.raises(DuplicateFact) as caught:
        memory.add("by HAND")
    assert caught.value.existing is not None
    assert caught.value.existing.id == "note"
    edit(memory.path(written.id), "Written elsewhere", "Edited since")
    memory.search("edited")
    with pytest.raises(DuplicateFact):
        memory.add("edited since")
    assert memory.add("Written elsewhere").id != written.id
    (facts_of(root) / "note.md").unlink()
    assert memory.add("By hand").content == "By hand"


def test_a_catalogue_that_is_behind_never_decides(memory, root):
    """The fact that decides is read afresh: an edit since may have freed the content."""
    fact = memory.add("User likes tea")
    memory.search("tea")
    edit(memory.path(fact.id), "User likes tea", "User likes mate")
    assert memory.add("User likes tea").content == "User likes tea"
    assert len(memory.list()) == 2


def test_one_change_set_may_not_hold_a_content_twice(memory):
    """119: within a batch."""
    with pytest.raises(DuplicateFact):
        memory.apply(ChangeSet([Draft(content="Same"), Draft(content="same ")]))
    assert memory.list() == []


def test_a_whole_fact_may_say_what_another_says(memory):
    """An upsert by id, as an import makes it; only a draft must be new."""
    first, second = memory.add("First"), memory.add("Second")
    memory.apply(ChangeSet([Upsert(replace(second, content="First"), second.version)]))
    assert [fact.content for fact in memory.list()] == ["First", "First"]
    assert {fact.id for fact in memory.list()} == {first.id, second.id}


def test_equal_contents_of_a_document_both_stay(memory):
    """import_document: equal contents under different ids."""
    memory.add("Same")
    memory.import_document({"facts": [{"id": "a", "content": "Same"}, {"id": "b", "content": "same"}]})
    assert len(memory.list()) == 3


def test_a_fact_may_be_added_again_after_it_was_deleted(memory):
    """And gets an id of its own."""
    fact = memory.add("Comes again")
    memory.delete(fact.id)
    assert memory.add("Comes again").id != fact.id
    memory.clear()
    memory.add("Comes again")
