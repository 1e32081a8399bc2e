"""A fact that is deleted because a new one takes its place stays where the cap has no room for the new one."""

from __future__ import annotations

import pytest
from builders_buckets import fill, ids, item, opened, ten
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deermem import ChangeSet, Delete, Draft, InvalidInput

BOTH = pytest.mark.parametrize("policy", ["confidence", "hybrid-v1"])


def draft(fact_id: str, confidence: float) -> Draft:
    return Draft(id=fact_id, content=f"Content of {fact_id}", confidence=confidence)


@pytest.fixture
def found_over(root, clock, request):
    """A bucket of twenty, found over a cap of ten: a commit sheds as many as it adds, and no more."""
    with opened(root, clock, max_facts=0) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, [item(f"old_{number:02}", 0.30 + number / 50, clock()) for number in range(20)])
    with opened(root, clock) as engine:
        yield engine.memory("alice", "coder")


@pytest.fixture
def full(root, clock):
    """fact_0 to fact_9 under a cap of ten."""
    with opened(root, clock) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, ten(clock()))
        yield memory


def test_with_room_for_the_replacement_the_old_fact_goes(full):
    """One out, one in: nobody is evicted, however little the new one is worth."""
    commit = full.apply(ChangeSet([draft("new", 0.01)], [Delete("fact_9", replaced_by="new")]))
    assert (commit.deleted, commit.evicted) == (("fact_9",), ())
    assert ids(full) == [*(f"fact_{number}" for number in range(9)), "new"]


@BOTH
def test_without_room_for_the_replacement_the_old_fact_stays(root, clock, policy):
    """Two in, one out, and the replacement is the one too many."""
    with opened(root, clock, fact_eviction_policy=policy) as engine:
        memory = engine.memory("alice", "coder")
        fill(memory, ten(clock()))
        deletes = [Delete("fact_9", replaced_by="new")]
        commit = memory.apply(ChangeSet([draft("new", 0.01), draft("other", 0.9)], deletes))
        # The old fact stays, so one more has to go.
        assert (commit.deleted, commit.evicted) == ((), ("new", "fact_0"))
        assert ids(memory) == [*(f"fact_{number}" for number in range(1, 10)), "other"]


def test_an_old_fact_that_is_the_lowest_goes_in_the_place_of_its_replacement(found_over):
    """The replacement has no room until the old fact competes again, and loses."""
    commit = found_over.apply(ChangeSet([draft("new", 0.305)], [Delete("old_00", replaced_by="new")]))
    assert (commit.deleted, commit.evicted) == ((), ("old_00",))
    assert "new" in ids(found_over)
    assert len(ids(found_over)) == 20


def test_where_two_pairs_compete_each_is_one_fact(found_over):
    """One old fact stays and goes as the lowest: that makes room for the other replacement, whose old fact goes."""
    upserts = [draft("new_a", 0.10), draft("new_b", 0.305)]
    deletes = [Delete("old_19", replaced_by="new_b"), Delete("old_00", replaced_by="new_a")]
    commit = found_over.apply(ChangeSet(upserts, deletes))
    assert (commit.evicted, commit.deleted) == (("new_a", "old_00"), ("old_19",))
    assert "new_b" in ids(found_over)


def test_a_correction_that_stays_makes_no_room_for_what_was_to_replace_it(root, clock):
    """It takes the one reserved place from a weaker correction, which then ranks below the replacement."""
    with opened(root, clock, max_facts=0) as engine:
        corrections = [item("strong", 1.0, clock(), category="correction"), item("weak", 0.2, clock())]
        corrections[1]["category"] = "correction"
        fill(engine.memory("alice", "coder"), [*corrections, *[item(f"o{n}", 0.9, clock()) for n in range(10)]])
    with opened(root, clock, fact_eviction_policy="hybrid-v1") as engine:
        memory = engine.memory("alice", "coder")
        deletes = [Delete("strong", replaced_by="new")]
        commit = memory.apply(ChangeSet([draft("new", 0.5)], deletes, {"topOfMind": "T"}))
        assert (commit.evicted, commit.deleted) == (("new",), ())
        assert {"strong", "weak"} <= set(ids(memory))
        assert [decision.victims for decision in memory.evictions()] == [("new",)]


