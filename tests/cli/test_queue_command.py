"""deermem queue: what waits for extraction, what was set aside, and what check and stats say of both."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from builders_replies import answer, new

from deermem import DeerMem, Settings
from deermem.store.files import Files

SAID = [("user", "I like jazz"), ("assistant", "Nice.")]


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEERMEM_MODEL", raising=False)


@pytest.fixture
def wait(root: Path, clock) -> Callable[..., Path]:
    """Captures a conversation that nobody extracts; gives its file."""

    def wait(user: str | None = "alice", thread: str = "t1") -> Path:
        with DeerMem(root, Settings(close_timeout_seconds=0), lambda _: "never", clock=clock) as engine:
            assert engine.memory(user, "coder").capture(SAID, thread)
        folder = (root if user is None else root / "users" / user) / ".queue"
        (path,) = [path for path in folder.glob("w.*") if thread in path.read_text()]
        return path

    return wait


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What a `langchain` model answers, one after the other, the last of them for ever."""
    given = [json.dumps(answer(new("Likes jazz")))]
    module = ModuleType("langchain.chat_models")
    module.init_chat_model = lambda *_, **__: SimpleNamespace(invoke=lambda _: given[0])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "langchain", ModuleType("langchain"))
    monkeypatch.setitem(sys.modules, "langchain.chat_models", module)
    return given


def set_aside(path: Path) -> Path:
    return path.rename(path.with_name("x" + path.name[1:]))


def test_what_waits_is_listed_of_one_user_or_of_all(call, wait):
    wait("alice", "t1")
    wait("bob", "t2")
    wait(None, "t3")
    done = call("queue")
    assert (done.code, done.err) == (0, "")
    header, *rows = done.out.splitlines()
    assert header.split() == ["USER", "AGENT", "THREAD", "TURNS", "SINCE", "STATE"]
    assert sorted(row.split()[:4] for row in rows) == [
        ["-", "coder", "t3", "2"],
        ["alice", "coder", "t1", "2"],
        ["bob", "coder", "t2", "2"],
    ]
    assert all(row.endswith("2026-11-30T12:00:00Z  waiting, due 2026-11-30T12:00:30Z") for row in rows)
    (one,) = call("--json", "queue", user="bob").json["waiting"]
    assert one.keys() == {
        *("user_id", "agent", "thread_id", "state", "since", "due", "attempts", "turns", "path"),
    }
    assert (one["user_id"], one["state"], one["attempts"]) == ("bob", "waiting", 0)
    assert "jazz" not in done.out + json.dumps(one)


def test_nothing_waits(call, add):
    assert "there is no store" in call("queue").complaint
    add("Likes tea")
    assert (call("queue").out, call("queue").err) == ("", "no conversation waits\n")
    assert call("--json", "queue").json == {"retried": 0, "waiting": []}


def test_flush_extracts_what_waits_and_says_what_came_of_it(call, wait, answers):
    wait("alice", "t1")
    wait("bob", "t2")
    done = call("queue", "--flush", "--model", "openai:small", "--timeout", 60)
    assert (done.code, done.err) == (0, "")
    *rows, last = done.out.splitlines()
    assert sorted(row.split() for row in rows) == [
        ["alice", "coder", "t1", "fact.accepted", "1"],
        ["bob", "coder", "t2", "fact.accepted", "1"],
    ]
    assert last == "2 conversations extracted, 0 still waiting"
    assert [fact["content"] for fact in call("--json", "list", "--agent", "coder", user="bob").json] == ["Likes jazz"]
    done = call("--json", "queue", "--flush", "--model", "openai:small")
    assert done.json == {"retried": 0, "extracted": [], "waiting": []}


def test_what_a_model_fails_on_waits_on(call, wait, answers):
    path = wait()
    answers[:] = ["no JSON"]
    done = call("queue", "--flush", "--model", "openai:small")
    assert done.code == 1
    assert done.out == "0 conversations extracted, 1 still waiting\n"
    assert "could not be extracted and waits" in done.err
    assert json.loads(path.read_text())["attempts"] == 1
    assert ", 1 failure" in call("queue").out


