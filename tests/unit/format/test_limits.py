"""What is written can be read by every reader: the limits of reading hold for writing too, and are named by key."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from deermem.errors import InvalidInput
from deermem.format.fields import MAX_REVISION
from deermem.format.frontmatter import MAX_BLOCK
from deermem.format.markdown import check_storable, decode, encode
from deermem.format.problems import FormatError
from deermem.format.reading import general_document
from deermem.model.fact import Fact, Source
from deermem.model.values import JsonValue

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FACT = Fact(id="f", content="Content.", title="Content.", created_at=WHEN, updated_at=WHEN)


def nested(depth: int) -> JsonValue:
    value: JsonValue = 1
    for _ in range(depth):
        value = [value]
    return value


def mapped(depth: int) -> JsonValue:
    value: JsonValue = 1
    for _ in range(depth):
        value = {"k": value}
    return value


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"extra": {"ok": 1, "note": "n" * 140_000}}, "note of f takes 140007 characters"),
        ({"extra": {"note": "\u2028" * 30_000}}, "note of f"),
        ({"topics": tuple(f"t{number}" for number in range(20_000))}, "topics of f"),
        ({"consolidated_from": tuple(f"fact_{number}" for number in range(20_000))}, "consolidatedFrom of f"),
        ({"source_error": "e" * 140_000}, "sourceError of f"),
        ({"source": Source("conversation", "t" * 140_000)}, "source of f"),
        ({"extra": {"big": 10**60}}, "big holds a number of more than 40 digits"),
        ({"extra": {"big": [{"a": -(10**5000)}]}}, "big holds a number"),
        ({"source": Source("manual", None, {"n": 10**40})}, "source.n holds a number"),
        ({"extra": {"deep": nested(40)}}, "deep nests deeper than 32 levels"),
        ({"extra": {"deep": nested(32)}}, "deep nests"),
        ({"extra": {"deep": mapped(32)}}, "deep nests"),
        ({"source": Source("manual", None, {"deep": nested(31)})}, "source.deep nests"),
        ({"extra": {"k" * 1100: 1}}, "extra holds the key 'kkk"),
        ({"extra": {"in": {"k" * 1100: 1}}}, "in holds the key 'kkk"),
        ({"extra": {"in": ["a\0b"]}}, "in holds a NUL"),
        ({"extra": {"in": [float("nan")]}}, "in holds nan"),
        ({"extra": {"in": (1, 2)}}, "in holds a value of type tuple"),
        ({"source": Source("manual", None, {"in": b"x"})}, "source.in holds a value of type bytes"),  # type: ignore[dict-item]
        ({"extra": {"id": 1}}, "'id' is one of the format's own"),
        ({"revision": MAX_REVISION}, "revision 100000000000000"),
    ],
)
def test_it_is_refused_by_key(changes: dict[str, object], named: str) -> None:
    fact = replace(FACT, **changes)  # type: ignore[arg-type]
    for refuse in (encode, check_storable):
        with pytest.raises(InvalidInput, match=named):
            refuse(fact)


@pytest.mark.parametrize(
    "changes",
    [
        {"extra": {"note": "n" * (MAX_BLOCK - 600)}},
        {"source": Source("conversation", "t" * (MAX_BLOCK - 600))},
        {"topics": tuple(f"t{number}" for number in range(15_000))},
        {"extra": {"big": 10**40 - 1, "low": 1 - 10**40, "float": 1.7976931348623157e308, "tiny": 5e-324}},
        {"extra": {"deep": nested(31)}},
        {"extra": {"deep": mapped(31)}},
        {"source": Source("manual", None, {"deep": nested(30)})},
        {"extra": {"k" * 1000: {"k" * 1000: 1}}},
        {"revision": MAX_REVISION - 1},
    ],
)
def test_what_just_fits_is_read_by_the_general_reader_too(changes: dict[str, object]) -> None:
    fact = replace(FACT, **changes)  # type: ignore[arg-type]
    check_storable(fact)
    data = encode(fact)
    assert replace(decode(data, stem="x", when=WHEN).fact, version="") == fact
    assert general_document(data.decode()).fields["id"] == "f"
    commented = data.replace(b"id: f\n", b"id: f # c\n", 1)
    assert decode(commented, stem="x", when=WHEN).fact.extra == fact.extra


@pytest.mark.parametrize("thread", ["t", "t t"])
def test_no_reader_takes_more_than_the_others(thread: str) -> None:
    data = encode(replace(FACT, source=Source("conversation", thread))).decode()
    for long in (
        data.replace(thread, thread * 140_000, 1),
        data.replace("topics: []", f"topics: []\nx: {'y' * 140_000}"),
    ):
        with pytest.raises(FormatError) as caught:
            decode(long.encode(), stem="x", when=WHEN)
        assert caught.value.problem.code == "too-large"


def test_comments_that_leave_no_room_are_not_lost() -> None:
    base = f"---\nid: f\n# {'c' * (MAX_BLOCK - 20)}\n---\n\nText.\n".encode()
    fact = decode(base, stem="f", when=WHEN).fact
    with pytest.raises(InvalidInput, match="front matter"):
        encode(replace(fact, confidence=0.9), base=base)


class TestRevision:
    def test_a_file_that_leaves_no_room_to_grow_is_refused(self) -> None:
        for number in (MAX_REVISION + 1, 999_999_999_999_999):
            with pytest.raises(FormatError, match="revision is") as caught:
                decode(f"---\nid: f\nrevision: {number}\n---\n\nText.\n".encode(), stem="f", when=WHEN)
            assert (caught.value.problem.code, caught.value.problem.line) == ("bad-number", 3)

    def test_nor_may_a_digest_and_an_edit_take_it_there(self) -> None:
        data = encode(replace(FACT, revision=MAX_REVISION - 1))
        edited = decode(data.replace(b"Content.\n", b"Changed.\n"), stem="f", when=WHEN)
        assert (edited.edited, edited.fact.revision) == (True, MAX_REVISION)
        beyond = data.replace(b"digest: 99999999999999-", b"digest: 100000000000000-")
        with pytest.raises(FormatError, match="revision is 100000000000001"):
            decode(beyond, stem="f", when=WHEN)

    def test_a_high_one_grows(self) -> None:
        base = b"---\nid: f\nrevision: 99999999999998\n---\n\nText.\n"
        fact = decode(base, stem="f", when=WHEN).fact
        data = encode(replace(fact, revision=fact.revision + 1), base=base)
        assert decode(data, stem="f", when=WHEN).fact.revision == 99_999_999_999_999
