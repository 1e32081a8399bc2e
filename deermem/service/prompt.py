"""What goes into an agent's prompt."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from deermem.clock import Clock
from deermem.config import Settings
from deermem.model.context_block import ContextBlock, LeftOut, LeftOutReason
from deermem.model.fact import Fact
from deermem.policy.prompt_block import Budget, Composed, compose
from deermem.policy.prompt_lines import confidence, ranked, says_something
from deermem.policy.tokens_estimate import estimate_tokens
from deermem.service.read import served, whole
from deermem.service.token_counter import TokenCounter
from deermem.service.user import UserContext


@dataclass(frozen=True, slots=True)
class Prompting:
    """How much goes into a prompt, and what counts it."""

    budget: Budget
    tokens: TokenCounter


def prompting(settings: Settings, clock: Clock) -> Prompting:
    """What the settings say of prompts."""
    budget = Budget(
        max_tokens=settings.max_injection_tokens,
        guaranteed_categories=settings.guaranteed_categories,
        guaranteed_tokens=settings.guaranteed_token_budget,
        include_facts=settings.mode != "tool",
    )
    return Prompting(budget, TokenCounter(settings.token_counting, clock))


def context(user: UserContext, agent: str, how: Prompting) -> str:
    """The block for the prompt, within its budget; the same bytes for the same memory, "" for an empty one."""
    summaries, seen = whole(user, agent)
    facts = served(seen.facts, user.clock()) if how.budget.include_facts else ()
    return compose(facts, summaries, budget=how.budget, count=how.tokens.count()).text


def context_block(user: UserContext, agent: str, how: Prompting) -> ContextBlock:
    """The same text, with its digest, its cost, and which facts stand in it or not."""
    budget = how.budget
    summaries, seen = whole(user, agent)
    facts = served(seen.facts, user.clock())
    count = how.tokens.count()
    made = compose(facts, summaries, budget=budget, count=count)
    return ContextBlock(
        text=made.text,
        digest=f"sha256:{hashlib.sha256(made.text.encode()).hexdigest()}",
        tokens=(count or estimate_tokens)(made.text),
        counted_by="estimate" if count is None else "tiktoken",
        max_tokens=budget.max_tokens,
        guaranteed_tokens=made.guaranteed_tokens,
        guaranteed_limit=budget.guaranteed_tokens if budget.guaranteed_categories else 0,
        summaries=made.summaries,
        facts=tuple(line.fact.id for line in made.lines),
        guaranteed=tuple(line.fact.id for line in made.lines if line.guaranteed),
        shortened=tuple(line.fact.id for line in made.lines if line.cut),
        left_out=tuple(_left_out(seen.facts, facts, made, budget)),
    )


def _left_out(everything: Iterable[Fact], facts: Sequence[Fact], made: Composed, budget: Budget) -> Iterator[LeftOut]:
    shown = {line.fact.id for line in made.lines}
    for fact in ranked(facts):
        if fact.id not in shown:
            yield _reason(fact, "tool-mode" if not budget.include_facts else "budget")
    live = {fact.id for fact in facts}
    for fact in ranked(fact for fact in everything if fact.id not in live):
        yield _reason(fact, "expired")


def _reason(fact: Fact, why: LeftOutReason) -> LeftOut:
    stated: LeftOutReason = "blank" if why == "budget" and not says_something(fact) else why
    return LeftOut(id=fact.id, why=stated, category=fact.category, confidence=confidence(fact))
