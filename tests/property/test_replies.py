"""Any answer at all: nothing raises, nothing else is deleted, nothing that the gate refuses is stored."""

from __future__ import annotations

import copy
import json
from typing import Any

from builders_policy import NOW, ago, old_fact
from builders_replies import LABELS, answer, basis, gone, new, stored, told
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deermem.extract.basis import PlanRules
from deermem.extract.judging import judge
from deermem.extract.plan import Plan, plan
from deermem.extract.reply import parse_reply
from deermem.model.fact import Draft, Source, content_key
from deermem.model.proposals import REASONS, Proposals
from deermem.policy.consolidation import ConsolidationRules
from deermem.policy.secrets import holds_secret

TALK = Source("conversation", "t")
FACTS = stored(
    *(old_fact(f"s{n}", 200 - n, category="goal", source=TALK, confidence=0.8) for n in range(4)),
    old_fact("fresh", 3, source=TALK),
    old_fact("hand", 400, category="goal", source=Source("manual")),
    old_fact("right", 400, category="correction", source=TALK),
    old_fact("over", 50, source=TALK, expires_at=ago(1)),
)
RULES = PlanRules(confirms=True, consolidation=ConsolidationRules(enabled=True, min_facts=3))
BASIS = basis(FACTS, rules=RULES, signals=["reinforcement"])
SERVED = {fact.id: fact for fact in FACTS if not fact.expired_by(NOW)}

ids = st.sampled_from([*(fact.id for fact in FACTS), "none", "S0", "../x", "", "\ud800"])
words = st.text(max_size=8) | st.sampled_from(
    [
        "user",
        "durable",
        "descriptive",
        " User ",
        "Content of s1.",
        "Likes tea",
        "\0",
        "password is " + "hunter2",
        "true",
    ]
)
numbers = st.floats() | st.integers() | st.sampled_from([0.9, 95, 0, 1, 10**400, 30])
values = st.recursive(
    st.none() | st.booleans() | numbers | words | ids,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
labels = st.dictionaries(st.sampled_from(["scope", "durability", "authority"]), words, max_size=3)
facts = st.builds(
    lambda said, own, more: new(said) | own | more,
    words,
    labels | st.just(LABELS),
    st.dictionaries(
        st.sampled_from(["confidence", "category", "sourceError", "expected_valid_days"]), values, max_size=2
    ),
)
named = st.builds(
    lambda fact_id, more: gone(fact_id) | more,
    ids,
    st.dictionaries(
        st.sampled_from(["reason", "scope", "replacementFactIndex", "extend_by_days"]), values | numbers, max_size=2
    ),
)
merges = st.builds(
    lambda sources, fact: {"sourceIds": sources, "consolidated": fact | {"category": "goal"}},
    st.lists(ids, max_size=5),
    facts,
)
stale = st.sampled_from(["s0", "s1", "s2", "s3"])
longer = st.builds(lambda fact_id, days: {"id": fact_id, "extend_by_days": days}, stale, st.integers(1, 5000) | numbers)
sound_merges = st.builds(
    lambda sources, said: {"sourceIds": sources, "consolidated": new(said, category="goal")},
    st.lists(stale, min_size=2, max_size=3, unique=True),
    st.sampled_from(["Wants much", "Wants more", "Content of s3.", "Content of s0."]),
)
sections = st.dictionaries(
    st.sampled_from(["workContext", "personalContext", "topOfMind", "recentMonths"]),
    st.builds(lambda text, own: told(text) | own, words, labels),
    max_size=3,
)


def lists(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(items | values, max_size=4) | st.lists(items, max_size=4)


answers = st.fixed_dictionaries(
    {"user": sections | values, "history": sections | values, "newFacts": lists(facts) | values},
    optional={
        "factsToReinforce": lists(named),
        "factsToRemove": lists(named),
        "staleFactsToRemove": lists(named),
        "staleFactsToExtend": lists(longer | named),
        "factsToConsolidate": lists(sound_merges | merges),
    },
)


def carried_out(proposals: Proposals) -> Plan:
    gated = judge(proposals, threshold=RULES.threshold)
    assert gated.accepted.count() + len(gated.refused) == proposals.count()
    done = plan(gated, BASIS)
    assert {item.reason for item in done.outcome.refused} <= REASONS.keys()
    assert 0 <= done.outcome.rejected_share <= 1
    json.dumps(done.outcome.counts())
    "".join(item.subject + item.detail for item in done.outcome.refused).encode()
    return done


def check(done: Plan, proposals: Proposals) -> None:
    deletes = {item.id: item for item in done.change.deletes}
    assert deletes.keys() <= SERVED.keys()
    assert all(item.expected == SERVED[item.id].version for item in deletes.values())
    reasoned = [item for item in proposals.removals if item.id == "right" and item.scope == "user" and item.reason]
    assert "right" not in deletes or reasoned
    if any(proposals.malformed_facts()):
        assert done.outcome.removed == ()
    put = {item.fact.id for item in done.change.upserts}
    assert {item.replaced_by for item in deletes.values()} - {None} <= put
    seen = {content_key(fact.content) for fact in SERVED.values()}
    for item in done.change.upserts:
        if isinstance(item.fact, Draft):
            assert item.fact.confidence >= RULES.threshold
            assert holds_secret(item.fact.content) is None
            assert content_key(item.fact.content) not in seen
            seen.add(content_key(item.fact.content))
        elif item.fact.id in SERVED:
            before = SERVED[item.fact.id]
            assert (item.fact.content, item.fact.confidence) == (before.content, before.confidence)
            assert item.expected == before.version
        else:
            assert item.fact.consolidated_from
            assert holds_secret(item.fact.content) is None
    assert not any(holds_secret(text) for text in done.change.summaries.values())


@given(answers)
@settings(max_examples=150)
@example(answer(new("Likes tea"), factsToRemove=[gone("s0", replacementFactIndex=0)]))
def test_no_answer_does_what_it_may_not(reply):
    proposals = parse_reply(json.dumps(reply))
    assert proposals is not None
    done = carried_out(proposals)
    check(done, proposals)
    assert plan(judge(proposals, threshold=RULES.threshold), BASIS) == done


@given(answers, st.data())
@settings(max_examples=60)
def test_a_mutilated_answer_is_read_or_is_none(reply, data):
    text = json.dumps(reply)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 5)))
    proposals = parse_reply(text[:start] + data.draw(st.text('{}[]",:\\ae<think>', max_size=4)) + text[end:])
    if proposals is not None:
        check(carried_out(proposals), proposals)


@given(st.text() | st.binary() | values | st.text('{}[]",:usernwFacts \\', max_size=60))
@settings(max_examples=60)
@example("[" * 100_000)
@example('{"user":{},"history":{},"newFacts":' + "[" * 100_000)
def test_whatever_is_no_answer_is_none_or_read(reply):
    before = copy.deepcopy(reply)
    proposals = parse_reply(reply)
    if proposals is not None:
        check(carried_out(proposals), proposals)
    assert repr(reply) == repr(before)


@given(st.text(max_size=400) | st.text("password is:=秘密码key tokn-_1aB/\"'`", max_size=200))
@settings(max_examples=100)
def test_no_text_keeps_the_search_for_credentials_from_an_answer(text):
    kind = holds_secret(text)
    assert kind is None or 0 < len(kind) <= 40
