"""Whatever stands in facts, policies don't raise, don't overflow a date, and touch nothing that they may not."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta, timezone

from builders_policy import FIRST, LAST, NOW, ago, old_fact
from hypothesis import given
from hypothesis import strategies as st

from deermem.format.audit import read_audit, write_audit
from deermem.format.sidecars import audit_times, audit_without, usage_without
from deermem.format.usage import read_usage, write_usage
from deermem.model.evictions import CONFIDENCE, HYBRID, Eviction
from deermem.model.fact import Fact, content_key
from deermem.model.usage import Usage
from deermem.policy.confirmation import confirm
from deermem.policy.consolidation import ConsolidationRules, Cycle, Proposal, merge_all
from deermem.policy.consolidation import candidates as groups
from deermem.policy.decay import aware
from deermem.policy.eviction import Bucket, CapacityRules, decide
from deermem.policy.heat import MAX_COUNT, MAX_HEAT, touched
from deermem.policy.hybrid import Contender, HybridRules, reserved_places, score
from deermem.policy.staleness import StalenessRules, candidates, expected_valid_days, extensions, is_stale, removals

EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-14))
MOMENT = st.one_of(
    st.sampled_from([NOW, ago(90), ago(91), ago(1000), ago(-5), FIRST, LAST, datetime.min, datetime.max]),
    st.sampled_from([ago(100), ago(200), ago(400)]),
    st.sampled_from([datetime.min.replace(tzinfo=EAST), datetime.max.replace(tzinfo=WEST)]),
    st.datetimes(timezones=st.sampled_from([EAST, WEST])),
)
NUMBER = st.one_of(st.sampled_from([0.0, 0.5, 0.7, 0.9, 1.0, math.nan, math.inf, -math.inf, 1e300]), st.floats())
COUNT = st.one_of(st.none(), st.integers(-2, 99), st.sampled_from([10**15, 10**400, -(10**400)]))
CATEGORY = st.sampled_from(["correction", " Correction", "goal", "GOAL", "context", ""])
ID = st.sampled_from([*"abcdefghijkl", "_", "-", "a" * 128, "evicted", ""])
USAGE = st.builds(Usage, NUMBER, st.integers(-2, 5) | st.just(10**400), st.none() | MOMENT)
HEAT = st.dictionaries(ID, USAGE)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=4) | ID,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            ID
            | st.sampled_from(["occurredAt", "evicted", "shadow", "wouldEvict", "factId", "accessHeat", "accessCount"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)
CONTENDER = st.builds(
    Contender,
    id=ID,
    category=CATEGORY,
    confidence=NUMBER,
    created_at=st.none() | MOMENT,
    confirmed_at=st.none() | MOMENT,
)
FACT = st.builds(
    Fact,
    id=ID,
    content=st.sampled_from(["One.", "one.", "Two.", "Three.", "Four."]),
    title=st.just(""),
    category=CATEGORY,
    confidence=NUMBER,
    created_at=MOMENT,
    updated_at=st.just(NOW),
    last_confirmed_at=st.none() | MOMENT,
    confirmation_count=COUNT,
    expected_valid_days=COUNT,
    source_error=st.none() | st.sampled_from(["", " Wrong. ", "Wrong."]),
)
FACTS = st.lists(FACT, min_size=3, max_size=10, unique_by=lambda fact: fact.id)
RULES = st.builds(
    CapacityRules,
    max_facts=st.sampled_from([1, 2, 3, 4, 6, 9, 0]),
    policy=st.sampled_from([CONFIDENCE, HYBRID]),
    shadow=st.booleans(),
    hybrid=st.builds(
        HybridRules,
        correction_reserved_fraction=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
        correction_reserved_max=st.integers(0, 10),
    ),
)


@st.composite
def buckets(draw: st.DrawFn) -> Bucket:
    facts = draw(st.lists(CONTENDER, min_size=3, max_size=10, unique_by=lambda fact: fact.id))
    adds = draw(st.integers(0, 5))
    written = draw(st.frozensets(ID, max_size=3))
    staying = facts[adds:]
    return Bucket(
        staying=staying, added=facts[:adds], written=frozenset(fact.id for fact in staying if fact.id in written)
    )


@given(buckets(), RULES, HEAT, MOMENT)
def test_the_cap_takes_what_it_may_in_order(bucket, rules, usage, now):
    verdict = decide(bucket, rules, usage, now)
    everybody = (*bucket.staying, *bucket.added)
    surplus = min(len(everybody) - rules.max_facts, len(bucket.added)) if rules.max_facts else 0
    assert len(set(verdict.victims)) == len(verdict.victims) == max(0, surplus)
    assert set(verdict.victims) <= {fact.id for fact in everybody} - bucket.written
    for item in verdict.evicted:
        parts = (item.score.total, item.score.confidence, item.score.confirmation, item.score.access)
        assert all(0 <= value <= 1.000001 for value in parts)
    backwards = Bucket(staying=bucket.staying[::-1], added=bucket.added[::-1], written=bucket.written)
    assert decide(backwards, rules, usage, now) == verdict
    assert (verdict.would_evict is not None) == (rules.shadow and rules.policy == CONFIDENCE)
    if verdict.would_evict is not None:
        alone = CapacityRules(max_facts=rules.max_facts, policy=HYBRID, hybrid=rules.hybrid)
        assert verdict.would_evict == decide(bucket, alone, usage, now).victims
    assert_order(bucket, rules, usage, verdict)


def assert_order(bucket: Bucket, rules: CapacityRules, usage: dict[str, Usage], verdict: Eviction) -> None:
    """Nobody goes before one that is worth less, but for the places that corrections have; those they keep."""
    hybrid = rules.policy == HYBRID
    free = [fact for fact in (*bucket.staying, *bucket.added) if fact.id not in bucket.written]
    scores = {fact.id: score(fact, usage.get(fact.id), rules.hybrid, verdict.at) for fact in free}
    worth = {fact_id: found.total if hybrid else found.confidence for fact_id, found in scores.items()}
    corrections = [fact for fact in (*bucket.staying, *bucket.added) if is_correction(fact)]
    places = min(reserved_places(rules.hybrid, rules.max_facts), len(corrections)) if hybrid else 0
    stay = [fact for fact in free if fact.id not in verdict.victims and not (places and is_correction(fact))]
    if stay and verdict.victims:
        assert max(worth[name] for name in verdict.victims) <= min(worth[fact.id] for fact in stay)
    left = sum(fact.id not in verdict.victims for fact in corrections)
    assert left >= places or not any(not is_correction(fact) for fact in stay)


def is_correction(fact: Contender) -> bool:
    return fact.category.strip().lower() == "correction"


@given(HEAT, st.lists(ID, max_size=8), st.sets(ID), MOMENT)
def test_heat_stays_in_bounds_and_with_the_living(usage, found, living, now):
    changed = touched(usage, found, living, now)
    assert set(changed) == set(found) & living
    assert all(1 <= entry.heat <= MAX_HEAT and 1 <= entry.count <= MAX_COUNT for entry in changed.values())
    assert all(entry.last_access == now for entry in changed.values())


@given(FACTS, st.sets(ID), st.booleans())
def test_only_what_is_named_is_confirmed(facts, named, reinforced):
    changed = confirm(facts, named, reinforced=reinforced, now=NOW)
    expected = [fact.id for fact in facts if fact.id and fact.id in named] if reinforced else []
    assert [fact.id for fact in changed] == expected
    assert all(fact.confirmation_count and fact.confirmation_count >= 1 for fact in changed)


@given(
    FACTS,
    st.sets(ID, max_size=5),
    st.dictionaries(ID, NUMBER | COUNT | st.text(max_size=2)),
    st.builds(StalenessRules, enabled=st.booleans(), min_candidates=st.integers(1, 2)),
    MOMENT,
)
def test_a_review_touches_candidates_alone(facts, proposed, asked, rules, now):
    found = candidates(facts, now, rules)
    assert candidates(facts[::-1], now, rules) == found
    assert all(is_stale(fact, now, rules) for fact in found)
    gone = removals(proposed, found, rules)
    assert set(gone) <= proposed & {fact.id for fact in found}
    assert len(gone) <= rules.max_removals_per_cycle
    longer = extensions(asked, proposed, found, now, rules)
    assert longer.keys() <= ({fact.id for fact in found} & asked.keys()) - proposed
    assert all(1 <= days <= rules.max_extension_days for days in longer.values())


@given(NUMBER | COUNT | st.integers() | st.text(max_size=3) | st.booleans())
def test_days_are_a_small_whole_number_or_none(said):
    days = expected_valid_days(said)
    assert days is None or (type(days) is int and 1 <= days <= 36_500)


MERGEABLE = st.tuples(
    *(
        st.builds(
            old_fact,
            st.just(fact_id),
            confidence=st.sampled_from([0.9, 0.5, 0.9, math.nan, math.inf]),
            content=st.sampled_from(["One.", "one.", "Two.", "Three.", "Four.", "Five."]),
            category=st.sampled_from(["goal", "goal", "Goal", kind]),
            created_at=MOMENT,
            last_confirmed_at=st.none() | MOMENT,
            expires_at=st.sampled_from([None] * 9 + [ago(-9)]),
            expected_valid_days=COUNT,
        )
        for fact_id, kind in zip("abcdefgh", ["correction", "context"] * 4, strict=True)
    )
)
PROPOSALS = st.lists(
    st.builds(
        Proposal,
        sources=st.lists(st.sampled_from("abcdefghi"), min_size=2, max_size=3),
        content=st.sampled_from(["One.", "New.", "Newer.", "Newest.", "\ud800"]),
        category=st.sampled_from([None, None, "goal", "correction"]),
        confidence=st.none() | NUMBER,
    ),
    min_size=1,
    max_size=8,
)


@given(MERGEABLE, PROPOSALS, MOMENT)
def test_merges_take_each_source_once_and_leave_no_duplicate(facts, proposals, now):
    rules = ConsolidationRules(enabled=True, min_facts=3, max_sources=20)
    offered = groups(facts, rules)
    cycle = Cycle(offered=offered, threshold=0.3, now=now, rules=rules)
    done, refused = merge_all(proposals, facts, cycle)
    assert len(done) + len(refused) == len(proposals)
    assert len(done) <= rules.max_groups_per_cycle
    taken = [fact_id for merge in done for fact_id in merge.sources]
    assert len(set(taken)) == len(taken)
    by_id = {fact.id: fact for fact in facts}
    for merge in done:
        assert any(set(merge.sources) <= set(group.ids) for group in offered)
        assert merge.category.strip().lower() != "correction"
        assert {by_id[name].category.strip().lower() for name in merge.sources} == {merge.category.strip().lower()}
        assert 0.3 <= merge.confidence <= 1
        assert merge.expected_valid_days in range(1, 1801)
    keys = [content_key(merge.content) for merge in done]
    assert len(set(keys)) == len(keys)
    assert not set(keys) & {
        content_key(fact.content) for fact in facts if fact.id not in taken and not fact.expired_by(aware(now))
    }
    assert merge_all(proposals, facts[::-1], cycle) == (done, refused)


@given(JSON, buckets(), st.sets(ID), HEAT)
def test_whatever_stands_in_a_sidecar_can_be_read_and_written(said, bucket, ids, usage):
    data = json.dumps(said).encode()
    verdict = decide(bucket, CapacityRules(max_facts=2, shadow=True), usage, NOW)
    written = write_audit(data, verdict)
    assert (written is None) == (not verdict.evicted)
    assert written is None or read_audit(written)[-1].victims == verdict.victims
    for content in (data, written):
        cleared = audit_without(content, ids)
        left = read_audit(cleared or content)
        assert not ids & {name for item in left for name in (*item.victims, *(item.would_evict or ()))}
        assert audit_times(content) is not None
    sound = touched(read_usage(data), ids, ids, NOW)
    after = read_usage(write_usage(data, sound))
    assert after == {**read_usage(data), **sound}
    assert not ids & read_usage(usage_without(data, ids) or data).keys()
