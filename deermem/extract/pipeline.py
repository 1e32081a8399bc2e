"""One conversation from the queue to the memory: ask the model, judge what it proposes, commit what is left."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from deermem.config import Settings
from deermem.errors import Conflict, DuplicateFact, ExtractionFailed, NotStored
from deermem.extract.basis import Basis, PlanRules, Shown
from deermem.extract.hooks import CallInfo, Hooks, called
from deermem.extract.items import Item
from deermem.extract.judging import judge
from deermem.extract.models import ModelCall, answer_text
from deermem.extract.outcome import WARN_ABOVE, Outcome
from deermem.extract.plan import plan
from deermem.extract.prompts import PromptRequest, build
from deermem.extract.templates import Prompts
from deermem.model.fact import Fact
from deermem.model.summaries import Summaries
from deermem.service.apply import apply
from deermem.service.read import manifest_state, token_of, whole
from deermem.service.rules import consolidation_rules, rules_of, staleness_rules
from deermem.store.epoch import read_epoch

if TYPE_CHECKING:
    from deermem.model.changes import Commit
    from deermem.model.proposals import Proposals
    from deermem.service.user import UserContext

_log: Final = logging.getLogger("deermem")
_ATTEMPTS: Final = 3


class Opened(Protocol):
    """What the pipeline needs of the engine."""

    settings: Settings

    def context(self, user_id: str | None) -> UserContext:
        """A user, opened."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """What a metrics callback is told of one answer: whose it was, what became of it, and how much was rejected."""

    user_id: str | None
    agent: str
    thread_id: str
    outcome: Outcome

    @property
    def counts(self) -> dict[str, int]:
        """Items by kind and reason, as `Outcome.counts` has them."""
        return dict(self.outcome.counts())

    @property
    def rejected_share(self) -> float:
        """How much of the answer was rejected, 0 to 1."""
        return self.outcome.rejected_share


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The memory as one attempt sees it; the token was taken before the rest was read, so what moves since shows."""

    token: str
    epoch: str
    summaries: Summaries
    facts: tuple[Fact, ...]


