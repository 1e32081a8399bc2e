"""The v1-shaped document: an export comes back whole, an import is judged fact by fact."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deermem.errors import InvalidInput
from deermem.format.document import fact_from_mapping, parse_document, to_document
from deermem.model.fact import Fact, Source, check_content, derive_title
from deermem.model.summaries import Section, Summaries

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
THEN = datetime(2026, 2, 1, 9, 0, 0, 123456, tzinfo=UTC)


def new_id(content: str) -> str:
    return f"fact_new{len(content)}"


def read(item: dict[str, object], *, strip: bool = False) -> Fact:
    return fact_from_mapping(item, now=NOW, new_id=new_id, strip=strip)  # type: ignore[arg-type]


def a_fact(**fields: object) -> Fact:
    content = fields.pop("content", "Prefers tea.")
    assert isinstance(content, str)
    base = Fact(id="fact_1", content=content, title=derive_title(content), created_at=THEN, updated_at=NOW)
    return replace(base, **fields)  # type: ignore[arg-type]


FULL = a_fact(
    title="Tea over coffee",
    category="workflow",
    confidence=0.93,
    topics=("tea", "drinks"),
    source=Source("conversation", "manual", {"messageId": "m-7"}),
    revision=4,
    source_error="offered coffee",
    expected_valid_days=180,
    expires_at=NOW,
    last_confirmed_at=THEN,
    confirmation_count=3,
    consolidated_from=("fact_a", "fact_b"),
    consolidated_at=NOW,
    extra={"pinned": True, "content": "a person's own key", "extra": {"deep": [1, None, 0.5]}, "tags": ["x"]},
)


class TestExport:
    def test_document_has_the_keys_of_v1(self) -> None:
        summaries = Summaries(
            work_context=Section("Baker.", "2026-01-05T00:00:00Z"), revision=7, last_updated="2026-03-01T00:00:00Z"
        )
        document = to_document([a_fact()], summaries)
        assert list(document) == ["version", "revision", "lastUpdated", "user", "history", "facts"]
        assert (document["version"], document["revision"]) == ("2.0", 7)
        assert document["lastUpdated"] == "2026-03-01T00:00:00Z"
        assert document["user"] == {
            "workContext": {"summary": "Baker.", "updatedAt": "2026-01-05T00:00:00Z"},
            "personalContext": {"summary": "", "updatedAt": ""},
            "topOfMind": {"summary": "", "updatedAt": ""},
        }
        assert list(document["history"]) == ["recentMonths", "earlierContext", "longTermBackground"]  # type: ignore[arg-type]

    def test_plain_fact_has_only_what_it_says(self) -> None:
        fact = a_fact(source=Source("conversation", "thread-1"), user_id="ann", agent_name="coder", version="1-ab")
        assert to_document([fact], Summaries())["facts"] == [
            {
                "id": "fact_1",
                "content": "Prefers tea.",
                "category": "context",
                "confidence": 0.5,
                "createdAt": "2026-02-01T09:00:00.123456Z",
                "updatedAt": "2026-11-30T12:00:00Z",
                "source": "thread-1",
                "topics": [],
                "revision": 1,
            }
        ]

    @pytest.mark.parametrize(
        ("source", "written"),
        [
            (Source("manual"), "manual"),
            (Source("unknown"), "unknown"),
            (Source("conversation", "t-1"), "t-1"),
            (Source("conversation"), "conversation"),
            (Source("conversation", "manual"), {"type": "conversation", "threadId": "manual"}),
            (Source("import", "t-2"), {"type": "import", "threadId": "t-2"}),
            (Source("manual", None, {"uri": "u:1"}), {"type": "manual", "threadId": None, "uri": "u:1"}),
        ],
    )
    def test_source_is_a_string_where_that_loses_nothing(self, source: Source, written: object) -> None:
        document = to_document([a_fact(source=source)], Summaries())
        assert document["facts"][0]["source"] == written  # type: ignore[index,call-overload]
        assert parse_document(document, now=NOW, new_id=new_id).facts[0].source == source

    def test_every_field_comes_back(self) -> None:
        document = json.loads(json.dumps(to_document([FULL], Summaries())))
        parsed = parse_document(document, now=datetime(2030, 1, 1, tzinfo=UTC), new_id=new_id)
        assert parsed.facts == (FULL,)

    def test_nothing_is_shared_with_the_fact(self) -> None:
        fact = a_fact(extra={"tags": ["x"]})
        document = to_document([fact], Summaries())
        document["facts"][0]["tags"].append("y")  # type: ignore[index,call-overload,union-attr]
        assert fact.extra == {"tags": ["x"]}

    def test_summaries_come_back(self) -> None:
        summaries = Summaries(top_of_mind=Section("Exams.", "2026-01-01"), recent_months=Section("Moved.", ""))
        parsed = parse_document(to_document([], summaries), now=NOW, new_id=new_id)
        assert parsed.summaries == {"top_of_mind": summaries.top_of_mind, "recent_months": summaries.recent_months}
        assert parsed.summaries
        assert len(parsed.named_sections) == 6


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
).filter(lambda value: "\\u0000" not in json.dumps(value))
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=30)
own_keys = st.sampled_from(["content", "extra", "title", "scope", "created_at", "userId", "pinned", "a b", "version"])
moments = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


def storable(text: str) -> bool:
    try:
        return check_content(text) == text
    except InvalidInput:
        return False


@given(
    content=texts.filter(storable),
    title=texts.map(lambda text: " ".join(text.split())).filter(bool),
    source=st.builds(Source, st.sampled_from(["conversation", "manual", "unknown", "radio"]), st.none() | texts),
    moments=st.tuples(moments, moments, st.none() | moments),
    extra=st.dictionaries(own_keys, json_values, max_size=5),
)
def test_any_fact_survives_export_and_import(
    content: str,
    title: str,
    source: Source,
    moments: tuple[datetime, datetime, datetime | None],
    extra: dict[str, object],
) -> None:
    created, updated, confirmed = moments
    fact = a_fact(content=content, title=title, source=source, created_at=created, updated_at=updated)
    fact = replace(fact, last_confirmed_at=confirmed, extra=extra)  # type: ignore[arg-type]
    document = json.loads(json.dumps(to_document([fact], Summaries())))
    assert parse_document(document, now=NOW, new_id=new_id).facts == (fact,)


class TestDefaults:
    def test_content_alone_is_enough(self) -> None:
        parsed = parse_document({"facts": [{"content": "Likes rain.  \n"}]}, now=NOW, new_id=new_id)
        assert parsed.facts == (
            Fact(id="fact_new11", content="Likes rain.", title="Likes rain.", created_at=NOW, updated_at=NOW),
        )
        assert parsed.stated == (frozenset({"content"}),)
        assert not parsed.summaries

    def test_null_counts_as_missing_everywhere(self) -> None:
        keys = ("id", "category", "confidence", "createdAt", "updatedAt", "source", "topics", "revision", "title")
        more = ("status", "sourceError", "expected_valid_days", "expiresAt", "confirmationCount", "consolidatedFrom")
        fact = read({"content": "x", **dict.fromkeys((*keys, *more))})
        assert fact == read({"content": "x"})
        assert (fact.category, fact.confidence, fact.revision, fact.source) == ("context", 0.5, 1, Source("unknown"))

    def test_update_time_defaults_to_creation_time(self) -> None:
        assert read({"content": "x", "createdAt": "2026-02-01"}).updated_at == datetime(2026, 2, 1, tzinfo=UTC)

    @pytest.mark.parametrize(("given_value", "read_value"), [("0.9", 0.9), (" 1 ", 1.0), (0, 0.0), (1, 1.0)])
    def test_confidence_may_be_a_number_in_quotes(self, given_value: object, read_value: float) -> None:
        assert read({"content": "x", "confidence": given_value}).confidence == read_value

    @pytest.mark.parametrize(
        ("item", "category"),
        [
            ({"category": "PREFERENCE"}, "preference"),
            ({"category": "Workflow"}, "Workflow"),
            ({"category": "other", "categoryExtension": "workflow"}, "workflow"),
            ({"category": "goal", "categoryExtension": "workflow"}, "goal"),
            ({"category": " "}, "context"),
        ],
    )
    def test_category_words(self, item: dict[str, object], category: str) -> None:
        assert read({"content": "x", **item}).category == category

    def test_optional_keys_are_read_in_either_spelling(self) -> None:
        camel = {"sourceError": "e", "expectedValidDays": 9, "confirmationCount": 2, "consolidatedFrom": ["a"]}
        snake = {"source_error": "e", "expected_valid_days": 9, "confirmation_count": 2, "consolidated_from": ["a"]}
        for moment, attribute in (("expiresAt", "expires_at"), ("lastConfirmedAt", "last_confirmed_at")):
            camel[moment] = snake[attribute] = "2026-02-01T09:00:00Z"
        assert read({"content": "x", **camel}) == read({"content": "x", **snake})
        assert read({"content": "x", **camel}).expected_valid_days == 9

    def test_scope_names_the_owner_and_is_no_extra_key(self) -> None:
        fact = read({"content": "x", "scope": {"userId": "ann@x", "agentName": "coder"}, "schemaVersion": 2, "k": 1})
        assert (fact.user_id, fact.agent_name, fact.extra) == ("ann@x", "coder", {"k": 1})

    def test_title_is_one_line_of_160_characters(self) -> None:
        assert read({"content": "x", "title": "a\nb " + "c" * 200}).title == "a b " + "c" * 156

    def test_foreign_extra_mapping_stays_as_it_is(self) -> None:
        assert read({"content": "x", "extra": {"mood": "good"}}).extra == {"extra": {"mood": "good"}}

    def test_strip_takes_both_ends_else_indentation_stays(self) -> None:
        text = "\n    indented\n  more \n"
        assert read({"content": text}).content == "    indented\n  more"
        assert read({"content": text}, strip=True).content == "indented\n  more"

    def test_foreign_id_is_mapped_the_same_way_each_time(self) -> None:
        document = {
            "facts": [{"id": "https://x.example/1", "content": "x"}, {"id": "https:x.example/1", "content": "y"}]
        }
        first, second = parse_document(document, now=NOW, new_id=new_id).facts
        assert first.id.startswith("https---x-example-1-")
        assert first.id != second.id
        assert parse_document(document, now=NOW, new_id=new_id).facts == (first, second)


class TestV1Reading:
    def test_facts_may_be_missing_and_ids_repeat(self) -> None:
        assert parse_document({}, now=NOW, new_id=new_id, strict=False).facts == ()
        twice = {"facts": [{"id": "f", "content": " x "}, {"id": "f", "content": "y"}]}
        assert [fact.content for fact in parse_document(twice, now=NOW, new_id=new_id, strict=False).facts] == [
            "x",
            "y",
        ]

    def test_a_foreign_id_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="fact id 'a:b'"):
            parse_document({"facts": [{"id": "a:b", "content": "x"}]}, now=NOW, new_id=new_id, strict=False)

    def test_a_summary_may_be_text_alone(self) -> None:
        parsed = parse_document(
            {"facts": [], "user": {"workContext": " Baker. ", "topOfMind": None}}, now=NOW, new_id=new_id
        )
        assert parsed.summaries == {"work_context": Section("Baker.")}
        assert parsed.named_sections == {"work_context", "top_of_mind"}
