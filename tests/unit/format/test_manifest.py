"""memory.json: what is read, what is refused, what a write keeps."""

from __future__ import annotations

import json

import pytest

from deermem.errors import InvalidInput
from deermem.format.manifest import Manifest, decode, encode, needs_migration
from deermem.format.problems import FormatError
from deermem.model.summaries import Section, Summaries

NOW = "2026-11-30T10:00:00Z"
FRESH = """{
  "version": "2.0",
  "revision": 1,
  "lastUpdated": "2026-11-30T10:00:00Z",
  "user": {
    "workContext": {
      "summary": "",
      "updatedAt": ""
    },
    "personalContext": {
      "summary": "",
      "updatedAt": ""
    },
    "topOfMind": {
      "summary": "",
      "updatedAt": ""
    }
  },
  "history": {
    "recentMonths": {
      "summary": "",
      "updatedAt": ""
    },
    "earlierContext": {
      "summary": "",
      "updatedAt": ""
    },
    "longTermBackground": {
      "summary": "",
      "updatedAt": ""
    }
  }
}"""


def refused(data: bytes) -> FormatError:
    with pytest.raises(FormatError) as caught:
        decode(data)
    return caught.value


def test_a_fresh_document() -> None:
    assert encode(None, summaries=Summaries(), revision=1, now=NOW).decode() == FRESH


def test_what_was_written_reads_back() -> None:
    summaries = Summaries(work_context=Section("Builds 记忆", NOW), earlier_context=Section("Studied", ""))
    manifest = decode(encode(None, summaries=summaries, revision=7, now=NOW))
    assert manifest.version == "2.0"
    assert manifest.summaries.revision == 7
    assert manifest.summaries.last_updated == NOW
    assert manifest.summaries.work_context == Section("Builds 记忆", NOW)
    assert manifest.summaries.earlier_context == Section("Studied", "")
    assert encode(manifest, summaries=manifest.summaries, revision=7, now=NOW).decode().count("记忆") == 1


def test_unknown_keys_stay_and_facts_go() -> None:
    base = {
        "host": {"x": [1, None, 0.5]},
        "version": "1.0",
        "facts": [{"id": "a"}],
        "user": {"mood": "fine", "workContext": {"summary": "old", "updatedAt": "", "by": "me"}},
        "last": True,
    }
    manifest = decode(json.dumps(base).encode())
    written = json.loads(encode(manifest, summaries=Summaries(work_context=Section("new", NOW)), revision=2, now=NOW))
    assert list(written) == ["version", "revision", "lastUpdated", "user", "history", "host", "last"]
    assert written["version"] == "2.0"
    assert written["host"] == {"x": [1, None, 0.5]}
    assert written["user"]["mood"] == "fine"
    assert written["user"]["workContext"] == {"summary": "new", "updatedAt": NOW, "by": "me"}


def test_a_section_under_the_other_group_is_a_key_like_any_other() -> None:
    found = decode(b'{"user": {"recentMonths": "Of a foreign hand."}, "history": {"topOfMind": {"summary": "x"}}}')
    again = json.loads(encode(found, summaries=found.summaries, revision=2, now=""))
    assert again["user"]["recentMonths"] == "Of a foreign hand."
    assert again["history"]["topOfMind"] == {"summary": "x"}
    assert again["history"]["recentMonths"] == {"summary": "", "updatedAt": ""}


def test_missing_and_odd_sections() -> None:
    manifest = decode(
        b'{"version": "2.0", "user": null, "history": {"recentMonths": null, "earlierContext": {"summary": 5}}}'
    )
    assert manifest.summaries.revision == 0
    assert manifest.summaries.recent_months == Section()
    assert manifest.summaries.earlier_context == Section("5", "")
    assert manifest.summaries.work_context == Section()
    assert decode(b"\xef\xbb\xbf{}").version == ""


@pytest.mark.parametrize(
    ("data", "code", "line"),
    [
        (b"", "not-json", 1),
        (b'{\n"a": 1,\n"b"}', "not-json", 3),
        (b"[]", "not-an-object", 1),
        (b"{\xff}", "not-utf8", 1),
        (b'{"a": 1, "a": 2}', "duplicate-key", 0),
        (b'{"user": {"x": 1, "x": 2}}', "duplicate-key", 0),
        (b'{"a": NaN}', "not-json", 0),
        (b'{"a": -Infinity}', "not-json", 0),
        (b'{"a": 1e999}', "not-json", 0),
        (b'{"a": ' + b"9" * 5000 + b"}", "not-json", 0),
        (b"[" * 100_000, "not-json", 0),
        (b'{"version": "3.0"}', "newer-version", 0),
        (b'{"version": 10}', "newer-version", 0),
        (b'{"version": "two"}', "bad-value", 0),
        (b'{"version": []}', "bad-value", 0),
        (b'{"revision": "4"}', "bad-value", 0),
        (b'{"revision": true}', "bad-value", 0),
        (b'{"revision": 1.5}', "bad-value", 0),
        (b'{"revision": -1}', "bad-value", 0),
        (b'{"lastUpdated": 5}', "bad-value", 0),
        (b'{"lastUpdated": "\\ud800"}', "bad-value", 0),
        (b'{"user": "x"}', "bad-value", 0),
        (b'{"history": []}', "bad-value", 0),
        (b'{"user": {"workContext": ["x"]}}', "bad-value", 0),
        (b'{"user": {"workContext": 5}}', "bad-value", 0),
        (b'{"user": {"workContext": "\\ud800"}}', "bad-value", 0),
        ('{"version": "2.0"}'.encode("utf-16"), "not-utf8", 1),
        ('{"version": "2.0"}'.encode("utf-16-le"), "not-utf8", 0),
        ('{"version": "2.0"}'.encode("utf-32"), "not-utf8", 1),
    ],
)
def test_refused(data: bytes, code: str, line: int) -> None:
    problem = refused(data).problem
    assert (problem.code, problem.line) == (code, line)
    assert problem.hint


