"""Writing fact files: the canonical look, and rewrites that leave a person's arrangement alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
import yaml

from deermem.errors import InvalidInput
from deermem.format.digest import text_hash
from deermem.format.markdown import decode, encode
from deermem.model.fact import Fact, Source
from deermem.model.values import JsonValue

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FACT = Fact(
    id="fact_3f9c2a10",
    content="User prefers TypeScript over JavaScript for new services.",
    title="Prefers TypeScript",
    category="preference",
    confidence=0.9,
    source=Source("conversation", "thread-17"),
    revision=3,
    created_at=datetime(2026, 11, 30, 10, tzinfo=UTC),
    updated_at=datetime(2026, 11, 30, 10, 5, tzinfo=UTC),
    user_id="alice",
    agent_name="coder",
)
CANONICAL = """---
id: fact_3f9c2a10
schemaVersion: 2
category: preference
confidence: 0.9
status: active
topics: []
source:
  type: conversation
  threadId: thread-17
revision: 3
createdAt: '2026-11-30T10:00:00Z'
updatedAt: '2026-11-30T10:05:00Z'
user_id: alice
agent_name: coder
digest: 3-3c8c50ce7f43968c
---

# Prefers TypeScript

User prefers TypeScript over JavaScript for new services.
"""
ARRANGED = """---
# mine
agent_name: coder   # who
id: 'fact_1'
mood: "so, so"  # odd
topics:
# first
- a # one
- b
confidence: "0.50" # sure?

category: context
source: thread-1
nested:
    deep: [1, {x: y}]
user_id: alice
createdAt: 2026-01-01
updatedAt: 2026-01-01 10:00
revision: 2
# the end
---

intro line is no heading
  indented
