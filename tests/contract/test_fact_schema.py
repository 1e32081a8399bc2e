"""What a fact may hold, what it is stored as, and what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
import yaml
from builders_store import facts_of, tree

from deermem import ChangeSet, Draft, Fact, InvalidInput, Source, Upsert

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def front_matter(memory, fact_id: str) -> dict[str, object]:
    text = memory.path(fact_id).read_text("utf-8")
    found = yaml.safe_load(text.split("---\n")[1])
    assert isinstance(found, dict)
    return found


def test_the_document_holds_summaries_and_no_facts(memory, root):
    """16: exactly five keys."""
    memory.add("A fact.")
    memory.update_summaries({"workContext": "Work"})
    document = json.loads((root / "users/alice/memory.json").read_text())
    assert set(document) == {"version", "revision", "lastUpdated", "user", "history"}
    assert (document["version"], document["revision"]) == ("2.0", 2)
    assert set(document["user"]) == {"workContext", "personalContext", "topOfMind"}
    assert set(document["history"]) == {"recentMonths", "earlierContext", "longTermBackground"}


def test_a_file_has_front_matter_title_and_content(memory):
    """17."""
    fact = memory.add("User prefers TypeScript.\nFor new services.")
    text = memory.path(fact.id).read_text("utf-8")
    assert text.startswith("---\n")
    assert "\nuser_id: alice\nagent_name: coder\n" in text
    assert text.endswith("\n---\n\n# User prefers TypeScript.\n\nUser prefers TypeScript.\nFor new services.\n")


def test_structured_fields_survive(memory, engine, root, clock):
    """18: through files, another process's eyes and an update."""
    source = {"type": "conversation", "threadId": "t-1", "messageId": "m-9", "uri": "https://example.org/1"}
    made = memory.add(
        "Deploys on Fridays", category="goal", confidence=0.75, topics=["ci", "deploy"], source=source,
        expected_valid_days=30,
    )  # fmt: skip
    read = engine.memory("alice", "coder").get(made.id)
    assert read == made
    assert read.source == Source("conversation", "t-1", {"messageId": "m-9", "uri": "https://example.org/1"})
    assert (read.category, read.confidence, read.topics, read.expected_valid_days) == (
        "goal",
        0.75,
        ("ci", "deploy"),
        30,
    )
    assert (read.created_at, read.updated_at, read.revision, read.status) == (NOON, NOON, 1, "active")
    assert (read.user_id, read.agent_name) == ("alice", "coder")
    stored = front_matter(memory, made.id)
    assert stored["schemaVersion"] == 2
    assert stored["source"] == source
    assert stored["createdAt"] == "2026-11-30T12:00:00Z"


@pytest.mark.parametrize(
    ("given", "label"),
    [(None, "manual"), ("manual", "manual"), ("import", "import"), ("thread-1", "thread-1"), ("unknown", "unknown"),
     ({"type": "conversation", "threadId": None}, "conversation")],
)  # fmt: skip
def test_documents_show_a_source_as_a_string_where_that_says_all(memory, given, label):
    """19: thread id, else the type."""
    memory.add("A fact.", source=given)
    (item,) = memory.document()["facts"]
    assert item["source"] == label


def test_the_title_is_the_first_line_and_follows_the_content(memory):
    """20: at most 160 characters; it doesn't keep the old text."""
    fact = memory.add(f"{'x' * 200}\nmore")
    assert fact.title == "x" * 160
    assert memory.update(fact.id, "# A heading\n\ntext").title == "A heading"
    changed = memory.update(fact.id, "Plain again")
    assert changed.title == "Plain again"
    assert "\n# Plain again\n" in memory.path(fact.id).read_text("utf-8")


def test_a_persons_heading_stays(memory):
    """20: a title that was not made from the content is a person's."""
    fact = memory.add("The content.")
    path = memory.path(fact.id)
    path.write_text(path.read_text().replace("# The content.", "# My own title"))
    assert memory.update(fact.id, "Other content.").title == "My own title"


