"""A value that is too long for one file lies in several: whole or not at all, and each of them a person's to edit."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from builders_store import edit, facts_of, place, tree
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("langgraph.store.base")

from langgraph.store.base import PutOp

from deermem import Corruption, DeerMem, InvalidInput, Settings
from deermem.format import markdown
from deermem.integrations.langgraph_store import DeerMemStore
from deermem.integrations.langgraph_store.names import agent_of, ids_of, part_id
from deermem.integrations.langgraph_store.parts import Assembly, Part, files_of
from deermem.integrations.langgraph_store.values import Put, checked_value, read_value
from deermem.model.fact import MAX_CONTENT_BYTES, Fact, Source

NS = ("files",)
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
LIMIT = 200
LINES = "".join(f"line {number} of the page\n" for number in range(6_000))
"""137 kB, three files."""


def fresh(fact_id: str) -> Fact:
    return Fact(id=fact_id, content="", title="", source=Source("unknown"), created_at=NOON, updated_at=NOON)


def written(value: dict[str, Any], key: str = "k") -> list[Fact]:
    """What the files of a value say once they were written, where one holds 200 bytes."""
    checked = checked_value(value)
    assert isinstance(checked, dict)
    facts = files_of(Put(NS, key, checked), fresh("k"), lambda number: fresh(part_id(key, number)), LIMIT)
    return [markdown.decode(markdown.encode(fact), stem="", when=NOON).fact for fact in facts]


def exact(value: Any) -> str:
    """Text that tells 1 from 1.0 and from true."""
    return json.dumps(value, sort_keys=True)


def read(facts: list[Fact], key: str = "k") -> str:
    """The value that they say."""
    found = Assembly.of(key, facts[0], facts[1:])
    assert not found.left
    assert not found.missing
    return exact(read_value(found.joined()))


TEXTS = st.text(st.sampled_from(' \n\r\t\v\x85\u2028a#`-=<>\\"é漢😀\ud800\0'), min_size=1, max_size=60)
LONG = st.lists(TEXTS, min_size=1, max_size=4).map(lambda each: "".join(text * 9 for text in each))


@settings(max_examples=60)
@given(LONG, st.dictionaries(st.text(max_size=3), st.integers() | TEXTS, max_size=2))
def test_any_long_text_comes_back(text, more):
    value = {**more, "content": text}
    facts = written(value)
    assert read(facts) == exact(value)
    assert all(len(fact.content.encode()) <= LIMIT for fact in facts)


@settings(max_examples=40)
@given(st.lists(LONG | st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=4))
def test_any_long_object_comes_back(rows):
    facts = written({"rows": rows})
    assert read(facts) == exact({"rows": rows})
    assert all(len(fact.content.encode()) <= LIMIT for fact in facts)


def test_files_are_cut_at_line_ends_else_at_blanks_and_leave_room():
    lines = written({"content": "1234567\n" * 60})
    assert [fact.content.splitlines() for fact in lines] == [["1234567"] * count for count in (22, 22, 16)]
    words = written({"content": "123456789 " * 40})
    assert [len(fact.content) for fact in words] == [179, 179, 39]
    (*_, last) = written({"content": "é" * 300})
    assert last.content == "é" * (300 - 3 * 90)


def test_each_file_says_which_it_is_and_has_a_name_that_is_no_keys():
    facts = written({"content": "Notes.\n" * 60})
    assert [fact.title for fact in facts] == ["Notes.", "Notes. (2/3)", "Notes. (3/3)"]
    assert [(part.number, part.count) for fact in facts if (part := Part.of(fact))] == [(1, 3), (2, 3), (3, 3)]
    assert len({part.put for fact in facts if (part := Part.of(fact))}) == 1
    assert [fact.id for fact in facts[1:]] == [part_id("k", 2), part_id("k", 3)]
    assert ids_of(part_id("k", 2))[0] != part_id("k", 2)


@pytest.mark.parametrize(
    "item",
    [
        {"part": 2},
        {"part": 0, "of": 2},
        {"part": 3, "of": 2},
        {"part": True, "of": 2},
        {"part": 1, "of": 1},
        {"part": 1, "of": 10**9},
        {"part": "1", "of": "2"},
    ],
)
def test_numbers_that_make_no_sense_say_nothing(item):
    assert Part.of(Fact(**{**fields(fresh("k")), "extra": {"item": item}})) is None


def fields(fact: Fact) -> dict[str, Any]:
    return {name: getattr(fact, name) for name in Fact.__slots__}


# --- in a store


@pytest.fixture
def folder(root):
    return facts_of(root, "alice", agent_of(NS))


def paths(folder) -> list[Path]:
    """The files of the item `page`, by part."""
    return [next(folder.rglob(f"{name}.md")) for name in ("page", part_id("page", 2), part_id("page", 3))]


def count(root) -> int:
    return sum(name.endswith(".md") for name in tree(root))


def test_a_long_value_is_an_item_as_others_are(store, root, engine):
    value = {"content": LINES, "encoding": "utf-8"}
    store.put(NS, "page", value)
    store.put(NS, "other", {"content": "Tea."})
    assert count(root) == 4
    assert store.get(NS, "page").value == value
    assert {item.key: item.value == value for item in store.search(NS)} == {"page": True, "other": False}
    assert [item.key for item in store.search(NS, query="5999")] == ["page"]  # a word of the last file
    assert [item.key for item in store.search(NS, query="line page")] == ["page"]
    assert [item.key for item in store.search(NS, filter={"encoding": "utf-8"})] == ["page"]
    assert store.list_namespaces() == [NS]
    assert engine.check("alice") == []
    versions = [fact.version for fact in engine.memory("alice", "ns-files").list()]
    store.put(NS, "page", value)
    assert [fact.version for fact in engine.memory("alice", "ns-files").list()] == versions
    with DeerMem(root, Settings(max_facts=0)) as again:
        assert DeerMemStore(again, "alice").get(NS, "page").value == value


def test_a_value_grows_and_shrinks_by_one_commit_each(store, root, clock, monkeypatch):
    from deermem import Memory

    original, commits = Memory.apply, []
    monkeypatch.setattr(Memory, "apply", lambda memory, change: commits.append(original(memory, change)))
    created = clock.advance(seconds=1)
    for text, files in [("Tea.", 1), (LINES, 3), (LINES[:90_000], 2), (LINES * 2, 5), ("x" * 65_537, 2), ("Tea.", 1)]:
        store.put(NS, "page", {"content": text})
        item = store.get(NS, "page")
        assert item.value == {"content": text}
        assert (item.created_at, item.updated_at) == (created, clock())
        assert count(root) == files
        clock.advance(seconds=1)
    assert len(commits) == 6
    store.put(NS, "page", {"rows": [LINES]})
    assert store.get(NS, "page").value == {"rows": [LINES]}
    store.delete(NS, "page")
    assert (count(root), store.get(NS, "page"), len(commits)) == (0, None, 8)


def test_a_value_beyond_the_limit_is_refused_and_nothing_is_written(store, root):
    for value in ({"content": "x" * 4_194_305}, {"rows": ["x" * 4_194_300]}):
        with pytest.raises(InvalidInput, match=r"the value of 'page' takes 41943.. bytes; at most 4194304 fit"):
            store.batch([PutOp(("another",), "good", {"n": 1}), PutOp(NS, "page", value)])
    assert not root.exists()


def test_the_edit_of_any_file_is_what_the_next_reading_says_and_is_kept_from_a_put_that_did_not_see_it(store, folder):
    store.put(NS, "page", {"content": LINES, "n": 1})
    for path, number in zip(paths(folder), (7, 3_000, 5_999), strict=True):
        edit(path, f"line {number} of", f"verse {number} of")
    text = LINES
    for number in (7, 3_000, 5_999):
        text = text.replace(f"line {number} of", f"verse {number} of")
    assert store.get(NS, "page").value == {"content": text, "n": 1}
    assert store.search(NS, filter={"content": text})
    assert [item.key for item in store.search(NS, query="verse 3000")] == ["page"]
    edit(paths(folder)[1], "# line 0 of the page (2/3)", "# The middle\n\nA line.\n")
    edit(paths(folder)[1], "topics: []", "topics: [pages]\nmood: happy  # very")
    store.put(NS, "page", {"content": LINES + "end"})
    middle = paths(folder)[1].read_text()
    assert "topics: [pages]\nmood: happy  # very\n" in middle
    assert "\n# The middle\n\nline 2" in middle
    assert store.get(NS, "page").value == {"content": LINES + "end"}


def test_a_file_without_its_text_adds_nothing_to_the_value(store, folder):
    store.put(NS, "page", {"content": LINES})
    head, heading, text = paths(folder)[1].read_text().partition("\n# line 0 of the page (2/3)\n")
    paths(folder)[1].write_text(head + heading)
    assert store.get(NS, "page").value == {"content": LINES.replace(text.lstrip(), "")}


def test_a_text_that_is_the_heading_of_its_file_is_no_empty_one():
    value = {"content": "Notes.\n" * 50 + "Notes. (3/3)"}
    facts = written(value)
    assert (facts[2].content, facts[2].title) == ("Notes. (3/3)", "(3/3)")
    assert read(facts) == exact(value)


def test_an_edit_between_a_look_and_a_put_makes_no_error(store, folder, monkeypatch):
    from deermem import Memory

    store.put(NS, "page", {"content": LINES})
    original, edits = Memory.apply, []

    def apply(memory, change):
        if not edits:
            edits.append(edit(paths(folder)[2], "confidence: 0.5", "confidence: 0.9 # sure"))
        return original(memory, change)

    monkeypatch.setattr(Memory, "apply", apply)
    store.put(NS, "page", {"content": LINES[1:]})
    assert "confidence: 0.9 # sure" in paths(folder)[2].read_text()
    assert store.get(NS, "page").value == {"content": LINES[1:]}


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_value_with_a_file_less_is_none_and_hides_no_other(store, folder, caplog, number):
    store.put(NS, "page", {"content": LINES})
    store.put(NS, "other", {"content": "Tea."})
    kept = paths(folder)[number].read_bytes()
    paths(folder)[number].unlink()
    with caplog.at_level(logging.WARNING, "deermem"):
        assert [item.key for item in store.search(NS)] == ["other"]
        assert store.search(NS, query="line page") == []
    problem = f"of its 3 files, part {number + 1} is missing or of another put"
    assert caplog.text.count(f"item 'page' of agent ns-files is not served: {problem}") == 1
    for refused in (lambda: store.get(NS, "page"), lambda: store.put(NS, "page", {"content": "Tea."})):
        with pytest.raises(Corruption, match=f"item 'page' can't be read: {problem}; put the missing file back"):
            refused()
    place(folder / "back.md", kept)
    assert store.get(NS, "page").value == {"content": LINES}
    (folder / "back.md").unlink()
    store.delete(NS, "page")
    assert [path.stem for path in folder.rglob("*.md")] == ["other"]


@pytest.mark.parametrize("number", [0, 1])
def test_a_file_that_can_not_be_read_makes_the_item_unreadable(store, folder, clock, number):
    store.put(NS, "page", {"content": LINES})
    broken = paths(folder)[number]
    broken.write_text("---\nid: [\n---\n")
    assert store.get(NS, "page").value == {"content": LINES}  # it may be in the middle of being saved
    clock.advance(seconds=61)
    assert store.search(NS) == []
    for refused in (
        lambda: store.get(NS, "page"),
        lambda: store.put(NS, "page", {"content": "Tea."}),
        lambda: store.delete(NS, "page"),
    ):
        with pytest.raises(Corruption, match=broken.stem):
            refused()
    assert len(list(folder.rglob("*.md"))) == 3


def test_json_of_several_files_that_a_person_broke_is_not_overwritten(store, folder):
    value = {"rows": [[number, "x"] for number in range(9_000)]}
    store.put(NS, "page", value)
    assert store.get(NS, "page").value == value
    edit(paths(folder)[1], '"x"\n    ],', '"x\n    ],')
    for refused in (lambda: store.get(NS, "page"), lambda: store.put(NS, "page", {"content": "Tea."})):
        with pytest.raises(Corruption, match="the JSON of item 'page' can't be read"):
            refused()
    store.delete(NS, "page")
    assert list(folder.rglob("*.md")) == []


def test_files_of_two_puts_are_not_mixed(store, folder):
    store.put(NS, "page", {"content": LINES})
    old = paths(folder)[1].read_bytes()
    store.put(NS, "page", {"content": LINES.replace("line", "verse")})
    paths(folder)[1].write_bytes(old)
    with pytest.raises(Corruption, match="part 2 is missing or of another put"):
        store.get(NS, "page")


def test_what_another_put_left_is_neither_served_nor_kept(store, folder):
    store.put(NS, "page", {"content": LINES})
    left = paths(folder)[1].read_bytes()
    store.put(NS, "page", {"content": "Tea."})
    for clean in (lambda: store.put(NS, "page", {"content": "Milk."}), lambda: store.delete(NS, "page")):
        place(folder / "left.md", left)
        place(folder / "again.md", left.replace(b"page-2-", b"page-again-"))
        assert store.get(NS, "page").value["content"] in ("Tea.", "Milk.")
        assert store.search(NS, query="line") == []
        clean()
        assert {path.stem for path in folder.rglob("*.md")} <= {"page"}


def test_a_place_that_is_taken_is_not_written_over(store, folder):
    place(folder / f"{part_id('page', 2)}.md", "Somebody's.\n")
    with pytest.raises(InvalidInput, match=r"the place of item 'page' is taken by fact 'page-2-.*'; rename that file"):
        store.put(NS, "page", {"content": LINES})
    assert len(list(folder.rglob("*.md"))) == 1


def test_all_files_live_and_end_together(store, root, folder, clock):
    store.put(NS, "page", {"content": LINES}, ttl=1)
    clock.advance(seconds=40)
    assert store.search(NS)[0].updated_at == NOON
    clock.advance(seconds=40)
    assert store.get(NS, "page", refresh_ttl=False).value == {"content": LINES}
    clock.advance(seconds=40)
    assert (store.get(NS, "page"), store.search(NS), count(root)) == (None, [], 3)
    assert store.sweep_ttl() == 1
    assert count(root) == 0
    store.put(NS, "page", {"content": LINES}, ttl=1)
    now = clock.advance(seconds=61)
    store.put(NS, "page", {"content": LINES + LINES})
    assert store.get(NS, "page").created_at == now
    assert count(root) == 5


@pytest.mark.parametrize("ttl", [None, 1_000])
def test_a_put_between_a_look_and_the_move_of_its_end_says_when_it_ends(store, folder, clock, monkeypatch, ttl):
    from deermem.integrations.langgraph_store.buckets import Bucket

    store.put(NS, "page", {"content": LINES}, ttl=1)
    clock.advance(seconds=30)
    original = Bucket.refresh

    def refresh(bucket, facts):
        store.put(NS, "page", {"content": LINES * 2}, ttl=ttl)
        return original(bucket, facts)

    monkeypatch.setattr(Bucket, "refresh", refresh)
    assert store.get(NS, "page").value == {"content": LINES}
    clock.advance(seconds=90)
    assert store.get(NS, "page", refresh_ttl=False).value == {"content": LINES * 2}


@pytest.mark.parametrize("end", ["sweep", "write", "put"])
def test_an_item_ends_with_the_first_of_its_files(store, root, folder, clock, end):
    store.put(NS, "page", {"content": LINES}, ttl=1)
    edit(paths(folder)[1], "2026-11-30T12:01:00Z", "2026-12-30T12:01:00Z")
    clock.advance(seconds=61)
    assert (store.get(NS, "page"), store.search(NS)) == (None, [])
    if end == "sweep":
        assert store.sweep_ttl() == 1
    elif end == "write":
        store.put(NS, "other", {"content": "Tea."})
    else:
        store.put(NS, "page", {"content": "Tea."})
    assert count(root) == (end != "sweep")


def test_fields_of_a_long_value_are_found_though_they_fit_into_no_front_matter(store):
    store.put(NS, "page", {"content": LINES, "kind": "book"}, index=["content"])
    assert [item.key for item in store.search(NS, query="line 5999")] == ["page"]
    assert store.search(NS, query="book") == []
    store.put(NS, "page", {"content": LINES}, index=False)
    assert store.search(NS, query="line") == []
    assert store.get(NS, "page").value == {"content": LINES}


def test_a_query_looks_once_at_a_value_whose_files_it_finds(store, monkeypatch):
    from deermem.integrations.langgraph_store import finding

    original, looked = finding.read_value, []
    monkeypatch.setattr(finding, "read_value", lambda fact: looked.append(fact.id) or original(fact))
    store.put(NS, "page", {"content": LINES, "kind": "book"}, index=["kind"])
    store.put(NS, "other", {"content": LINES, "kind": "page"}, index=["kind"])
    assert [item.key for item in store.search(NS, query="line page")] == ["other"]
    assert sorted(looked) == ["other", "page"]


def test_what_fits_is_one_file(store, root):
    for value in ({"content": "x" * MAX_CONTENT_BYTES}, {"rows": [[number] for number in range(9_000)]}):
        store.put(NS, "page", value)
        assert store.get(NS, "page").value == value
        assert count(root) == 1