@BOTH
def test_an_old_fact_whose_time_is_over_goes_though_its_replacement_has_no_room(root, clock, policy):
    """Nor does it compete: it is no fact any more."""
    with opened(root, clock, max_facts=0) as engine:
        over = item("over", 0.2, clock(), expiresAt="2026-11-30T13:00:00Z")
        fill(engine.memory("alice", "coder"), [*ten(clock()), over])
    clock.advance(days=1)
    with opened(root, clock, fact_eviction_policy=policy) as engine:
        memory = engine.memory("alice", "coder")
        deletes = [Delete("over", replaced_by="new")]
        commit = memory.apply(ChangeSet([draft("new", 0.01), draft("other", 0.9)], deletes))
        assert (commit.deleted, commit.evicted) == (("over",), ("new", "fact_0"))


def test_several_facts_may_go_for_one(full):
    """All of them stay, or none."""
    deletes = [Delete("fact_8", replaced_by="new"), Delete("fact_9", replaced_by="new")]
    more = [draft(f"more_{number}", 0.9) for number in range(2)]
    commit = full.apply(ChangeSet([draft("new", 0.01), *more], deletes))
    assert {"fact_8", "fact_9"} <= set(ids(full))
    assert commit.evicted == ("new", "fact_0", "fact_1")


def test_an_update_takes_a_place_whatever_it_is_worth(full):
    """It was there before: the cap lets no fact go that the commit updates."""
    updated = full.get("fact_0")
    commit = full.apply(ChangeSet([updated, draft("other", 0.9)], [Delete("fact_9", replaced_by="fact_0")]))
    assert (commit.deleted, commit.evicted) == (("fact_9",), ())


def test_a_replacement_must_be_in_the_set():
    """A typing error must not delete a fact for nothing."""
    with pytest.raises(InvalidInput, match="doesn't store"):
        ChangeSet([draft("new", 0.5)], [Delete("old", replaced_by="nwe")])
    with pytest.raises(InvalidInput, match="doesn't store"):
        ChangeSet(deletes=[Delete("old", replaced_by="old")])


CONFIDENCES = st.integers(0, 40).map(lambda number: number / 40)
FACTS = st.tuples(CONFIDENCES, st.sampled_from(["goal", "goal", "correction"]))


@st.composite
def histories(draw: st.DrawFn):
    """What is there; what is added, and for which of those; what is deleted besides; and the policy."""
    there = draw(st.lists(FACTS, min_size=8, max_size=14))
    places = st.none() | st.integers(0, len(there) - 1)
    added = draw(st.lists(st.tuples(FACTS, places), min_size=1, max_size=5, unique_by=lambda pair: pair[1]))
    taken = {place for _, place in added}
    gone = draw(st.sets(st.integers(0, len(there) - 1).filter(lambda place: place not in taken), max_size=2))
    return there, added, gone, draw(st.sampled_from(["confidence", "hybrid-v1"]))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories())
def test_of_old_and_new_never_both_and_never_neither(tmp_path_factory, clock, history):
    """All facts are of the same age and none was found: both policies rank by confidence, but for the reserve."""
    there, added, gone, policy = history
    root = tmp_path_factory.mktemp("pairs")
    stored = [item(f"o{n:02}", c, clock(), category=word) for n, (c, word) in enumerate(there)]
    with opened(root, clock, max_facts=0, retrieval_adapter="") as engine:
        fill(engine.memory("alice", "coder"), stored)
    news = {f"n{n}": fact for n, (fact, _) in enumerate(added)}
    pairs = {f"n{n}": f"o{place:02}" for n, (_, place) in enumerate(added) if place is not None}
    deletes = [Delete(old, replaced_by=new) for new, old in pairs.items()]
    deletes += [Delete(f"o{place:02}") for place in sorted(gone)]
    upserts = [Draft(id=name, content=name, confidence=c, category=word) for name, (c, word) in news.items()]
    with opened(root, clock, fact_eviction_policy=policy, eviction_correction_reserved_fraction=0.2) as engine:
        memory = engine.memory("alice", "coder")
        commit = memory.apply(ChangeSet(upserts, deletes, {"topOfMind": "T"}))
        left = set(ids(memory))
    evicted = set(commit.evicted)
    everything = {f"o{n:02}": fact for n, fact in enumerate(there)} | news
    assert left == (everything.keys() - evicted - set(commit.deleted))
    assert {fact.id for fact in commit.facts} == news.keys() - evicted
    kept = {old for old in pairs.values() if old in left or old in evicted}
    total = len(there) - len(gone) - len(pairs) + len(kept) + len(added)
    assert len(evicted) == max(0, min(total - 10, len(added)))
    for new, old in pairs.items():
        assert not {new, old} <= left
        assert old in left or new in left or {new, old} <= evicted
    if policy == "confidence" or all(word != "correction" for _, word in everything.values()):
        ranks = {name: (confidence, name) for name, (confidence, _) in everything.items()}
        assert all(ranks[out] < ranks[stays] for out in evicted for stays in left)
