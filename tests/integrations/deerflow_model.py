"""The chat model that a real DeerFlow is given: it chats, and answers an extraction with one fact. Needs LangChain."""

from __future__ import annotations

import json
from typing import Any

from builders_replies import answer, new
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

SEEN: list[str] = []
CONFIGS: list[dict[str, Any]] = []
SCRIPT: list[AIMessage] = []


class Scripted(BaseChatModel):
    """Remembers every prompt in SEEN, and the configuration of each call that is an extraction in CONFIGS.

    What lies in SCRIPT is said first.
    """

    model: str = "scripted"

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Scripted:
        return self

    def invoke(self, input: Any, config: Any = None, **options: Any) -> Any:
        if config and config.get("run_name") == "memory_agent":
            CONFIGS.append(dict(config))
        return super().invoke(input, config, **options)

    def _generate(self, messages: list[BaseMessage], *given: Any, **options: Any) -> ChatResult:
        prompt = "\n".join(str(message.content) for message in messages)
        SEEN.append(prompt)
        if SCRIPT:
            return ChatResult(generations=[ChatGeneration(message=SCRIPT.pop(0))])
        told = json.dumps(answer(new("Likes green tea"))) if "newFacts" in prompt else "Noted."
        return ChatResult(generations=[ChatGeneration(message=AIMessage(told))])
