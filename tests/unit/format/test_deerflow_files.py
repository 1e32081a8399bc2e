"""Files that DeerFlow wrote: read whole, rewritten without loss."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deermem.format import canonical, manifest
from deermem.format.markdown import decode, encode
from deermem.format.problems import FormatError
from deermem.model.fact import Source

WHEN = datetime(2026, 1, 2, tzinfo=UTC)
WRITTEN = """---
id: fact_corr_001
category: other
confidence: 0.99
source:
  type: conversation
  threadId: thread-9
sourceError: assumed Python 3.10
createdAt: '2026-05-01T10:00:00Z'
topics:
- deploy
- python
schemaVersion: 2
categoryExtension: workflow
status: active
consolidatedFrom: []
updatedAt: '2026-11-30T19:38:46.937860Z'
revision: 2
user_id: bob@example.com
agent_name: __default__
---

# 用户更喜欢用中文讨论需求

Deploy scripts must use Python 3.12, not 3.10.
"""


def test_a_file_of_deerflow() -> None:
    assert canonical.parse(WRITTEN.split("---\n")[1]) is not None
    parsed = decode(WRITTEN.encode(), stem="x", when=WHEN)
    fact = parsed.fact
    assert (fact.id, fact.category, fact.confidence) == ("fact_corr_001", "workflow", 0.99)
    assert fact.topics == ("deploy", "python")
    assert fact.source == Source("conversation", "thread-9")
    assert fact.source_error == "assumed Python 3.10"
    assert fact.updated_at == datetime(2026, 11, 30, 19, 38, 46, 937_860, tzinfo=UTC)
    assert (fact.user_id, fact.agent_name, fact.title) == ("bob@example.com", "__default__", "用户更喜欢用中文讨论需求")
    assert parsed.complete
    assert not parsed.has_digest


def test_only_changed_lines_change() -> None:
    fact = replace(decode(WRITTEN.encode(), stem="x", when=WHEN).fact, revision=3)
    text = encode(fact, base=WRITTEN.encode()).decode()
    digest = next(line for line in text.split("\n") if line.startswith("digest: 3-"))
    assert text.replace(f"{digest}\n", "") == WRITTEN.replace("revision: 2", "revision: 3")


def test_deerflow_writes_over_an_engine_file() -> None:
    fact = decode(WRITTEN.encode(), stem="x", when=WHEN).fact
    ours = encode(replace(fact, revision=3)).decode().replace("revision: 3", "revision: 4").replace("not 3.10", "ever")
    parsed = decode(ours.encode(), stem="x", when=WHEN)
    assert not parsed.edited
    assert parsed.fact.revision == 4


def test_stores_of_deerflow_read_whole(shared: Path) -> None:
    files = sorted((shared / "fixtures").glob("deerflow-v*/users/*/agents/*/facts/*/*.md"))
    assert len(files) > 10
    for path in files:
        data = path.read_bytes()
        parsed = decode(data, stem=path.stem, when=WHEN)
        assert parsed.complete, path
        assert parsed.fact.id == path.stem
        assert f"\n{parsed.fact.content}\n" in data.decode()
        again = encode(parsed.fact, base=data)
        assert [line for line in again.split(b"\n") if not line.startswith(b"digest:")] == data.split(b"\n")
        assert replace(decode(encode(parsed.fact), stem="x", when=WHEN).fact, version="") == replace(
            parsed.fact, version=""
        )


def test_manifests_of_deerflow_read_whole(shared: Path) -> None:
    manifests = sorted((shared / "fixtures").glob("deerflow-v*/users/**/memory.json"))
    assert len(manifests) > 10
    for path in manifests:
        data = path.read_bytes()
        if not data.rstrip().endswith(b"}"):
            with pytest.raises(FormatError):
                manifest.decode(data)
            continue
        raw = json.loads(data)
        found = manifest.decode(data)
        assert found.raw == raw
        assert manifest.needs_migration(found.raw) is (
            not str(raw.get("version", "")).startswith("2") or "facts" in raw
        )
        for group in ("user", "history"):
            for key, section in (raw.get(group) or {}).items():
                assert found.summaries.section(key).summary == section["summary"]
        if "facts" not in raw and raw.get("user"):
            written = manifest.encode(
                found, summaries=found.summaries, revision=found.summaries.revision, now=raw["lastUpdated"]
            )
            assert json.loads(written) == raw
