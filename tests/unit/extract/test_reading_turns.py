"""Behaviours 108, 142 and 143: which messages count, whatever shape a host gives them."""

from __future__ import annotations

import copy
from types import MappingProxyType, SimpleNamespace

import pytest

from deermem.errors import InvalidInput
from deermem.extract.messages import Turn, read_turns

CLARIFIED = {
    "version": 1,
    "kind": "human_input_response",
    "source": "ask_clarification",
    "request_id": "r1",
    "response_kind": "text",
    "value": "Tabs",
}
CHOSEN = {**CLARIFIED, "response_kind": "option", "option_id": "o2"}
CALL = {"name": "search", "args": {}, "id": "c1"}


def human(content: object, **more: object) -> SimpleNamespace:
    """What a person said, as LangChain has it."""
    return SimpleNamespace(**{"type": "human", "content": content, "additional_kwargs": {}, "id": None} | more)


def ai(content: object, **more: object) -> SimpleNamespace:
    """What a model said, as LangChain has it."""
    return SimpleNamespace(**{"type": "ai", "content": content, "tool_calls": [], "additional_kwargs": {}} | more)


def hidden(text: str, answer: object = None) -> SimpleNamespace:
    return human(text, additional_kwargs={"hide_from_ui": True, "human_input_response": answer})


def spoken(*messages: object, **options: object) -> list[tuple[str, str]]:
    return [(turn.role, turn.text) for turn in read_turns(messages, **options)]


@pytest.mark.parametrize(
    ("message", "turn"),
    [
        (human("Hi", id="m1"), Turn("user", "Hi", "m1")),
        (ai(" Hello \n", id="m2"), Turn("assistant", "Hello", "m2")),
        (SimpleNamespace(type="AIMessageChunk", content="Hi", id="run-1"), Turn("assistant", "Hi", "run-1")),
        (SimpleNamespace(type="chat", role="user", content="Hi", id="x"), Turn("user", "Hi", "x")),
        ({"role": "user", "content": "Hi", "id": "m1", "name": "ann"}, Turn("user", "Hi", "m1")),
        ({"role": "assistant", "content": "Hi", "id": 7, "tool_calls": None}, Turn("assistant", "Hi", "7")),
        ({"type": "human", "content": "Hi", "id": "m1"}, Turn("user", "Hi", "m1")),
        ({"type": "ai", "content": "Hi", "id": "m1"}, Turn("assistant", "Hi", "m1")),
        ({"type": "human", "data": {"content": "Hi", "id": "m1"}}, Turn("user", "Hi", "m1")),
        ({"type": "chat", "data": {"role": "user", "content": "Hi", "id": "m1"}}, Turn("user", "Hi", "m1")),
        (
            {"lc": 1, "type": "constructor", "id": ["x"], "kwargs": {"content": "Hi", "type": "human", "id": "m1"}},
            Turn("user", "Hi", "m1"),
        ),
        ({"type": "message", "role": "user", "content": "Hi", "id": "m1"}, Turn("user", "Hi", "m1")),
        (MappingProxyType({"role": "User", "content": "Hi", "id": "m1"}), Turn("user", "Hi", "m1")),
    ],
)
def test_every_shape_of_a_message_is_read(message: object, turn: Turn) -> None:
    assert read_turns([message]) == (turn,)


def test_pairs_are_read():
    assert spoken(("user", "Hi"), ("assistant", "Hello"), ["human", ["Good ", "day"]], ("ai", "Yes")) == [
        ("user", "Hi"),
        ("assistant", "Hello"),
        ("user", "Good day"),
        ("assistant", "Yes"),
    ]
    assert spoken(("system", "Be kind"), ("developer", "x"), ("tool", "42"), ("function", "42")) == []


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (["Hel", "lo", " there"], "Hello there"),
        (
            ["Hel", "lo", {"type": "text", "text": "you"}, {"type": "text", "text": "two"}, "a", "b"],
            "Hello\nyou\ntwo\nab",
        ),
        (
            [{"type": "image_url", "image_url": {"url": "data:…"}}, {"type": "text", "text": "What is this?"}],
            "What is this?",
        ),
        ([{"type": "input_text", "text": "a"}, {"type": "output_text", "text": "b"}, {"text": "c"}], "a\nb\nc"),
        ([{"type": "reasoning", "text": "hm"}, {"type": "thinking", "thinking": "hm"}, "done"], "done"),
        ([SimpleNamespace(type="text", text="an object"), 5, None, [["x"]]], "an object"),
        ({"type": "text", "text": "one block"}, "one block"),
        (("a", "b"), "ab"),
        ("half \ud83d and whole \ud83d\ude00", "half \ufffd and whole 😀"),
    ],
)
def test_text_is_taken_from_content(content: object, text: str) -> None:
    assert spoken(("user", content)) == [("user", text)]


