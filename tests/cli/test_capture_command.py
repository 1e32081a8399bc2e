"""deermem capture: a conversation from a file, what becomes of it, and what is said about what was refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from builders_replies import answer, gone, new, told

from deermem import DeerMem

SAID = [
    {"role": "user", "content": "I prefer pnpm over npm"},
    {"role": "assistant", "content": "Noted, pnpm it is."},
]
STORED = [
    {"type": "human", "data": {"content": "I prefer pnpm over npm", "type": "human"}},
    {"type": "ai", "data": {"content": "Noted, pnpm it is.", "type": "ai"}},
]
DUMPED = [
    {"lc": 1, "type": "constructor", "id": ["HumanMessage"], "kwargs": {"content": "I prefer pnpm", "type": "human"}},
    {"lc": 1, "type": "constructor", "id": ["AIMessage"], "kwargs": {"content": "Noted.", "type": "ai"}},
]


def lines(messages: list[dict[str, object]]) -> str:
    return "".join(json.dumps(message) + "\r\n" for message in messages)


SHAPES = {
    "list": json.dumps(SAID),
    "object": json.dumps({"model": "x", "messages": SAID}, indent=2),
    "one conversation a line, of one": json.dumps({"messages": SAID}) + "\n",
    "lines": lines(SAID),
    "bom": "\ufeff" + json.dumps(SAID),
    "stored by LangChain": json.dumps({"messages": STORED}),
    "stored by LangChain, lines": lines(STORED),
    "dumped by LangChain": json.dumps(DUMPED),
    "pairs": json.dumps([["human", "I prefer pnpm over npm"], ["ai", "Noted."]]),
}


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEERMEM_MODEL", raising=False)


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., Path]:
    """Writes a file; a mapping or list as JSON."""

    def put(name: str, content: object) -> Path:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return put


@pytest.fixture
def chat(put: Callable[..., Path]) -> Path:
    return put("chat.json", {"messages": SAID})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A `langchain` whose models answer with one new fact; gives what was asked of whom."""
    seen: list[object] = []

    def build(name: str, **_: object) -> object:
        def invoke(messages: object) -> object:
            seen.append((name, messages))
            return SimpleNamespace(content=json.dumps(answer(new("Prefers pnpm over npm"))))

        return SimpleNamespace(invoke=invoke)

    module = ModuleType("langchain.chat_models")
    module.init_chat_model = build  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "langchain", ModuleType("langchain"))
    monkeypatch.setitem(sys.modules, "langchain.chat_models", module)
    return seen


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_a_conversation_is_read_in_every_shape(call, put, text):
    reply = put("answer.json", answer(new("Prefers pnpm over npm")))
    done = call("--json", "capture", put("chat 1.jsonl", text), "--answer", reply, user="alice")
    assert (done.code, done.err) == (0, "")
    assert (done.json["thread"], done.json["turns"], done.json["asked"]) == ("chat 1", 2, True)
    (fact,) = done.json["stored"]
    assert (fact["content"], fact["source"]) == ("Prefers pnpm over npm", "chat 1")


def test_it_says_what_was_done_and_what_was_not(call, put, chat, add):
    old = add("Prefers npm", "--category", "preference")
    reply = answer(
        new("Prefers pnpm over npm"),
        new("The API key is sk-proj-4fT9aQz81LmX7cVb2NwR6yKd3HsJ5uPe"),
        new("Is in a hurry", durability="temporary"),
        factsToRemove=[gone(old, replacementFactIndex=0), gone("fact_none")],
        user={"workContext": told("Works with pnpm."), "topOfMind": told("", authority="permission")},
    )
    done = call("capture", chat, "--thread", "t 9", "--answer", put("answer.txt", reply), user="alice")
    assert (done.code, done.err) == (0, "")
    first, *rest, last = done.out.splitlines()
    assert first.startswith("stored   fact_")
    assert first.endswith("  preference  0.90  Prefers pnpm over npm")
    new_id = first.split()[1]
    assert rest == [
        f"removed  {old}  preference  0.50  Prefers npm  -> {new_id}",
        "summary  workContext  Works with pnpm.",
        "refused  summary topOfMind: a label, a text or a reason is missing",
        "refused  new fact 2: it holds a credential",
        "refused  new fact 3: it does not last",
        "refused  removal of fact_none: it names a fact that is not there",
    ]
    assert last == "t 9, 2 turns: 1 stored, 1 removed, 1 summed up, 4 refused"
    assert "sk-proj" not in done.out


