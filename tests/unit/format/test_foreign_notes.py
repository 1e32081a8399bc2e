"""Markdown notes as facts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from deermem.errors import InvalidInput
from deermem.format.foreign.notes import NoteFile, read_notes

WHEN = datetime(2026, 11, 1, tzinfo=UTC)
TEA = """---
title: Tea at Home
type: note
tags: [drinks, '#home']
permalink: ideas/tea
created: 2026-01-05
modified: 2026-02-01 10:00
status: draft
---

# Tea at Home

Water first, then leaves. See [[Kettle]].

## Observations
- [method] Green tea wants 70 degrees #brewing #heat (from the shop)
- [preference] Mira likes tea at home
    without milk #taste

## Relations
- relates_to [[Kettle]]
"""


def note(text: str | bytes, path: str = "a.md") -> NoteFile:
    return NoteFile(path, text if isinstance(text, bytes) else text.encode(), WHEN)


def facts(*notes: NoteFile):
    return read_notes(notes).document.facts


def refusal(*notes: NoteFile) -> str:
    with pytest.raises(InvalidInput) as caught:
        read_notes(notes)
    return str(caught.value)


def test_observations_become_facts_with_category_and_tags():
    method, preference, _ = facts(note(TEA, "ideas/tea.md"))
    assert method.content == "Tea at Home: Green tea wants 70 degrees (from the shop)"
    assert (method.category, method.topics) == ("method", ("drinks", "home", "brewing", "heat"))
    assert preference.content == "Mira likes tea at home without milk"
    assert (preference.category, preference.topics) == ("preference", ("drinks", "home", "taste"))
    assert method.source.extra == {"uri": "ideas/tea.md"}
    assert method.source.type == "import"


def test_the_prose_is_one_fact_under_the_title():
    prose = facts(note(TEA))[-1]
    said = "Water first, then leaves. See [[Kettle]].\n\n## Relations\n- relates_to [[Kettle]]"
    assert (prose.title, prose.content) == ("Tea at Home", said)
    assert prose.topics == ("drinks", "home")
    assert prose.extra == {"frontMatter": {"type": "note", "status": "draft"}}
    assert prose.created_at == datetime(2026, 1, 5, tzinfo=UTC)
    assert prose.updated_at == datetime(2026, 2, 1, 10, tzinfo=UTC)


def test_a_note_of_observations_alone_has_no_prose():
    assert len(facts(note("# Tea\n\n## Observations\n- [method] Green tea wants 70 degrees\n"))) == 1


def test_an_ordinary_note_is_one_fact():
    text = "Sow in #garden/beds, not in `#code`.\n\n```\n#not-this\n```\nIssue #42, #2026-plans"
    (fact,) = facts(note(text, "log/Spring sowing.md"))
    assert (fact.title, fact.content) == ("Spring sowing", text)
    assert fact.topics == ("garden/beds", "2026-plans")
    assert (fact.category, fact.created_at, fact.source.extra) == ("context", WHEN, {"uri": "log/Spring sowing.md"})


@pytest.mark.parametrize(
    ("text", "title", "content"),
    [
        ("# Head\n\nText", "Head", "Text"),
        ("---\ntitle: Own\n---\n# Head\n\nText", "Own", "# Head\n\nText"),
        ("---\ntitle: 2024\n---\nText", "2024", "Text"),
        ("# Head only", "Head only", "# Head only"),
        ("\ufeff---\r\ntitle: Own\r\n---\r\nOne\r\nTwo\r\n", "Own", "One\nTwo"),
        ("---\n\nA letter\n", "a", "---\n\nA letter"),
    ],
)
def test_title_and_content_of_a_note(text, title, content):
    (fact,) = facts(note(text))
    assert (fact.title, fact.content) == (title, content)


@pytest.mark.parametrize(
    "line",
    [
        "- [ ] buy tea",
        "- [x] buy tea",
        "- [X] buy tea",
        "- [/] brew tea",
        "- [link](https://example.org) to it",
        "- [[Kettle]] boils",
        "- [00:01:30] the kettle is heard",
        "- [^1] a footnote",
        "> - [!info] a callout",
        "```\n- [method] in code\n```",
        "[method] no list item",
    ],
)
def test_what_only_looks_like_an_observation_is_prose(line):
    (fact,) = facts(note(line))
    assert fact.content == line


@pytest.mark.parametrize(
    ("tags", "topics"),
    [
        ("[one, two]", ("one", "two")),
        ("one, two", ("one", "two")),
        ("one two", ("one", "two")),
        ("\n- one\n- '#two words'", ("one", "two words")),
        ("2026", ("2026",)),
        ("", ()),
    ],
)
def test_tags_of_the_front_matter_are_topics(tags, topics):
    assert facts(note(f"---\ntags: {tags}\n---\nText"))[0].topics == topics


def test_ids_come_from_the_permalink_else_from_the_path():
    before = [fact.id for fact in facts(note(TEA, "ideas/tea.md"))]
    assert [fact.id for fact in facts(note(TEA, "moved.md"))] == before
    edited = facts(note(TEA.replace("Water first", "Leaves first").replace("70", "75"), "ideas/tea.md"))
    assert [fact.id == old for fact, old in zip(edited, before, strict=True)] == [False, True, True]
    assert facts(note("One", "a.md"))[0].id == facts(note("Two", "a.md"))[0].id != facts(note("One", "b.md"))[0].id


def test_a_path_is_the_same_in_both_forms_of_unicode():
    assert facts(note("One", "é.md"))[0].id == facts(note("One", "e\u0301.md"))[0].id


def test_the_same_observation_twice_in_a_note_is_one_fact():
    assert len(facts(note("- [fact] Tea is hot\n- [fact]  Tea is  hot\n"))) == 1


def test_a_note_that_says_nothing_is_passed_over():
    found = read_notes([note("", "a.md"), note("---\ntitle: T\n---\n \n", "b.md")])
    assert found.document.facts == ()
    assert found.skipped == ("a.md: it is empty", "b.md: it is empty")


def test_a_long_note_is_divided_before_headings():
    sections = "".join(f"## Part {number}\n\n{'word ' * 6000}\n\n" for number in range(4))
    text = f"# Book\n\nIntroduction\n\n{sections}"
    first, second = facts(note(text, "book.md"))
    assert (first.title, second.title) == ("Book", "Book: Part 2")
    assert first.content.startswith("Introduction")
    assert second.content.startswith("## Part 2\n")
    assert "".join((first.content + second.content).split()) == "".join(text.split())[len("#Book") :]
    assert first.id == facts(note("# Book\n\nShort", "book.md"))[0].id
    assert facts(note(text, "book.md"))[1].id == second.id


def test_a_section_too_long_for_a_fact_is_named():
    message = refusal(note(f"# Book\n\n## Fine\n\nText\n\n## Endless\n\n{'x' * 70_000}", "book.md"))
    assert message.startswith("book.md, section 'Endless': content has 70012 bytes")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (b"caf\xe9", "a.md: it is not valid UTF-8 at byte 3; save it as UTF-8"),
        (b"---\ntitle: a: b\n---\nText", "a.md:2: the front matter is not valid YAML"),
        (b"---\ntitle: a\n\nText", "a.md:1: the front matter has no closing ---"),
        (b"---\ntags: [x\n---\nText", "a.md:3: the front matter is not valid YAML"),
        (b"---\ntags: {x: y}\n---\nText", "a.md: tags is {'x': 'y'}"),
        (b"---\ncreated: last week\n---\nText", "a.md: createdAt 'last week' is not a timestamp"),
        (b"---\ncreated: [1]\n---\nText", "a.md: created is [1]"),
        (b"---\ntitle: T\n---\n\none\0two", "content holds a NUL character"),
        (b"One\n<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n", "a.md: content holds the marks of an unresolved"),
    ],
)
def test_a_bad_note_is_named_with_its_line(text, named):
    assert named in refusal(note(text))


def test_a_bad_observation_is_named_with_its_line():
    message = refusal(note("---\ntitle: T\n---\n\nProse\n\n- [fact] a\0b\n"))
    assert message.startswith("a.md:7: content holds a NUL character")


def test_all_bad_notes_are_named():
    message = refusal(note(b"\xff", "a.md"), note("Fine", "b.md"), note("---\nx: [\n---\n", "c.md"))
    assert "a.md: it is not valid UTF-8" in message
    assert "c.md:" in message
    assert "b.md" not in message


def test_two_notes_of_one_permalink_are_refused():
    text = "---\npermalink: same\n---\nText"
    assert "b.md: its permalink 'same' is that of a.md" in refusal(note(text, "a.md"), note(text, "b.md"))
