"""What of a model's proposals is let through."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deermem.model.proposals import (
    REASONS,
    Extension,
    Labels,
    Merge,
    NewFact,
    NewSummary,
    Proposals,
    Refusal,
    Reinforcement,
    Removal,
    StaleRemoval,
)
from deermem.policy.gate import gate

GOOD = Labels("user", "durable", "descriptive")
SECRET = "The password is " + "hunter2"
FACT = NewFact(position=0, content="Likes tea", confidence=0.7, labels=GOOD)
REMOVAL = Removal(id="f1", scope="user", reason="said so")

LABELS = [
    (GOOD, ""),
    (replace(GOOD, scope=""), "missing"),
    (replace(GOOD, authority=""), "missing"),
    (replace(GOOD, scope="thread"), "scope"),
    (replace(GOOD, scope="users"), "scope"),
    (replace(GOOD, authority="instruction"), "authority"),
    (replace(GOOD, authority="permission"), "authority"),
]
LASTING = [(replace(GOOD, durability=""), "missing"), (replace(GOOD, durability="session"), "durability")]


def verdict(**items: object) -> str:
    """The reason against the one item, "" if it passed."""
    proposals = Proposals(**items)  # type: ignore[arg-type]
    done = gate(proposals, threshold=0.7)
    assert done.accepted.count() + len(done.refused) == proposals.count()
    assert all(item.reason in REASONS for item in done.refused)
    return done.refused[0].reason if done.refused else ""


@pytest.mark.parametrize(("labels", "reason"), LABELS + LASTING)
def test_labels_of_facts_and_merges(labels, reason):
    """113."""
    fact = replace(FACT, labels=labels)
    assert verdict(facts=(fact,)) == reason
    assert verdict(merges=(Merge(source_ids=("a", "b"), fact=fact),)) == reason


@pytest.mark.parametrize(("labels", "reason"), [*LABELS, (replace(GOOD, durability=""), "")])
def test_labels_of_summaries(labels, reason):
    """114: a summary is of now, and need not last."""
    assert verdict(summaries=(NewSummary(section="work_context", text="W", labels=labels),)) == reason


def test_a_summary_without_text_is_no_way_to_clear_it():
    """114."""
    assert verdict(summaries=(NewSummary(section="work_context", text=" \n", labels=GOOD),)) == "missing"


@pytest.mark.parametrize(
    ("confidence", "reason"),
    [(0.7, ""), (1.0, ""), (0.69, "confidence"), (None, "confidence"), (float("nan"), "confidence")],
)
def test_confidence_has_a_threshold(confidence, reason):
    """118."""
    assert verdict(facts=(replace(FACT, confidence=confidence),)) == reason


def test_a_missing_confidence_counts_as_the_default():
    assert gate(Proposals(facts=(replace(FACT, confidence=None),)), threshold=0.5).refused == ()


@pytest.mark.parametrize("field", ["content", "category", "source_error"])
def test_a_credential_is_never_kept(field):
    fact = replace(FACT, **{field: SECRET})
    assert verdict(facts=(fact,)) == "secret"
    assert verdict(merges=(Merge(source_ids=("a", "b"), fact=fact),)) == "secret"
    assert verdict(summaries=(NewSummary(section="work_context", text=SECRET, labels=GOOD),)) == "secret"


@pytest.mark.parametrize(
    ("scope", "words", "reason"),
    [("user", "said so", ""), ("", "said so", "missing"), ("user", " ", "missing"), ("thread", "said so", "scope")],
)
def test_removals_and_reinforcements_need_scope_and_reason(scope, words, reason):
    """115, 122."""
    assert verdict(removals=(Removal(id="f", scope=scope, reason=words),)) == reason
    assert verdict(reinforcements=(Reinforcement(id="f", scope=scope, reason=words),)) == reason


@pytest.mark.parametrize(
    ("position", "fact", "reason"),
    [
        (0, FACT, ""),
        (None, FACT, ""),
        (1, FACT, "replacement"),
        (-1, FACT, "replacement"),
        (0, replace(FACT, confidence=0.1), "replacement"),
        (0, replace(FACT, content=SECRET), "replacement"),
        (0, replace(FACT, position=1), "replacement"),
    ],
)
def test_a_removal_needs_its_replacement_to_pass(position, fact, reason):
    """116."""
    done = gate(Proposals(facts=(fact,), removals=(replace(REMOVAL, replacement=position),)), threshold=0.7)
    assert [item.reason for item in done.refused if item.kind == "removal"] == ([reason] if reason else [])
    assert len(done.accepted.removals) == (not reason)


def test_beside_a_malformed_fact_nothing_is_removed():
    """112: also not what names no replacement; a fact that was refused for another reason stops nothing."""
    malformed = Refusal(kind="fact", reason="malformed", subject="1")
    done = gate(Proposals(facts=(FACT,), removals=(REMOVAL,), refused=(malformed,)), threshold=0.7)
    assert done.accepted.facts == (FACT,)
    assert done.refused == (malformed, Refusal(kind="removal", reason="batch", subject="f1"))
    upload = replace(malformed, reason="upload")
    other = replace(malformed, kind="removal")
    assert gate(Proposals(removals=(REMOVAL,), refused=(upload, other)), threshold=0.7).accepted.removals == (REMOVAL,)


def test_decisions_of_a_review_pass_on_to_its_own_rules():
    asked = Proposals(stale_removals=(StaleRemoval(id="a"),), extensions=(Extension(id="b", days=3),))
    assert gate(asked, threshold=0.7).accepted == asked


@pytest.mark.parametrize("fact_id", ["\ud800", "x" * 129, SECRET, "a\nb", ""])
def test_a_refusal_never_repeats_what_is_no_id(fact_id):
    done = gate(Proposals(removals=(Removal(id=fact_id),)), threshold=0.7)
    assert done.refused[0].subject == "(no id)"