@pytest.mark.parametrize(
    "message",
    [
        SimpleNamespace(type="system", content="Be kind"),
        SimpleNamespace(type="tool", content="42", tool_call_id="c1"),
        SimpleNamespace(type="function", content="42"),
        SimpleNamespace(type="remove", content="", id="m1"),
        {"role": "developer", "content": "Be kind"},
        {"role": "tool", "content": "42", "tool_call_id": "c1"},
        {"type": "reasoning", "summary": []},
        {"type": "function_call_output", "output": "42"},
        ai("Let me look", tool_calls=[CALL]),
        ai("", invalid_tool_calls=[CALL]),
        ai("", additional_kwargs={"tool_calls": [CALL]}),
        ai("", additional_kwargs={"function_call": {"name": "f"}}),
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "assistant", "function_call": {"name": "f"}},
        {"role": "assistant", "content": [{"type": "text", "text": "Look"}, {"type": "tool_use", "name": "f"}]},
        {"role": "user", "content": [{"type": "tool_result", "content": "42"}]},
        ai(""),
        ai([{"type": "image_url"}]),
        human("Here is a summary of the conversation to date: …", additional_kwargs={"lc_source": "summarization"}),
        {"role": "user", "name": "summary", "content": "…"},
    ],
)
def test_what_nobody_said_is_left_out(message: object) -> None:
    assert spoken(("user", "Question"), message, ("assistant", "Answer")) == [
        ("user", "Question"),
        ("assistant", "Answer"),
    ]


def test_hidden_messages_are_left_out():
    shown = ai("Shown")
    assert spoken(hidden("todo reminder"), ai("hidden", additional_kwargs={"hide_from_ui": True}), shown) == [
        ("assistant", "Shown")
    ]
    assert spoken(human("x", additional_kwargs={"hide_from_ui": False})) == [("user", "x")]
    assert spoken({"role": "user", "content": "x", "additional_kwargs": {"hide_from_ui": True}}) == []
    assert spoken(human("x", additional_kwargs=None), human("y", additional_kwargs="odd")) == [
        ("user", "x"),
        ("user", "y"),
    ]


@pytest.mark.parametrize("answer", [CLARIFIED, CHOSEN, {**CLARIFIED, "option_id": None, "more": 1}])
def test_a_persons_answer_to_a_question_is_kept(answer: dict[str, object]) -> None:
    assert spoken(hidden("My answer is: Tabs", answer)) == [("user", "My answer is: Tabs")]
    assert spoken(hidden("", answer)) == [("user", "Tabs")]


MALFORMED = [
    None,
    "Tabs",
    {},
    *({name: value for name, value in CHOSEN.items() if name != left_out} for left_out in CHOSEN),
    *({**CHOSEN, name: odd} for name in CHOSEN for odd in ("", " ", None, 3, True)),
    {**CHOSEN, "kind": "human_input_request"},
    {**CHOSEN, "version": 2},
]


def test_a_malformed_answer_stays_hidden():
    assert [answer for answer in MALFORMED if spoken(hidden("My answer is: Tabs", answer))] == []


def test_the_host_decides_what_hidden_messages_to_keep():
    asked: list[object] = []

    def keep(extra: dict[object, object]) -> bool:
        asked.append(dict(extra))
        extra.clear()
        return asked[-1].get("mine", False)

    mine = human("Mine", additional_kwargs={"hide_from_ui": True, "mine": True})
    assert spoken(mine, hidden("Theirs", CLARIFIED), human("Plain"), keep_hidden=keep) == [
        ("user", "Mine"),
        ("user", "Plain"),
    ]
    assert len(asked) == 2
    assert mine.additional_kwargs == {"hide_from_ui": True, "mine": True}


@pytest.mark.parametrize("tag", ["uploaded_files", "current_uploads", "Uploaded_Files"])
def test_lists_of_uploads_are_cut_out(tag: str) -> None:
    block = f"<{tag}>\n- a.pdf (1 KB)\n  Path: /x/a.pdf\n</{tag}>"
    assert spoken(human(f"{block}\n\nSum it up")) == [("user", "Sum it up")]
    assert spoken(human(f"Sum {block} it up, {block}please")) == [("user", "Sum  it up, please")]
    assert spoken(human([{"type": "text", "text": block}, "Sum it up"])) == [("user", "Sum it up")]
    assert spoken(human(block.replace(">", ' count="1" >', 1) + "Sum it up")) == [("user", "Sum it up")]
    assert spoken(human(f"What does <{tag}> mean?")) == [("user", f"What does <{tag}> mean?")]
    assert spoken(human(f"</{tag}> and <{tag}>")) == [("user", f"</{tag}> and <{tag}>")]


@pytest.mark.parametrize("content", ["<uploaded_files>a</uploaded_files>", "", [{"type": "image_url"}], None])
def test_an_exchange_that_was_only_an_upload_goes_with_its_answers(content: object) -> None:
    messages = [
        human("I live in Oslo"),
        ai("Noted"),
        human(content),
        ai("", tool_calls=[CALL]),
        hidden("reminder"),
        ai("I see a cat"),
        ai("Two cats"),
        human("Their names are Tom and Kit"),
        ai("Nice"),
    ]
    assert [text for _, text in spoken(*messages)] == ["I live in Oslo", "Noted", "Their names are Tom and Kit", "Nice"]


