"""deermem.testing: scripts that run out say so, answers pass the gate, a folder goes when its block ends."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta, timezone
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


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"facts": "Likes tea"}, "facts is 'Likes tea'; give a list of texts, or of mappings with content"),
        ({"facts": {"content": "Likes tea"}}, "facts is {'content'"),
        ({"facts": [7]}, "facts has 7"),
        ({"facts": 7}, "facts is 7"),
        ({"facts": [{"contents": "Likes tea"}]}, "facts has an item with contents; use authority, category, "),
        ({"facts": [{"category": "goal"}]}, "facts has an item whose content is None; give a text"),
        ({"remove": "fact_1"}, "remove is 'fact_1'; give a list of texts, or of mappings with id"),
        ({"remove": [{"id": "fact_1", "why": "wrong"}]}, "remove has an item with why; use id, reason, "),
        ({"summaries": {"workContext": 7}}, "the summary workContext is 7; give a text"),
    ],
)
def test_what_no_model_answers_is_refused(given, told):
    with pytest.raises(InvalidInput, match=re.escape(told)):
        answer(**given)


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


def test_an_answer_that_no_model_gives_is_refused_at_once():
    model = ScriptedModel("{}")
    for item in (3, None, b"{}", object(), ScriptedModel):
        with pytest.raises(InvalidInput, match=r"an item of the script is .*; give what answer"):
            ScriptedModel(item)
        with pytest.raises(InvalidInput, match="an item of the script is"):
            model.add(answer(), item)
    assert model([]) == "{}"
    model.assert_done()


def test_answers_that_are_left_fail_the_test_too():
    model = ScriptedModel(answer())
    model.add("{}")
    with pytest.raises(AssertionError, match="2 answers are left; the model was asked 0 times"):
        model.assert_done()


@pytest.mark.parametrize(("given", "told"), [(TimeoutError("too slow"), "too slow"), (TimeoutError, "TimeoutError")])
def test_an_exception_in_the_script_is_raised(given, told):
    model = ScriptedModel(given)
    with temporary_engine(model) as engine, pytest.raises(ExtractionFailed, match=told):
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


def test_a_clock_gives_utc_and_takes_no_time_without_a_zone():
    clock = FakeClock(datetime(2026, 11, 30, 12, tzinfo=timezone(timedelta(hours=2))))
    assert clock().isoformat() == "2026-11-30T10:00:00+00:00"
    with pytest.raises(InvalidInput, match="2026-11-30 12:00:00 has no zone"):
        FakeClock(datetime(2026, 11, 30, 12))


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


def test_a_hand_edit_changes_no_byte_beside_the_text():
    with temporary_engine() as engine:
        memory = engine.memory("alice")
        fact = memory.add("Likes tea\r\nand jam")
        before = memory.path(fact.id).read_bytes()
        assert b"\r\n" in before
        hand_edit(memory, fact.id, "jam", "cake")
        assert memory.path(fact.id).read_bytes() == before.replace(b"jam", b"cake")


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
    with pytest.raises(AssertionError, match="1 calls came after the last item; the model was asked 5 times"):
        model.assert_done()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("There is one at nine.", ["There ", "is ", "one ", "at ", "nine."]),
        ("\n Yes,\n\nit is. ", ["\n ", "Yes,\n\n", "it ", "is. "]),
        ("", [""]),
    ],
)
def test_a_chat_model_streams_a_text_in_words(said, words):
    pytest.importorskip("langchain_core")
    model = scripted_chat_model(said)
    model.add(said)
    assert [piece.text for piece in model.stream("hi")] == words

    async def heard():
        return [piece.text async for piece in model.astream("hi")]

    assert asyncio.run(heard()) == words
    model.assert_done()


def test_a_message_that_is_streamed_is_the_message_of_the_script():
    pytest.importorskip("langchain_core")
    from langchain_core.messages import AIMessage

    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    calls = tool_call("look", where="here").tool_calls
    blocks = [{"type": "text", "text": "Two words"}]
    for content in ("Let me look.", blocks):
        whole = AIMessage(content, id="m1", tool_calls=calls, usage_metadata=usage, additional_kwargs={"a": 1})
        first, *others = scripted_chat_model(whole).stream("hi")
        heard = sum(others, first)
        for name in ("content", "id", "tool_calls", "usage_metadata", "additional_kwargs"):
            assert getattr(heard, name) == getattr(whole, name), name


def test_a_chat_model_raises_what_its_script_says_and_names_what_it_can_not_say():
    pytest.importorskip("langchain_core")
    model = scripted_chat_model(TimeoutError("too slow"), lambda messages: 7)
    with pytest.raises(TimeoutError, match="too slow"):
        model.invoke("hi")
    with pytest.raises(InvalidInput, match="an item of the script is 7"):
        model.invoke("hi")
    for item in (7, [], None, [tool_call("look"), "text"]):
        with pytest.raises(InvalidInput, match=r"an item of the script is .*; give text, a message"):
            scripted_chat_model("ok", item)
        with pytest.raises(InvalidInput, match="an item of the script is"):
            model.add("ok", item)
    model.add("left")
    with pytest.raises(AssertionError, match="1 items of the script are left"):
        model.assert_done()


def test_a_chat_model_keeps_the_names_of_the_tools_on_offer():
    pytest.importorskip("langchain_core")

    def look(where: str) -> str:
        """Looks."""
        return where

    model = scripted_chat_model("ok")
    assert model.bind_tools([look, {"type": "web_search"}]).invoke("hi").text == "ok"
    assert model.tools == ["look", "web_search"]


def test_a_message_that_is_said_twice_is_two_messages():
    pytest.importorskip("langchain_core")
    hello = tool_call("look")
    model = scripted_chat_model(hello, hello)
    said = [model.invoke("hi") for _ in range(2)]
    assert said[0].id != said[1].id
    assert (hello.id, [message.tool_calls for message in said]) == (None, [hello.tool_calls] * 2)
