"""Who goes when a bucket is full, by either policy and in the shadow."""

from __future__ import annotations

import pytest
from builders_policy import NOW, ago, contender

from deermem.errors import InvalidInput
from deermem.model.evictions import CONFIDENCE, HYBRID, Score
from deermem.model.usage import Usage
from deermem.policy.capacity import Ranked, victims
from deermem.policy.eviction import Bucket, CapacityRules, decide
from deermem.policy.hybrid import Contender, HybridRules

LOW, MID, TOP = contender("low", 0.3), contender("mid", 0.6), contender("top", 0.9)
STALE = contender("stale", 0.9, age=730)
CONFIRMED = contender("confirmed", 0.7, age=730, confirmed=0)
NEW = contender("new", 0.8)


def correction(fact_id: str, confidence: float = 0.1, category: str = "correction") -> Contender:
    return contender(fact_id, confidence, category=category)


def gone(bucket: Bucket, rules: CapacityRules, **usage: Usage) -> tuple[str, ...]:
    return decide(bucket, rules, usage, NOW).victims


@pytest.mark.parametrize("policy", [CONFIDENCE, HYBRID])
@pytest.mark.parametrize(
    ("staying", "added", "cap", "expected"),
    [
        pytest.param([LOW], [MID], 2, (), id="at the cap"),
        pytest.param([LOW], [MID], 10, (), id="below the cap"),
        pytest.param([LOW, MID], [TOP], 0, (), id="cap 0 is no limit"),
        pytest.param([LOW, MID], [TOP], 2, ("low",), id="the lowest goes"),
        pytest.param([MID, TOP], [LOW], 2, ("low",), id="the new fact is its own victim"),
        pytest.param([LOW, MID, TOP], [NEW], 1, ("low",), id="over the cap: no more than is added"),
        pytest.param([LOW, MID, TOP], [], 1, (), id="an update sheds nothing"),
        pytest.param([], [TOP, LOW, MID], 1, ("low", "mid"), id="an import into an empty bucket, lowest first"),
        pytest.param([contender("a", 0.5, 2)], [contender("b", 0.5, 1)], 1, ("a",), id="of equals the older goes"),
        pytest.param([contender("b", 0.5, 1)], [contender("a", 0.5, 2)], 1, ("a",), id="a back-dated add goes"),
        pytest.param([contender("b", 0.5)], [contender("a", 0.5)], 1, ("a",), id="of twins the smaller id"),
        pytest.param(
            [contender("b", 0.5), Contender(id="z", category="", confidence=0.5, created_at=None)],
            [contender("c", 0.5)],
            2,
            ("z",),
            id="of equals the one without a time",
        ),
    ],
)
def test_both_policies(
    staying: list[Contender], added: list[Contender], cap: int, expected: tuple[str, ...], policy: str
) -> None:
    """94, 107."""
    rules = CapacityRules(max_facts=cap, policy=policy)  # type: ignore[arg-type]
    assert gone(Bucket(staying=staying, added=added), rules) == expected
    assert gone(Bucket(staying=staying[::-1], added=added[::-1]), rules) == expected


@pytest.mark.parametrize(
    ("staying", "added", "cap", "expected"),
    [
        pytest.param([STALE, NEW], [CONFIRMED], 2, ("stale",), id="the confirmed one stays"),
        pytest.param([TOP, MID], [correction("c")], 2, ("mid",), id="the only correction has its place"),
        pytest.param([TOP, MID], [correction("c", category=" Correction ")], 2, ("mid",), id="in any spelling"),
        pytest.param([correction("a", 0.2), TOP], [correction("b")], 2, ("b",), id="the best corrections alone"),
        pytest.param([correction("a"), correction("b", 0.2)], [TOP], 2, ("a",), id="no more places than reserved"),
        pytest.param([LOW, MID], [TOP], 2, ("low",), id="without corrections the places are anybody's"),
        pytest.param([correction("a"), LOW, MID, TOP], [NEW], 1, ("low",), id="over the cap the reserve holds too"),
    ],
)
def test_hybrid(staying: list[Contender], added: list[Contender], cap: int, expected: tuple[str, ...]) -> None:
    """97, 98."""
    rules = CapacityRules(max_facts=cap, policy=HYBRID)
    assert gone(Bucket(staying=staying, added=added), rules) == expected


def test_a_full_bucket_gives_its_lowest_up_for_a_weak_correction():
    """98: ten strong facts, a correction of 0.1."""
    strong = [contender(f"p{number}", 0.99, age=number) for number in range(10)]
    bucket = Bucket(staying=strong, added=[correction("c")])
    verdict = decide(bucket, CapacityRules(max_facts=10, policy=HYBRID), {}, NOW)
    assert (verdict.victims, verdict.reserved) == (("p9",), 1)
    assert gone(bucket, CapacityRules(max_facts=10)) == ("c",)


def test_heat_decides_between_near_equals():
    """97."""
    bucket = Bucket(staying=[contender("hot", 0.70, age=9)], added=[contender("cold", 0.75, age=9)])
    rules = CapacityRules(max_facts=1, policy=HYBRID)
    assert gone(bucket, rules) == ("hot",)
    assert gone(bucket, rules, hot=Usage(100_000.0, 9, NOW)) == ("cold",)
    assert gone(bucket, rules, hot=Usage(100_000.0, 9, ago(3_000))) == ("hot",)


