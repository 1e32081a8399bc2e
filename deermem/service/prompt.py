"""What goes into an agent's prompt."""

from __future__ import annotations

from deermem.model.summaries import Summaries
from deermem.policy.prompt_block import Budget, render
from deermem.service.read import manifest_state, served, snapshot
from deermem.service.user import UserContext


def context(user: UserContext, agent: str, budget: Budget) -> str:
    """The block for the prompt, within its budget; the same bytes for the same memory, "" for an empty one."""
    state = manifest_state(user, agent)
    facts = served(snapshot(user, agent).facts, user.clock()) if budget.include_facts else ()
    return render(facts, state.manifest.summaries if state.manifest else Summaries(), budget=budget)