def test_an_unknown_category_is_stored_as_other_and_shown_as_it_was(memory):
    """21: reads, filters, updates, displays as the original; words compare without case."""
    fact = memory.add("Uses a two-step release", category="Workflow")
    stored = front_matter(memory, fact.id)
    assert (stored["category"], stored["categoryExtension"]) == ("other", "Workflow")
    assert memory.get(fact.id).category == "Workflow"
    assert [found.id for found in memory.list(category="workflow")] == [fact.id]
    assert [hit.fact.id for hit in memory.search("release", category="WORKFLOW")] == [fact.id]
    assert "[Workflow | " in memory.context()
    assert memory.update(fact.id, category="Preference").category == "preference"
    assert "categoryExtension" not in front_matter(memory, fact.id)
    assert memory.list(category="other") == []


@pytest.mark.parametrize("content", ["", "  \n\t ", "\u200b", "\u2028", 7, None, "a\0b", "\ud800", "x" * 65_537, b"x"])
def test_content_must_be_visible_text(memory, root, content):
    """22, D2, M16: refused before anything is written; the user doesn't come to be."""
    with pytest.raises(InvalidInput, match="content"):
        memory.add(content)
    assert not root.exists()


def test_the_longest_content_fits(memory):
    """22, X18: 65,536 bytes of UTF-8, found by its last word."""
    content = "word " * 13_000
    content += "é" * ((65_536 - len(content) - len(" zebra")) // 2) + " zebra"
    fact = memory.add(content)
    assert memory.get(fact.id).content == content
    assert [hit.fact.id for hit in memory.search("zebra")] == [fact.id]


@pytest.mark.parametrize("confidence", [True, False, float("nan"), float("inf"), -0.01, 1.01, 95, "0.9", None])
def test_confidence_is_a_number_from_0_to_1(memory, root, confidence):
    """22."""
    with pytest.raises(InvalidInput, match="confidence"):
        memory.add("A fact.", confidence=confidence)
    assert not root.exists()


def test_confidence_defaults_to_a_half_and_takes_its_ends(memory):
    """22."""
    assert memory.add("No confidence").confidence == 0.5
    assert memory.add("None at all", confidence=0).confidence == 0.0
    assert memory.add("Certain", confidence=1).confidence == 1.0


@pytest.mark.parametrize("topics", ["ci", ["ok", 7], [""], [" "], ["a\nb"], 7, ["\ud800"]])
def test_topics_are_a_list_of_strings(memory, root, topics):
    """22."""
    with pytest.raises(InvalidInput, match="topic"):
        memory.add("A fact.", topics=topics)
    assert not root.exists()


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("expected_valid_days", 0, "expected_valid_days"),
        ("expected_valid_days", True, "expected_valid_days"),
        ("expected_valid_days", 1.5, "expected_valid_days"),
        ("category", "", "category"),
        ("category", "a\nb", "category"),
        ("category", 7, "category"),
        ("source", 7, "source"),
        ("source", {"type": 7}, "source"),
    ],
)
def test_other_fields_are_checked_and_named(memory, root, field, value, name):
    """22."""
    with pytest.raises(InvalidInput, match=name):
        memory.add("A fact.", **{field: value})
    assert not root.exists()


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("confidence", 2, "confidence"),
        ("topics", "ci", "topics"),
        ("topics", [1], "topic"),
        ("consolidatedFrom", "fact_a", "consolidatedFrom"),
        ("confirmationCount", 0, "confirmationCount"),
        ("confirmationCount", True, "confirmationCount"),
        ("revision", 0, "revision"),
        ("revision", "many", "revision"),
        ("status", "deleted", "status"),
        ("expected_valid_days", 0, "expected_valid_days"),
        ("createdAt", "yesterday", "createdAt"),
        ("content", " ", "content"),
    ],
)
def test_a_bad_field_refuses_the_document_and_is_named(memory, root, field, value, name):
    """22: one InvalidInput naming fact and field; nothing is stored."""
    document = {"facts": [{"content": "Good"}, {"id": "fact_bad", "content": "Bad", field: value}]}
    with pytest.raises(InvalidInput, match=name) as caught:
        memory.import_document(document)
    assert "fact_bad" in str(caught.value)
    assert not (root / "users/alice/memory.json").exists()
    assert memory.list() == []


def test_an_id_is_made_where_none_is_given(memory):
    """23."""
    assert memory.add("A fact.").id.startswith("fact_")
    (fact,) = memory.apply(ChangeSet([Draft(content="Another")])).facts
    assert fact.id.startswith("fact_")


