"""DeerFlow's manager: documents, facts, searches, scopes and errors as the host's callers know them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deerflow_double
import pytest
from deerflow_stage import Manager, contents, fact_file, opened

from deermem import DeerMem

SECTIONS = {
    "user": {"workContext", "personalContext", "topOfMind"},
    "history": {"recentMonths", "earlierContext", "longTermBackground"},
}


@pytest.fixture
def manager(root: Path) -> Iterator[Any]:
    with opened(root) as made:
        yield made


def nulls(value: object) -> bool:
    if isinstance(value, dict):
        return any(nulls(inner) for inner in value.values())
    return value is None


def test_the_class_is_a_manager_of_the_host_that_can_search():
    assert issubclass(Manager, deerflow_double.MemoryManager)
    assert Manager.supports_search is True
    assert (Manager.__name__, Manager.__module__) == ("DeerMemManager", "deermem.integrations.deerflow")


def test_tool_mode_is_accepted_and_another_is_not(root: Path):
    with opened(root, mode="tool") as made:
        assert made.mode == "tool"
    with pytest.raises(ValueError, match="mode"):
        Manager.from_config({"storage_path": str(root)}, mode="both")  # type: ignore[arg-type]


def test_a_read_makes_nothing(manager: Any, root: Path):
    assert manager.get_context("alice") == ""
    assert manager.search("tea", user_id="alice") == []
    assert manager.get_memory(user_id="alice")["facts"] == []
    assert not root.exists()


def test_an_empty_document_is_complete(manager: Any):
    """27, 175"""
    document = manager.get_memory(user_id="alice")
    assert document["lastUpdated"]
    assert document["version"]
    for group, names in SECTIONS.items():
        assert set(document[group]) == names
        assert all(section == {"summary": "", "updatedAt": ""} for section in document[group].values())


def test_a_fact_is_made_changed_and_removed(manager: Any, root: Path):
    """169, 170, 172"""
    document, fact_id = manager.create_fact("Likes tea", "preference", 0.9, user_id="alice")
    (fact,) = document["facts"]
    assert (fact["id"], fact["content"], fact["category"], fact["confidence"]) == (
        *(fact_id, "Likes tea", "preference"),
        0.9,
    )
    assert fact["source"] == "manual"
    assert fact["createdAt"]
    document = manager.update_fact(fact_id, content="Likes green tea", user_id="alice")
    (changed,) = document["facts"]
    assert (changed["content"], changed["category"], changed["confidence"]) == ("Likes green tea", "preference", 0.9)
    assert changed["createdAt"] == fact["createdAt"]
    assert fact_file(root, "green tea").name == f"{fact_id}.md"
    assert manager.delete_fact(fact_id, user_id="alice")["facts"] == []
    assert list(root.rglob("facts/**/*.md")) == []


@pytest.mark.parametrize("category", ["", "  "])
def test_a_blank_category_is_the_usual_one(manager: Any, category: str):
    document, fact_id = manager.create_fact("Likes tea", category)
    assert document["facts"][0]["category"] == "context"
    assert manager.update_fact(fact_id, category=category)["facts"][0]["category"] == "context"


def test_documents_hold_no_null_and_every_source_is_text(manager: Any, root: Path):
    """19, 172"""
    manager.create_fact("Likes tea", user_id="alice")
    file = root / "users/alice/agents/__default__/facts/mine.md"
    file.write_text(
        "---\nsource: {type: conversation, threadId: t1, messageId: m1}\nmood: null\nmine: {a: null, b: 1}\n---\n\n"
        "Deploys on Tuesdays\n",
        encoding="utf-8",
    )
    document = manager.get_memory(user_id="alice")
    assert not nulls(document)
    assert not any(nulls(fact) for fact in document["facts"])
    assert {fact["content"]: fact["source"] for fact in document["facts"]} == {
        "Likes tea": "manual",
        "Deploys on Tuesdays": "t1",
    }
    (found,) = manager.search("deploys", user_id="alice")
    assert found["source"] == "t1"
    assert json.dumps(document)
    assert document == manager.export_memory(user_id="alice") == manager.reload_memory(user_id="alice")


def test_search_is_lenient_filters_first_and_gives_facts(manager: Any):
    """76, 78, 168"""
    for number in range(4):
        manager.create_fact(f"Deploys tea number {number}", "knowledge", 0.9, user_id="alice")
    manager.create_fact("Deploys on Tuesdays", "preference", 0.5, user_id="alice")
    assert manager.search("  ", user_id="alice") == manager.search("deploys", 0, user_id="alice") == []
    assert len(manager.search("DEPLOYS", 3, user_id="alice")) == 3
    (found,) = manager.search("deploys", 1, user_id="alice", category="Preference")
    assert found["content"] == "Deploys on Tuesdays"
    assert {"id", "content", "category", "confidence", "createdAt", "source"} <= set(found)
    assert "score" not in found


@pytest.mark.parametrize(
    ("one", "other"),
    [("alice", "bob"), ("user@example.com", "user-example.com"), ("alice", None), ("a/b", "a-b")],
)
def test_two_users_never_meet(manager: Any, one: str, other: str | None):
    """5, 80"""
    manager.create_fact("Likes tea", user_id=one)
    manager.create_fact("Likes coffee", user_id=other)
    assert contents(manager.get_memory(user_id=one)) == ["Likes tea"]
    assert contents(manager.get_memory(user_id=other)) == ["Likes coffee"]
    assert manager.search("coffee", user_id=one) == []
    assert "coffee" not in manager.get_context(one)
    manager.clear_memory(user_id=one)
    assert contents(manager.get_memory(user_id=other)) == ["Likes coffee"]


def test_agents_are_one_whatever_their_case_and_none_is_the_default(manager: Any):
    """8, 9"""
    manager.create_fact("Writes Rust", agent_name="Lead-Agent", user_id="alice")
    manager.create_fact("Likes tea", user_id="alice")
    assert contents(manager.get_memory(agent_name="LEAD-AGENT", user_id="alice")) == ["Writes Rust"]
    assert contents(manager.get_memory(agent_name="__default__", user_id="alice")) == ["Likes tea"]
    assert "tea" in manager.get_context("alice")
    assert "tea" not in manager.get_context("alice", agent_name="lead-agent", thread_id="t1")


@pytest.mark.parametrize("agent", ["", "../etc/passwd", "agent/name", "my agent", "a_b"])
def test_an_agent_name_that_no_folder_has_is_refused(manager: Any, agent: str):
    """7"""
    with pytest.raises(ValueError, match="agent"):
        manager.get_memory(agent_name=agent, user_id="alice")


def test_a_missing_user_is_refused_where_the_configuration_asks_for_one(root: Path):
    """6"""
    with opened(root, strict_user_scope=True) as made:
        for call in (made.get_memory, made.clear_memory, lambda: made.get_context(None), lambda: made.add("t", [])):
            with pytest.raises(ValueError, match="user_id"):
                call()


def test_clearing_one_agent_leaves_the_summaries_and_clearing_all_does_not(manager: Any, root: Path):
    """71, 72"""
    manager.import_memory(
        {"facts": [{"content": "Likes tea"}], "user": {"workContext": {"summary": "Builds trains"}}}, user_id="alice"
    )
    manager.create_fact("Writes Rust", agent_name="coder", user_id="alice")
    (root / "users/alice/agents/coder/config.yaml").write_text("name: coder\n")
    cleared = manager.clear_memory(agent_name="coder", user_id="alice")
    assert (cleared["facts"], cleared["user"]["workContext"]["summary"]) == ([], "Builds trains")
    assert contents(manager.get_memory(user_id="alice")) == ["Likes tea"]
    manager.create_fact("Writes Go", agent_name="coder", user_id="alice")
    cleared = manager.clear_memory(user_id="alice")
    assert (cleared["facts"], cleared["user"]["workContext"]["summary"]) == ([], "")
    assert manager.get_memory(agent_name="coder", user_id="alice")["facts"] == []
    assert (root / "users/alice/agents/coder/config.yaml").is_file()
    assert manager.delete_memory(user_id="alice") is None


def test_an_import_makes_the_memory_what_the_document_says(manager: Any):
    """175"""
    manager.create_fact("Likes tea", user_id="alice")
    facts = [
        {"id": "f1", "content": "Use uv", "category": "correction", "confidence": 0.9, "sourceError": "used pip"},
        {"content": "Likes coffee", "source": "t9"},
    ]
    sections = {"topOfMind": {"summary": "The release"}}
    given = {"version": "1.0", "lastUpdated": "2026-01-01T00:00:00Z", "user": sections, "history": {}, "facts": facts}
    document = manager.import_memory(given, user_id="alice")
    assert contents(document) == ["Likes coffee", "Use uv"]
    assert document["user"]["topOfMind"]["summary"] == "The release"
    assert {fact["content"]: fact["source"] for fact in document["facts"]}["Likes coffee"] == "t9"
    assert next(fact for fact in document["facts"] if fact["id"] == "f1")["sourceError"] == "used pip"
    again = manager.import_memory({**document, "user": {}, "history": {}}, user_id="alice")
    assert again["facts"] == document["facts"]
    assert again["user"]["topOfMind"] == {"summary": "", "updatedAt": ""}


def test_an_import_keeps_what_the_host_has_no_place_for(manager: Any, root: Path):
    manager.create_fact("Likes tea\nvery much", user_id="alice")
    manager.create_fact("Deploys on Tuesdays", user_id="alice")
    for word in ("tea", "Tuesdays"):
        file = fact_file(root, word)
        text = (
            file.read_text(encoding="utf-8").replace("# Likes tea", "# Drinks").replace("# Deploys", "# When: deploys")
        )
        text = text.replace("---\n", "---\n# why\nmine: 1\n", 1).replace(
            "threadId: null", "threadId: null\n  uri: http://x"
        )
        file.write_text(text, encoding="utf-8")
    carried = ("id", "content", "category", "confidence", "createdAt", "source", "topics", "revision")
    document = manager.get_memory(user_id="alice")
    document["facts"] = [{name: fact[name] for name in carried} for fact in document["facts"]]
    for fact in document["facts"]:
        fact["content"] = fact["content"].replace("Tuesdays", "Wednesdays")
    manager.import_memory(document, user_id="alice")
    text = fact_file(root, "tea").read_text(encoding="utf-8")
    assert "# why\nmine: 1" in text
    assert "# Drinks\n" in text
    assert "uri: http://x" in text
    changed = fact_file(root, "Wednesdays").read_text(encoding="utf-8")
    assert "mine: 1" in changed
    assert "# Deploys on Wednesdays\n" in changed


def test_an_export_that_is_imported_again_changes_no_byte(manager: Any, root: Path):
    """175: nulls that a person wrote aren't in the document, and stay in the file."""
    manager.create_fact("Likes tea", "release-notes", user_id="alice")
    file = root / "users/alice/agents/__default__/facts/mine.md"
    own = "mine: {a: null, b: [1, null]}\nextra: null\nmood: null\nsource: {type: conversation, threadId: t1, uri: x}"
    file.write_text(f"---\n{own}\n---\n# Own heading\n\nDeploys on Tuesdays\n", encoding="utf-8")
    before = {path: path.read_bytes() for path in root.rglob("facts/**/*.md")}
    exported = manager.export_memory(user_id="alice")
    assert manager.import_memory(json.loads(json.dumps(exported)), user_id="alice")["facts"] == exported["facts"]
    assert {path: path.read_bytes() for path in root.rglob("facts/**/*.md")} == before
    exported["facts"][-1]["mine"] = {"a": 5}
    assert manager.import_memory(exported, user_id="alice")["facts"][-1]["mine"] == {"a": 5}
    assert "mood: null" in file.read_text(encoding="utf-8")


