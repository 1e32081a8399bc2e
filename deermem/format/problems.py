"""What a codec says of bytes that can't be read safely."""

from __future__ import annotations

from deermem.model.records import Problem


class FormatError(ValueError):
    """These bytes can't be read safely; `problem` says where and how to mend it."""

    def __init__(self, code: str, message: str, *, line: int = 0, hint: str = "") -> None:
        super().__init__(message)
        self.problem = Problem(code=code, message=message, line=line, hint=hint)