def test_refusals_stand_in_the_order_of_the_answer(call, put, chat, add):
    old = add("Prefers npm")
    lasting, key = "Uses pnpm", "The API key is sk-proj-4fT9aQz81LmX7cVb2NwR6yKd3HsJ5uPe"
    facts = [new("Is tired", durability="temporary"), {"content": 3}, new(lasting), new(key), new(lasting), {}]
    reply = answer(*facts, factsToRemove=[gone(old)], history={"recentMonths": told("")}, user={"topOfMind": told("")})
    done = call("capture", chat, "--answer", put("a.txt", reply), user="alice").out.splitlines()
    assert [line.partition(":")[0].removeprefix("refused  ") for line in done[1:-1]] == [
        *("summary topOfMind", "summary recentMonths"),
        *("new fact 1", "new fact 2", "new fact 4", "new fact 5", "new fact 6"),
        f"removal of {old}",
    ]
    assert done[-1].startswith("chat, 2 turns: 1 stored")


def test_json_has_facts_and_reasons(call, put, chat, add):
    old = add("Prefers npm")
    reply = answer(new("Prefers pnpm over npm"), "tea", factsToRemove=[gone(old)], user={"topOfMind": told("")})
    done = call("--json", "capture", chat, "--answer", put("a.txt", reply), user="alice").json
    assert done.keys() == {
        *("thread", "turns", "asked", "stored", "confirmed", "extended", "merged", "removed", "retired"),
        *("consolidated", "summaries", "evicted", "refused"),
    }
    assert [item["reason"] for item in done["refused"]] == ["missing", "malformed", "batch"]
    assert done["refused"][0] == {
        "kind": "summary",
        "reason": "missing",
        "meaning": "a label, a text or a reason is missing",
        "subject": "topOfMind",
        "detail": "",
    }
    assert done["removed"] == []
    replaced = answer(new("Uses pnpm"), factsToRemove=[gone(old, replacementFactIndex=0)])
    done = call("--json", "capture", chat, "--answer", put("b.txt", replaced), user="alice").json
    (stored,) = done["stored"]
    assert done["removed"] == [
        {"id": old, "category": "context", "content": "Prefers npm", "replaced_by": stored["id"]}
    ]


def test_a_second_time_stores_nothing_twice(call, put, chat):
    reply = put("answer.txt", answer(new("Prefers pnpm over npm")))
    assert call("capture", chat, "--answer", reply).out.endswith("1 stored\n")
    again = call("capture", chat, "--answer", reply)
    assert again.out.splitlines() == [
        "refused  new fact 1: its content is stored already, or it repeats another item",
        "chat, 2 turns: 1 refused",
    ]
    assert len(call("--json", "list").json) == 1


def test_an_eviction_is_said(call, put, chat):
    for number in range(10):
        call("add", f"Fact {number}", "--confidence", 0.5 + number / 100)
    reply = put("answer.txt", answer(new("Prefers pnpm over npm")))
    done = call("--max-facts", 10, "capture", chat, "--answer", reply)
    assert done.code == 0
    assert "was removed to keep the cap of 10 facts" in done.complaint


def test_a_conversation_without_anything_for_memory_asks_nobody(call, put, chat):
    thanks = put("thanks.json", [{"role": "user", "content": "thanks!"}, {"role": "assistant", "content": "Sure."}])
    reply = put("answer.txt", "never read")
    done = call("capture", thanks, "--answer", reply)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("the conversation holds nothing for memory: ")
    assert call("--json", "capture", thanks, "--answer", reply).json == {"thread": "thanks", "turns": 0, "asked": False}
    empty = put("empty.txt", answer())
    assert call("capture", chat, "--answer", empty).out == "chat, 2 turns: nothing new\n"


def test_standard_input_has_a_thread_of_its_own(call, put):
    reply = put("answer.txt", answer(new()))
    data = json.dumps(SAID).encode()
    first = call("--json", "capture", "-", "--answer", reply, stdin=data).json["thread"]
    assert first.startswith("stdin-")
    assert call("--json", "capture", "-", "--answer", reply, stdin=data).json["thread"] == first
    assert call("--json", "capture", "-", "--answer", reply, stdin=data + b" ").json["thread"] != first


