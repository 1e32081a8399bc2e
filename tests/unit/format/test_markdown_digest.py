"""Who wrote a file last: the digest, what makes a file complete, and the names made of bytes and stems."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from deermem.format.markdown import Parsed, content_hash, decode, encode, note_id

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


def read(text: str | bytes) -> Parsed:
    return decode(text.encode() if isinstance(text, str) else text, stem="stem", when=WHEN)


class TestDigest:
    def engine_file(self, revision: int = 3) -> bytes:
        return encode(replace(read(f"{HEAD}---\n\n# T\n\nContent.\n").fact, revision=revision))

    def test_version_of_an_unedited_file_is_its_digest(self) -> None:
        data = self.engine_file()
        parsed = read(data)
        assert f"digest: {parsed.fact.version}\n".encode() in data
        assert parsed.has_digest
        assert not parsed.edited

    def test_hand_edit_counts(self) -> None:
        data = self.engine_file()
        parsed = read(data.replace(b"Content", b"Changed"))
        assert parsed.edited
        assert parsed.fact.revision == 4
        assert parsed.fact.version.startswith("4-")
        assert parsed.fact.version[2:] != read(data).fact.version[2:]

    def test_another_engine(self) -> None:
        parsed = read(self.engine_file().replace(b"revision: 3", b"revision: 7"))
        assert not parsed.edited
        assert parsed.fact.revision == 7

    def test_lower_revision_is_an_edit(self) -> None:
        parsed = read(self.engine_file().replace(b"revision: 3", b"revision: 2"))
        assert parsed.edited
        assert parsed.fact.revision == 4

    def test_newline_style_and_bom_are_no_edit(self) -> None:
        data = self.engine_file()
        parsed = read(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"))
        assert not parsed.edited
        assert parsed.fact == read(data).fact

    def test_malformed_counts_as_none(self) -> None:
        data = self.engine_file()
        for bad in (b"digest: 3-xyz", b"digest: [a]", b"digest:", b"digest: 0-0123456789abcdef"):
            parsed = read(data[: data.index(b"digest")] + bad + data[data.index(b"\n---\n", 5) :])
            assert not parsed.has_digest
            assert not parsed.edited
            assert parsed.fact.revision == 3

    def test_quoted_and_moved_digest_still_counts(self) -> None:
        data = self.engine_file()
        line = data[data.index(b"digest") : data.index(b"\n---\n", 5) + 1]
        moved = data.replace(line, b"").replace(b"id:", b"digest: '" + line[8:-1] + b"' # kept\nid:", 1)
        parsed = read(moved)
        assert parsed.has_digest
        assert not parsed.edited


class TestComplete:
    @pytest.mark.parametrize(
        "key",
        [
            "id",
            "schemaVersion",
            "category",
            "confidence",
            "revision",
            "createdAt",
            "updatedAt",
            "user_id",
            "agent_name",
        ],
    )
    def test_a_missing_key(self, key: str) -> None:
        text = "\n".join(line for line in HEAD.split("\n") if not line.startswith(f"{key}:"))
        assert not read(f"{text}---\n\n# T\n\nC.\n").complete

    def test_a_missing_heading(self) -> None:
        assert not read(f"{HEAD}---\n\nC.\n").complete


class TestNames:
    def test_note_id(self) -> None:
        assert note_id("fact_3f9c-X") == "fact_3f9c-X"
        assert note_id("my note").startswith("my-note-")
        assert note_id("my note") != note_id("my.note")
        assert note_id("") == "-e3b0c442"
        assert len(note_id("x" * 300)) == 128
        assert note_id("x" * 300) != note_id("x" * 301)
        assert note_id("会议").startswith("----") or note_id("会议").startswith("---")
        assert len(note_id("bad\udcff")) == len("bad--") + 8

    def test_content_hash(self) -> None:
        assert content_hash(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
