"""What of an agent's messages is handed to extraction: also answers that are data, and words that lost their answer."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Final

from langchain.agents.middleware import ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from deermem.extract.messages import read_turns

_NOT_YET: Final = AIMessage("(no answer yet)")


def answering_tools(response: object) -> set[str]:
    """The tools by which this response answers in a schema (`response_format`), not the ones that do something."""
    if not isinstance(response, ModelResponse) or response.structured_response is None:
        return set()
    # What does something is answered later, by the node of the tools.
    answered = {message.tool_call_id for message in response.result if isinstance(message, ToolMessage)}
    calls = [call for message in response.result if isinstance(message, AIMessage) for call in message.tool_calls]
    return {call["name"] for call in calls if call["id"] in answered}


def with_answers(messages: Sequence[AnyMessage], answering: Collection[str]) -> list[AnyMessage]:
    """The messages, with each final answer in a schema as its JSON text.

    It is made as a call of a tool, and calls are no answers: such an agent would never learn.
    """
    told: list[AnyMessage] = []
    final = True
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            answers = [call["args"] for call in message.tool_calls if call["name"] in answering]
            if final and answers:
                said = [message.text, *(json.dumps(given, ensure_ascii=False, default=str) for given in answers)]
                message = AIMessage("\n".join(said).strip(), id=message.id)  # noqa: PLW2901 - shown in the place of it
            final = False
        elif message.type == "human":
            final = True
        told.append(message)
    return told[::-1]


def split_at_last_answer(messages: Sequence[AnyMessage]) -> tuple[Sequence[AnyMessage], Sequence[AnyMessage]]:
    """What was answered, with the answers, and what is being worked on."""
    ends = [place for place, message in enumerate(messages, 1) if message.type == "ai" and read_turns([message])]
    place = ends[-1] if ends else 0
    return messages[:place], messages[place:]


def with_an_answer(dropped: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Messages that are about to go, with something in the place of an answer that none of them is.

    What a person said is dropped before it is answered where the work on it takes many calls; words without an answer
    are no conversation to extraction, and these come never again.
    """
    said = {turn.role for turn in read_turns(dropped)}
    return [*dropped, _NOT_YET] if said == {"user"} else list(dropped)


def first_id(messages: Sequence[AnyMessage]) -> str | None:
    """The id of the first message: the same for as long as the host hands the same conversation in."""
    return next((message.id for message in messages if message.id), None)
