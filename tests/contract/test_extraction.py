"""From a conversation to the memory: what is stored, what is refused, and what a host is told."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator

import pytest
from builders_buckets import CAP, fill, ten
from builders_extraction import Scripted, contents, flushed, owns, states, talk
from builders_replies import LABELS, answer, gone, new, told
from builders_store import facts_of

from deermem import DeerMem, ExtractionFailed, Hooks, InvalidInput, Settings, StoreUnavailable
from deermem.store.files import Files


@pytest.fixture
def opened(root, clock) -> Iterator[Callable[..., DeerMem]]:
    """Makes engines with a model over one root; each is closed."""
    made: list[DeerMem] = []

    def make(model: object, files: Files | None = None, hooks: Hooks | None = None, **settings: object) -> DeerMem:
        given = Settings(**{"close_timeout_seconds": 0, **settings})
        made.append(DeerMem(root, given, model, hooks=hooks, clock=clock, files=files))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


def test_a_new_fact_carries_what_the_answer_says_and_where_it_comes_from(opened, clock):
    """113, 120, 121: the labels serve the gate and are not stored."""
    reply = answer(new("Drinks tea", category="preference", sourceError="said coffee", expected_valid_days=30))
    memory = opened(Scripted(reply)).memory("alice", "coder")
    outcome = memory.extract(talk("a"), "thread-7")
    (fact,) = memory.list()
    assert outcome.stored == (fact.id,)
    assert (fact.content, fact.category, fact.confidence) == ("Drinks tea", "preference", 0.9)
    assert (fact.source.type, fact.source.thread_id, fact.source_error) == ("conversation", "thread-7", "said coffee")
    assert (fact.created_at, fact.updated_at, fact.expected_valid_days) == (clock(), clock(), 30)
    assert "scope" not in memory.path(fact.id).read_text()


@pytest.mark.parametrize("thread", ["a/b", "line\nbreak", "\x1b\ufeff", "💬" * 1000])
def test_any_text_may_name_a_conversation(opened, thread):
    engine = opened(Scripted())
    memory = engine.memory("alice", "coder")
    assert memory.capture(talk(1), thread)
    flushed(engine)
    assert memory.capture(talk(1), thread) is False
    (fact,) = memory.list()
    assert (fact.content, fact.source.type) == (owns(1), "conversation")


def test_an_owner_that_no_folder_can_have_is_stamped_as_it_is(opened, root):
    """124: the raw id reaches load and save, queued or not."""
    engine = opened(Scripted())
    memory = engine.memory("ann@example.com", "coder")
    memory.extract(talk(1), "t")
    memory.capture(talk(2), "t")
    flushed(engine)
    (folder,) = (root / "users").iterdir()
    files = [path.read_text() for path in facts_of(root, folder.name).rglob("*.md")]
    assert len(files) == 2
    assert all("ann@example.com" in text for text in files)
    assert contents(memory) == [owns(1), owns(2)]
    assert engine.check() == []


def test_a_summary_is_written_and_shared(opened):
    """114: with the labels, a yes, and text."""
    sections = {"workContext": told("Builds trains"), "topOfMind": told("No", shouldUpdate="false")}
    engine = opened(Scripted(answer(user=sections)))
    assert engine.memory("alice", "coder").extract(talk(1), "t").summaries == ("work_context",)
    summaries = engine.memory("alice", "writer").summaries()
    assert (summaries.work_context.summary, summaries.top_of_mind.summary) == ("Builds trains", "")


def test_what_is_known_or_unsure_is_not_stored(opened):
    """118, 119: with what is there, and within one answer; the settings' threshold counts."""
    facts = [new(" likes TEA "), new("Owns a boat", confidence=0.79), new("Owns a car"), new("owns a car ")]
    memory = opened(Scripted(answer(*facts)), fact_confidence_threshold=0.8).memory("alice", "coder")
    memory.add("Likes tea")
    outcome = memory.extract(talk(1), "t")
    assert contents(memory) == ["Likes tea", "Owns a car"]
    assert outcome.counts() == {"fact.accepted": 1, "fact.confidence": 1, "fact.duplicate": 2}


