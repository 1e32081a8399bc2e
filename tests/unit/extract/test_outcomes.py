"""What is reported of an answer, before its commit and after it."""

from __future__ import annotations

import pytest

from deermem.extract.outcome import WARN_ABOVE, Outcome
from deermem.model.changes import Commit
from deermem.model.proposals import REASONS, Refusal


def refusals(*reasons: str, kind: str = "fact") -> tuple[Refusal, ...]:
    return tuple(Refusal(kind=kind, reason=reason) for reason in reasons)  # type: ignore[arg-type]


def test_counts_are_by_kind_and_reason():
    """117."""
    done = Outcome(
        stored=("a", "b"),
        summaries=("work_context",),
        confirmed=("c",),
        extended=("d",),
        removed=("e",),
        retired=("f",),
        merged=("g",),
        consolidated=("h", "i"),
        refused=(*refusals("secret", "secret", "scope"), *refusals("replacement", kind="removal")),
    )
    assert done.counts() == {
        "extension.accepted": 1,
        "fact.accepted": 2,
        "fact.scope": 1,
        "fact.secret": 2,
        "merge.accepted": 1,
        "reinforcement.accepted": 1,
        "removal.accepted": 1,
        "removal.replacement": 1,
        "stale_removal.accepted": 1,
        "summary.accepted": 1,
    }
    assert done.rejected_share == pytest.approx(4 / 12)
    assert Outcome().counts() == {}


@pytest.mark.parametrize(
    ("outcome", "share"),
    [
        (Outcome(), 0),
        (Outcome(stored=("a",)), 0),
        (Outcome(refused=refusals("scope")), 1),
        (Outcome(stored=("a",), refused=refusals("scope", "secret")), 2 / 3),
        (Outcome(refused=refusals("duplicate", "capacity", "off", "unchanged")), 0),
    ],
)
def test_the_share_counts_what_the_answer_is_to_blame_for(outcome, share):
    """117: more than 60 % is worth a warning."""
    assert outcome.rejected_share == pytest.approx(share)
    assert (outcome.rejected_share > WARN_ABOVE) == (share > 0.6)
    assert {item.reason for item in outcome.refused} <= REASONS.keys()


def test_what_the_cap_took_is_not_reported_as_stored():
    planned = Outcome(
        stored=("new", "low"),
        merged=("m",),
        removed=("old", "wrong"),
        consolidated=("s1", "s2"),
        replaced=(("old", "low"), ("s1", "m"), ("s2", "m")),
    )
    done = planned.settled(Commit(revision=2, evicted=("low", "m", "elsewhere")))
    assert (done.stored, done.merged, done.removed, done.consolidated) == (("new",), (), ("wrong",), ())
    assert done.replaced == ()
    assert [(item.kind, item.reason, item.subject) for item in done.refused] == [
        ("fact", "capacity", "low"),
        ("merge", "capacity", "m"),
        ("removal", "replacement", "old"),
    ]
    assert planned.settled(Commit(revision=2)) == planned


def test_where_nothing_had_room_nothing_was_stored():
    done = Outcome(stored=("new",), removed=("old",), replaced=(("old", "new"),)).settled(None)
    assert (done.stored, done.removed) == ((), ())
