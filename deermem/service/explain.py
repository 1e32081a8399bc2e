"""Laying a search open: how the query was understood, what made each score, and why a fact is not among the hits."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from deermem.clock import format_timestamp
from deermem.index.explain import reading, term_word, times_in
from deermem.index.expression import holds
from deermem.index.query import Form, Query
from deermem.index.rows import Row
from deermem.index.search import Explained, body_of, failed_filters
from deermem.model.explanations import Absence, AbsenceReason, ExplainedHit, Explanation, TermMatch
from deermem.model.fact import Fact
from deermem.model.records import SearchFilter
from deermem.service.recall import Answer, Match, Question, answered, asked, check_top_k, counted, hit
from deermem.service.retrieval import ExplainingRetrieval
from deermem.service.user import UserContext

_FILTER_NAMES: Final = {"source_thread": "source thread"}


def explain(  # noqa: PLR0913 - three of them are keyword-only
    user: UserContext, agent: str, text: str, *, where: SearchFilter, top_k: int, why: str | None
) -> Explanation:
    """What `recall` finds for one agent, explained; `why` is the id of a fact to answer for."""
    check_top_k(top_k)
    return _Explaining(asked(user, [agent], text, where), agent, top_k).explanation(why)


class _Explaining:
    """One search laid open."""

    def __init__(self, question: Question, agent: str, top_k: int) -> None:
        self.question = question
        self.agent = agent
        self.top_k = max(top_k, 0)
        self.retrieval = ExplainingRetrieval(question.user)

    def explanation(self, why: str | None) -> Explanation:
        query = self.question.query
        if query.is_empty:
            absence = None if why is None else Absence(fact_id=why, reason="no-shared-term", message=_NOTHING)
            return Explanation(query=reading(query), why=absence)
        answer = self.answer(self.top_k)
        hits = [self.explained(place, match, answer) for place, match in enumerate(answer.matches, 1)]
        return Explanation(
            query=reading(query),
            hits=tuple(hits),
            total=counted(self.question),
            why=None if why is None else self.absence(why, hits),
        )

    def answer(self, top_k: int) -> Answer:
        return answered(self.question, self.question.user.adapter or self.retrieval, top_k)

    # --- a hit

    def explained(self, place: int, match: Match, answer: Answer) -> ExplainedHit:
        found = hit(match, answer.kind, self.question.query)
        if answer.kind == "substring":
            terms = _terms(match.fact, self.question.query)
            return ExplainedHit(hit=found, place=place, terms=terms, confidence=match.score)
        if answer.kind == "adapter":
            terms = _terms(match.fact, self.question.query)
            return ExplainedHit(hit=found, place=place, terms=terms, adapter=match.score)
        item = self.retrieval.explained[match.agent, self.path(match.fact.id)]
        _, coverage, recency = item.parts
        return ExplainedHit(hit=found, place=place, terms=_scored_terms(item), coverage=coverage, recency=recency)

    def path(self, fact_id: str) -> str:
        row = self.question.seen[self.agent].row(fact_id)
        return row.path if row is not None else ""

    # --- why not

    def absence(self, why: str, hits: list[ExplainedHit]) -> Absence:
        bucket = self.question.seen[self.agent]
        row = bucket.row(why)
        if row is None or row.fact is None:
            return self._fileless(why)
        there = next((item for item in hits if item.hit.fact.id == row.fact.id), None)
        if there is not None:
            message = f"it is hit {there.place} of {len(hits)}"
            return self.said(row, "found", message, place=there.place, score=there.hit.score)
        return self._kept_out(row, row.fact) or self._outdone(row, row.fact) or self._missed(row, row.fact)

    def _fileless(self, why: str) -> Absence:
        """No file speaks for the id: one that can't be read may be meant, or one that another speaks for."""
        bucket = self.question.seen[self.agent]
        for row in bucket.unreadable:
            if row.problem is not None and row.fact is None and PurePosixPath(row.path).stem == why:
                line = f" (line {row.problem.line})" if row.problem.line else ""
                return self.said(row, "unreadable", f"its file can't be read: {row.problem.message}{line}", fact_id=why)
        for row in bucket.shadowed:
            if row.fact is not None and PurePosixPath(row.path).stem == why:
                speaker = self.path(row.fact.id)
                message = f"its file says the id {row.fact.id}, for which {speaker} speaks"
                return self.said(row, "shadowed", message, fact_id=why)
        return Absence(fact_id=why, reason="unknown", message=f"agent {self.agent} has no fact {why}")

    def _kept_out(self, row: Row, fact: Fact) -> Absence | None:
        if fact.expires_at is not None and fact.expired_by(self.question.now):
            return self.said(row, "expired", f"it expired at {format_timestamp(fact.expires_at)}")
        failed = tuple(failed_filters(fact, self.question.where))
        if not failed:
            return None
        names = ", ".join(_FILTER_NAMES.get(name, name) for name in failed)
        return self.said(row, "filtered", f"it is outside the filter: {names}", filters=failed)

    def _outdone(self, row: Row, fact: Fact) -> Absence | None:
        """Where it would stand without a limit."""
        matches = self.answer(max(self.question.size, 1)).matches
        for place, match in enumerate(matches, 1):
            if match.fact.id == fact.id:
                message = f"it is hit {place} of {len(matches)}, and the limit is {self.top_k}"
                if place <= self.top_k:
                    message = f"it is not among the first candidates of the index, which else would make it hit {place}"
                return self.said(row, "below-limit", message, place=place, score=match.score)
        return None

    def _missed(self, row: Row, fact: Fact) -> Absence:
        query = self.question.query
        assert query.expression is not None
        if holds(query.expression, body_of(fact)):
            message = "it has what is asked for, but what was searched does not know it yet; search again or reindex"
            return self.said(row, "not-indexed", message)
        for other in self.question.seen[self.agent].shadowed:
            same = other.fact is not None and other.fact.id.lower() == fact.id.lower()
            if other.fact is not None and same and holds(query.expression, body_of(other.fact)):
                message = f"the words stand in a second file of that id, for which {row.path} speaks"
                return self.said(other, "shadowed", message, fact_id=fact.id)
        return self.said(row, "no-shared-term", _MISSED[query.form])

    def said(  # noqa: PLR0913 - the fields of an Absence
        self,
        row: Row,
        reason: AbsenceReason,
        message: str,
        *,
        fact_id: str = "",
        place: int = 0,
        score: float = 0.0,
        filters: tuple[str, ...] = (),
    ) -> Absence:
        return Absence(
            fact_id=fact_id or (row.fact.id if row.fact is not None else ""),
            reason=reason,
            message=message,
            path=str(self.question.user.paths.facts(self.agent) / row.path),
            place=place,
            score=score,
            filters=filters,
        )


_NOTHING: Final = "the text asks for nothing"
_MISSED: Final[dict[Form, str]] = {
    "words": "it has none of the words that are looked for",
    "phrases": "it lacks a phrase or a prefix that is looked for",
    "operators": "it does not meet the expression that is asked for",
}


def _terms(fact: Fact, query: Query) -> tuple[TermMatch, ...]:
    """The terms of a query that a fact has, where nobody counted them."""
    body = body_of(fact)
    counts = ((term, times_in(body, term)) for term in query.terms)
    return tuple(TermMatch(term=term.text, kind=term_word(term.kind), times=times) for term, times in counts if times)


def _scored_terms(item: Explained) -> tuple[TermMatch, ...]:
    best = sorted(item.terms, key=lambda counted: -counted.bm25)
    return tuple(
        TermMatch(
            term=counted.term.text,
            kind=term_word(counted.term.kind),
            times=counted.times,
            facts=item.frequencies.get(counted.term, 0) if counted.term.kind != "character" else 0,
            score=counted.bm25,
        )
        for counted in best
    )
