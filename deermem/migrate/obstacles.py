"""Why a user's migration would stop: every bucket is planned by itself, so that each reason is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from deermem.errors import Corruption, DeerMemError, StoreUnavailable
from deermem.migrate.legacy import agent_document
from deermem.migrate.place import UserPlace
from deermem.model.scope import DEFAULT_AGENT
from deermem.service.ports import Obstacle
from deermem.store.layout import UserPaths

if TYPE_CHECKING:
    from deermem.migrate.plan import UserPlan


class Planner(Protocol):
    """One user whose migration can be planned."""

    paths: UserPaths
    place: UserPlace

    def plan(self, agent: str | None) -> UserPlan:
        """What would be done for one agent's bucket, None for all; raises where it stops."""


def obstacles(step: Planner) -> tuple[Obstacle, ...]:
    """Why a migration would stop, each reason once, with the document it lies in; raises StoreUnavailable."""
    try:
        step.plan(None)
    except StoreUnavailable:
        raise
    except DeerMemError as whole:
        return tuple(_obstacle(step, error) for error in problems(step, whole).values())
    return ()


def _obstacle(step: Planner, error: DeerMemError) -> Obstacle:
    documents = [*(agent_document(agent) for agent in step.paths.agents()), step.place.manifest_name]
    words = error.message.replace(":", " ").split()
    document = next((document for document in documents if step.place.shown(document) in words), "")
    message = error.message.removeprefix(f"{step.place.shown(document)}: ") if document else error.message
    return Obstacle(document, message, error.hint, isinstance(error, Corruption))


def problems(step: Planner, whole: DeerMemError) -> dict[str, DeerMemError]:
    """What stops each bucket, by its text; `whole` is what stopped all of them together."""
    found: dict[str, DeerMemError] = {}
    for agent in buckets(step):
        try:
            step.plan(agent)
        except DeerMemError as error:
            found.setdefault(str(error), error)
    return found or {str(whole): whole}


def buckets(step: Planner) -> list[str]:
    """The agents to take one by one, the default one first."""
    return [DEFAULT_AGENT, *(agent for agent in step.paths.agents() if agent != DEFAULT_AGENT)]
