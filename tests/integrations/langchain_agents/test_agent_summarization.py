"""What a summary takes out of a conversation is extracted before it is gone."""

from __future__ import annotations

import asyncio

import pytest

from deermem import InvalidInput
from deermem.testing import answer, scripted_chat_model

pytest.importorskip("langchain")

from langchain.agents.middleware import AgentMiddleware, SummarizationMiddleware
from langchain_core.messages import RemoveMessage

from deermem.integrations.langchain import DeerMemMiddleware


def summarizing():
    return SummarizationMiddleware(
        scripted_chat_model(*["They talked."] * 3), trigger=("messages", 4), keep=("messages", 2), token_counter=len
    )


class ForgetFirst(AgentMiddleware):
    """Takes the first exchange out, by ids, and only in its sync form."""

    def before_model(self, state, runtime):
        if len(state["messages"]) < 3:
            return None
        return {"messages": [RemoveMessage(id=message.id) for message in state["messages"][:2]]}


class AsyncForm(ForgetFirst):
    async def abefore_model(self, state, runtime):
        return self.before_model(state, runtime)


def conversation(prompt):
    return prompt[1]["content"].partition("<conversation>")[2]


@pytest.mark.parametrize("other", [summarizing, ForgetFirst, AsyncForm])
@pytest.mark.parametrize("way", ["sync", "async"])
def test_what_is_dropped_is_extracted_at_once(engine, extractor, make_agent, other, way):
    extractor.add(*[answer()] * 3)
    agent, model = make_agent(
        "Noted.", "Go on.", "Sure.", "Still.", before=lambda memory: [memory.before_dropping(other())], capture=False
    )
    config = {"configurable": {"thread_id": "t1"}}
    context = {"user_id": "alice"}
    for text in ("I moved to Graz", "My cat is Mia", "I sing", "Last one"):
        given = {"messages": [("user", text)]}
        if way == "sync":
            agent.invoke(given, config, context=context)
        else:
            asyncio.run(agent.ainvoke(given, config, context=context))
    assert engine.flush(30)
    assert "I moved to Graz" not in str(model.prompts[-1])
    read = [conversation(prompt) for prompt in extractor.prompts]
    assert "I moved to Graz" in read[0]
    assert "Last one" not in str(read)
    assert "They talked." not in str(read)


def test_nothing_is_captured_where_nothing_is_dropped(engine, extractor, make_agent, say):
    agent, _ = make_agent("Noted.", before=lambda memory: [memory.before_dropping(summarizing())], capture=False)
    say(agent, "I moved to Graz")
    assert engine.flush(30)
    assert extractor.prompts == []


def test_it_has_the_name_and_the_state_of_the_other(engine):
    other = summarizing()
    wrapped = DeerMemMiddleware(engine, user_id="a").before_dropping(other)
    assert (wrapped.name, wrapped.state_schema) == ("SummarizationMiddleware", other.state_schema)


def test_a_middleware_that_does_more_is_refused(engine):
    class Other(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            return handler(request)

    class Nothing(AgentMiddleware):
        pass

    memory = DeerMemMiddleware(engine, user_id="a")
    with pytest.raises(InvalidInput, match="Other has wrap_model_call; give one that shortens"):
        memory.before_dropping(Other())
    with pytest.raises(InvalidInput, match="Nothing has no before_model"):
        memory.before_dropping(Nothing())