class Pipeline:
    """Extracts for all users of an engine. Safe for threads; holds no lock while a model is asked."""

    def __init__(self, engine: Opened, model: ModelCall | None, hooks: Hooks, prompts: Prompts) -> None:
        settings = engine.settings
        self._engine = engine
        self._model = model
        self._hooks = hooks
        self._prompts = prompts
        self._rules = PlanRules(
            threshold=settings.fact_confidence_threshold,
            confirms=rules_of(settings).capacity.uses_heat,
            staleness=staleness_rules(settings),
            consolidation=consolidation_rules(settings),
        )

    def run(self, item: Item, *, keep: Callable[[Item], None], is_wanted: Callable[[], bool]) -> None:
        """An item of the queue; `keep` and `is_wanted` as `queue.Extract` says. Raises as `extract`."""
        self._extract(item, keep, is_wanted)

    def extract(self, item: Item) -> Outcome:
        """A conversation that nobody queued.

        Raises ExtractionFailed, also where the user's memory, of whatever agent, is cleared meanwhile, and what the
        store raises.
        """
        user = self._engine.context(item.user_id)
        epoch = read_epoch(user.files, user.paths)
        outcome = self._extract(item, lambda _: None, lambda: read_epoch(user.files, user.paths) == epoch)
        if outcome is None:
            raise ExtractionFailed(
                "the memory was cleared while the model was asked; nothing was stored",
                hint="extract the conversation again if it is to be remembered",
            )
        return outcome

    def _extract(self, item: Item, keep: Callable[[Item], None], is_wanted: Callable[[], bool]) -> Outcome | None:
        """What became of it; None where it was cleared meanwhile."""
        user = self._engine.context(item.user_id)
        with self._hooks.tracing(item.trace):
            seen = _look(user, item.agent)
            # After the epoch was read: a clear that was before it has taken the item away.
            if not is_wanted():
                return None
            now = item.answered_at or user.clock()
            shown = Shown.of(seen.facts, now, self._rules, seen.summaries)
            if item.answer is None:
                answer = self._ask(user, item, seen, shown)
                proposals = _read(answer)
                versions, marks = dict(shown.versions), dict(shown.summaries)
                item = replace(item, answer=answer, answered_at=now, shown=versions, shown_summaries=marks)
                keep(item)
            else:
                # Answered before a crash: only what the model saw then may be touched.
                proposals = _read(item.answer)
                shown = replace(shown, versions=item.shown, summaries=item.shown_summaries)
            outcome = self._carry_out(item, proposals, shown, seen, is_wanted)
        if outcome is not None:
            self._report(item, outcome)
        return outcome

    def _ask(self, user: UserContext, item: Item, seen: _Seen, shown: Shown) -> str:
        if self._model is None:
            raise ExtractionFailed("there is no model to ask", hint="hand one to DeerMem(model=…) or set `model`")
        request = PromptRequest(
            summaries=seen.summaries,
            facts=[fact for fact in seen.facts if fact.id in shown.versions],
            turns=item.turns,
            now=user.clock(),
            signals=item.signals,
            stale=shown.stale,
            groups=shown.groups,
            staleness=self._rules.staleness,
        )
        messages = build(self._prompts.template(item.agent), request)
        info = CallInfo(user_id=item.user_id, agent=item.agent, thread_id=item.thread, trace_id=item.trace)
        try:
            return answer_text(called(self._model, messages, info, self._hooks))
        # A model is code of others: whatever it raises, the conversation waits.
        except Exception as error:
            _log.debug("the model failed", exc_info=True)
            told = f"{type(error).__name__}: {error}"
            raise ExtractionFailed(f"the model failed: {told:.300}", hint="nothing was changed") from error

    def _carry_out(
        self, item: Item, proposals: Proposals, shown: Shown, seen: _Seen, is_wanted: Callable[[], bool]
    ) -> Outcome | None:
        """Decides on what the model saw and, where that moved meanwhile, again on what is there then."""
        user = self._engine.context(item.user_id)
        gated = judge(proposals, threshold=self._rules.threshold)
        for attempt in range(_ATTEMPTS):
            if attempt:
                seen = _look(user, item.agent)
                if not is_wanted():
                    return None
            decided = plan(gated, self._basis(item, shown, seen))
            if decided.is_empty():
                return decided.outcome
            try:
                commit: Commit | None = apply(user, item.agent, decided.change)
            except NotStored:
                commit = None
            except (Conflict, DuplicateFact) as error:
                _log.debug("the memory moved while a conversation was extracted: %s", error)
                continue
            return decided.outcome.settled(commit)
        raise ExtractionFailed("the memory kept changing while it was decided", hint="nothing was changed; try again")

    def _basis(self, item: Item, shown: Shown, seen: _Seen) -> Basis:
        assert item.answered_at is not None
        return Basis(
            facts=seen.facts,
            shown=shown,
            now=item.answered_at,
            item_id=item.id,
            thread=item.thread,
            summaries=seen.summaries,
            signals=item.signals,
            rules=self._rules,
            state_token=seen.token,
            epoch=seen.epoch,
        )

    def _report(self, item: Item, outcome: Outcome) -> None:
        if outcome.rejected_share > WARN_ABOVE:
            rejected = ", ".join(
                f"{name} {count}" for name, count in outcome.counts().items() if "accepted" not in name
            )
            _log.warning(
                "%.0f %% of what the model proposed for agent %s was rejected: %s",
                100 * outcome.rejected_share,
                item.agent,
                rejected,
            )
        self._hooks.extracted(Metrics(item.user_id, item.agent, item.thread, outcome))


def _look(user: UserContext, agent: str) -> _Seen:
    epoch = read_epoch(user.files, user.paths)
    token = token_of(user, agent, manifest_state(user, agent).data)
    summaries, snapshot = whole(user, agent)
    return _Seen(token=token, epoch=epoch, summaries=summaries, facts=tuple(snapshot.facts))


def _read(answer: str) -> Proposals:
    # Only an answer needs pydantic, which takes a while to load.
    from deermem.extract.reply import parse_reply

    proposals = parse_reply(answer)
    if proposals is None:
        raise ExtractionFailed(
            "the model's answer holds no whole JSON object with user, history and newFacts",
            hint="nothing was changed; see docs/extraction.md",
        )
    return proposals
