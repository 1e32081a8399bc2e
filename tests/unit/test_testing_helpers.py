"""deermem.testing: scripts that run out say so, answers pass the gate, a folder goes when its block ends."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import deermem
from deermem import ExtractionFailed, FactNotFound, InvalidInput, Settings, testing
from deermem.testing import (
    FakeClock,
    ScriptedModel,
    answer,
    hand_edit,
    scripted_chat_model,
    temporary_engine,
    tool_call,
)

PAGE = Path(__file__).resolve().parents[2] / "docs/python.md"
SAID = [("user", "I like tea"), ("assistant", "Noted.")]


def test_importing_it_loads_no_framework():
    code = (
        "import sys, deermem.testing\nprint([n for n in ('langchain_core', 'pydantic', 'click') if n in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(deermem.__file__).resolve().parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_name_is_documented_with_its_parameters():
    rows = dict(re.findall(r"^\| `(\w+)\((.*?)\)` \| ", PAGE.read_text().partition("## Testing")[2], re.MULTILINE))
    assert sorted(rows) == sorted(testing.__all__)
    for name, told in rows.items():
        parameters = inspect.signature(getattr(testing, name)).parameters
        assert [word for word in parameters if word not in re.findall(r"\w+", told)] == [], name


def test_an_answer_is_stored_as_a_model_would_have_it():
    model = ScriptedModel(
        answer(facts=["Likes tea", {"content": "Lives in Graz", "category": "identity", "confidence": 0.8}]),
        lambda messages: answer(remove=[ids["Likes tea"]], summaries={"workContext": "Builds bridges"}),
    )
    with temporary_engine(model) as engine:
        memory = engine.memory("alice")
        outcome = memory.extract(SAID, "t1")
        assert outcome.refused == ()
        ids = {fact.content: fact.id for fact in memory.list()}
        assert {(fact.content, fact.category, fact.confidence) for fact in memory.list()} == {
            ("Likes tea", "context", 0.9),
            ("Lives in Graz", "identity", 0.8),
        }
        assert memory.extract(SAID, "t1").refused == ()
        assert [fact.content for fact in memory.list()] == ["Lives in Graz"]
        assert memory.summaries().work_context.summary == "Builds bridges"
    model.assert_done()
    assert [message["role"] for message in model.prompts[0]] == ["system", "user"]
    assert "I like tea" in model.prompts[0][1]["content"]


def test_a_fact_that_is_replaced_and_labels_of_ones_own():
    with temporary_engine(ScriptedModel()) as engine:
        fact = engine.memory("alice").add("Lives in Graz", source="t0")
    made = answer(
        facts=[{"content": "Lives in Linz", "durability": "session"}],
        remove=[{"id": fact.id, "replacementFactIndex": 0}],
    )
    assert made["newFacts"][0]["durability"] == "session"
    assert made["factsToRemove"] == [
        {"id": fact.id, "replacementFactIndex": 0, "scope": "user", "reason": "the person said so"}
    ]


def test_an_unknown_summary_is_refused():
    with pytest.raises(InvalidInput, match="there is no summary mood; use workContext"):
        answer(summaries={"mood": "good"})


def test_a_script_that_runs_out_fails_the_extraction_and_the_test():
    model = ScriptedModel()
    with temporary_engine(model) as engine:
        with pytest.raises(ExtractionFailed, match="the script has no answer to call 1"):
            engine.memory("alice").extract(SAID, "t1")
        assert engine.memory("alice").capture(SAID, "t1")
        assert not engine.flush(30)
        engine.cancel("alice")
    with pytest.raises(AssertionError, match="calls came after the last answer"):
        model.assert_done()


def test_answers_that_are_left_fail_the_test_too():
    model = ScriptedModel(answer())
    model.add("{}")
    with pytest.raises(AssertionError, match="2 answers are left; the model was asked 0 times"):
        model.assert_done()


def test_an_exception_in_the_script_is_raised():
    model = ScriptedModel(TimeoutError("too slow"))
    with temporary_engine(model) as engine, pytest.raises(ExtractionFailed, match="too slow"):
        engine.memory("alice").extract(SAID, "t1")
    model.assert_done()


def test_a_model_that_is_asked_by_many_threads_gives_each_answer_once():
    model = ScriptedModel(*map(str, range(50)))
    told: list[object] = []
    threads = [threading.Thread(target=lambda: told.extend(model([]) for _ in range(10))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(map(int, told)) == list(range(50))


def test_the_folder_of_a_temporary_engine_goes_with_all_that_waits_in_it():
    with temporary_engine(ScriptedModel(), settings=Settings(close_timeout_seconds=0)) as engine:
        engine.memory("alice").add("Likes tea")
        assert engine.memory("alice").capture(SAID, "t1")
        assert list(engine.root.rglob("*.md"))
    assert not engine.root.exists()


def test_the_folder_goes_where_the_block_fails():
    roots = []

    def failing():
        with temporary_engine() as engine:
            engine.memory("alice").add("Likes tea")
            roots.append(engine.root)
            raise LookupError

    with pytest.raises(LookupError):
        failing()
    assert [root.exists() for root in roots] == [False]


def test_a_clock_stands_still_until_it_is_told_to_advance():
    clock = FakeClock()
    assert clock() == clock() == datetime(2026, 11, 30, 12, tzinfo=UTC)
    assert clock.advance(timedelta(minutes=1), days=1, hours=2, seconds=3) == datetime(
        2026, 12, 1, 14, 1, 3, tzinfo=UTC
    )
    with temporary_engine(clock=clock) as engine:
        assert engine.memory("alice").add("Likes tea").created_at == clock.now


def test_a_hand_edit_is_what_the_next_read_and_search_see():
    with temporary_engine() as engine:
        memory = engine.memory("alice")
        fact = memory.add("Likes green tea")
        hand_edit(memory, fact.id, "green tea", "black coffee")
        now = memory.get(fact.id)
        assert (now.content, now.title) == ("Likes black coffee", "Likes black coffee")
        assert [hit.fact.id for hit in memory.search("coffee")] == [fact.id]
        assert now.version != fact.version
        with pytest.raises(InvalidInput, match="'green tea' does not stand in"):
            hand_edit(memory, fact.id, "green tea", "water")
        with pytest.raises(FactNotFound):
            hand_edit(memory, "gone", "a", "b")


def test_a_chat_model_says_its_script_streams_it_and_keeps_what_it_was_asked():
    pytest.importorskip("langchain_core")
    model = scripted_chat_model(
        "one",
        tool_call("look", where="here"),
        lambda messages: messages[-1].text.upper(),
        [tool_call("a"), tool_call("b")],
    )
    assert model.invoke("first").text == "one"
    (call,) = [piece.tool_calls for piece in model.stream("second") if piece.tool_calls]
    assert [(item["name"], item["args"]) for item in call] == [("look", {"where": "here"})]
    assert model.invoke("third").text == "THIRD"
    names = model.invoke("fourth").tool_calls
    assert [item["name"] for item in names] == ["a", "b"]
    assert names[0]["id"] != names[1]["id"]
    assert [prompt[0].text for prompt in model.prompts] == ["first", "second", "third", "fourth"]
    model.assert_done()
    with pytest.raises(AssertionError, match="nothing to say to call 5"):
        model.invoke("fifth")


def test_a_chat_model_raises_what_its_script_says_and_names_what_it_can_not_say():
    pytest.importorskip("langchain_core")
    model = scripted_chat_model(TimeoutError("too slow"), 7, "left")
    with pytest.raises(TimeoutError, match="too slow"):
        model.invoke("hi")
    with pytest.raises(TypeError, match="an item of the script is 7"):
        model.invoke("hi")
    with pytest.raises(AssertionError, match="1 items of the script are left"):
        model.assert_done()


def test_a_chat_model_keeps_the_names_of_the_tools_on_offer():
    pytest.importorskip("langchain_core")

    def look(where: str) -> str:
        """Looks."""
        return where

    model = scripted_chat_model("ok")
    assert model.bind_tools([look]).invoke("hi").text == "ok"
    assert model.tools == ["look"]
