"""For the tests of those who use deermem: models that follow a script, an engine in a folder of its own, a clock.

Nothing here needs a network. `scripted_chat_model` and `tool_call` alone need LangChain, and load it when called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deermem.testing.engines import FakeClock, hand_edit, temporary_engine
from deermem.testing.scripted import ScriptedModel, answer

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

    from deermem.testing.chat import Said, ScriptedChatModel

__all__ = [
    "FakeClock",
    "ScriptedModel",
    "answer",
    "hand_edit",
    "scripted_chat_model",
    "temporary_engine",
    "tool_call",
]


def scripted_chat_model(*script: Said) -> ScriptedChatModel:
    """A LangChain chat model that says this, one item a call; it takes tools, and streams a text word by word.

    An item is a text, a message, a list of `tool_call`s that are made at once, an exception to be raised, or a
    function of the messages that gives one of these. `prompts` has the messages of each call, `tools` the names of
    the tools that were on offer, `add` takes more items. After the last item it raises AssertionError; `assert_done`
    raises it too, and where some are left. Raises InvalidInput for what can't be said, and ModuleNotFoundError without
    LangChain.
    """
    from deermem.testing.chat import ScriptedChatModel, checked_item

    return ScriptedChatModel(script=[checked_item(item) for item in script])


def tool_call(name: str, /, **arguments: object) -> AIMessage:
    """The message of a model that calls a tool. Raises ModuleNotFoundError without LangChain."""
    from deermem.testing.chat import calling

    return calling(name, arguments)
