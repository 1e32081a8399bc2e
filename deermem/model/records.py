"""What searching takes and gives, and why a file is not served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypedDict

from deermem.model.fact import Fact

MatchKind = Literal["fts5", "adapter", "substring"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """One fact that a search found; hits come best first. `agent` is the bucket it lies in.

    `match` is who found it: the built-in index, the `adapter` of the settings, or a look through the facts.
    """

    fact: Fact
    score: float
    match: MatchKind
    snippet: str
    agent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a file is not served: said once where it is found, shown by `check`. `line` is 1-based, 0 for none."""

    code: str
    message: str
    line: int = 0
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFilter:
    """What narrows a search before its limit. Agents None: all of the user; times compare with `updated_at`."""

    agents: tuple[str, ...] | None = None
    category: str | None = None
    topics: tuple[str, ...] = ()
    source_thread: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class Filters(TypedDict, total=False):
    """What every way of searching takes to narrow it; left out or None is no filter.

    `topics` must all be there; `since` and `until` compare with the last change, a naive time is UTC.
    """

    category: str | None
    topics: Sequence[str] | None
    source_thread: str | None
    since: datetime | None
    until: datetime | None
