"""From a model's answer to one change set: what is carried out, what is not, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders_policy import NOW, ago, old_fact
from builders_replies import answer, basis, gone, new, planned, reasons, stored, told

from deermem.extract.basis import PlanRules, Shown
from deermem.model.changes import ABSENT
from deermem.model.fact import Draft, Source
from deermem.model.summaries import Section, Summaries

CONFIRMS = PlanRules(confirms=True)
FROM_TALK = Source("conversation", "t0")


# --- new facts


def test_a_new_fact_carries_where_it_comes_from():
    """120, 121."""
    done = planned(answer(new("Likes tea", sourceError="coffee", expected_valid_days=9999)), basis())
    (upsert,) = done.change.upserts
    fact = upsert.fact
    assert isinstance(fact, Draft)
    assert (fact.content, fact.category, fact.confidence, fact.source) == (
        "Likes tea",
        "preference",
        0.9,
        Source("conversation", "thread-1"),
    )
    assert (fact.source_error, fact.expected_valid_days, upsert.expected) == ("coffee", 1800, ABSENT)
    assert done.outcome.stored == (fact.id,)
    assert done.outcome.counts() == {"fact.accepted": 1}


def test_the_same_answer_planned_twice_gives_the_same_ids():
    reply = answer(new("A"), new("B"))
    first, again = (planned(reply, basis()).outcome.stored for _ in range(2))
    assert first == again
    assert len(set(first)) == 2
    assert first != planned(reply, basis(item_id="another")).outcome.stored


def test_an_answer_that_was_carried_out_adds_nothing_again():
    """Also where a person has reworded the fact since."""
    reply = answer(new("A"))
    (fact_id,) = planned(reply, basis()).outcome.stored
    there = stored(old_fact(fact_id, 0, content="Reworded"))
    done = planned(reply, basis(there))
    assert done.is_empty()
    assert reasons(done) == [("fact", "duplicate", "0")]


@pytest.mark.parametrize("said", ["likes  TEA ", "Likes tea", "Likes tea.", "Ｌｉｋｅｓ tea！", "Likes\u200b tea"])
def test_what_is_known_is_not_stored_again(said):
    """119: nor what the answer itself says twice."""
    done = planned(answer(new("New"), new(said), new("NEW")), basis(stored("Likes tea")))
    assert reasons(done) == [("fact", "duplicate", "1"), ("fact", "duplicate", "2")]
    assert len(done.change.upserts) == 1


def test_the_words_of_an_expired_fact_can_be_said_again():
    over = stored(old_fact("f0", 9, content="Likes tea", expires_at=ago(1)))
    assert len(planned(answer(new("Likes tea")), basis(over)).outcome.stored) == 1


@pytest.mark.parametrize("content", ["\ud800", "a\0b", "x" * 70_000, "<<<<<<< a\nb\n=======\nc\n>>>>>>> d"])
def test_what_cannot_be_stored_costs_itself(content):
    done = planned(answer(new(content), new("B")), basis())
    assert reasons(done) == [("fact", "storage", "0")]
    assert len(done.outcome.stored) == 1


def test_sentences_about_an_upload_are_left_out():
    """148: what is nothing else is refused, and what is stored already is never scrubbed."""
    known = stored("The user uploaded a report.pdf.")
    done = planned(
        answer(
            new("The user uploaded report.pdf."),
            new("The user uploaded report.pdf. Works with CSV files."),
            user={"workContext": told("The user uploaded data.csv. Builds trains.")},
            history={"recentMonths": told("The user uploaded data.csv.")},
        ),
        basis(known),
    )
    assert reasons(done) == [("fact", "upload", "0"), ("summary", "upload", "recent_months")]
    assert [item.fact.content for item in done.change.upserts] == ["Works with CSV files."]
    assert done.change.summaries == {"work_context": "Builds trains."}


# --- summaries


def test_summaries_are_written_where_they_differ():
    present = Summaries(work_context=Section("Works on trains"))
    reply = answer(
        user={"workContext": told(" Works on trains "), "topOfMind": told("Tea")},
        history={"recentMonths": told("a\0b")},
    )
    done = planned(reply, basis(summaries=present))
    assert done.change.summaries == {"top_of_mind": "Tea"}
    assert reasons(done) == [("summary", "unchanged", "work_context"), ("summary", "storage", "recent_months")]
    assert done.outcome.summaries == ("top_of_mind",)


# --- confirmations


def test_a_confirmation_changes_nothing_else():
    """122."""
    (fact,) = stored(old_fact("f0", 10, confidence=0.8, extra={"mine": 1}, topics=("tea",)))
    done = planned(answer(factsToReinforce=[gone("f0")]), basis([fact], rules=CONFIRMS, signals=["reinforcement"]))
    (upsert,) = done.change.upserts
    assert upsert.fact == replace(fact, last_confirmed_at=NOW, confirmation_count=1)
    assert (upsert.expected, done.outcome.confirmed) == (fact.version, ("f0",))


@pytest.mark.parametrize(
    ("rules", "signals", "item", "reason"),
    [
        (PlanRules(), ["reinforcement"], gone("f0"), "off"),
        (CONFIRMS, ["correction"], gone("f0"), "signal"),
        (CONFIRMS, ["reinforcement"], gone("f9"), "unknown"),
        (CONFIRMS, ["reinforcement"], gone("f0", scope="thread"), "scope"),
        (CONFIRMS, ["reinforcement"], gone("f0", reason=""), "missing"),
    ],
)
def test_what_confirms_nothing(rules, signals, item, reason):
    """122."""
    done = planned(answer(factsToReinforce=[item]), basis(stored("A"), rules=rules, signals=signals))
    assert done.is_empty()
    assert [refusal.reason for refusal in done.outcome.refused] == [reason]


def test_twice_named_is_confirmed_once():
    reply = answer(factsToReinforce=[gone("f0"), gone("f0")])
    done = planned(reply, basis(stored("A"), rules=CONFIRMS, signals=["reinforcement"]))
    assert [item.fact.confirmation_count for item in done.change.upserts] == [1]
    assert reasons(done) == [("reinforcement", "duplicate", "f0")]


# --- removals


def test_a_contradicted_fact_goes_for_its_replacement():
    """116: the commit learns what takes its place."""
    facts = stored("Lives in Kiel")
    done = planned(answer(new("Lives in Bonn"), factsToRemove=[gone("f0", replacementFactIndex=0)]), basis(facts))
    (delete,) = done.change.deletes
    assert (delete.id, delete.expected, delete.replaced_by) == ("f0", facts[0].version, done.outcome.stored[0])
    assert done.outcome.removed == ("f0",)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (answer(factsToRemove=[gone("f9")]), "unknown"),
        (answer(factsToRemove=[gone("f1")]), "unknown"),
        (answer(factsToRemove=[gone("F0")]), "unknown"),
        (answer(factsToRemove=[gone("../f0")]), "unknown"),
        (answer(new("Likes tea"), factsToRemove=[gone("f0", replacementFactIndex=0)]), "restated"),
        (answer(new("likes TEA"), factsToRemove=[gone("f0")]), "restated"),
        (answer(new("a\0b"), factsToRemove=[gone("f0", replacementFactIndex=0)]), "replacement"),
        (answer(new("Hates tea"), new("bad", confidence=95), factsToRemove=[gone("f0")]), "batch"),
        (answer(new("x", scope=""), factsToRemove=[gone("f0", replacementFactIndex=0)]), "replacement"),
    ],
)
def test_what_is_not_removed(reply, reason):
    """115, 116: f1 is expired, and so was not shown."""
    facts = stored("Likes tea", old_fact("f1", 9, expires_at=ago(1)))
    done = planned(reply, basis(facts))
    assert done.change.deletes == ()
    assert ("removal", reason) in [(kind, why) for kind, why, _ in reasons(done)]


def test_what_was_not_shown_or_has_changed_since_is_not_touched():
    facts = stored("A", "B", "C")
    shown = Shown(versions={"f0": facts[0].version, "f1": "an older one"})
    reply = answer(factsToRemove=[gone(f"f{n}") for n in range(3)], factsToReinforce=[gone("f1")])
    done = planned(reply, basis(facts, shown=shown, rules=CONFIRMS, signals=["reinforcement"]))
    assert [item.id for item in done.change.deletes] == ["f0"]
    assert reasons(done) == [
        ("reinforcement", "changed", "f1"),
        ("removal", "changed", "f1"),
        ("removal", "unknown", "f2"),
    ]


def test_what_a_prompt_has_no_room_for_was_not_shown():
    many = stored(*(old_fact(f"n{n:03}", 1, confidence=0.9 if n else 0.1, source=FROM_TALK) for n in range(201)))
    done = planned(answer(factsToRemove=[gone("n000"), gone("n200")]), basis(many))
    assert (done.outcome.removed, reasons(done)) == (("n200",), [("removal", "unknown", "n000")])


def test_a_removed_fact_is_not_confirmed_as_well():
    reply = answer(factsToReinforce=[gone("f0")], factsToRemove=[gone("f0"), gone("f0")])
    done = planned(reply, basis(stored("A"), rules=CONFIRMS, signals=["reinforcement"]))
    assert (done.change.upserts, [item.id for item in done.change.deletes]) == ((), ["f0"])
    assert (done.outcome.confirmed, done.outcome.removed) == ((), ("f0",))
    assert reasons(done) == [("removal", "duplicate", "f0")]


def test_a_contradiction_removes_what_a_person_wrote():
    facts = stored(old_fact("f0", 10, source=Source("manual")))
    assert planned(answer(factsToRemove=[gone("f0")]), basis(facts)).outcome.removed == ("f0",)


def test_a_plan_carries_the_state_it_rests_on():
    done = planned(answer(), basis(state_token="token", epoch="epoch"))
    assert (done.change.state_token, done.change.epoch) == ("token", "epoch")
    assert done.is_empty()
