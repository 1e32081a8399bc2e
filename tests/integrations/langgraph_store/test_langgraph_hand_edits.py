"""People in the files of a store: what they write is what agents read, and what they keep is kept."""

from __future__ import annotations

import logging

import pytest
from builders_store import edit, facts_of, place, replace_by_rename

pytest.importorskip("langgraph.store.base")

from langgraph.store.base import PutOp

from deermem import Corruption, DeerMem, Settings
from deermem.integrations.langgraph_store import DeerMemStore
from deermem.integrations.langgraph_store.names import agent_of

NS = ("memories", "alice")


@pytest.fixture
def folder(root):
    """The facts folder of the namespace."""
    return facts_of(root, "alice", agent_of(NS))


def path_of(folder, name: str):
    (path,) = folder.rglob(f"{name}.md")
    return path


def test_an_edit_is_what_the_next_reading_says(store, folder, clock):
    store.put(NS, "tea", {"text": "Likes tea.", "kind": "drink"})
    assert store.search(NS, query="tea")
    edit(path_of(folder, "tea"), "\nLikes tea.\n", "\nLikes cocoa.\n")
    assert store.get(NS, "tea").value == {"text": "Likes cocoa.", "kind": "drink"}
    assert [item.value["text"] for item in store.search(NS, query="cocoa")] == ["Likes cocoa."]
    replace_by_rename(path_of(folder, "tea"), "kind: drink", "kind: treat\n  stars: 5")
    assert store.search(NS, filter={"stars": 5})[0].value == {"text": "Likes cocoa.", "kind": "treat", "stars": 5}


def test_an_edit_of_json_is_what_the_next_reading_says(store, folder):
    store.put(NS, "food", {"name": {"of": "pizza"}, "stars": 5})
    edit(path_of(folder, "food"), '"stars": 5', '"stars": 4.5,\n  "place": "Rome"')
    assert store.get(NS, "food").value == {"name": {"of": "pizza"}, "stars": 4.5, "place": "Rome"}


def test_an_edit_between_a_look_and_a_put_makes_no_error_and_keeps_own_keys(store, folder, monkeypatch):
    from deermem import Memory

    store.put(NS, "tea", {"text": "Likes tea."})
    original, edits = Memory.apply, []

    def apply(memory, change):
        if not edits:
            edits.append(edit(path_of(folder, "tea"), "confidence: 0.5", "confidence: 0.9 # sure\nmood: happy"))
        return original(memory, change)

    monkeypatch.setattr(Memory, "apply", apply)
    store.put(NS, "tea", {"text": "Likes cocoa."})
    text = path_of(folder, "tea").read_text()
    assert "confidence: 0.9 # sure\nmood: happy\n" in text
    assert text.endswith("# Likes cocoa.\n\nLikes cocoa.\n")


def test_a_file_made_by_hand_is_an_item(store, folder):
    store.put(NS, "tea", {"text": "Likes tea."})
    place(folder / "notes" / "favourite-food.md", "Pizza.\n")
    item = store.get(NS, "favourite-food")
    assert (item.value, item.key, item.namespace) == ({"content": "Pizza."}, "favourite-food", NS)
    assert [found.key for found in store.search(("memories",), query="pizza")] == ["favourite-food"]
    assert {found.key for found in store.search(NS)} == {"tea", "favourite-food"}
    store.put(NS, "favourite-food", {"content": "Pasta."})
    assert (folder / "notes" / "favourite-food.md").read_text().endswith("\nPasta.\n")
    store.delete(NS, "favourite-food")
    assert not (folder / "notes" / "favourite-food.md").exists()


def test_a_hand_made_file_may_say_its_key(store, folder):
    place(folder / "todo.md", "---\nitem:\n  key: /notes/todo.md\n  text: content\n---\nBuy tea.\n")
    assert store.get(NS, "/notes/todo.md").value == {"content": "Buy tea."}
    assert store.get(NS, "todo") is None
    store.put(NS, "/notes/todo.md", {"content": "Buy milk."})
    assert [path.name for path in folder.rglob("*.md")] == ["todo.md"]
    assert store.list_namespaces() == [NS]


@pytest.mark.parametrize("stem", ["Favourite-Food", "k-0123456789abcdef"])
def test_a_stem_that_a_store_would_not_choose_is_a_key_too(store, folder, stem):
    place(folder / f"{stem}.md", "Pizza.\n")
    assert store.get(NS, stem).value == {"content": "Pizza."}
    store.put(NS, stem, {"content": "Pasta."})
    assert [path.name for path in folder.rglob("*.md")] == [f"{stem}.md"]


def test_a_stem_that_is_no_id_is_made_one(store, engine, folder):
    place(folder / "Favourite food.md", "Pizza.\n")
    (item,) = store.search(NS)
    assert item.key.startswith("Favourite-food-")
    engine.check("alice", fix=True)
    assert store.get(NS, item.key).value == {"content": "Pizza."}