"""

ODD_TEXTS = (
    "", "no", "Yes", "null", "~", "0123", "12:30:45", "1_000", "1e3", "0x1F", "0o17", "0b1", ".5", "-3", "+1",
    "2026-01-01", "2026-1-1 x", "=", "<<", "-", "a: b", "a #b", "#a", "'a", "\"a", "[a", "{a", "&a", "*a",
    "!a", "%a", "@a", "`a", ">", "| a", "a ", " a", " a", "it's", "a\nb", "tab\there", "\x07bell", "a\u2028b",
    "a\u2029b", "a\x85b", "\ufeffx", "😀 smile", "微信", "\\back", "x: ", "1,000", "٣٤", "y", "?", "? a", "- ",
    "--- ", "...", "a  b", "_1", "1_", "0.", "4e", "1:2",
)  # fmt: skip


def read(data: bytes) -> Fact:
    return decode(data, stem="fact_1", when=WHEN).fact


def rewritten(base: str, **changes: object) -> str:
    data = base.encode()
    fact = replace(read(data), **changes)  # type: ignore[arg-type]
    out = encode(fact, base=data)
    assert replace(read(out), version="") == replace(fact, version="")
    return out.decode()


def front(data: bytes) -> dict[str, object]:
    return yaml.safe_load(data.decode().split("---\n")[1])


class TestCanonical:
    def test_the_look(self) -> None:
        assert encode(FACT).decode() == CANONICAL

    def test_digest_is_the_hash_of_the_text_without_its_line(self) -> None:
        line = "digest: 3-3c8c50ce7f43968c\n"
        assert text_hash(CANONICAL.replace(line, "").encode()) == "3c8c50ce7f43968c"

    def test_all_keys_in_order(self) -> None:
        fact = replace(
            FACT,
            category="Workflow",
            topics=("deploy", "no", "2026-01-01"),
            source=Source("import", None, {"uri": "https://x/y#z", "count": 1}),
            source_error="said: 3.10",
            expected_valid_days=30,
            expires_at=WHEN,
            last_confirmed_at=WHEN.replace(microsecond=5),
            confirmation_count=2,
            consolidated_from=("a", "b"),
            consolidated_at=WHEN,
            user_id=None,
            extra={"mood": "fine", "list": [1, [2, "x"]], "map": {"a": True, "b": {"c": None}}, "e": {}, "f": []},
        )
        text = encode(fact).decode()
        head = text.split("---\n")[1]
        assert head.startswith(
            "id: fact_3f9c2a10\nschemaVersion: 2\ncategory: other\ncategoryExtension: Workflow\nconfidence: 0.9\n"
            "status: active\ntopics:\n- deploy\n- 'no'\n- '2026-01-01'\nsource:\n  type: import\n  threadId: null\n"
            "  uri: 'https://x/y#z'\n  count: 1\nsourceError: 'said: 3.10'\nexpected_valid_days: 30\n"
            "expiresAt: '2026-01-02T03:04:05Z'\nlastConfirmedAt: '2026-01-02T03:04:05.000005Z'\nconfirmationCount: 2\n"
            "consolidatedFrom:\n- a\n- b\nconsolidatedAt: '2026-01-02T03:04:05Z'\nrevision: 3\n"
        )
        assert "user_id: null\nagent_name: coder\nmood: fine\nlist:\n- 1\n- [2, x]\nmap:\n  a: true\n" in head
        assert head.split("\n")[-2].startswith("digest: 3-")

    @pytest.mark.parametrize("text", ODD_TEXTS)
    def test_every_yaml_reader_gets_the_same_string(self, text: str) -> None:
        fact = replace(FACT, source_error=text, user_id=text, extra={"k": text, text or "e": [text, {"in": text}]})
        data = encode(fact)
        for loader in (yaml.SafeLoader, yaml.CSafeLoader, yaml.BaseLoader):
            keys = yaml.load(data.decode().split("---\n", 1)[1].split("\n---\n")[0], Loader=loader)
            assert keys["sourceError"] == keys["user_id"] == keys["k"] == text
            assert keys[text or "e"] == [text, {"in": text}]

    @pytest.mark.parametrize("number", [0.0, 1.0, 0.1, 1e-05, 0.30000000000000004])
    def test_confidence(self, number: float) -> None:
        assert front(encode(replace(FACT, confidence=number)))["confidence"] == number

    def test_long_lines_are_not_folded(self) -> None:
        text = "word " * 400 + "end"
        assert f"sourceError: {text}\n" in encode(replace(FACT, source_error=text)).decode()

    def test_blank_title_is_the_first_line(self) -> None:
        assert "\n# First line\n" in encode(replace(FACT, title=" ", content="## First line\nmore")).decode()

    def test_times_of_other_zones(self) -> None:
        east = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
        assert "createdAt: '2026-01-01T00:00:00Z'" in encode(replace(FACT, created_at=east)).decode()

    @pytest.mark.parametrize(
        "changes",
        [
            {"content": "a\x00b"},
            {"content": " \n"},
            {"content": "x" * 65_537},
            {"content": "\ud800"},
            {"title": "a\nb"},
            {"title": "x" * 161},
            {"id": "../x"},
            {"confidence": float("nan")},
            {"confidence": True},
            {"revision": 0},
            {"status": "gone"},
            {"user_id": "\ud800"},
            {"topics": ("",)},
            {"topics": ("a\nb",)},
            {"category": ""},
            {"extra": {"id": "x"}},
            {"extra": {"n": float("inf")}},
            {"extra": {"s": "\ud800"}},
            {"extra": {"s": "a\x00b"}},
            {"extra": {"k" * 2000: 1}},
            {"created_at": datetime(2026, 1, 1)},
            {"expected_valid_days": 0},
        ],
    )
    def test_refused(self, changes: dict[str, object]) -> None:
        with pytest.raises(InvalidInput):
            encode(replace(FACT, **changes))  # type: ignore[arg-type]

    def test_values_too_deep(self) -> None:
        value: JsonValue = "x"
        for _ in range(100):
            value = [value]
        with pytest.raises(InvalidInput):
            encode(replace(FACT, extra={"deep": value}))


class TestRewrite:
    def test_no_change_is_no_difference(self) -> None:
        assert encode(FACT, base=CANONICAL.encode()).decode() == CANONICAL

    def test_arrangement_survives(self) -> None:
        text = rewritten(ARRANGED, confidence=0.7, revision=3, topics=("a", "c"))
        head, _, body = text[4:].partition("\n---\n")
        assert head.split("\n") == [
            "# mine",
            "agent_name: coder   # who",
            "id: 'fact_1'",
            'mood: "so, so"  # odd',
            "# first",
            "# one",
            "topics:",
            "- a",
            "- c",
            "confidence: 0.7 # sure?",
            "",
            "category: context",
            "source: thread-1",
            "nested:",
            "    deep: [1, {x: y}]",
            "user_id: alice",
            "createdAt: 2026-01-01",
            "updatedAt: 2026-01-01 10:00",
            "revision: 3",
            "# the end",
            "schemaVersion: 2",
            "status: active",
            head.split("\n")[-1],
        ]
        assert head.split("\n")[-1].startswith("digest: 3-")
        assert body == "\n# intro line is no heading\n\nintro line is no heading\n  indented\n"

    def test_second_rewrite_touches_only_what_differs(self) -> None:
        once = rewritten(ARRANGED, revision=3)
        twice = rewritten(once, revision=4)
        changed = [one for one, two in zip(once.split("\n"), twice.split("\n"), strict=True) if one != two]
        assert [line.split(":")[0] for line in changed] == ["revision", "digest"]

    def test_flow_list_stays_one(self) -> None:
        text = rewritten(CANONICAL.replace("topics: []", "topics: [a, 'b'] # x"), topics=("a", "c d"))
        assert "topics: [a, 'c d'] # x\n" in text

    def test_keys_that_go(self) -> None:
        base = CANONICAL.replace("status: active", "status: active\nexpiresAt: 2026-05-05 # until\nmood: x")
        text = rewritten(base, expires_at=None, extra={})
        assert "expiresAt" not in text
        assert "mood" not in text
        assert "# until\n" in text

    def test_category_extension_comes_and_goes(self) -> None:
        other = rewritten(CANONICAL, category="workflow")
        assert "category: other\n" in other
        assert "categoryExtension: workflow\n" in other
        assert "categoryExtension" not in rewritten(other, category="goal")
        kept = CANONICAL.replace("category: preference", "category: Workflow")
        assert "category: Workflow\n" in rewritten(kept, confidence=0.1)

    def test_empty_values_are_filled(self) -> None:
        text = rewritten(
            CANONICAL.replace("confidence: 0.9", "confidence: # tbd").replace("user_id: alice", "user_id:")
        )
        assert "confidence: 0.5 # tbd\n" in text
        assert "user_id:\n" in text

    def test_block_scalars_and_multi_line_values(self) -> None:
        base = CANONICAL.replace(
            "status: active", "status: active\nsourceError: |\n  one\n  two\nnote: >\n  three\n  four"
        )
        text = rewritten(base, source_error="new")
        assert "status: active\nsourceError: new\nnote: >\n  three\n  four\ntopics: []\n" in text

    def test_consolidated_from_of_others_stays(self) -> None:
        base = CANONICAL.replace("topics: []", "topics: []\nconsolidatedFrom: []")
        assert "consolidatedFrom: []\n" in rewritten(base, confidence=0.1)

    def test_tags_are_not_copied_to_topics(self) -> None:
        base = CANONICAL.replace("topics: []", "tags: a, b")
        assert "topics" not in rewritten(base, confidence=0.1)
        assert "topics:\n- c\n" in rewritten(base, topics=("c",))

    def test_crlf_and_bom(self) -> None:
        base = "\ufeff" + CANONICAL.replace("\n", "\r\n")
        text = rewritten(base, content="one\ntwo", confidence=0.2, extra={"k": [1]})
        assert text.startswith("\ufeff---\r\n")
        assert text.count("\n") == text.count("\r\n")
        assert "one\r\ntwo\r\n" in text

    def test_crlf_header_with_lf_body(self) -> None:
        head, body = CANONICAL.split("\n\n", 1)
        text = rewritten(head.replace("\n", "\r\n") + "\r\n\n" + body, confidence=0.2)
        assert text.endswith("\n\n# Prefers TypeScript\n\nUser prefers TypeScript over JavaScript for new services.\n")
        assert "confidence: 0.2\r\n" in text
        changed = rewritten(text, content="one\ntwo")
        assert changed.endswith("\n# Prefers TypeScript\n\none\ntwo\n")

    def test_a_carriage_return_in_the_content_of_a_crlf_file(self) -> None:
        text = rewritten(CANONICAL.replace("\n", "\r\n"), content="one\r\ntwo")
        assert text.startswith("---\nid")
        assert text.endswith("one\r\ntwo\n")

    def test_plain_text_gets_front_matter(self) -> None:
        text = rewritten("My note.\n\nMore.\n", category="goal")
        assert text.startswith("---\nid: fact_1\n")
        assert text.endswith("---\n\n# My note.\n\nMy note.\n\nMore.\n")
        assert decode(text.encode(), stem="x", when=WHEN).complete

    def test_heading_only_file(self) -> None:
        text = rewritten("# Only this\n", category="goal")
        assert text.endswith("---\n\n# Only this\n")
        assert rewritten(text, title="Other").endswith("---\n\n# Other\n\nOnly this\n")

    def test_body_kept_byte_for_byte_when_a_key_changes(self) -> None:
        body = "\n\n#   Odd  heading \n\n\n\ttext  \nwith hard break  \n[ref]: x\n"
        text = rewritten(CANONICAL.split("---\n\n#", maxsplit=1)[0] + "---" + body, confidence=0.3)
        assert text.endswith("---" + body)

    def test_exactly_one_newline_at_the_end(self) -> None:
        assert rewritten(CANONICAL.rstrip("\n"), confidence=0.3).endswith("services.\n")
        assert rewritten(CANONICAL + "\n\n", confidence=0.3).endswith("services.\n")

    def test_mapping_in_braces_is_written_anew(self) -> None:
        text = rewritten("---\n{id: fact_1, mood: x}\n---\n\n# T\n\nC.\n", confidence=0.3)
        assert "mood: x\n" in text
        assert "confidence: 0.3\n" in text

    def test_letterhead_stays_body(self) -> None:
        assert rewritten("---\nACME Ltd\n---\ntext\n", category="goal").endswith("\n---\nACME Ltd\n---\ntext\n")

    def test_a_base_that_does_not_parse_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="mend the file"):
            encode(FACT, base=b"---\nid: [a\n---\n\ntext")
