"""What a summary takes out of a conversation is extracted before it is gone."""

from __future__ import annotations

import asyncio

import pytest

from deermem import DeerMem, InvalidInput, Settings
from deermem.testing import answer, scripted_chat_model, tool_call

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, SummarizationMiddleware, before_model
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Overwrite

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


class ByCommand(ForgetFirst):
    def before_model(self, state, runtime):
        update = super().before_model(state, runtime)
        return Command(update=update) if update else None


class Overwriting(AgentMiddleware):
    def before_model(self, state, runtime):
        return {"messages": Overwrite(state["messages"][2:])} if len(state["messages"]) > 2 else None


def conversation(prompt):
    return prompt[1]["content"].partition("<conversation>")[2]


@pytest.mark.parametrize("other", [summarizing, ForgetFirst, AsyncForm, ByCommand, Overwriting])
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
    with pytest.raises(InvalidInput, match=r"the middleware is <class .*; give an instance"):
        memory.before_dropping(SummarizationMiddleware)
    with pytest.raises(InvalidInput, match="Other has wrap_model_call; give one that shortens"):
        memory.before_dropping(Other())
    with pytest.raises(InvalidInput, match="Nothing has no before_model"):
        memory.before_dropping(Nothing())


@pytest.mark.parametrize("capture", [True, False])
def test_what_is_dropped_before_it_is_answered_is_extracted_too(engine, extractor, make_agent, say, capture):
    extractor.add(*[answer()] * 2)
    calls = [tool_call("memory_search", query="cat") for _ in range(3)]
    agent, model = make_agent(
        *calls,
        "Found it.",
        before=lambda memory: [memory.before_dropping(summarizing())],
        capture=capture,
        tools=True,
    )
    assert say(agent, "I moved to Graz; find my cat") == "Found it."
    assert "I moved to Graz" not in str(model.prompts[-1])
    assert engine.flush(30)
    assert "User: I moved to Graz; find my cat" in conversation(extractor.prompts[0])


def test_what_was_captured_when_it_was_answered_is_not_extracted_again(engine, extractor, make_agent, say):
    def read(prompt):
        return answer(facts=["Likes green tea"] if "green tea" in conversation(prompt) else [])

    extractor.add(*[read] * 4)
    agent, model = make_agent("0", "1", "2", "3", before=lambda memory: [memory.before_dropping(summarizing())])
    memory = engine.memory("alice")
    for text in ("I like green tea", "My cat is Mia", "I sing", "Last one"):
        say(agent, text)
        assert engine.flush(30)
        for fact in memory.list():
            memory.delete(fact.id)
    reads = [conversation(prompt) for prompt in extractor.prompts]
    assert "green tea" not in str(model.prompts[-1])
    assert [sum(text in read for read in reads) for text in ("green tea", "Mia", "I sing", "Last one")] == [1] * 4
    assert memory.list() == []


def test_an_answer_in_a_schema_that_another_process_gave_is_not_extracted_again(engine, extractor):
    extractor.add(*[answer()] * 3)
    where = {"title": "Where", "type": "object", "properties": {"city": {"type": "string"}}}
    config, saver = {"configurable": {"thread_id": "t1"}}, InMemorySaver()
    for city in ("Graz", "Linz", "Wels"):
        memory = DeerMemMiddleware(engine, user_id="alice")
        middleware = [memory.before_dropping(summarizing()), memory]
        model = scripted_chat_model(tool_call("Where", city=city))
        agent = create_agent(model, middleware=middleware, response_format=where, checkpointer=saver)
        agent.invoke({"messages": [("user", f"I live in {city}")]}, config)
        assert engine.flush(30)
    assert "I live in Graz" not in str(model.prompts)
    assert [conversation(prompt).count("I live in") for prompt in extractor.prompts] == [1] * 3
    assert "no answer yet" not in str(extractor.prompts)


def test_a_conversation_without_a_thread_keeps_its_name_when_its_first_message_goes(engine, extractor):
    extractor.add(*[answer()] * 5)
    said = []
    for text in ("I moved to Graz", "My cat is Mia", "I sing", "Last one"):
        memory = DeerMemMiddleware(engine, user_id="alice")
        model = scripted_chat_model(f"{text}? Noted.")
        agent = create_agent(model, middleware=[memory.before_dropping(summarizing()), memory])
        said.append(HumanMessage(text, id=text))
        said.append(agent.invoke({"messages": said})["messages"][-1])
        assert engine.flush(30)
    assert "I moved to Graz" not in str(model.prompts)
    reads = [conversation(prompt) for prompt in extractor.prompts]
    assert [read.count("User: ") for read in reads] == [1] * 4


def test_what_is_dropped_is_extracted_where_the_queue_has_no_room_for_the_rest(root, clock, extractor):
    full = Settings(queue_max_depth=1, close_timeout_seconds=0)
    with DeerMem(root, full, extractor, clock=clock) as engine:
        memory = DeerMemMiddleware(engine, user_id="alice")
        model = scripted_chat_model("Fine.")
        agent = create_agent(model, middleware=[memory.before_dropping(ForgetFirst()), memory])
        assert engine.memory("bob").capture([("user", "Hello"), ("assistant", "Hi.")], "t0")
        before = [("user", "I moved to Graz"), ("assistant", "Noted."), ("user", "Hello")]
        extractor.add(answer(), answer())
        agent.invoke({"messages": before}, {"configurable": {"thread_id": "t1"}})
        assert engine.flush(30)
        assert sum("I moved to Graz" in conversation(prompt) for prompt in extractor.prompts) == 1


def test_a_jump_of_the_other_is_carried_out(engine):
    @before_model(can_jump_to=["end"])
    def ends(state, runtime):
        return {"jump_to": "end", "messages": [AIMessage("Enough.")]}

    @before_model(can_jump_to=["end"])
    async def ends_async(state, runtime):
        return {"jump_to": "end", "messages": [AIMessage("Enough.")]}

    memory = DeerMemMiddleware(engine, user_id="a", capture=False)
    model = scripted_chat_model("never")
    said = {"messages": [("user", "hi")]}
    for other in (ends, ends_async):
        agent = create_agent(model, middleware=[memory.before_dropping(other), memory])
        assert asyncio.run(agent.ainvoke(said))["messages"][-1].text == "Enough."
        if other is ends:
            assert agent.invoke(said)["messages"][-1].text == "Enough."
        else:
            with pytest.raises(TypeError, match="No synchronous function"):
                agent.invoke(said)
    assert model.prompts == []


def test_what_the_other_declares_beside_its_hooks_stays(engine):
    other = ForgetFirst()
    other.transformers = (len,)
    other.trace_policy = "its policy"
    wrapped = DeerMemMiddleware(engine, user_id="a").before_dropping(other)
    assert (wrapped.transformers, wrapped.trace_policy, list(wrapped.tools)) == ((len,), "its policy", [])