def test_keys_that_differ_in_case_from_a_hand_made_file_are_their_own(store, folder):
    place(folder / "Tea.md", "Pizza.\n")
    store.put(NS, "tea", {"content": "Likes tea."})
    assert {item.key: item.value["content"] for item in store.search(NS)} == {"Tea": "Pizza.", "tea": "Likes tea."}
    assert store.get(NS, "tea").value == {"content": "Likes tea."}
    assert store.get(NS, "Tea").value == {"content": "Pizza."}
    store.delete(NS, "tea")
    assert [item.key for item in store.search(NS)] == ["Tea"]


def test_of_two_files_with_one_key_the_stores_own_counts(store, folder):
    store.put(NS, "/a.md", {"content": "Ours."})
    place(folder / "aaa.md", "---\nitem: {key: /a.md}\n---\nTheirs.\n")
    assert [item.value for item in store.search(NS)] == [{"content": "Ours."}]
    assert store.search(NS, query="Theirs") == []
    assert store.get(NS, "/a.md").value == {"content": "Ours."}


def test_a_deleted_item_does_not_come_back_from_another_file_of_its_key(store, folder):
    for name in ("aaa", "bbb"):
        place(folder / f"{name}.md", f"---\nitem: {{key: /a.md}}\n---\nTheirs, {name}.\n")
    store.put(NS, "/a.md", {"content": "Ours."})
    assert [path.read_text()[-6:] for path in sorted(folder.rglob("*.md"))] == ["Ours.\n", " bbb.\n"]
    store.delete(NS, "/a.md")
    assert store.get(NS, "/a.md") is None
    assert list(folder.rglob("*.md")) == []


def test_a_renamed_file_keeps_its_key_and_a_removed_one_is_gone(store, folder):
    store.put(NS, "tea", {"text": "Likes tea."})
    store.put(NS, "/a b.md", {"content": "Text."})
    path_of(folder, "tea").rename(folder / "renamed.md")
    assert store.get(NS, "tea").value == {"text": "Likes tea."}
    path_of(folder, "a-b-md-*").unlink()
    assert store.get(NS, "/a b.md") is None
    assert [item.key for item in store.search(NS)] == ["tea"]


def test_a_file_copied_from_another_namespace_is_not_served(store, folder, root):
    store.put(NS, "tea", {"text": "Likes tea."})
    place(facts_of(root, "alice", agent_of(("memories", "bob"))) / "tea.md", path_of(folder, "tea").read_bytes())
    assert store.list_namespaces() == [NS]
    assert store.search(("memories", "bob")) == []
    with pytest.raises(Corruption, match="belongs to user 'alice', agent 'ns-memories--alice'"):
        store.get(("memories", "bob"), "tea")


def test_a_heading_that_a_person_chose_stays_and_one_that_was_made_follows(store, folder):
    for key in ("chosen", "made", "stale"):
        store.put(NS, key, {"text": "Likes tea."})
    edit(path_of(folder, "chosen"), "# Likes tea.", "# Drinks")
    edit(path_of(folder, "stale"), "\nLikes tea.\n", "\nLikes milk.\n")
    for key in ("chosen", "made", "stale"):
        store.put(NS, key, {"text": "Likes cocoa."})
    assert path_of(folder, "chosen").read_text().endswith("# Drinks\n\nLikes cocoa.\n")
    assert path_of(folder, "made").read_text().endswith("# Likes cocoa.\n\nLikes cocoa.\n")
    assert path_of(folder, "stale").read_text().endswith("# Likes cocoa.\n\nLikes cocoa.\n")


@pytest.mark.parametrize("field", ["kind", "meta.tags[*]"])
def test_a_field_that_a_person_changed_is_found_by_what_it_says_now(store, folder, field):
    value = {"text": "Likes tea.", "kind": "drink", "meta": {"tags": ["drink"]}}
    store.batch([PutOp(NS, key, value, index=[field]) for key in ("edited", "other")])
    assert len(store.search(NS, query="drink")) == 2
    path = path_of(folder, "edited")
    path.write_text(path.read_text().replace("kind: drink", "kind: treat").replace("tags: [drink]", "tags: [treat]"))
    assert [item.key for item in store.search(NS, query="drink")] == ["other"]
    assert [item.key for item in store.search(NS, query="treat")] == ["edited"]
    store.put(NS, "put", value | {"kind": "treat", "meta": {"tags": ["treat"]}}, index=[field])
    found = store.search(NS, query="treat")
    assert [item.key for item in found] == ["put", "edited"]
    assert found[0].score > found[1].score > 0
    assert store.search(NS, query="tea") == []


def test_topics_and_keys_of_a_person_stay(store, folder):
    store.put(NS, "tea", {"text": "Likes tea.", "n": 1})
    edit(path_of(folder, "tea"), "topics: []", "topics: [drinks]\nmood: happy  # very")
    assert [item.key for item in store.search(NS, query="drinks")] == ["tea"]
    store.put(NS, "tea", {"text": "Likes cocoa."})
    assert "topics: [drinks]\nmood: happy  # very\n" in path_of(folder, "tea").read_text()
    assert "value:" not in path_of(folder, "tea").read_text()
    assert store.get(NS, "tea").value == {"text": "Likes cocoa."}