def rewritten(data: bytes) -> str:
    """The document after a write that changes no summary."""
    manifest = decode(data)
    return encode(manifest, summaries=manifest.summaries, revision=1, now=NOW).decode()


def test_a_section_that_is_a_text_is_its_summary() -> None:
    data = b'{"version": "2.0", "user": {"workContext": "I work at ACME"}, "history": {"recentMonths": ""}}'
    assert decode(data).summaries == Summaries(work_context=Section("I work at ACME", ""))
    assert json.loads(rewritten(data))["user"]["workContext"] == {"summary": "I work at ACME", "updatedAt": ""}


def test_what_is_wrong_with_a_section_is_named() -> None:
    assert str(refused(b'{"user": "x"}')) == "user is 'x'"
    assert str(refused(b'{"history": {"recentMonths": [1.10]}}')) == "history.recentMonths is [1.10]"
    assert str(refused(b'{"user": {"topOfMind": {"summary": "a\\udc00"}}}')) == r"user.topOfMind.summary is 'a\udc00'"


@pytest.mark.parametrize(
    "number",
    ["1.10", "12345678901234567890.123456789", "1E5", "1e-7", "-0", "-0.0", "0.1", "7", "1" * 60, "1.0e+10", "5e-400"],
)
def test_numbers_of_foreign_keys_keep_their_digits(number: str) -> None:
    data = f'{{"version": "2.0", "n": {number}, "user": {{"mine": [{number}], "workContext": {{"by": {number}}}}}}}'
    once = rewritten(data.encode())
    assert once.count(f"{number}\n") + once.count(f"{number},\n") == 3
    assert rewritten(once.encode()) == once


def test_half_characters_of_foreign_keys_stay_escaped() -> None:
    once = rewritten(r'{"version": "2.0", "a\ud800": "茶 \udc00", "b": "茶", "user": {"x": ["\ud83e"]}}'.encode())
    assert r'"a\ud800": "\u8336 \udc00"' in once
    assert '"b": "茶"' in once
    assert r'"\ud83e"' in once
    assert rewritten(once.encode()) == once


@pytest.mark.parametrize(
    ("version", "after"),
    [
        ('"2.1"', "2.1"),
        ('"2.0.3"', "2.0.3"),
        ("2.10", "2.10"),
        ("2", "2.0"),
        ('"2"', "2.0"),
        ("2.0", "2.0"),
        ('"1.0"', "2.0"),
        ("null", "2.0"),
    ],
)
def test_a_later_version_2_keeps_its_name(version: str, after: str) -> None:
    assert json.loads(rewritten(f'{{"version": {version}}}'.encode()))["version"] == after


def test_what_nests_deep_is_written_again_or_refused_in_words() -> None:
    raw: object = 1
    for _ in range(100_000):
        raw = [raw]
    with pytest.raises(InvalidInput, match="nests too deep"):
        encode(Manifest(Summaries(), "2.0", {"x": raw}), summaries=Summaries(), revision=1, now=NOW)  # type: ignore[dict-item]
    shallow = b'{"version": "2.0", "x": ' + b"[" * 200 + b"]" * 200 + b"}"
    assert rewritten(shallow).count("[") == 200


def test_a_lone_surrogate_is_not_written() -> None:
    with pytest.raises(InvalidInput):
        encode(None, summaries=Summaries(work_context=Section("\ud800", "")), revision=1, now=NOW)


@pytest.mark.parametrize(
    ("raw", "due"),
    [
        ({"version": "1.0"}, True),
        ({"version": "1.5", "facts": []}, True),
        ({}, True),
        ({"version": "2.0", "facts": []}, True),
        ({"version": "2.0", "facts": {"a": {"path": "x"}}}, True),
        ({"version": "2.0"}, False),
        ({"version": "2.1", "facts": None}, False),
    ],
)
def test_needs_migration(raw: dict[str, object], due: bool) -> None:
    assert needs_migration(raw) is due  # type: ignore[arg-type]
    assert needs_migration(decode(json.dumps(raw).encode()).raw) is due