def test_what_was_set_aside_is_named_by_check_and_tried_again_on_demand(call, wait, answers):
    path = set_aside(wait())
    (finding,) = [item for item in call("--json", "check").json if item["code"] == "queue-set-aside"]
    assert (finding["severity"], finding["path"]) == ("warning", str(path))
    assert "thread 't1'" in finding["message"]
    assert "deermem queue --retry" in finding["hint"]
    assert call("check", "--fix").code == 0
    assert "set aside" in call("queue").out
    # A flush alone leaves it: whoever set it aside had reasons.
    assert call("queue", "--flush", "--model", "openai:small").out == "0 conversations extracted, 0 still waiting\n"
    assert path.exists()
    assert call("queue", "--retry", user="bob").out == "0 conversations will be tried again\n"
    assert call("queue", "--retry", user="alice").out.startswith("1 conversation will be tried again\n")
    assert call("check").out.endswith("everything is in order\n")
    assert call("queue", "--flush", "--model", "openai:small").out.endswith(
        "1 conversation extracted, 0 still waiting\n"
    )


def test_both_at_once(call, wait, answers):
    path = wait()
    # An answer that could not be stored is not kept for the next try.
    answered = {"answer": "no JSON", "answeredAt": "2026-11-30T12:00:00Z", "attempts": 10}
    document = {**json.loads(path.read_text()), **answered}
    set_aside(path).write_text(json.dumps(document))
    done = call("--json", "queue", "--retry", "--flush", "--model", "openai:small").json
    assert (done["retried"], len(done["extracted"]), done["waiting"]) == (1, 1, [])
    assert done["extracted"][0]["thread_id"] == "t1"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 99}'])
def test_a_file_that_can_not_be_read_is_named_and_hides_no_other(call, wait, content):
    path = wait("alice", "t1")
    wait("alice", "t2")
    path.write_bytes(content)
    (finding,) = [item for item in call("--json", "check", user="alice").json if item["code"] == "queue-unreadable"]
    assert (finding["severity"], finding["path"]) == ("warning", str(path))
    assert [item["thread_id"] for item in call("--json", "queue").json["waiting"]] == ["t2"]
    assert call("queue", "--retry").code == 0
    assert path.read_bytes() == content


def test_stats_count_what_waits_also_where_there_is_no_fact_yet(call, wait):
    wait("alice", "t1")
    set_aside(wait("alice", "t2"))
    wait(None, "t3")
    done = call("--json", "stats").json
    assert done["waiting"] == 2
    assert sorted((item["user_id"] or "-", item["waiting"], item["set_aside"]) for item in done["buckets"]) == [
        ("-", 1, 0),
        ("alice", 1, 1),
    ]
    assert "; 2 conversations waiting (see deermem queue)" in call("stats").out


def test_a_wrong_call_is_refused(call, wait):
    for options, user in (
        (["--flush"], None),
        (["--flush", "--model", "x:y"], "alice"),
        (["--model", "x:y"], None),
        (["--timeout", "3"], None),
        (["--flush", "--model", "x:y", "--timeout", "-1"], None),
        (["--agent", "coder"], None),
    ):
        done = call("queue", *options, user=user)
        assert (done.code, done.out) == (2, ""), options


def test_the_library_says_and_does_the_same(root, clock, wait):
    set_aside(wait())
    with DeerMem(root, Settings(close_timeout_seconds=0), clock=clock) as engine:
        assert [item.state for item in engine.waiting("alice")] == ["failed"]
        assert (engine.retry("bob"), engine.retry(), engine.retry()) == (0, 1, 0)
        assert [(item.state, item.attempts) for item in engine.waiting()] == [("waiting", 0)]
    with DeerMem(root, model=lambda _: json.dumps(answer(new("Likes jazz"))), clock=clock) as engine:
        assert engine.flush(30)
        assert engine.waiting() == []
        assert [fact.content for fact in engine.memory("alice", "coder").list()] == ["Likes jazz"]


class Closed(Files):
    """One user's queue may not be looked into."""

    def listdir(self, path: str) -> list[str]:
        if path.endswith("alice/.queue"):
            raise PermissionError(13, "Permission denied", path)
        return super().listdir(path)


def test_a_closed_queue_hides_no_other(root, clock, wait):
    wait("alice", "t1")
    wait("bob", "t2")
    with DeerMem(root, clock=clock, files=Closed()) as engine:
        assert [item.user_id for item in engine.waiting()] == ["bob"]
        (finding,) = engine.check()
        assert (finding.code, finding.path) == ("no-permission", str(root / "users/alice/.queue"))
        assert engine.stats().waiting == 1