def test_an_edit_raises_the_revision_and_keeps_the_creation(memory, clock):
    """24."""
    made = memory.add("First words")
    clock.advance(hours=1)
    changed = memory.update(made.id, "Second words")
    assert (changed.revision, changed.created_at, changed.updated_at) == (2, NOON, clock.now)
    assert changed.version != made.version
    assert memory.get(made.id) == changed


def test_storing_a_draft_under_an_id_that_is_there_keeps_what_it_says_nothing_of(memory, clock):
    """24: creation time and a person's own keys stay."""
    memory.apply(ChangeSet([Draft(id="fact_a", content="First words", expected_valid_days=9)]))
    path = memory.path("fact_a")
    path.write_text(path.read_text().replace("revision: 1\n", "revision: 1\npinned: true\n"))
    clock.advance(hours=1)
    (stored,) = memory.apply(ChangeSet([Draft(id="fact_a", content="Second words")])).facts
    assert (stored.content, stored.created_at, stored.updated_at) == ("Second words", NOON, clock.now)
    assert stored.extra == {"pinned": True}


def test_writing_the_same_changes_nothing(memory, root, clock):
    """24, M19: not a byte, no revision."""
    fact = memory.add("Same words", topics=["a"])
    before = tree(root)
    clock.advance(hours=1)
    assert memory.update(fact.id, "Same words", category="context", confidence=0.5, topics=["a"]) == fact
    assert memory.update(fact.id) == fact
    assert memory.apply(ChangeSet([Upsert(fact)])).facts == (fact,)
    memory.update_summaries({"workContext": ""})
    assert tree(root) == before


def test_facts_are_listed_by_id(memory, root):
    """26: whatever the shard folder."""
    ids = [f"fact_{name}" for name in ("m", "a", "z", "B", "10", "9")]
    for fact_id in ids:
        memory.apply(ChangeSet([Draft(id=fact_id, content=f"Content of {fact_id}")]))
    assert [fact.id for fact in memory.list()] == sorted(ids)
    assert [fact.id for fact in memory.list(limit=2, offset=1)] == sorted(ids)[1:3]
    assert memory.list(limit=0) == []
    assert len(list(facts_of(root).iterdir())) > 1


def test_facts_are_immutable_values(memory):
    """29."""
    fact = memory.add("A fact.", topics=["a"])
    with pytest.raises(AttributeError):
        fact.content = "changed"
    assert isinstance(fact.topics, tuple)
    assert isinstance(fact, Fact)


@pytest.mark.parametrize(
    "content",
    ["---\nnot: a fence\n---", "# Heading\n\n## Sub", "```yaml\n---\n```", "    indented code", "مرحبا بالعالم",
     "🦌👩‍👩‍👧", "<!-- comment -->", "a\u2028b\u2029c\x85d\x0be\x0cf", "tab\there", "cafe\u0301",
     "- list\n- of\n\n\n- items", "trailing  \ntwo spaces",
     "no", "0123", "key: value", "{{ template }}", "\\ backslash \\n", "a\rb", "a\r\nb"],
)  # fmt: skip
def test_content_comes_back_byte_for_byte(memory, engine, root, content):
    """17, M12, M15, M20: whatever it holds, also after an update of another field."""
    fact = memory.add(content)
    assert memory.get(fact.id).content == content
    memory.update(fact.id, confidence=0.9)
    assert engine.memory("alice", "coder").list()[0].content == content


def test_a_heading_over_an_edited_content_does_not_outlive_it(memory):
    """20: a person changes the content alone; the next content is not shown under the first one's heading."""
    fact = memory.add("Deploys on Tuesday")
    path = memory.path(fact.id)
    path.write_text(path.read_text("utf-8").replace("\n\nDeploys on Tuesday\n", "\n\nDeploys on Monday\n"), "utf-8")
    assert memory.get(fact.id).content == "Deploys on Monday"
    assert memory.update(fact.id, category="goal").title == "Deploys on Tuesday"
    path.write_text(path.read_text("utf-8").replace("\n\nDeploys on Monday\n", "\n\nDeploys on Friday\n"), "utf-8")
    assert memory.update(fact.id, "Deploys on Sunday").title == "Deploys on Sunday"
    assert not memory.search("tuesday")
