"""Reading fact files: what a person may type, and what is refused by name."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deermem.format.markdown import Parsed, decode, note_id
from deermem.format.problems import FormatError
from deermem.model.fact import Source

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HEAD = """---
id: fact_1
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
"""


def read(text: str | bytes, stem: str = "stem") -> Parsed:
    return decode(text.encode() if isinstance(text, str) else text, stem=stem, when=WHEN)


def refused(text: str | bytes) -> FormatError:
    with pytest.raises(FormatError) as caught:
        read(text)
    return caught.value


def with_keys(lines: str, body: str = "Content.\n") -> str:
    return f"---\n{lines}\n---\n\n{body}"


class TestCanonical:
    def test_every_key(self) -> None:
        parsed = read(f"{HEAD}---\n\n# Title\n\nContent.\n")
        fact = parsed.fact
        assert (fact.id, fact.category, fact.confidence, fact.topics) == ("fact_1", "preference", 0.9, ())
        assert fact.source == Source("conversation", "thread-17")
        assert (fact.title, fact.content, fact.revision) == ("Title", "Content.", 3)
        assert fact.created_at == datetime(2026, 11, 30, 10, tzinfo=UTC)
        assert fact.updated_at == datetime(2026, 11, 30, 10, 5, tzinfo=UTC)
        assert (fact.user_id, fact.agent_name, fact.extra) == ("alice", "coder", {})
        assert parsed.complete
        assert not parsed.edited
        assert not parsed.has_digest

    def test_optional_keys(self) -> None:
        fact = read(
            with_keys(
                "sourceError: said 3.10\nexpected_valid_days: 30\nexpiresAt: 2026-02-01\n"
                "lastConfirmedAt: '2026-01-05T00:00:00.250000Z'\nconfirmationCount: 2\n"
                "consolidatedFrom:\n- a\n- b\nconsolidatedAt: 2026-01-06 10:00:00+02:00"
            )
        ).fact
        assert (fact.source_error, fact.expected_valid_days, fact.confirmation_count) == ("said 3.10", 30, 2)
        assert fact.expires_at == datetime(2026, 2, 1, tzinfo=UTC)
        assert fact.last_confirmed_at == datetime(2026, 1, 5, 0, 0, 0, 250_000, tzinfo=UTC)
        assert fact.consolidated_from == ("a", "b")
        assert fact.consolidated_at == datetime(2026, 1, 6, 8, tzinfo=UTC)

    def test_reading_canonical_files_loads_no_yaml_library(self) -> None:
        script = (
            "import sys\nfrom datetime import UTC, datetime\nfrom deermem.format.markdown import decode, encode\n"
            f"data = {f'{HEAD}---'!r}.encode() + b'\\n\\n# T\\n\\nContent.\\n'\n"
            "fact = decode(data, stem='x', when=datetime.now(UTC)).fact\nencode(fact)\n"
            "sys.exit('yaml' in sys.modules)"
        )
        root = Path(__file__).parents[3]
        assert subprocess.run([sys.executable, "-c", script], check=False, cwd=root).returncode == 0


class TestHandMade:
    def test_plain_text(self) -> None:
        parsed = read("Just a note.\n\nSecond paragraph.\n", stem="my note")
        fact = parsed.fact
        assert fact.id == note_id("my note")
        assert (fact.title, fact.content) == ("Just a note.", "Just a note.\n\nSecond paragraph.")
        assert (fact.category, fact.confidence, fact.revision) == ("context", 0.5, 1)
        assert fact.source == Source("manual")
        assert fact.created_at == fact.updated_at == WHEN
        assert fact.user_id is None
        assert not parsed.complete

    def test_source_of_engine_files_is_unknown_when_missing(self) -> None:
        assert read(with_keys("id: a")).fact.source == Source("unknown")
        assert read(with_keys("category: goal")).fact.source == Source("manual")
        assert read(with_keys("schemaVersion: 2\nsource: null")).fact.source == Source("unknown")

    @pytest.mark.parametrize(
        ("written", "source"),
        [
            ("source: manual", Source("manual")),
            ("source: thread-9", Source("conversation", "thread-9")),
            ("source: 0123", Source("conversation", "0123")),
            ("source:\n  threadId: 12:30:45", Source("conversation", "12:30:45")),
            ("source: {type: import, uri: 'https://x', n: 3}", Source("import", None, {"uri": "https://x", "n": 3})),
        ],
    )
    def test_source_forms(self, written: str, source: Source) -> None:
        assert read(with_keys(written)).fact.source == source

    def test_heading_only(self) -> None:
        fact = read("# Deploys on Thursdays\n").fact
        assert (fact.title, fact.content) == ("Deploys on Thursdays", "Deploys on Thursdays")
        long = read("# " + "x" * 200).fact
        assert (len(long.title), len(long.content)) == (160, 200)

    def test_content_keeps_indentation_and_what_it_holds(self) -> None:
        body = "    code\n\n---\n# not the title\n<!-- c -->\n```\n---\n```\n\u2028 \u0085 \x0b end"
        fact = read(f"# T\n\n  \n{body}  \n\n").fact
        assert fact.content == body

    def test_blank_heading_falls_back_to_content(self) -> None:
        assert read("#  \n\nText.\n").fact.title == "Text."

    def test_tag_list_is_topics_only_where_topics_is_missing(self) -> None:
        assert read(with_keys("tags: [x]\ntopics: [y]")).fact.topics == ("y",)
        fact = read(with_keys("tags: [a, 2024, true, null, 0.5]")).fact
        assert fact.topics == ("a", "2024", "true", "0.5")
        assert fact.extra == {"tags": ["a", 2024, True, None, 0.5]}
        assert read(with_keys("tags: 2024")).fact.topics == ("2024",)

    def test_category_words(self) -> None:
        assert read(with_keys("category: Correction")).fact.category == "correction"
        assert read(with_keys("category: Workflow")).fact.category == "Workflow"
        assert read(with_keys("category: other\ncategoryExtension: Workflow")).fact.category == "Workflow"
        assert read(with_keys("category: other")).fact.category == "other"
        assert read(with_keys("category: goal\ncategoryExtension: Workflow")).fact.category == "goal"

    def test_extra_values_are_json_like(self) -> None:
        fact = read(
            with_keys(
                "a: true\nb: no\nc: 12\nd: 0123\ne: 1.5\nf: 1.10\ng: 9e-1\nh: 2026-01-01\ni: ~\nj: '7'\n"
                "k: {x: [1, two], no: yes}\nl: 12:30:45\ncontent: c\nhandler: h\nno: n\n1: one\nm: !!python/object x"
            )
        ).fact
        assert fact.extra == {
            "a": True,
            "b": "no",
            "c": 12,
            "d": "0123",
            "e": 1.5,
            "f": "1.10",
            "g": "9e-1",
            "h": "2026-01-01",
            "i": None,
            "j": "7",
            "k": {"x": [1, "two"], "no": "yes"},
            "l": "12:30:45",
            "content": "c",
            "handler": "h",
            "no": "n",
            "1": "one",
            "m": "x",
        }


class TestAsTyped:
    @pytest.mark.parametrize("word", ["no", "0123", "12:30:45", "2026-01-01", "1.10", "true", "9e-1", "0x1F"])
    def test_scalars_stay_text(self, word: str) -> None:
        fact = read(with_keys(f"category: {word}\nuser_id: {word}\ntopics:\n- {word}\nsourceError: {word}")).fact
        assert (fact.category, fact.user_id, fact.topics, fact.source_error) == (word, word, (word,), word)

    def test_id_with_leading_zero(self) -> None:
        assert read(with_keys("id: 0123")).fact.id == "0123"

    @pytest.mark.parametrize(
        ("written", "number"),
        [("0.9", 0.9), ("'0.9'", 0.9), ("1", 1.0), (".5", 0.5), ("9e-1", 0.9), ("null", 0.5), ("~", 0.5), ("", 0.5)],
    )
    def test_confidence(self, written: str, number: float) -> None:
        assert read(with_keys(f"confidence: {written}")).fact.confidence == number

    def test_null_is_the_default(self) -> None:
        fact = read(
            with_keys("id:\ncategory: null\ntopics: ~\nrevision:\ncreatedAt: null\nuser_id: null"), stem="s"
        ).fact
        assert (fact.id, fact.category, fact.topics, fact.revision) == ("s", "context", (), 1)
        assert (fact.created_at, fact.user_id) == (WHEN, None)
        assert read(with_keys("user_id: 'null'")).fact.user_id == "null"


class TestRefused:
    @pytest.mark.parametrize(
        ("lines", "code", "line", "named"),
        [
            ("confidence: high", "bad-number", 2, "confidence"),
            ("id: a\nconfidence: 95", "bad-number", 3, "confidence"),
            ("confidence: .nan", "bad-number", 2, "confidence"),
            ("topics: {a: b}", "bad-type", 2, "topics"),
            ("topics:\n- [a]", "bad-type", 2, "topics"),
            ("a: b\nrevision: x", "bad-number", 3, "revision"),
            ("revision: 0", "bad-number", 2, "revision"),
            ("status: deleted", "bad-status", 2, "status"),
            ("schemaVersion: 3", "newer-version", 2, "schemaVersion"),
            ("createdAt: 2026-13-45", "bad-timestamp", 2, "createdAt"),
            ("updatedAt: soon", "bad-timestamp", 2, "updatedAt"),
            ("id: ../x", "bad-id", 2, "id"),
            ("category: [a]", "bad-type", 2, "category"),
            ("source: [a]", "bad-type", 2, "source"),
            ("source: {type: [a]}", "bad-type", 2, "source"),
            ("id: a\nid: b", "duplicate-key", 3, "id"),
            ('mine: "a\\0b"', "nul", 2, "NUL character"),
            ('id: a\ntitle: "\\0"', "nul", 3, "NUL character"),
            ('id: a\nmine: {x: [1, "\\x00"]}', "nul", 3, "NUL character"),
            ('id: a\nmine: {"\\0": 1}', "nul", 3, "NUL character"),
            ('id: a\n"\\0": 1', "nul", 3, "NUL character"),
            ('id: a\nsource: {type: manual, mine: "\\0"}', "nul", 3, "NUL character"),
            ("a: {x: 1, x: 2}", "duplicate-key", 2, "x"),
            ("a: &a [*a]", "alias", 2, "alias"),
            ("a: &a b\nc: *a", "alias", 3, "alias"),
            ("title: L2 (Split: Core)", "yaml", 2, "YAML"),
            ("a: [b", "yaml", 3, "YAML"),
            ("a: b\n\tc: d", "yaml", 3, "YAML"),
            ("- a\n- b", "not-a-mapping", 2, "mapping"),
            ("[a, b]", "not-a-mapping", 2, "mapping"),
            ("? [a]\n: b", "yaml-or-key", 0, ""),
            ("a: b\n...\nc: d", "yaml", 4, "YAML"),
        ],
    )
    def test_by_code_line_and_name(self, lines: str, code: str, line: int, named: str) -> None:
        problem = (
            refused(with_keys(lines)).problem if code != "yaml-or-key" else refused(with_keys(lines + "\nx: y")).problem
        )
        if code == "yaml-or-key":
            assert problem.code == "bad-key"
            return
        assert problem.code == code
        assert problem.line == line
        assert named in problem.message

    def test_no_closing_fence(self) -> None:
        problem = refused("---\nid: fact_1\ncategory: goal\n\nText\n").problem
        assert (problem.code, problem.line) == ("no-closing-fence", 1)

    @pytest.mark.parametrize(
        ("data", "code", "line"),
        [
            (b"", "empty-file", 1),
            (b" \n\n", "empty-file", 1),
            (b"---\nid: a\n---\n\n \n", "empty", 4),
            ("\u200b\n".encode(), "empty", 1),
            (b"ok\n\xff\n", "not-utf8", 2),
            (b"a\nb\x00c", "nul", 2),
            (b"-", "no-closing-fence", 1),
            (b"--", "no-closing-fence", 1),
            (b"\xef\xbb\xbf--\n", "no-closing-fence", 1),
            (b"---\n  id: a\n", "no-closing-fence", 1),
            (b"---\rid: mac\ruser_id: someone\r---\rsecret\r", "line-ends", 1),
            (b"\xef\xbb\xbf--- \rid: mac\r---\rsecret\n", "line-ends", 1),
            (b"---\nid: a\ndigest: 1-0123456789abcdef\n---\n", "cut-off", 5),
            (b"---\nid: a\ndigest: 1-0123456789abcdef\n---\n\n# \n", "cut-off", 5),
            (b"---\nid: a # c\ndigest: 1-0123456789abcdef\n---\n\n#", "cut-off", 5),
            (b"---\nid: a\ndigest: none\n---\n", "empty", 5),
            ("é".encode() * 32_769, "too-large", 1),
            (b"---\nx: " + b"[" * 100 + b"\n---\nt", "too-deep", 2),
        ],
    )
    def test_bytes(self, data: bytes, code: str, line: int) -> None:
        problem = refused(data).problem
        assert (problem.code, problem.line) == (code, line)

    def test_largest_content(self) -> None:
        assert len(read("é" * 32_768).fact.content) == 32_768


class TestFences:
    def test_letterhead_is_body(self) -> None:
        fact = read("---\nACME Ltd\n---\ntext\n").fact
        assert fact.content == "---\nACME Ltd\n---\ntext"

    def test_lone_break_is_body(self) -> None:
        assert read("---\n\ntext\n").fact.content == "---\n\ntext"
        assert read("---\n\ntext\n\n---\n\nmore").fact.content == "---\n\ntext\n\n---\n\nmore"

    @pytest.mark.parametrize("fence", ["--- ", "---\t ", "---"])
    def test_blanks_behind_a_fence(self, fence: str) -> None:
        assert read(f"{fence}\nid: a\n{fence}\ntext").fact.id == "a"

    def test_dashes_that_are_no_torn_fence(self) -> None:
        for text in ("- a", "---- ", "-\n-", "---\nid: a\n---\n-"):
            assert read(text).fact.content == text.rpartition("---\n")[2].strip()

    def test_carriage_returns_within_a_text(self) -> None:
        assert read("a\r---\rid: x").fact.content == "a\r---\rid: x"

    def test_bom(self) -> None:
        plain, marked = f"{HEAD}---\n\n# T\n\nC.\n", f"\ufeff{HEAD}---\n\n# T\n\nC.\n"
        assert read(plain).fact == read(marked).fact

    def test_fence_at_the_end_of_the_file(self) -> None:
        assert refused("---\nid: a\n---").problem.code == "empty"

    def test_empty_and_comment_only_front_matter(self) -> None:
        assert read("---\n---\ntext").fact.content == "text"
        assert read("---\n# mine\n---\ntext").fact.content == "text"

    def test_crlf_decides_the_body(self) -> None:
        assert read("---\r\nid: a\r\n---\r\n\r\n# T\r\n\r\none\r\ntwo\r\n").fact.content == "one\ntwo"
        assert read("---\nid: a\n---\n# T\n\none\r\ntwo\n").fact.content == "one\r\ntwo"
        assert read("one\r\ntwo\r\n").fact.content == "one\ntwo"
        assert read("---\r\nid: a\r\n---\r\none\ntwo\n").fact.content == "one\ntwo"

    def test_title_key(self) -> None:
        assert read(with_keys("title: Mine")).fact.title == "Mine"
        assert read(with_keys("title: Mine", "# Head\n\nContent.")).fact.title == "Head"
        for empty in ("title:", "title: None", "title: ''", "title: ~"):
            assert read(with_keys(empty)).fact.title == "Content."