@pytest.mark.parametrize(
    "block",
    [
        "<memory>\nFacts:\n- [preference | 0.90] likes tea\n</memory>",
        "<memory>likes tea</memory>",
        "<system-reminder>\n<memory>likes tea</memory>\n<current_date>2026-11-30</current_date>\n</system-reminder>",
        "<memory>\na\n</memory>\n\n<memory>\nb\n</memory>",
    ],
)
def test_injected_memory_never_comes_back(block: str) -> None:
    assert spoken(human("Hi"), human(block), ai("Hello")) == [("user", "Hi"), ("assistant", "Hello")]
    assert spoken(human(f"{block}\n\nWhat do I like?")) == [("user", "What do I like?")]
    assert spoken(human(f"What do I like?\n{block}")) == [("user", "What do I like?")]
    assert spoken(ai(block)) == []
    assert spoken(human(block), ai("Hello")) == [("assistant", "Hello")]
    upload = "<current_uploads>a.pdf</current_uploads>"
    assert spoken(human(f"{block}\n{upload}"), ai("Got it")) == []


@pytest.mark.parametrize(
    "text",
    [
        "What is <memory> for?",
        "Set <memory>512</memory> to 1024",
        "<vm>\n  <memory>512</memory>\n</vm>",
        "<memory>\nopen",
    ],
)
def test_a_persons_own_memory_tag_stays(text: str) -> None:
    assert spoken(human(text)) == [("user", text)]


def test_without_an_id_the_key_is_a_hash_of_role_and_text():
    keys = [turn.key for turn in read_turns([("user", "Hi"), ("assistant", "Hi"), ("user", "Ho"), ("user", " Hi ")])]
    assert keys[0] == keys[3]
    assert len(set(keys)) == 3
    assert all(key.startswith("sha256:") and len(key) == 71 for key in keys)


@pytest.mark.parametrize("odd", [None, "", "  ", True, 1.5, ["m1"], {"a": 1}])
def test_an_odd_id_is_none(odd: object) -> None:
    assert read_turns([human("Hi", id=odd)]) == read_turns([("user", "Hi")])


def test_a_huge_id_does_not_carry_text_along():
    [turn] = read_turns([human("Hi", id="I live in Oslo. " * 50)])
    assert turn.key.startswith("sha256:")
    assert turn.key != read_turns([("user", "Hi")])[0].key
    assert read_turns([human("Hi", id=10**5000)])[0].key.startswith("sha256:")


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("Hi", r"messages\[1\] is bare text"),
        (b"Hi", r"messages\[1\] is bare text"),
        (None, r"messages\[1\] is NoneType without a role"),
        (5, r"messages\[1\] is int without a role"),
        ({}, r"messages\[1\] is dict without a role"),
        ({"content": "Hi"}, r"messages\[1\] is dict without a role"),
        ({"role": 5, "content": "Hi"}, r"messages\[1\] is dict without a role"),
        ({"role": "user"}, r"messages\[1\] has no content"),
        ({"role": "user", "content": 5}, r"the content of messages\[1\] is int"),
        (human(b"Hi"), r"the content of messages\[1\] is bytes"),
        (("user",), r"messages\[1\] is no \(role, text\) pair"),
        (("user", "a", "b"), r"messages\[1\] is no \(role, text\) pair"),
        ((1, "a"), r"messages\[1\] is no \(role, text\) pair"),
        (("usr", "a"), r"messages\[1\] has the role 'usr'"),
        (("user", 5), r"the content of messages\[1\] is int"),
        (object(), r"messages\[1\] is object without a role"),
    ],
)
def test_what_can_not_be_a_message_is_refused_by_position(message: object, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as raised:
        read_turns([("user", "Hi"), message])
    assert raised.value.hint


@pytest.mark.parametrize("messages", ["Hi", b"Hi", None, 5, {"messages": []}, {}])
def test_messages_must_be_a_list(messages: object) -> None:
    with pytest.raises(InvalidInput, match="not a list"):
        read_turns(messages)


def test_an_iterator_is_read_once():
    assert len(read_turns(iter([("user", "Hi"), ("assistant", "Hello")]))) == 2


def test_the_messages_are_not_changed():
    messages = [
        human("<uploaded_files>a</uploaded_files>Hi", id=None),
        {"role": "user", "content": ["a", "b"]},
        hidden("x", CHOSEN),
    ]
    before = copy.deepcopy(messages)
    read_turns(messages)
    assert messages == before


@pytest.mark.parametrize(
    "piece",
    [
        "<uploaded_files>",
        "</uploaded_files>",
        "<memory>\n",
        "\n</memory>",
        "</memory> ",
        " ",
        "<",
        "<current_uploads><uploaded_files>",
    ],
)
def test_a_huge_text_takes_linear_time(piece: str) -> None:
    """Quadratic work on these would run into the time limit of the test by far."""
    text = piece * (1_000_000 // len(piece)) + "Hi"
    assert read_turns([("user", text)])[0].text.endswith("Hi")
