"""deermem: the memory of AI agents as Markdown files.

Every public name is imported from here; each is loaded when it is first used, so that `import deermem` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deermem.config import ModelSettings as ModelSettings
    from deermem.config import Settings as Settings
    from deermem.engine import DeerMem as DeerMem
    from deermem.errors import BackupMismatch as BackupMismatch
    from deermem.errors import Conflict as Conflict
    from deermem.errors import Corruption as Corruption
    from deermem.errors import DeerMemError as DeerMemError
    from deermem.errors import DuplicateFact as DuplicateFact
    from deermem.errors import ExtractionFailed as ExtractionFailed
    from deermem.errors import FactConflict as FactConflict
    from deermem.errors import FactNotFound as FactNotFound
    from deermem.errors import InvalidInput as InvalidInput
    from deermem.errors import LockTimeout as LockTimeout
    from deermem.errors import MigrationError as MigrationError
    from deermem.errors import NotStored as NotStored
    from deermem.errors import QueueFull as QueueFull
    from deermem.errors import RevisionConflict as RevisionConflict
    from deermem.errors import StoreUnavailable as StoreUnavailable
    from deermem.errors import SummaryConflict as SummaryConflict
    from deermem.errors import UnexpectedFiles as UnexpectedFiles
    from deermem.extract.hooks import CallInfo as CallInfo
    from deermem.extract.hooks import CallOutcome as CallOutcome
    from deermem.extract.hooks import Hooks as Hooks
    from deermem.extract.outcome import Outcome as Outcome
    from deermem.extract.pipeline import Metrics as Metrics
    from deermem.memory import Memory as Memory
    from deermem.model.changes import ABSENT as ABSENT
    from deermem.model.changes import Amend as Amend
    from deermem.model.changes import ChangeSet as ChangeSet
    from deermem.model.changes import Commit as Commit
    from deermem.model.changes import Delete as Delete
    from deermem.model.changes import Upsert as Upsert
    from deermem.model.context_block import ContextBlock as ContextBlock
    from deermem.model.context_block import LeftOut as LeftOut
    from deermem.model.evictions import Evicted as Evicted
    from deermem.model.evictions import Eviction as Eviction
    from deermem.model.evictions import Score as Score
    from deermem.model.explanations import Absence as Absence
    from deermem.model.explanations import ExplainedHit as ExplainedHit
    from deermem.model.explanations import Explanation as Explanation
    from deermem.model.explanations import QueryReading as QueryReading
    from deermem.model.explanations import TermMatch as TermMatch
    from deermem.model.fact import Draft as Draft
    from deermem.model.fact import Fact as Fact
    from deermem.model.fact import Source as Source
    from deermem.model.imports import ImportReport as ImportReport
    from deermem.model.proposals import Refusal as Refusal
    from deermem.model.records import SearchFilter as SearchFilter
    from deermem.model.records import SearchHit as SearchHit
    from deermem.model.reports import BucketStats as BucketStats
    from deermem.model.reports import FactText as FactText
    from deermem.model.reports import Finding as Finding
    from deermem.model.reports import IndexReport as IndexReport
    from deermem.model.reports import MigrationReport as MigrationReport
    from deermem.model.reports import Prepared as Prepared
    from deermem.model.reports import Stats as Stats
    from deermem.model.reports import UserMigration as UserMigration
    from deermem.model.reports import UserRestore as UserRestore
    from deermem.model.reports import Verification as Verification
    from deermem.model.reports import Waiting as Waiting
    from deermem.model.summaries import Section as Section
    from deermem.model.summaries import Summaries as Summaries
    from deermem.service.ports import Retrieval as Retrieval
    from deermem.service.ports import Scored as Scored

_HOMES = {
    "config": "ModelSettings Settings",
    "engine": "DeerMem",
    "errors": (
        "BackupMismatch Conflict Corruption DeerMemError DuplicateFact ExtractionFailed FactConflict FactNotFound "
        "InvalidInput LockTimeout MigrationError NotStored QueueFull RevisionConflict StoreUnavailable "
        "SummaryConflict UnexpectedFiles"
    ),
    "extract.hooks": "CallInfo CallOutcome Hooks",
    "extract.outcome": "Outcome",
    "extract.pipeline": "Metrics",
    "memory": "Memory",
    "model.changes": "ABSENT Amend ChangeSet Commit Delete Upsert",
    "model.context_block": "ContextBlock LeftOut",
    "model.evictions": "Evicted Eviction Score",
    "model.fact": "Draft Fact Source",
    "model.explanations": "Absence ExplainedHit Explanation QueryReading TermMatch",
    "model.imports": "ImportReport",
    "model.proposals": "Refusal",
    "model.records": "SearchFilter SearchHit",
    "model.reports": (
        "BucketStats FactText Finding IndexReport MigrationReport Prepared Stats UserMigration UserRestore "
        "Verification Waiting"
    ),
    "model.summaries": "Section Summaries",
    "service.ports": "Retrieval Scored",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__version__ = "0.1.0"
__all__ = sorted(_HOME_OF)  # noqa: PLE0605 - the table above is the one list


def __getattr__(name: str) -> object:
    module = _HOME_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'deermem' has no attribute {name!r}")
    found: object = vars(importlib.import_module(f"deermem.{module}"))[name]
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