# --- threads and life


def test_the_async_methods_stay_off_the_event_loop(manager: Any, monkeypatch: pytest.MonkeyPatch):
    """176"""
    manager.create_fact("Likes tea", user_id="alice")
    threads: list[int] = []
    memory = DeerMem.memory

    def seen(engine: DeerMem, *given: Any) -> Any:
        threads.append(threading.get_ident())
        return memory(engine, *given)

    monkeypatch.setattr(DeerMem, "memory", seen)

    async def all_three() -> tuple[str, list[Any]]:
        await manager.aadd("t1", [], user_id="alice", trace_id="tr")
        context = await manager.aget_context("alice", agent_name=None, thread_id="t1")
        return context, await manager.asearch("tea", 3, user_id="alice")

    context, found = asyncio.run(all_three())
    assert ("tea" in context, [fact["content"] for fact in found]) == (True, ["Likes tea"])
    assert len(threads) == 3
    assert threading.get_ident() not in threads


def test_tool_mode_injects_the_summaries_alone(root: Path):
    """165"""
    with opened(root, mode="tool") as manager:
        manager.import_memory({"facts": [{"content": "Likes tea"}], "user": {"workContext": "Builds trains"}})
        assert "Builds trains" in manager.get_context(None)
        assert "tea" not in manager.get_context(None)
        assert [fact["content"] for fact in manager.search("tea")] == ["Likes tea"]


def test_warming_says_what_there_was_to_warm(root: Path):
    """91"""
    with opened(root) as manager:
        manager.create_fact("Likes tea", user_id="alice")
        assert (manager.warm(), manager.warm_retrieval()) == (None, True)
    with opened(root, token_counting="tiktoken") as manager:
        assert manager.warm() is False  # its data isn't in the guarded home


def test_it_may_be_closed_twice_and_what_was_stored_is_there_again(root: Path):
    with opened(root) as manager:
        manager.create_fact("Likes tea")
        manager.close()
    with opened(root) as manager:
        assert contents(manager.get_memory()) == ["Likes tea"]
        assert (manager.on_pre_compress([]), manager.on_turn_start(1, "x")) == ("", None)
