"""Whatever a host hands over as a conversation: it is read, or refused as InvalidInput, and never changed."""

from __future__ import annotations

import copy
from contextlib import suppress
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from deermem.errors import InvalidInput
from deermem.extract.acknowledgements import without_acknowledgements
from deermem.extract.messages import Turn, read_turns
from deermem.extract.signals import SIGNALS, load_patterns
from deermem.extract.transcript import transcript
from deermem.extract.uploads import without_upload_events

PIECES = [
    "<uploaded_files>", "</uploaded_files>", "<current_uploads>", "</current_uploads>", "<memory>", "</memory>", "\n",
    "<system-reminder>", "</system-reminder>", " ", "ok", "谢谢", "I prefer tea", "uploaded report.pdf. ",
    "\ud83d", "\0", "\u2028", "User: ", "x" * 1200, "é", "ＯＫ", "用户上传了文件。",
]  # fmt: skip
TEXT = st.one_of(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), st.text(st.characters(), max_size=20))
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
BLOCK = st.one_of(
    TEXT,
    ODD,
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "input_text", "image_url", "tool_use", "tool_result", "x"])},
        optional={"text": TEXT | ODD},
    ),
)
CONTENT = TEXT | st.lists(BLOCK, max_size=4) | ODD
ANSWER = st.fixed_dictionaries(
    {},
    optional={
        "version": st.sampled_from([1, 2, "1", None]),
        "kind": st.just("human_input_response"),
        "source": TEXT,
        "request_id": TEXT,
        "response_kind": st.sampled_from(["text", "option", None]),
        "option_id": TEXT,
        "value": TEXT | ODD,
    },
)
EXTRA = st.fixed_dictionaries(
    {},
    optional={"hide_from_ui": st.booleans(), "human_input_response": ANSWER | ODD, "tool_calls": ODD, "lc_source": ODD},
)
ROLE = st.sampled_from(["user", "human", "assistant", "ai", "AIMessageChunk", "system", "tool", "chat", "User "])
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "role": ROLE | ODD,
        "type": ROLE | ODD,
        "content": CONTENT,
        "id": TEXT | ODD,
        "name": TEXT | ODD,
        "tool_calls": st.sampled_from([None, [], [{"name": "f"}]]) | ODD,
        "additional_kwargs": EXTRA | ODD,
        "data": ODD,
    },
)
SOUND = st.one_of(
    st.tuples(st.sampled_from(["user", "assistant"]), TEXT),
    st.fixed_dictionaries({"role": ROLE, "content": TEXT | st.lists(BLOCK, max_size=4)}, optional={"id": TEXT}),
)
MESSAGE = st.one_of(
    SOUND,
    FIELDS,
    FIELDS.map(lambda fields: SimpleNamespace(**fields)),
    st.tuples(ROLE | TEXT, CONTENT),
    ODD,
)


def check_turns(turns: tuple[Turn, ...]) -> None:
    for turn in turns:
        assert turn.role in ("user", "assistant")
        assert turn.text == turn.text.strip() != ""
        assert turn.key
        (turn.text + turn.key).encode()
        assert len(turn.key) <= 200
    again = read_turns([(turn.role, turn.text) for turn in turns if turn.role == "assistant"])
    assert [turn.text for turn in again] == [turn.text for turn in turns if turn.role == "assistant"]


@given(st.lists(MESSAGE, max_size=6) | ODD)
def test_anything_is_read_or_refused_and_never_changed(messages: object) -> None:
    before = copy.deepcopy(messages)
    with suppress(InvalidInput):
        check_turns(read_turns(messages))
    assert messages == before


@given(st.lists(SOUND, max_size=8))
def test_everything_behind_reading_takes_whatever_was_read(messages: list[object]) -> None:
    turns = read_turns(messages)
    left = without_acknowledgements(turns)
    assert set(left) <= set(turns)
    assert load_patterns().detect(left) <= set(SIGNALS)
    text = transcript(left)
    assert "<" not in text
    assert ">" not in text
    assert len([line for line in text.split("\n") if line.startswith(("User: ", "Assistant: "))]) == len(left)


@given(TEXT)
def test_an_uploads_scrub_only_takes_away(text: str) -> None:
    left = without_upload_events(text)
    position = 0
    for character in left:
        position = text.index(character, position) + 1
    assert without_upload_events(left) == left
