"""`eviction-audit.json` read, written and cleared: ids and numbers, never content."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from builders_policy import NOW, ago

from deermem.format.audit import MAX_ENTRIES, read_audit, write_audit
from deermem.format.sidecars import audit_times, audit_without
from deermem.model.evictions import CONFIDENCE, HYBRID, Evicted, Eviction, Score

LOW = Evicted("low", "context", Score(total=0.3, confidence=0.3))
DECISION = Eviction(at=NOW, policy=CONFIDENCE, max_facts=10, evicted=(LOW,), would_evict=("other", "low"))
HYBRID_DECISION = Eviction(
    at=ago(1),
    policy=HYBRID,
    max_facts=10,
    evicted=(Evicted("x", "goal", Score(total=0.65 / 3, confidence=1 / 3, confirmation=0.25, access=1.0)),),
    reserved=1,
)


def written(*decisions: Eviction, **options: int) -> bytes:
    data: bytes | None = None
    for decision in decisions:
        data = write_audit(data, decision, **options)
    return data or b""


def entries(data: bytes | None) -> list[dict[str, object]]:
    return json.loads(data or b"")


def test_the_entry_of_a_decision():
    """103."""
    assert entries(written(DECISION, HYBRID_DECISION)) == [
        {
            "occurredAt": "2026-11-30T12:00:00Z",
            "reason": "capacity",
            "maxFacts": 10,
            "policyVersion": "confidence",
            "reservedCorrectionSlots": 0,
            "evicted": [{"factId": "low", "category": "context", "score": 0.3, "components": {"confidence": 0.3}}],
            "shadow": {"policyVersion": "hybrid-v1", "wouldEvict": ["other", "low"], "disagrees": True},
        },
        {
            "occurredAt": "2026-11-29T12:00:00Z",
            "reason": "capacity",
            "maxFacts": 10,
            "policyVersion": "hybrid-v1",
            "reservedCorrectionSlots": 1,
            "evicted": [
                {
                    "factId": "x",
                    "category": "goal",
                    "score": 0.216667,
                    "components": {"confidence": 0.333333, "confirmationFreshness": 0.25, "accessHeat": 1.0},
                }
            ],
        },
    ]


def test_a_decision_reads_back():
    assert read_audit(written(DECISION)) == (DECISION,)
    (back,) = read_audit(written(HYBRID_DECISION))
    assert back.evicted[0].score.total == pytest.approx(0.65 / 3, abs=1e-6)
    assert replace(back, evicted=()) == replace(HYBRID_DECISION, evicted=())


def test_the_audit_is_bounded():
    """103: the latest stay; 1 keeps the last; 0 switches it off."""
    decisions = [replace(DECISION, at=ago(300 - number)) for number in range(MAX_ENTRIES + 5)]
    kept = read_audit(written(*decisions))
    assert [item.at for item in kept] == [item.at for item in decisions[5:]]
    assert read_audit(written(*decisions[:3], max_entries=1)) == (decisions[2],)
    assert write_audit(written(DECISION), DECISION, max_entries=0) is None


def test_each_decision_is_added_as_if_the_whole_were_written():
    decisions = [
        replace(DECISION, max_facts=number, would_evict=("ä", "b\\c")[: number % 3]) for number in range(10, 19)
    ]
    data = written(*decisions, max_entries=5)
    assert (
        data
        == json.dumps([entries(written(item))[0] for item in decisions[-5:]], ensure_ascii=False, indent=2).encode()
    )


@pytest.mark.parametrize(
    "others",
    [
        [{}],
        [{"a": 1}, {}],
        [{"a": 1}, {}, {"b": 2}],
        [{"a": [{}]}, 5, {"b": {}}],
        [{"a": "\n  },\n  {\n"}],
        [[], {"a": 1}],
    ],
)
@pytest.mark.parametrize("layout", [{"indent": 2}, {"indent": 2, "ensure_ascii": False}, {}, {"indent": 1}])
def test_a_decision_is_added_to_what_others_wrote(others, layout):
    data = write_audit(json.dumps(others, **layout).encode(), DECISION, max_entries=2)
    (latest,) = entries(written(DECISION))
    assert entries(data) == [*[item for item in others if isinstance(item, dict)], latest][-2:]


def test_a_decision_that_evicts_nobody_is_none():
    assert write_audit(None, replace(DECISION, evicted=())) is None


@pytest.mark.parametrize("data", [None, b"", b"{", b"7", b"{}", b"null", b"\xff", b"[" * 5000, b"[[[[{]"])
def test_a_damaged_audit_is_empty_and_begins_anew(data: bytes | None) -> None:
    """104."""
    assert read_audit(data) == ()
    assert read_audit(write_audit(data, DECISION)) == (DECISION,)
    assert audit_without(data, ["low"]) is None


def test_what_is_no_entry_is_left_out():
    """104."""
    data = json.dumps([7, None, "low", {"reason": "capacity"}, {"occurredAt": "soon"}, {"occurredAt": "2026-11-30"}])
    (left,) = read_audit(data.encode())
    assert left == Eviction(at=NOW.replace(hour=0), policy=CONFIDENCE, max_facts=0)
    assert len(entries(write_audit(data.encode(), DECISION))) == 4


def test_odd_values_cost_themselves():
    """104."""
    entry = {
        "occurredAt": "2026-11-30T12:00:00Z",
        "policyVersion": 5,
        "maxFacts": "many",
        "reservedCorrectionSlots": -1,
        "evicted": [
            7,
            {"factId": ["low"]},
            {"category": "context"},
            {"factId": "a", "score": 10**400, "components": {"confidence": float("nan"), "accessHeat": "1"}},
            {"factId": "b", "category": None, "score": True, "components": []},
        ],
        "shadow": {"wouldEvict": ["a", 5, None]},
    }
    (read,) = read_audit(json.dumps([entry]).encode())
    assert (read.policy, read.max_facts, read.reserved, read.would_evict) == (CONFIDENCE, 0, 0, ("a",))
    assert read.evicted == (
        Evicted("a", "context", Score(total=1.0, confidence=0.0)),
        Evicted("b", "context", Score(total=0.0, confidence=0.0)),
    )


@pytest.mark.parametrize(
    ("cleared", "evicted", "would", "disagrees"),
    [
        pytest.param(["other"], ["low"], ["low"], False, id="then both say the same"),
        pytest.param(["low"], [], ["other"], True, id="then only the shadow is left"),
        pytest.param(["low", "elsewhere"], [], ["other"], True, id="an id that isn't named"),
    ],
)
def test_clearing_ids(cleared: list[str], evicted: list[str], would: list[str], disagrees: bool) -> None:
    """104: the disagreement is worked out anew."""
    data = audit_without(written(DECISION), cleared)
    (left,) = read_audit(data)
    assert (list(left.victims), left.would_evict, left.disagrees) == (evicted, tuple(would), disagrees)
    assert entries(data)[0]["shadow"] == {"policyVersion": HYBRID, "wouldEvict": would, "disagrees": disagrees}


DEEP = json.dumps([{"a": json.loads("[" * 40 + "]" * 40)}], indent=2).encode()


def test_what_is_nested_beyond_all_reason_is_not_carried_on():
    """104: with it, the file would be read as damaged, and so as empty, for as long as it stays."""
    assert read_audit(write_audit(DEEP, DECISION)) == (DECISION,)


@pytest.mark.parametrize(
    "data", [b'[{"factId": "l\\u006fw"}]', b'[{"factId": "low"}]', '[{"factId": "low"}]'.encode("utf-16")]
)
def test_an_id_is_found_however_it_is_spelt(data):
    assert audit_without(data, {"low"}) == b"[]"
    assert audit_without(data, {"lo"}) is None


def test_a_decision_about_nobody_any_more_goes():
    data = written(HYBRID_DECISION, DECISION)
    assert read_audit(audit_without(data, ["low", "other"])) == read_audit(written(HYBRID_DECISION))
    assert audit_without(data, ["low", "other", "x"]) == b"[]"
    assert audit_without(data, ["elsewhere"]) is None


def test_clearing_puts_malformed_decisions_right():
    """104."""
    data = json.dumps(
        [
            {
                "evicted": [{"factId": "keep"}, {"factId": "gone"}, {"factId": []}, "odd"],
                "shadow": {"wouldEvict": ["keep", "gone", {}], "disagrees": True},
            },
            {"evicted": [{"factId": "kept"}], "shadow": {"wouldEvict": None, "disagrees": True}},
            {"evicted": None, "shadow": {"wouldEvict": ["gone"], "disagrees": True}},
        ]
    )
    assert entries(audit_without(data.encode(), ["gone"])) == [
        {"evicted": [{"factId": "keep"}], "shadow": {"wouldEvict": ["keep"], "disagrees": False}},
        {"evicted": [{"factId": "kept"}]},
    ]


def test_a_fact_that_is_called_like_a_key_takes_no_key_along():
    names = sorted(
        {*entries(written(HYBRID_DECISION, DECISION))[1], "shadow", "factId", "score", "category", "confidence"}
    )
    decision = replace(DECISION, evicted=(*(replace(LOW, id=name) for name in names), LOW))
    (left,) = read_audit(audit_without(written(decision), names))
    assert (left.evicted, left.would_evict) == ((LOW,), ("other", "low"))


def test_shapes_of_others_are_cleared_too():
    data = json.dumps({"entries": [{"at": "2026-11-30", "evicted": [{"id": "a"}, {"id": "b"}]}], "a": 1})
    assert json.loads(audit_without(data.encode(), ["a"]) or b"") == {
        "entries": [{"at": "2026-11-30", "evicted": [{"id": "b"}]}]
    }


def test_every_id_has_the_time_of_its_decision():
    assert audit_times(written(HYBRID_DECISION, DECISION)) == {"x": ago(1), "low": NOW, "other": NOW}