def test_the_answer_may_stand_in_a_message(call, put, chat):
    message = put("answer.json", {"type": "ai", "content": json.dumps(answer(new()))})
    assert call("capture", chat, "--answer", message).out.endswith("1 stored\n")


def test_a_model_is_named_by_option_or_variable(call, chat, asked, monkeypatch, tmp_path):
    kept = tmp_path / "answer.txt"
    done = call("capture", chat, "--model", "openai:small", "--save-answer", kept)
    assert (done.code, done.err) == (0, "")
    assert json.loads(kept.read_text()) == answer(new("Prefers pnpm over npm"))
    assert kept.stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("DEERMEM_MODEL", "openai:other")
    assert call("capture", chat).code == 0
    assert [name for name, _ in asked] == ["openai:small", "openai:other"]
    assert call("capture", chat, "--answer", kept).code == 0
    assert len(asked) == 2


def test_a_recorded_answer_is_given_to_no_other_conversation(call, put, chat, root, clock):
    with DeerMem(root, model=lambda _: "never", clock=clock) as engine:
        engine.memory("bob").capture([("user", "I like jazz"), ("assistant", "Nice.")], "t1")
        engine.conversations.close(0)
    assert call("capture", chat, "--answer", put("a.txt", answer(new())), user="alice").code == 0
    assert len(call("--json", "queue", user="bob").json["waiting"]) == 1
    assert call("--json", "list", user="bob").json == []


@pytest.mark.parametrize("text", ["I am sorry", '{"newFacts": []}', '{"user": {}, "history": {}, "newFacts": [{"cont'])
def test_an_answer_that_can_not_be_used_changes_nothing(call, put, chat, text):
    done = call("capture", chat, "--answer", put("answer.txt", text), user="alice")
    assert (done.code, done.out) == (1, "")
    assert "no whole JSON object" in done.complaint
    assert "nothing was stored" in done.complaint
    assert call("--json", "list", user="alice").json == []


def test_a_model_that_fails_is_named_with_what_to_do(call, chat, monkeypatch):
    module = ModuleType("langchain.chat_models")
    module.init_chat_model = lambda *_, **__: SimpleNamespace(invoke=lambda _: 1 / 0)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "langchain", ModuleType("langchain"))
    monkeypatch.setitem(sys.modules, "langchain.chat_models", module)
    done = call("capture", chat, "--model", "openai:small")
    assert done.code == 1
    assert done.complaint.startswith("the model failed: ZeroDivisionError")
    assert done.complaint.endswith("nothing was stored; try again, or name another model")
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    done = call("capture", chat, "--model", "openai:small")
    assert done.code == 1
    assert "pip install 'deermem[llm]'" in done.complaint


@pytest.mark.parametrize(
    ("content", "told_of"),
    [
        ("", "is empty"),
        ("hello", "is no JSON"),
        ('{"role": "user", "content": "x"}\n{"role"', "line 2"),
        ('{"a": 1}', "holds no messages"),
        ("3", "holds no messages"),
        ('{"messages": {}}', "is dict, not a list"),
        ('["hello"]', "messages[0] is bare text"),
        ('[{"content": "x"}]', "without a role"),
        ("[" * 100_000, "nested too deep"),
        ('{"messages": []}\n{"messages": []}\n', "holds 2 conversations"),
    ],
)
def test_what_is_no_conversation_is_named(call, put, content, told_of):
    done = call("capture", put("chat.json", content), "--answer", put("answer.txt", answer()))
    assert done.code == 2
    assert told_of in done.complaint


def test_a_wrong_call_is_refused_before_anything_is_read(call, put, chat, tmp_path):
    reply = put("answer.txt", answer(new()))
    for options, named in (
        ([], "--model"),
        (["--answer", reply, "--model", "x:y"], "--answer"),
        (["--answer", reply, "--save-answer", tmp_path / "new"], "--save-answer"),
        (["--answer", "-"], "--answer"),
        (["--model", "x:y", "--save-answer", chat], "--save-answer"),
        (["--answer", reply, "--thread", " "], "thread_id"),
        (["--answer", reply, "--prompts", tmp_path / "none"], "extract.yaml"),
        (["--answer", reply, "--patterns", tmp_path / "none"], "correction.yaml"),
    ):
        done = call("capture", chat, *options)
        assert (done.code, done.out) == (2, ""), options
        assert named in done.complaint
    assert call("capture", tmp_path / "missing.json", "--answer", reply).code == 1
    assert not tmp_path.joinpath("store").exists()
