"""Facts that a document gives no id: they are known by what they say, and take nothing away from what says more."""

from __future__ import annotations

import pytest

from deermem import InvalidInput

TEA = "Likes tea."


def document(*facts: object) -> dict[str, object]:
    return {"facts": [fact if isinstance(fact, dict) else {"content": fact} for fact in facts]}


@pytest.mark.parametrize(
    "second", [TEA, {"content": " likes  TEA.\n"}, {"id": None, "content": TEA}, {"id": " ", "content": TEA}]
)
def test_what_stands_twice_is_one_fact(memory, second):
    assert len(memory.import_document(document(TEA, second, "Plays go.")).added) == 2
    assert len(memory.import_document(document(TEA, second, "Plays go.")).present) == 2


def test_an_id_that_is_stated_twice_is_refused(memory):
    with pytest.raises(InvalidInput, match=r"facts\[1\] .*stands in facts\[0\] already"):
        memory.import_document(document({"id": "a", "content": TEA}, {"id": "A", "content": TEA}))


def test_an_edit_is_not_written_over_by_a_document_that_never_knew_of_it(memory):
    source = document(TEA, "Plays go.")
    memory.import_document(source)
    (tea,) = [fact for fact in memory.list() if fact.content == TEA]
    memory.update(tea.id, content="Likes coffee.")
    again = memory.import_document(source)
    assert (len(again.added), again.updated, len(again.present)) == (1, (), 1)
    assert sorted(fact.content for fact in memory.list()) == ["Likes coffee.", TEA, "Plays go."]
    assert memory.import_document(source).added == ()
    only = memory.import_document(source, replace=True)
    assert (only.deleted, only.added, len(only.present)) == ((tea.id,), (), 2)
