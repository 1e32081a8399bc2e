"""What of an agent's messages is handed to extraction: also answers that are data, and words that lost their answer."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Final

from langchain.agents.middleware import ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from deermem.extract.messages import read_turns

_NOT_YET: Final = AIMessage("(no answer yet)")
_CONFIRMED: Final = "Returning structured response: "
"""How LangChain itself answers the call that is an answer in a schema, where the agent names no other words."""

_CONVERSATIONS: Final = 1000
"""So many, those shortened last; what is forgotten is only read once more."""


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

    It is made as a call of a tool, and calls are no answers: such an agent would never learn. `answering` are the tools
    that are known for it; those of another process are known by what LangChain answered them.
    """
    answered = [message for message in messages if isinstance(message, ToolMessage)]
    confirmed = {message.tool_call_id for message in answered if message.text.startswith(_CONFIRMED)}
    told: list[AnyMessage] = []
    final = True
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            calls = message.tool_calls
            answers = [call["args"] for call in calls if call["name"] in answering or call["id"] in confirmed]
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


class Conversations:
    """What conversations without a thread are called: by the id of their first message, also once that one is gone.

    The id is the same for as long as the host hands the same conversation in.
    """

    def __init__(self) -> None:
        self._names: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def name(self, messages: Sequence[AnyMessage]) -> str | None:
        """None where no message has an id."""
        ids = [message.id for message in messages if message.id]
        with self._lock:
            shortened = next((self._names[each] for each in ids if each in self._names), None)
        return shortened or next(iter(ids), None)

    def drop(self, messages: Sequence[AnyMessage], dropped: Sequence[AnyMessage]) -> None:
        """What stays keeps the name, although another message, such as a summary, is the first from now on."""
        gone = {message.id for message in dropped}
        kept = [message.id for message in messages if message.id and message.id not in gone]
        name = self.name(messages)
        if not kept or name is None:
            return
        with self._lock:
            self._names[kept[-1]] = name
            self._names.move_to_end(kept[-1])
            while len(self._names) > _CONVERSATIONS:
                self._names.popitem(last=False)
