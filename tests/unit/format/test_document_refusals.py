"""What an import refuses: each bad fact by place, field and value, all of them in one line."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deermem.errors import InvalidInput
from deermem.format.document import parse_document
from deermem.model.fact import MAX_CONTENT_BYTES

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def new_id(content: str) -> str:
    return f"fact_new{len(content)}"


def refusal(doc: object) -> str:
    with pytest.raises(InvalidInput) as caught:
        parse_document(doc, now=NOW, new_id=new_id)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestRefusals:
    @pytest.mark.parametrize(
        ("field", "value", "word"),
        [
            ("content", None, "content is missing"),
            ("content", 5, "content is 5"),
            ("content", " \n ", "content is empty"),
            ("content", "a\0b", "NUL"),
            ("content", "a\ud800", "surrogate"),
            ("content", "é" * MAX_CONTENT_BYTES, "bytes"),
            ("id", 7, "id is 7"),
            ("id", "../x", "fact id '../x'"),
            ("id", "/etc/passwd", "fact id"),
            ("id", "x" * 253, "253 characters"),
            ("category", 5, "category is 5"),
            ("category", "a\nb", "category"),
            ("confidence", True, "confidence True"),
            ("confidence", 7, "confidence 7"),
            ("confidence", "high", "confidence 'high'"),
            ("confidence", "nan", "confidence nan"),
            ("confidence", float("nan"), "confidence nan"),
            ("confidence", 10**400, "confidence 1000"),
            ("confidence", [0.5], "confidence is [0.5]"),
            ("createdAt", "2026-13-45", "createdAt '2026-13-45'"),
            ("updatedAt", 1_700_000_000, "updatedAt is 1700000000"),
            ("expiresAt", "soon", "expiresAt 'soon'"),
            ("lastConfirmedAt", "soon", "lastConfirmedAt"),
            ("consolidatedAt", {}, "consolidatedAt"),
            ("source", 5, "source is 5"),
            ("source", {"type": 5}, "source.type"),
            ("source", {"type": "manual", "threadId": ["t"]}, "source.threadId"),
            ("source", "t\ud800", "source is not valid Unicode"),
            ("topics", "tea", "topics is 'tea'"),
            ("topics", [1], "topics is [1]"),
            ("topics", ["a\nb"], "topic"),
            ("consolidatedFrom", "fact_a", "consolidatedFrom"),
            ("revision", 0, "revision is 0"),
            ("revision", True, "revision is True"),
            ("revision", 10**30, "revision"),
            ("confirmationCount", 0, "confirmationCount is 0"),
            ("expected_valid_days", 0, "expected_valid_days 0"),
            ("expected_valid_days", "90", "expected_valid_days is '90'"),
            ("expected_valid_days", float("inf"), "expected_valid_days is inf"),
            ("status", "deleted", "status is 'deleted'"),
            ("title", 5, "title is 5"),
            ("sourceError", {}, "sourceError"),
            ("pinned", "a\ud800", "pinned"),
            ("pinned", [{"a": float("nan")}], "pinned holds nan"),
            ("pinned", {"a": object()}, "pinned holds a value of type object"),
            ("pinned", b"raw", "pinned holds a value of type bytes"),
        ],
    )
    def test_bad_field_is_named_with_its_fact(self, field: str, value: object, word: str) -> None:
        good = {"id": "fact_1", "content": "good"}
        message = refusal({"facts": [good, {"id": "fact_2", "content": "x", field: value}]})
        assert message.startswith("facts[1]")
        assert word in message
        assert "facts[0]" not in message

    def test_all_bad_facts_up_to_five_are_in_one_line(self) -> None:
        message = refusal({"facts": [{"id": f"f{number}", "content": ""} for number in range(8)]})
        assert [f"(id 'f{number}')" in message for number in range(6)] == [True] * 5 + [False]
        assert message.endswith("and 3 more")

    def test_an_id_may_stand_once_whatever_its_case(self) -> None:
        message = refusal({"facts": [{"id": "Fact_A", "content": "x"}, {"id": "fact_a", "content": "x"}]})
        assert "facts[1]" in message
        assert "stands in facts[0] already" in message

    @pytest.mark.parametrize("document", [None, [], "text", {}, {"facts": None}, {"facts": {}}, {"facts": "x"}])
    def test_a_document_needs_a_list_of_facts(self, document: object) -> None:
        assert "document" in refusal(document)

    @pytest.mark.parametrize("item", [None, "text", 5, ["x"]])
    def test_a_fact_must_be_an_object(self, item: object) -> None:
        assert refusal({"facts": [item]}).startswith("facts[0]: a fact is")

    def test_cycle_is_refused(self) -> None:
        cycle: list[object] = []
        cycle.append(cycle)
        assert "nested" in refusal({"facts": [{"content": "x", "mine": cycle}]})

    @pytest.mark.parametrize(
        ("section", "word"),
        [
            ({"user": "x"}, "user is 'x'"),
            ({"user": {"workContext": {"summary": 5}}}, "user.workContext.summary is 5"),
            ({"history": {"recentMonths": {"summary": "x", "updatedAt": 5}}}, "history.recentMonths.updatedAt"),
            ({"user": {"topOfMind": {"summary": "\ud800"}}}, "user.topOfMind is not valid Unicode"),
        ],
    )
    def test_bad_summary_is_named(self, section: dict[str, object], word: str) -> None:
        assert word in refusal({"facts": [], **section})


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
).filter(lambda value: "\\u0000" not in json.dumps(value))


@given(st.recursive(json_values, lambda inner: st.fixed_dictionaries({"facts": st.lists(inner)}), max_leaves=5))
def test_any_json_is_parsed_or_refused_by_name(document: object) -> None:
    try:
        parsed = parse_document(document, now=NOW, new_id=new_id)
    except InvalidInput:
        assert refusal(document)
        return
    assert isinstance(document, dict)
    assert len(parsed.facts) == len(document["facts"])
