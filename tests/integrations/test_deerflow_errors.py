"""DeerFlow's manager: what can't be done is told in the words that the host's callers look for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deerflow_double
import pytest
from deerflow_stage import contents, opened

from deermem import (
    Corruption,
    DeerMem,
    FactConflict,
    LockTimeout,
    MigrationError,
    RevisionConflict,
    StoreUnavailable,
    SummaryConflict,
)


@pytest.fixture
def manager(root: Path) -> Iterator[Any]:
    with opened(root) as made:
        yield made


def test_the_same_content_twice_is_a_duplicate(manager: Any):
    """169, 171, 174"""
    manager.create_fact("Likes tea", user_id="alice")
    with pytest.raises(ValueError, match="Duplicate fact") as refused:
        manager.create_fact("  likes TEA ", user_id="alice")
    assert refused.value.args == ("Duplicate fact",)


@pytest.mark.parametrize("confidence", [1.5, -0.1, float("nan"), True, "high"])
def test_a_confidence_out_of_range_is_named_in_the_hosts_word(manager: Any, confidence: object):
    """22, 174"""
    document, fact_id = manager.create_fact("Likes tea", user_id="alice")
    for call in (
        lambda: manager.create_fact("Likes coffee", confidence=confidence, user_id="alice"),
        lambda: manager.update_fact(fact_id, confidence=confidence, user_id="alice"),
    ):
        with pytest.raises(ValueError, match="give a number from 0 to 1") as refused:
            call()
        assert refused.value.args == ("confidence",)
    assert manager.get_memory(user_id="alice") == document


@pytest.mark.parametrize("content", ["", "  \n"])
def test_blank_content_is_refused(manager: Any, content: str):
    """22, 174"""
    _, fact_id = manager.create_fact("Likes tea")
    for call in (lambda: manager.create_fact(content), lambda: manager.update_fact(fact_id, content)):
        with pytest.raises(ValueError, match="content"):
            call()


@pytest.mark.parametrize("fact_id", ["fact_gone", "../../etc/passwd", "", "a b"])
def test_an_unknown_fact_is_a_key_error_with_its_id(manager: Any, fact_id: str):
    """74, 170, 174"""
    manager.create_fact("Likes tea", user_id="alice")
    for call in (
        lambda: manager.delete_fact(fact_id, user_id="alice"),
        lambda: manager.update_fact(fact_id, content="x", user_id="alice"),
    ):
        with pytest.raises(KeyError) as missing:
            call()
        assert missing.value.args == (fact_id,)


def test_a_fact_that_the_cap_has_no_room_for_has_no_id(root: Path):
    """107"""
    with opened(root, max_facts=10) as manager:
        for number in range(10):
            manager.create_fact(f"Fact number {number}", confidence=0.9)
        document, fact_id = manager.create_fact("Barely worth it", confidence=0.1)
        assert fact_id is None
        assert len(document["facts"]) == 10
        document, fact_id = manager.create_fact("Worth it", confidence=1)
        assert fact_id in {fact["id"] for fact in document["facts"]}
        assert len(document["facts"]) == 10


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (RevisionConflict("the memory moved"), deerflow_double.MemoryConflictError),
        (FactConflict("the fact moved"), deerflow_double.MemoryConflictError),
        (Corruption("memory.json:1: not JSON"), deerflow_double.MemoryCorruptionError),
        (MigrationError("an old store stops"), deerflow_double.MemoryCorruptionError),
        (SummaryConflict("two summaries"), deerflow_double.MemoryCorruptionError),
    ],
)
def test_errors_are_the_hosts_own(
    manager: Any, monkeypatch: pytest.MonkeyPatch, ours: Exception, theirs: type[Exception]
):
    def fails(*given: object, **named: object) -> object:
        raise ours

    monkeypatch.setattr(DeerMem, "memory", fails)
    calls = (
        *(manager.get_memory, manager.clear_memory, lambda: manager.create_fact("x")),
        *(lambda: manager.update_fact("f", "x"), lambda: manager.delete_fact("f")),
        *(lambda: manager.search("x"), lambda: manager.get_context(None), lambda: manager.import_memory({})),
    )
    for call in calls:
        with pytest.raises(theirs, match=str(ours)) as told:
            call()
        assert told.value.__cause__ is ours


@pytest.mark.parametrize("ours", [StoreUnavailable("the disk is gone"), LockTimeout("held"), PermissionError("no")])
def test_a_prompts_memory_that_cannot_be_read_fails_in_the_hosts_word(
    manager: Any, monkeypatch: pytest.MonkeyPatch, ours: OSError
):
    """Else DeerFlow's `failure_policy: {read: fail_closed}` would go on with no memory."""

    def fails(*given: object, **named: object) -> object:
        raise ours

    monkeypatch.setattr(DeerMem, "memory", fails)
    with pytest.raises(deerflow_double.MemoryManagerError, match=str(ours)) as told:
        manager.get_context("alice")
    assert told.value.__cause__ is ours
    with pytest.raises(OSError, match=str(ours)):
        manager.get_memory(user_id="alice")


def test_a_damaged_manifest_stops_writers_and_stays_as_it_is(manager: Any, root: Path):
    """33"""
    manager.create_fact("Likes tea", user_id="alice")
    manifest = root / "users/alice/memory.json"
    manifest.write_bytes(b'{"version": ')
    with pytest.raises(deerflow_double.MemoryCorruptionError, match=r"memory\.json"):
        manager.create_fact("Likes coffee", user_id="alice")
    assert contents(manager.get_memory(user_id="alice")) == ["Likes tea"]
    assert manifest.read_bytes() == b'{"version": '


@pytest.mark.parametrize("document", [[], {}, {"facts": "none"}, {"facts": [5]}, {"facts": [{"content": ""}]}])
def test_what_is_no_document_is_refused_and_changes_nothing(manager: Any, document: object):
    manager.create_fact("Likes tea", user_id="alice")
    with pytest.raises(ValueError, match=r"give|say"):
        manager.import_memory(document, user_id="alice")
    assert contents(manager.get_memory(user_id="alice")) == ["Likes tea"]