def test_a_replacement_at_the_cap_evicts_nobody_else(opened, clock):
    """116, and a fault of others: the cap is kept after the contradicted fact is gone."""
    reply = answer(new("Lives in Bonn"), factsToRemove=[gone("fact_4", replacementFactIndex=0)])
    memory = opened(Scripted(reply), max_facts=CAP).memory("alice", "coder")
    fill(memory, ten(clock()))
    outcome = memory.extract(talk(1), "t")
    assert outcome.removed == ("fact_4",)
    assert outcome.evicted == ()
    kept = {f"fact_{number}" for number in range(CAP)} - {"fact_4"}
    assert {fact.id for fact in memory.list()} == kept | set(outcome.stored)


def test_a_replacement_without_room_leaves_what_it_was_to_replace(opened, clock):
    """116: the new fact does not survive the cap, so the old one stays."""
    reply = answer(new("Weak", confidence=0.7), new("Strong"), factsToRemove=[gone("f", replacementFactIndex=0)])
    memory = opened(Scripted(reply), max_facts=CAP).memory("alice", "coder")
    strong = [{"id": name, "content": f"Says {name}", "confidence": 0.95} for name in "fabcdeghijk"]
    memory.import_document({"facts": strong})
    before = contents(memory)
    outcome = memory.extract(talk(1), "t")
    assert contents(memory) == before
    assert outcome.counts() == {"fact.capacity": 2, "removal.replacement": 1}


@pytest.mark.parametrize("reply", ["no JSON", '{"user": {}, "history": {}, "newFacts": [', "{}", ""])
def test_an_answer_that_is_none_changes_nothing_and_waits(opened, root, reply):
    """110."""
    model = Scripted(reply or " ")
    engine = opened(model)
    memory = engine.memory("alice", "coder")
    memory.add("From before")
    assert memory.capture(talk(1), "t")
    assert not engine.flush(30)
    assert (contents(memory), states(root)) == (["From before"], ["waiting"])
    with pytest.raises(ExtractionFailed, match="no whole JSON"):
        memory.extract(talk(1), "t")
    model.reply = None
    flushed(engine)
    assert contents(memory) == ["From before", owns(1)]


class Failing(Files):
    """Fails every rename into place of a fact, while it is told to."""

    fails = False

    def rename_new(self, source: str, target: str) -> None:
        if self.fails and target.endswith(".md"):
            raise OSError(28, "No space left on device", target)
        super().rename_new(source, target)


def test_a_failed_save_leaves_everything_and_asks_no_model_again(opened, root):
    """123: the answer is kept with what waits."""
    files, model = Failing(), Scripted()
    engine = opened(model, files)
    memory = engine.memory("alice", "coder")
    memory.add("From before")
    files.fails = True
    memory.capture(talk(1), "t")
    assert not engine.flush(30)
    assert (contents(memory), states(root)) == (["From before"], ["waiting"])
    with pytest.raises(StoreUnavailable):
        memory.extract(talk(2), "t")
    files.fails = False
    flushed(engine)
    assert contents(memory) == ["From before", owns(1)]
    assert [seen[0] for seen in model.seen] == ["gadget-1", "gadget-2"]


def test_most_of_an_answer_refused_is_a_warning(opened, caplog):
    """117: above 60 %, with the counters by kind and reason; the metrics hook is told the same."""
    told_of: list[object] = []
    wrong = [new(f"No {number}", scope="project") for number in range(2)]
    model = Scripted(answer(*wrong, new("Right")))
    engine = opened(model, hooks=Hooks(on_extracted=told_of.append))
    memory = engine.memory("ann@example.com", "coder")
    memory.extract(talk(1), "t7")
    assert "67 %" in caplog.text
    assert "fact.scope 2" in caplog.text
    (metrics,) = told_of
    assert (metrics.user_id, metrics.agent, metrics.thread_id) == ("ann@example.com", "coder", "t7")
    assert metrics.counts == {"fact.accepted": 1, "fact.scope": 2}
    caplog.clear()
    model.reply = answer(*wrong[:1], new("Right again"))
    memory.extract(talk(2), "t7")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("settings", "said", "counts"),
    [
        ({}, "Yes, exactly!", False),
        ({"fact_eviction_policy": "hybrid-v1"}, "Yes, exactly!", True),
        ({"fact_eviction_shadow_enabled": True}, "Yes, exactly!", True),
        ({"fact_eviction_policy": "hybrid-v1"}, "I have two cats at home.", False),
    ],
)
def test_a_confirmation_counts_where_a_policy_looks_at_it_and_somebody_confirmed(opened, clock, settings, said, counts):
    """122."""
    model = Scripted()
    engine = opened(model, **settings)
    memory = engine.memory("alice", "coder")
    fact = memory.add("Likes tea", source="t0")
    model.reply = answer(factsToReinforce=[gone(fact.id)])
    clock.advance(days=3)
    memory.capture([("user", said), ("assistant", "I see.")], "t")
    flushed(engine)
    after = memory.get(fact.id)
    assert (after.confirmation_count, after.last_confirmed_at) == (
        (1, clock()) if counts else (fact.confirmation_count, None)
    )
    assert after.content == fact.content


