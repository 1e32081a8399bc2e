"""Foreign memories: whatever is given is read or refused by name, and what is read is read the same again."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

from hypothesis import example, given, settings
from hypothesis import strategies as st

from deermem import DeerMem, InvalidInput, Settings
from deermem.format.foreign.collecting import Foreign
from deermem.format.foreign.mcp_memory import read_mcp_memory
from deermem.format.foreign.mem0 import read_mem0
from deermem.format.foreign.notes import NoteFile, read_notes
from deermem.format.markdown import encode

WHEN = datetime(2026, 11, 1, tzinfo=UTC)
NOW = datetime(2026, 11, 30, tzinfo=UTC)
words = st.text(max_size=12) | st.sampled_from(["", "Mira", "a_b", "\0", "\ud800", "2026-11-30", "#tag", "x" * 200])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


def objects(*keys: str) -> st.SearchStrategy[dict[str, object]]:
    """Objects that have some of these keys, with values of the right kind and of any other."""
    return st.dictionaries(st.sampled_from(keys), values, max_size=len(keys))


graph_lines = objects("type", "name", "entityType", "observations", "from", "to", "relationType") | st.builds(
    lambda name, said: {"type": "entity", "name": name, "entityType": "t", "observations": said},
    words,
    st.lists(words, max_size=3),
)
memories = objects(
    "id", "memory", "content", "metadata", "categories", "created_at", "expiration_date", "user_id", "run_id"
) | st.builds(lambda said, key: {"id": key, "memory": said}, words, words)
pieces = st.sampled_from(
    [
        "---\n", "title: T\n", "tags: [a, '#b']\n", "created: 2026-01-01\n", "permalink: p\n", "x: {\n", "a: &b c\n",
        "# Head\n", "## Part\n", "- [fact] said #tag (context)\n", "    more\n", "- [x] task\n", "```\n", "\r\n", "\n",
        "text #t\n", "<<<<<<< a\n", "[[Link]]", "\0", "\ufeff", "- [a] #t\n",
    ]
)  # fmt: skip
notes = st.lists(pieces | st.text(max_size=10), max_size=12).map(lambda found: "".join(found).encode(errors="replace"))


def judged(read: Callable[[], Foreign]) -> None:
    """What is read can be stored, under ids that stand once; what isn't is an InvalidInput that says something."""
    refusal = None
    try:
        found = read()
    except InvalidInput as error:
        refusal = str(error)
    else:
        ids = [fact.id.lower() for fact in found.document.facts]
        assert len(set(ids)) == len(ids) == len(found.document.stated)
        for fact in found.document.facts:
            encode(fact)
    assert refusal != ""


@given(st.lists(graph_lines, max_size=4).map(lambda items: "\n".join(map(json.dumps, items))) | st.text(max_size=30))
@example("[" * 100_000)
@example('{"type": ' + "9" * 5000 + "}")
def test_any_graph_is_read_or_refused(text: str) -> None:
    judged(lambda: read_mcp_memory(text, when=WHEN))


@given(
    (st.lists(memories, max_size=3) | st.builds(lambda found: {"results": found}, st.lists(memories, max_size=3))).map(
        json.dumps
    )
    | values.map(json.dumps)
    | st.text(max_size=30)
)
@example('[{"memory": "x", "expiration_date": "9999-12-31"}]')
@example("{" * 100_000)
def test_any_memories_are_read_or_refused(text: str) -> None:
    judged(lambda: read_mem0(text, when=WHEN, now=NOW))


@given(st.lists(st.tuples(st.text(max_size=6), notes | st.binary(max_size=20)), max_size=3))
def test_any_notes_are_read_or_refused(given_notes: list[tuple[str, bytes]]) -> None:
    files = [NoteFile(f"{name}.md", data, WHEN) for name, data in given_notes]
    judged(lambda: read_notes(files))


said = st.text(st.characters(categories=["L", "N", "P", "Zs"]), min_size=1, max_size=10).filter(str.strip)


@settings(max_examples=8)
@given(st.lists(st.tuples(said, st.lists(said, max_size=4)), max_size=5))
def test_a_second_import_changes_nothing(tmp_path_factory, entities: list[tuple[str, list[str]]]) -> None:
    graph = [{"type": "entity", "name": name, "observations": found} for name, found in entities]
    data = "\n".join(json.dumps(item) for item in graph).encode()
    with DeerMem(tmp_path_factory.mktemp("store"), Settings(max_facts=0)) as engine:
        memory = engine.memory("mira")
        try:
            foreseen = memory.import_from("mcp-memory", data, dry_run=True)
        except InvalidInput:
            return
        first = memory.import_from("mcp-memory", data)
        before = memory.state_token()
        again = memory.import_from("mcp-memory", data)
        assert foreseen.added == first.added
        assert (again.added, again.updated, again.deleted) == ((), (), ())
        assert (memory.state_token(), again.revision) == (before, first.revision)
