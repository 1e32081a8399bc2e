"""Everything that deermem raises on purpose.

::

    DeerMemError
    ├── InvalidInput (ValueError)        the call was wrong
    │   └── DuplicateFact                this content is stored already (.existing)
    ├── NotStored                        the cap would evict the new fact at once
    ├── QueueFull                        too many conversations wait for extraction
    ├── ExtractionFailed                 the model failed, or gave no usable answer
    ├── FactNotFound (KeyError)          no such fact in this bucket
    ├── Conflict                         somebody else was faster
    │   ├── RevisionConflict             the shared revision moved
    │   └── FactConflict                 a named fact changed (.current)
    ├── LockTimeout (TimeoutError)       another process holds the user lock
    ├── StoreUnavailable (OSError)       the disk refused: full, read-only, gone
    ├── Corruption                       a file that can't be used safely (.path, .reason)
    └── MigrationError                   a v1 store stops, its source untouched
        ├── BackupMismatch
        ├── SummaryConflict
        └── UnexpectedFiles

A message is one line: what is wrong, where, and (the hint) what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from deermem.model.fact import Fact


class DeerMemError(Exception):
    """Base of all. `exit_code` is what the command line ends with; `hint` says what to do."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class InvalidInput(DeerMemError, ValueError):
    """An argument that can't be stored or understood; names the field."""

    exit_code = 2


class DuplicateFact(InvalidInput):
    """The content is there already, compared with white space folded, case folded and NFC."""

    def __init__(self, message: str, *, existing: Fact | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.existing = existing


class NotStored(DeerMemError):
    """The capacity policy would evict the new fact itself, so it was not written."""


class QueueFull(DeerMemError):
    """`queue_max_depth` conversations wait, and this one carries no signal that it matters."""


class ExtractionFailed(DeerMemError):
    """The model could not be asked, failed, or gave an answer without proposals; the conversation is still there."""


class FactNotFound(DeerMemError, KeyError):
    """No fact of that id in this bucket."""


class Conflict(DeerMemError):
    """The decision rests on a state that is gone; read again, then decide again."""

    exit_code = 3


class RevisionConflict(Conflict):
    """The shared revision moved since the caller read."""


class FactConflict(Conflict):
    """A named fact is not what the caller saw. `current` is the fact as it is now, None if it is gone."""

    def __init__(self, message: str, *, current: Fact | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.current = current


class LockTimeout(DeerMemError, TimeoutError):
    """The user lock was not free within `file_lock_timeout_seconds`; names the file and, where known, the holder."""


class StoreUnavailable(DeerMemError, OSError):
    """The storage refused: no permission, disk full, read-only, a folder that went away.

    `outcome_unknown` is true only where a change may already stand on disk although the call failed.
    """

    def __init__(self, message: str, *, hint: str = "", outcome_unknown: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.outcome_unknown = outcome_unknown


class Corruption(DeerMemError):
    """A file that can't be read safely. It is left byte for byte as it is."""

    def __init__(self, message: str, *, path: str = "", reason: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.reason = reason


class MigrationError(DeerMemError):
    """An old store stops here; the source is untouched."""


class BackupMismatch(MigrationError):
    """A backup is there already and differs from the source."""


class SummaryConflict(MigrationError):
    """A legacy agent's summaries differ from the shared ones."""


class UnexpectedFiles(MigrationError):
    """A folder that would be moved or removed holds something that is not ours."""