@pytest.mark.parametrize("setting", ["patterns_dir", "prompts_dir"])
def test_a_folder_that_lacks_a_file_is_said_at_once(opened, tmp_path, setting):
    """129, 147."""
    with pytest.raises(InvalidInput, match=str(tmp_path)):
        opened(Scripted(), **{setting: str(tmp_path)})


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [("user", "I own gadget-1.")],
        [("assistant", "reply-1")],
        [("user", "thanks!"), ("assistant", "You are welcome.")],
        [("user", "<uploaded_files>\na.csv\n</uploaded_files>"), ("assistant", "Got it.")],
        [{"role": "tool", "content": "42"}, ("assistant", "So it is 42.")],
    ],
)
def test_a_conversation_without_both_sides_is_not_queued(opened, root, messages):
    """143, 145, 146."""
    memory = opened(Scripted()).memory("alice", "coder")
    assert memory.capture(messages, "t") is False
    assert memory.capture_now(messages, "t") is False
    with pytest.raises(InvalidInput, match="nothing for memory"):
        memory.extract(messages, "t")
    assert not root.exists()


@pytest.mark.parametrize(
    "given",
    [
        {"thread_id": 5},
        {"thread_id": " "},
        {"thread_id": "x" * 1001},
        {"thread_id": "nul\0"},
        {"thread_id": "\ud800"},
        {"trace_id": 5},
    ],
)
def test_what_names_nothing_is_refused_before_anything_is_made(opened, root, given):
    memory = opened(Scripted()).memory("alice", "coder")
    for verb in (memory.capture, memory.capture_now, memory.extract):
        with pytest.raises(InvalidInput, match=next(iter(given))):
            verb(talk(1), **{"thread_id": "t", **given})
    assert not root.exists()


def test_secrets_and_uploads_are_not_stored(opened):
    """148."""
    facts = [new("The user uploaded report.csv"), new("The password is " + "hunter2hunter2"), new("Reads CSV files")]
    memory = opened(Scripted(answer(*facts))).memory("alice", "coder")
    memory.extract(talk(1), "t")
    assert contents(memory) == ["Reads CSV files"]


def test_old_facts_are_reviewed_and_facts_of_one_kind_merged(opened, clock):
    """132, 137, 141: shown to the model, carried out in one commit."""
    model = Scripted()
    engine = opened(model, consolidation_enabled=True, consolidation_min_facts=3)
    memory = engine.memory("alice", "coder")
    document = [{"id": f"g{n}", "content": f"Wants {n}", "category": "goal", "confidence": 0.8} for n in range(3)]
    memory.import_document({"facts": [{**fact, "source": "t0"} for fact in document]})
    clock.advance(days=200)
    model.reply = answer(
        staleFactsToRemove=[gone("g0")],
        factsToConsolidate=[
            {"sourceIds": ["g1", "g2"], "consolidated": {"content": "Wants both", "category": "goal", **LABELS}}
        ],
    )
    revision = memory.summaries().revision
    outcome = memory.extract(talk(1), "t")
    assert contents(memory) == ["Wants both"]
    assert (outcome.retired, set(outcome.consolidated)) == (("g0",), {"g1", "g2"})
    assert memory.summaries().revision == revision + 1
    assert json.dumps(sorted(outcome.counts())) == json.dumps(["merge.accepted", "stale_removal.accepted"])
