"""What DeerFlow drops when it summarises a conversation: read at once, and never what was queued before."""

from __future__ import annotations

from pathlib import Path

from builders_replies import answer, new
from deerflow_stage import Scripted, ai, contents, human, opened

TEA = [human("I like tea, please remember", id="1"), ai("Noted, tea.", id="2")]
JAZZ = [human("And jazz", id="3"), ai("Jazz, noted.", id="4")]
HIDDEN = human("a list of files", id="5", additional_kwargs={"hide_from_ui": True})


def test_what_was_extracted_is_not_read_again(root: Path):
    """Else a fact that a person deleted, or all that they cleared, would come back."""
    model = Scripted(answer(new("Likes tea")))
    with opened(root, hooks={"host_llm_factory": lambda: model}) as manager:
        manager.add("t1", [*TEA, *JAZZ], user_id="alice")
        assert manager.shutdown_flush(30) is True
        manager.add_nowait("t1", [*TEA, HIDDEN], user_id="alice")
        assert contents(manager.get_memory(user_id="alice")) == ["Likes tea"]
        manager.clear_memory(user_id="alice")
        manager.add_nowait("t1", TEA, user_id="alice")
        assert (manager.shutdown_flush(30), len(model.asked)) == (True, 1)
        assert contents(manager.get_memory(user_id="alice")) == []


def test_what_is_new_beside_what_was_extracted_is_read_alone(root: Path):
    """146: and a question without its answer not at all."""
    model = Scripted(*[answer()] * 2)
    asked, again = human("Find me a club in Graz", id="6"), ai("Noted: green tea.", id="7")
    with opened(root, hooks={"host_llm_factory": lambda: model}) as manager:
        manager.add("t1", [*TEA, *JAZZ], user_id="alice")
        assert manager.shutdown_flush(30) is True
        manager.add_nowait("t1", [*TEA, HIDDEN, *JAZZ, asked], user_id="alice")
        manager.add_nowait("t1", [*TEA[:1], again], user_id="alice")
        assert manager.shutdown_flush(30) is True
    read = [prompt.partition("<conversation>\n")[2].partition("\n</")[0] for prompt in model.asked]
    assert read[1:] == ["User: I like tea, please remember\n\nAssistant: Noted: green tea."]


def test_what_a_clear_dropped_unread_is_not_read(root: Path):
    model = Scripted(answer(new("Likes tea")))
    with opened(root, hooks={"host_llm_factory": lambda: model}) as manager:
        manager.add("t1", TEA, user_id="alice")
        manager.clear_memory(user_id="alice")
        manager.add_nowait("t1", TEA, user_id="alice")
        assert (manager.shutdown_flush(30), model.asked) == (True, [])


def test_what_waits_is_read_at_once(root: Path):
    """150: beside the conversation that waits."""
    model = Scripted(answer(new("Likes tea")), answer(new("Likes tea")))
    with opened(root, hooks={"host_llm_factory": lambda: model}) as manager:
        manager.add("t1", [*TEA, *JAZZ], user_id="alice")
        manager.add_nowait("t1", TEA, user_id="alice")
        assert (manager.shutdown_flush(30), len(model.asked)) == (True, 2)
        assert contents(manager.get_memory(user_id="alice")) == ["Likes tea"]


def test_what_is_another_conversations_or_new_is_read(root: Path):
    model = Scripted()
    with opened(root, hooks={"host_llm_factory": lambda: model}) as manager:
        manager.add("t1", TEA, user_id="alice")
        manager.shutdown_flush(30)
        manager.add_nowait("t1", TEA, user_id="bob")
        manager.add_nowait("t1", TEA, user_id="alice", agent_name="coder")
        manager.add_nowait("t2", TEA, user_id="alice")
        manager.add_nowait("t1", [*TEA, *JAZZ], user_id="alice")
        assert (manager.shutdown_flush(30), len(model.asked)) == (True, 5)
        assert "And jazz" in "".join(model.asked)


def test_what_was_refused_or_queued_by_another_process_is_read(root: Path):
    """150, 151"""
    model = Scripted()
    fog = [human("Fog again", id="1"), ai("So it is.", id="2")]
    with opened(root, queue_max_depth=1, hooks={"host_llm_factory": lambda: model}) as manager:
        manager.add("t1", fog, user_id="alice")
        manager.add("t2", fog, user_id="alice")
        manager.add_nowait("t2", fog, user_id="alice")
        assert (manager.shutdown_flush(30), len(model.asked)) == (True, 2)
    with opened(root, hooks={"host_llm_factory": lambda: model}) as manager:
        manager.add_nowait("t1", fog, user_id="alice")
        assert (manager.shutdown_flush(30), len(model.asked)) == (True, 3)
