"""What DeerFlow is told of extraction, in its own words: before and after a model is asked, and what came of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

from deermem.errors import InvalidInput
from deermem.extract.hooks import CallInfo, CallOutcome
from deermem.extract.models import answer_text
from deermem.extract.pipeline import Metrics

_RUN_NAME: Final = "memory_agent"
_GATED: Final = {"fact": "facts", "summary": "summaries", "removal": "removals", "merge": "consolidations"}
_GATE_REASONS: Final = ("missing", "scope", "durability", "authority", "replacement")


@runtime_checkable
class _SeesCalls(Protocol):
    def on_memory_llm_call(self, invoke_config: dict[str, Any], **of: Any) -> object: ...


@runtime_checkable
class _SeesResults(Protocol):
    def on_memory_llm_result(self, invoke_config: dict[str, Any], **of: Any) -> object: ...


@dataclass(slots=True)
class Observers:
    """The host's `MemoryCallbacks`, and its function that takes the metrics of each extraction; both may be None.

    An older host's callbacks have no `on_memory_llm_result`.
    """

    callbacks: object
    on_metrics: Callable[[dict[str, Any]], object] | None
    _asked: threading.local = field(default_factory=threading.local)

    def before_call(self, call: CallInfo) -> None:
        """Lets the host put what its tracer needs into the configuration of the call."""
        call.config.setdefault("run_name", _RUN_NAME)
        if isinstance(self.callbacks, _SeesCalls):
            self.callbacks.on_memory_llm_call(
                call.config,
                thread_id=call.thread_id,
                user_id=call.user_id,
                trace_id=call.trace_id,
                model_name=call.model,
            )

    def after_call(self, done: CallOutcome) -> None:
        """Tells the host how the call ended; one that gave nothing to extract has no metrics but these."""
        failed = self.on_metrics is not None and not (done.ok and _is_usable(done.answer))
        # The metrics follow in this thread, and know nothing of the call.
        self._asked.last = None if failed else done
        try:
            if isinstance(self.callbacks, _SeesResults):
                self.callbacks.on_memory_llm_result(
                    done.call.config,
                    prompt=done.call.messages,
                    response=done.answer,
                    error=done.error,
                    duration_ms=done.seconds * 1000,
                    model_name=done.call.model,
                )
        finally:
            # Neither of the two goes untold because the other failed.
            if failed and self.on_metrics is not None:
                self.on_metrics({**_of_call(done), "success": False})

    def extracted(self, metrics: Metrics) -> None:
        """Hands over the metrics under the host's names."""
        if self.on_metrics is None:
            return
        last, self._asked.last = vars(self._asked).get("last"), None
        of_call = _of_call(last) if isinstance(last, CallOutcome) and _is_of(last.call, metrics) else {}
        self.on_metrics(
            {
                "trace_id": None,
                "model_name": None,
                "token_usage": None,
                **of_call,
                "thread_id": metrics.thread_id,
                "user_id": metrics.user_id,
                "success": True,
                **_counted(metrics),
            }
        )


def _of_call(done: CallOutcome) -> dict[str, Any]:
    call = done.call
    usage = done.answer.usage_metadata if isinstance(done.answer, _WithUsage) else None
    return {
        "thread_id": call.thread_id,
        "user_id": call.user_id,
        "trace_id": call.trace_id,
        "model_name": call.model,
        "token_usage": usage if isinstance(usage, dict) else None,
    }


def _is_usable(answer: object) -> bool:
    """Whether there are proposals in an answer; extraction stops at one without, and tells nobody but the log."""
    from deermem.extract.reply import parse_reply

    try:
        return parse_reply(answer_text(answer)) is not None
    except InvalidInput:
        return False


@runtime_checkable
class _WithUsage(Protocol):
    usage_metadata: object


def _is_of(call: CallInfo, metrics: Metrics) -> bool:
    return (call.user_id, call.agent, call.thread_id) == (metrics.user_id, metrics.agent, metrics.thread_id)


def _counted(metrics: Metrics) -> dict[str, Any]:
    counts = metrics.counts
    facts = sum(count for name, count in counts.items() if name.startswith("fact."))
    unsure = counts.get("fact.confidence", 0)
    rejections = {
        plural: {reason: counts.get(f"{kind}.{reason}", 0) for reason in _GATE_REASONS}
        for kind, plural in _GATED.items()
    }
    return {
        "facts_extracted": facts,
        "facts_passed_confidence": facts - unsure,
        "rejected_low_confidence": unsure,
        "facts_passed_scope_gate": facts - sum(rejections["facts"].values()),
        "rejected_by_scope_gate": sum(sum(reasons.values()) for reasons in rejections.values()),
        "scope_gate_rejections": rejections,
    }