def test_a_file_that_can_not_be_read_hides_no_other(store, folder, clock):
    store.batch([PutOp(NS, key, {"text": f"Likes {key}."}) for key in ("tea", "milk")])
    broken = path_of(folder, "tea")
    broken.write_text("---\nid: [\n---\nLikes tea.\n")
    assert store.get(NS, "tea").value == {"text": "Likes tea."}  # it may be in the middle of being saved
    for refused in (lambda: store.put(NS, "tea", {"text": "Likes cocoa."}), lambda: store.delete(NS, "tea")):
        with pytest.raises(Corruption, match=r"tea\.md"):
            refused()
    clock.advance(seconds=61)
    assert [item.key for item in store.search(NS)] == ["milk"]
    for refused in (
        lambda: store.get(NS, "tea"),
        lambda: store.put(NS, "tea", {"text": "Likes cocoa."}),
        lambda: store.delete(NS, "tea"),
    ):
        with pytest.raises(Corruption, match=r"tea\.md"):
            refused()
    assert broken.read_text() == "---\nid: [\n---\nLikes tea.\n"


@pytest.mark.parametrize("stem", ["tea", "Tea", "tea-0123456789abcdef"])
def test_no_second_file_is_made_beside_one_by_hand_that_can_not_be_read(store, folder, stem):
    place(folder / f"{stem}.md", "---\nid: [\n---\nLikes tea.\n")
    for refused in (
        lambda: store.get(NS, stem),
        lambda: store.put(NS, stem, {"text": "Likes cocoa."}),
        lambda: store.delete(NS, stem),
    ):
        with pytest.raises(Corruption, match=rf"facts/{stem}\.md:\d"):
            refused()
    assert [path.name for path in folder.rglob("*.md")] == [f"{stem}.md"]
    store.put(NS, "milk", {"text": "Likes milk."})
    assert [item.key for item in store.search(NS)] == ["milk"]


def test_json_that_a_person_nested_deeper_than_the_store_does_hides_no_other(store, folder):
    deep = f'{{"a": {"[" * 150}"tea"{"]" * 150}, "b": 1e999}}'
    place(folder / "deep.md", f"---\nitem: {{search: [$]}}\n---\n```json\n{deep}\n```\n")
    store.put(NS, "tea", {"text": "Likes tea."})
    assert {item.key for item in store.search(NS, query="tea")} == {"deep", "tea"}


def test_json_that_can_not_be_read_hides_no_other_and_is_not_overwritten(store, folder, caplog):
    store.put(NS, "food", {"name": {"of": "pizza"}})
    store.put(NS, "tea", {"text": "Likes tea."})
    edit(path_of(folder, "food"), '"pizza"', '"pizza')
    before = path_of(folder, "food").read_bytes()
    with caplog.at_level(logging.WARNING, "deermem"):
        assert [item.key for item in store.search(NS, limit=1)] == ["tea"]
        assert [item.key for item in store.search(NS, query="pizza tea")] == ["tea"]
    assert caplog.text.count("fact food of agent ns-memories--alice is no item: its JSON can't be read") == 1
    for refused in (lambda: store.get(NS, "food"), lambda: store.put(NS, "food", {"text": "Likes pasta."})):
        with pytest.raises(Corruption, match=r"food\.md: the JSON of item 'food' can't be read"):
            refused()
    assert path_of(folder, "food").read_bytes() == before
    store.delete(NS, "food")
    assert [item.key for item in store.search(NS)] == ["tea"]


def test_a_namespace_of_hand_made_files_alone_is_found(store, folder, root):
    place(folder / "favourite-food.md", "Pizza.\n")
    assert store.list_namespaces() == [NS]
    assert [item.key for item in store.search(())] == ["favourite-food"]
    long = ("x" * 200,)
    place(facts_of(root, "alice", agent_of(long)) / "a.md", "Deep.\n")
    assert [item.key for item in store.search(long)] == ["a"]
    assert store.list_namespaces() == [NS]
    place(facts_of(root, "alice", agent_of(long)) / "b.md", f"---\nnamespace:\n- {long[0]}\n---\nDeeper.\n")
    assert store.list_namespaces() == [NS, long]
    assert len(store.search(())) == 3


def test_another_engine_sees_an_edit_at_once(store, root, folder, clock):
    with DeerMem(root, Settings(max_facts=0), clock=clock) as engine:
        other = DeerMemStore(engine, "alice")
        store.put(NS, "tea", {"text": "Likes tea."})
        assert other.get(NS, "tea").value == {"text": "Likes tea."}
        edit(path_of(folder, "tea"), "\nLikes tea.\n", "\nLikes cocoa.\n")
        assert other.get(NS, "tea").value == store.get(NS, "tea").value == {"text": "Likes cocoa."}
