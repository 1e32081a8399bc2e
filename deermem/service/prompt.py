"""What goes into an agent's prompt."""

from __future__ import annotations

from deermem.policy.prompt_block import Budget, render
from deermem.service.read import served, whole
from deermem.service.user import UserContext


def context(user: UserContext, agent: str, budget: Budget) -> str:
    """The block for the prompt, within its budget; the same bytes for the same memory, "" for an empty one."""
    summaries, seen = whole(user, agent)
    facts = served(seen.facts, user.clock()) if budget.include_facts else ()
    return render(facts, summaries, budget=budget)