def test_confidence_never_looks_at_heat():
    """106."""

    class Unread(dict[str, Usage]):
        def get(self, *_: object) -> Usage:  # type: ignore[override]
            raise AssertionError("the usage was read")

    rules = CapacityRules(max_facts=1)
    assert decide(Bucket(staying=[LOW], added=[TOP]), rules, Unread(), NOW).victims == ("low",)
    assert not rules.uses_heat


def test_what_the_commit_writes_is_never_a_victim():
    bucket = Bucket(staying=[LOW, MID], added=[TOP], written=frozenset(["low"]))
    assert gone(bucket, CapacityRules(max_facts=2)) == ("mid",)
    assert gone(bucket, CapacityRules(max_facts=2, policy=HYBRID)) == ("mid",)


def test_a_written_correction_takes_a_reserved_place():
    bucket = Bucket(staying=[correction("w", 0.5), MID], added=[correction("c")], written=frozenset(["w"]))
    assert gone(bucket, CapacityRules(max_facts=2, policy=HYBRID)) == ("c",)


def test_the_cap_goes_before_the_reserve():
    """All places are taken by what is written: then corrections go as well, the lowest first."""
    hybrid = HybridRules(correction_reserved_fraction=1.0, correction_reserved_max=100)
    written = [contender(f"w{number}", 0.2) for number in range(2)]
    bucket = Bucket(
        staying=written,
        added=[correction("c", 0.9), correction("b", 0.4)],
        written=frozenset(fact.id for fact in written),
    )
    verdict = decide(bucket, CapacityRules(max_facts=3, policy=HYBRID, hybrid=hybrid), {}, NOW)
    assert (verdict.victims, verdict.reserved) == (("b",), 1)


def test_the_shadow_is_computed_and_not_applied():
    """105."""
    bucket = Bucket(staying=[STALE, CONFIRMED], added=[NEW])
    verdict = decide(bucket, CapacityRules(max_facts=2, shadow=True), {}, NOW)
    assert (verdict.policy, verdict.victims) == (CONFIDENCE, ("confirmed",))
    assert (verdict.would_evict, verdict.disagrees) == (("stale",), True)
    assert verdict.evicted[0].score == Score(total=0.7, confidence=0.7)


def test_the_shadow_may_agree():
    verdict = decide(Bucket(staying=[LOW], added=[TOP]), CapacityRules(max_facts=1, shadow=True), {}, NOW)
    assert (verdict.would_evict, verdict.disagrees) == (("low",), False)


@pytest.mark.parametrize(
    ("rules", "would"),
    [
        pytest.param(CapacityRules(max_facts=1), None, id="no shadow"),
        pytest.param(
            CapacityRules(max_facts=1, policy=HYBRID, shadow=True), None, id="hybrid casts no shadow of itself"
        ),
        pytest.param(CapacityRules(max_facts=9, shadow=True), (), id="nobody goes"),
    ],
)
def test_where_there_is_no_shadow(rules: CapacityRules, would: tuple[str, ...] | None) -> None:
    verdict = decide(Bucket(staying=[LOW], added=[TOP]), rules, {}, NOW)
    assert (verdict.would_evict, verdict.disagrees) == (would, False)


def test_a_verdict_says_what_the_score_is_made_of():
    verdict = decide(
        Bucket(staying=[contender("a", 0.4, confirmed=90)], added=[TOP]),
        CapacityRules(max_facts=1, policy=HYBRID),
        {"a": Usage(8.0, 3, NOW)},
        NOW,
    )
    (evicted,) = verdict.evicted
    assert (evicted.id, evicted.category) == ("a", "context")
    assert (evicted.score.confidence, evicted.score.confirmation, evicted.score.access) == (0.4, 0.5, 1.0)
    assert evicted.score.total == pytest.approx(0.65 * 0.4 + 0.25 * 0.5 + 0.10)
    assert (verdict.at, verdict.max_facts, verdict.policy) == (NOW, 1, HYBRID)


def test_the_lowest_are_enough_for_confidence_and_both_ways_agree():
    staying = [contender(f"f{number}", number / 100, age=number) for number in range(60)]
    added = [contender("x", 0.5), contender("y", 0.001)]
    rules = CapacityRules(max_facts=60)
    whole = decide(Bucket(staying=staying, added=added), rules, {}, NOW).victims
    lowest = decide(Bucket(staying=staying[:2], added=added, unlisted=58), rules, {}, NOW).victims
    ranks = [Ranked(f.id, f.confidence, f.created_at.timestamp()) for f in (*staying[:2], *added) if f.created_at]
    assert whole == lowest == ("f0", "y")
    assert whole == victims(ranks[:2], ranks[2:], total_after=62, cap=60, adds=2)


@pytest.mark.parametrize("rules", [CapacityRules(policy=HYBRID), CapacityRules(shadow=True)])
def test_hybrid_has_to_see_everybody(rules: CapacityRules) -> None:
    with pytest.raises(InvalidInput, match="3 facts are not listed"):
        decide(Bucket(added=[TOP], unlisted=3), rules, {}, NOW)


@pytest.mark.parametrize(
    ("given", "named"),
    [({"policy": "lru"}, "policy is 'lru'"), ({"max_facts": -1}, "max_facts is -1"), ({"max_facts": True}, "is True")],
)
def test_rules_are_checked(given: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        CapacityRules(**given)  # type: ignore[arg-type]
