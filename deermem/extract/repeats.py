"""Regular expressions that might take for ever: a repeat of unknown length, repeated without limit."""

from __future__ import annotations

import re
from typing import Final

_PIECE: Final = re.compile(
    r"""\\. | \[\^?\]?(?:\\.|[^\]\\])*\] | (?P<open>\() | (?P<close>\))
    | (?P<repeat>[*+?]|\{\d*,?(?P<most>\d*)\})""",
    re.VERBOSE | re.DOTALL,
)


def repeats_a_repeat(pattern: str) -> bool:
    """Whether a group that holds a repeat of varying length is itself repeated without limit, as in `(a+)+`.

    Such a pattern can try every way of dividing a text. Nothing is compiled: broken patterns answer as well.
    """
    varying = [False]
    closed_varying = False
    end = -1
    for match in _PIECE.finditer(pattern):
        is_behind_group = match.start() == end and closed_varying
        closed_varying = False
        if match["open"]:
            varying.append(False)
        elif match["close"]:
            closed_varying = len(varying) > 1 and varying.pop()
            varying[-1] |= closed_varying
            end = match.end()
        elif match["repeat"] and _varies(match):
            if is_behind_group and _is_unlimited(match):
                return True
            # The `?` of `(?:` is no repeat, and what may be there once divides nothing.
            varying[-1] |= match["repeat"] != "?"
    return False


def _varies(match: re.Match[str]) -> bool:
    return "," in match["repeat"] or match["repeat"] in "*+?"


def _is_unlimited(match: re.Match[str]) -> bool:
    return match["repeat"] in "*+" or ("," in match["repeat"] and not match["most"])
