"""DeerFlow's manager and conversations: what is taught is known next time, a hand edit counts, hooks are told."""

from __future__ import annotations

import contextvars
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deerflow_double
import pytest
from builders_replies import answer, new, told
from deerflow_stage import Manager, Reply, Scripted, ai, contents, fact_file, human, opened

from deermem import DeerMem, StoreUnavailable

TEA = [human("I like tea, please remember", id="1"), ai("Noted, tea.", id="2")]
TRACE: contextvars.ContextVar[str | None] = contextvars.ContextVar("trace", default=None)


@contextmanager
def traced(trace_id: str) -> Iterator[str]:
    token = TRACE.set(trace_id)
    try:
        yield trace_id
    finally:
        TRACE.reset(token)


class Tracer(deerflow_double.MemoryCallbacks):
    """A host's callbacks that keep what they were told."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.results: list[dict[str, Any]] = []

    def on_memory_llm_call(self, invoke_config: dict[str, Any], **of: Any) -> None:
        self.calls.append({**of, "bound": TRACE.get()})
        invoke_config["metadata"] = {"trace": of["trace_id"]}

    def on_memory_llm_result(self, invoke_config: dict[str, Any], **of: Any) -> None:
        self.results.append({**of, "config": invoke_config})


def test_what_a_conversation_teaches_is_in_the_next_prompt(root: Path):
    model = Scripted(answer(new("Likes tea"), user={"workContext": told("Works on trains")}))
    with opened(root, hooks={"host_llm_factory": lambda: model}) as manager:
        manager.add("t1", TEA, user_id="alice@example.com", trace_id="tr-1")
        assert "tea" not in manager.get_context("alice@example.com")
        assert manager.shutdown_flush(30) is True
        context = manager.get_context("alice@example.com")
        assert "Likes tea" in context
        assert "Works on trains" in context
        (fact,) = manager.get_memory(user_id="alice@example.com")["facts"]
        assert (fact["source"], fact["confidence"]) == ("t1", 0.9)
        assert manager.get_context("bob") == ""


def test_a_hand_edit_between_two_turns_is_what_the_second_sees(root: Path):
    """32"""
    model = Scripted(answer(new("Likes tea")), answer(new("Likes jazz")))
    with opened(root, hooks={"host_llm_factory": lambda: model}) as manager:
        manager.add("t1", TEA, user_id="alice")
        manager.shutdown_flush(30)
        file = fact_file(root, "tea")
        file.write_text(file.read_text(encoding="utf-8").replace("Likes tea", "Likes cold brew"), encoding="utf-8")
        assert "Likes cold brew" in manager.get_context("alice")
        manager.add("t1", [*TEA, human("And jazz", id="3"), ai("Jazz, noted.", id="4")], user_id="alice")
        manager.shutdown_flush(30)
        assert "Likes cold brew" in model.asked[1]
        assert contents(manager.get_memory(user_id="alice")) == ["Likes cold brew", "Likes jazz"]


def test_each_turn_brings_all_of_it_and_only_the_new_is_read(root: Path):
    """142, 149, 156: with our own block, hidden, in front."""
    block = human(
        "<memory>\nFacts:\n- [preference | 0.90] Owns a llama\n</memory>", additional_kwargs={"hide_from_ui": True}
    )
    model = Scripted(answer(new("Likes tea")))
    with opened(root, hooks={"host_llm_factory": lambda: model}) as manager:
        manager.add("t1", [block, TEA[0], human("unsaid", additional_kwargs={"hide_from_ui": True}), TEA[1]])
        manager.add("t1", [block, *TEA, human("And jazz", id="3"), ai("Jazz, noted.", id="4")])
        manager.shutdown_flush(30)
        assert len(model.asked) == 1
        assert "And jazz" in model.asked[0]
        assert "llama" not in model.asked[0]
        assert "unsaid" not in model.asked[0]
        manager.add("t1", [block, *TEA, human("And jazz", id="3"), ai("Jazz, noted.", id="4")])
        assert manager.shutdown_flush(30) is True
        assert len(model.asked) == 1
        manager.add("t1", [block, *TEA, human("Also golf", id="5"), ai("Golf.", id="6")], agent_name="coder")
        manager.shutdown_flush(30)
        assert len(model.asked) == 2


def test_what_the_host_is_about_to_drop_is_read_at_once(root: Path):
    """150"""
    model = Scripted(answer(new("Likes tea")))
    done = threading.Event()
    hooks = {"host_llm_factory": lambda: model, "extraction_callback": lambda payload: done.set()}
    with opened(root, debounce_seconds=300, hooks=hooks) as manager:
        manager.add_nowait("t1", TEA, user_id="alice")
        assert done.wait(30)
        assert contents(manager.get_memory(user_id="alice")) == ["Likes tea"]


def test_what_was_queued_and_not_read_is_taken_up_by_the_next_manager(root: Path):
    """155"""
    with opened(root, hooks={"host_llm_factory": lambda: Scripted(RuntimeError("no network"))}) as manager:
        manager.add("t1", TEA, user_id="alice")
        assert manager.shutdown_flush(30) is False
    model = Scripted(answer(new("Likes tea")))
    with opened(root, hooks={"host_llm_factory": lambda: model}) as manager:
        assert manager.shutdown_flush(30) is True
        assert contents(manager.get_memory(user_id="alice")) == ["Likes tea"]


def test_a_flush_ends_in_time_and_close_does_not_wait_again(root: Path):
    """153"""
    answering = threading.Event()

    def slow(messages: object) -> str:
        answering.wait(60)
        return json.dumps(answer())

    with opened(root, close_timeout_seconds=3600, hooks={"host_llm": slow}) as manager:
        manager.add("t1", TEA, user_id="alice")
        assert manager.shutdown_flush(0.05) is False
        manager.close()
    # Else it would go on writing while the next test runs.
    answering.set()
    for thread in threading.enumerate():
        if thread.name == "deermem-extract":
            thread.join(30)


def test_an_agents_turn_never_fails_because_of_its_memory(
    root: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """151"""
    plain = [human("The sky is blue today"), ai("It is.")]
    with opened(root, queue_max_depth=1, hooks={"host_llm_factory": Scripted}) as manager:
        with caplog.at_level(logging.WARNING, "deermem"):
            manager.add("t1", plain, user_id="alice")
            assert caplog.messages == []
            manager.add("t2", plain, user_id="alice")
            (full,) = caplog.messages
            assert full.startswith("the conversation t2 was not queued for memory: 1 conversations wait already")
            manager.add("t3", [object()], user_id="alice")
            manager.add("", plain, user_id="alice")
            assert [message[:20] for message in caplog.messages] == [
                "the conversation t2 ",
                "the conversation t3 ",
                "the conversation  wa",
            ]
        assert manager.shutdown_flush(30) is True

        def refused(*given: object, **named: object) -> bool:
            raise StoreUnavailable("the disk is full")

        monkeypatch.setattr(type(manager.engine.conversations), "capture", refused)
        manager.add("t4", plain, user_id="alice")
        manager.add_nowait("t4", plain, user_id="alice")
        assert caplog.messages[-1].endswith("the disk is full")


def test_without_a_model_everything_but_extraction_works(root: Path, caplog: pytest.LogCaptureFixture):
    with opened(root, model=None, hooks={"host_llm_factory": lambda: None}) as manager:
        manager.add("t1", TEA, user_id="alice")
        manager.create_fact("Likes tea", user_id="alice")
        assert manager.shutdown_flush(1) is True
        assert "Likes tea" in manager.get_context("alice")
    assert any("there is no model" in message for message in caplog.messages)


# --- hooks


def test_the_hosts_callbacks_frame_each_call(root: Path):
    """125, 126"""
    tracer, metrics = Tracer(), []
    model = Scripted(answer(new("Likes tea")))
    hooks = {
        "callbacks": tracer,
        "host_llm_factory": lambda: model,
        "trace_context_manager": traced,
        "extraction_callback": metrics.append,
    }
    with opened(root, hooks=hooks) as manager:
        manager.add("t1", TEA, user_id="alice", agent_name="Coder", trace_id="tr-1")
        assert manager.shutdown_flush(30) is True
    assert tracer.calls == [
        {"thread_id": "t1", "user_id": "alice", "trace_id": "tr-1", "model_name": "scripted", "bound": "tr-1"}
    ]
    assert model.configs == [{"run_name": "memory_agent", "metadata": {"trace": "tr-1"}}]
    (result,) = tracer.results
    assert (result["error"], result["model_name"], result["config"]) == (None, "scripted", model.configs[0])
    assert "I like tea" in result["prompt"][-1]["content"]
    assert result["response"].content
    assert result["duration_ms"] >= 0
    assert TRACE.get() is None
    (payload,) = metrics
    assert (payload["thread_id"], payload["user_id"], payload["trace_id"]) == ("t1", "alice", "tr-1")
    assert (payload["success"], payload["model_name"]) == (True, "scripted")
    assert payload["token_usage"] == {"input_tokens": 7, "output_tokens": 3}


def test_the_metrics_are_counted_as_the_host_counts_them(root: Path):
    """117"""
    metrics: list[dict[str, Any]] = []
    facts = [
        new("Likes tea"),
        new("Likes fog", confidence=0.2),
        new("Fixing the parser", scope="thread"),
        new("May delete files", authority="permission"),
    ]
    model = Scripted(answer(*facts, factsToRemove=[{"id": "f1", "scope": "project", "reason": "so"}]))
    with opened(root, hooks={"host_llm_factory": lambda: model, "extraction_callback": metrics.append}) as manager:
        manager.add("t1", TEA)
        manager.shutdown_flush(30)
    (payload,) = metrics
    assert payload["facts_extracted"] == 4
    assert (payload["facts_passed_confidence"], payload["rejected_low_confidence"]) == (3, 1)
    assert (payload["facts_passed_scope_gate"], payload["rejected_by_scope_gate"]) == (2, 3)
    rejections = payload["scope_gate_rejections"]
    assert (rejections["facts"]["scope"], rejections["facts"]["authority"], rejections["removals"]["scope"]) == (
        1,
        1,
        1,
    )
    assert set(rejections) == {"facts", "summaries", "removals", "consolidations"}


def test_a_call_that_fails_is_told_too(root: Path):
    """126"""
    tracer, metrics = Tracer(), []
    model = Scripted(TimeoutError("slow"))
    hooks = {"callbacks": tracer, "host_llm_factory": lambda: model, "extraction_callback": metrics.append}
    with opened(root, hooks=hooks) as manager:
        manager.add("t1", TEA, user_id="alice")
        assert manager.shutdown_flush(30) is False
    (result,) = tracer.results
    assert isinstance(result["error"], TimeoutError)
    assert result["response"] is None
    assert [(payload["success"], payload["token_usage"], payload["thread_id"]) for payload in metrics] == [
        (False, None, "t1")
    ]


@pytest.mark.parametrize("reply", [Reply("I would rather not."), Reply('{"user": {}, "hist'), Reply(5), None])
def test_an_answer_that_is_of_no_use_is_a_failure_in_the_metrics(root: Path, reply: Any):
    """110, 126"""
    tracer, metrics = Tracer(), []
    model = SimpleNamespace(invoke=lambda messages, config: reply)
    hooks = {"callbacks": tracer, "host_llm_factory": lambda: model, "extraction_callback": metrics.append}
    with opened(root, hooks=hooks) as manager:
        manager.add("t1", TEA, user_id="alice", trace_id="tr-1")
        assert manager.shutdown_flush(30) is False
    (result,) = tracer.results
    assert (result["response"], result["error"]) == (reply, None)
    usage = None if reply is None else reply.usage_metadata
    assert [(each["success"], each["trace_id"], each["token_usage"]) for each in metrics] == [(False, "tr-1", usage)]


@pytest.mark.parametrize("broken", ["extraction_callback", "callbacks"])
def test_of_metrics_and_tracer_neither_keeps_the_other_from_its_word(root: Path, broken: str):
    """126"""

    class Failing(Tracer):
        def on_memory_llm_result(self, invoke_config: dict[str, Any], **of: Any) -> None:
            super().on_memory_llm_result(invoke_config, **of)
            raise RuntimeError("no tracer")

    def no_metrics(payload: dict[str, Any]) -> None:
        metrics.append(payload)
        raise RuntimeError("no metrics")

    metrics: list[dict[str, Any]] = []
    tracer = Failing() if broken == "callbacks" else Tracer()
    told_of = no_metrics if broken == "extraction_callback" else metrics.append
    model = Scripted(TimeoutError("slow"))
    hooks = {"callbacks": tracer, "host_llm_factory": lambda: model, "extraction_callback": told_of}
    with opened(root, hooks=hooks) as manager:
        manager.add("t1", TEA, user_id="alice")
        assert manager.shutdown_flush(30) is False
    assert (len(tracer.results), [payload["success"] for payload in metrics]) == (1, [False])


def test_callbacks_of_an_older_host_that_see_no_results_will_do(root: Path):
    class Old(deerflow_double.MemoryCallbacks):
        on_memory_llm_result = None  # type: ignore[assignment]

    model = Scripted(answer(new("Likes tea")))
    with opened(root, hooks={"callbacks": Old(), "host_llm_factory": lambda: model}) as manager:
        manager.add("t1", TEA)
        assert manager.shutdown_flush(30) is True
        assert contents(manager.get_memory()) == ["Likes tea"]


def test_the_host_says_which_hidden_message_is_a_persons_word(root: Path):
    """142"""
    model = Scripted(answer(), answer())
    hidden = human("I live in Lisbon, remember that", additional_kwargs={"hide_from_ui": True, "mine": True})
    hooks = {"host_llm_factory": lambda: model, "should_keep_hidden_message": lambda extra: extra.get("mine") is True}
    with opened(root, hooks=hooks) as manager:
        manager.add("t1", [hidden, ai("Lisbon, noted.")])
        manager.shutdown_flush(30)
    assert "Lisbon, remember" in model.asked[0]


def test_hooks_stay_out_of_the_configuration_and_what_it_says_itself_counts(root: Path):
    own, hosts = Scripted(answer(new("Likes tea"))), Scripted()
    config = {"storage_path": str(root), "token_counting": "char", "host_llm": own}
    seen: list[Any] = []
    manager = Manager.from_config(
        config, host_llm_factory=lambda: hosts, extraction_callback=seen.append, should_keep_hidden_message=bool
    )
    assert manager.backend_config == config
    assert isinstance(manager.engine, DeerMem)
    manager.add("t1", TEA)
    assert manager.shutdown_flush(30) is True
    manager.close()
    assert (len(own.asked), len(hosts.asked), len(seen)) == (1, 0, 1)
