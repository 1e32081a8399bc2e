"""The bounds of a rule's numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable

from deermem.errors import InvalidInput
from deermem.model.fact import DEFAULT_CONFIDENCE


def whole(name: str, value: int, low: int, high: int) -> None:
    """Raises InvalidInput that names the rule for anything but a whole number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidInput(f"{name} is {value!r:.60}", hint=f"give a whole number from {low} to {high}")


def number(name: str, value: float, low: float, high: float) -> None:
    """Raises InvalidInput that names the rule for anything but a number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise InvalidInput(f"{name} is {value!r:.60}", hint=f"give a number from {low:g} to {high:g}")


def words(name: str, given: Iterable[str]) -> tuple[str, ...]:
    """The category words as a tuple; raises InvalidInput for a bare string, which would be read letter by letter."""
    if isinstance(given, str):
        raise InvalidInput(f"{name} is a string", hint="give a list of category words")
    return tuple(given)


def word(category: str) -> str:
    """A category as rules compare it: case and outer blanks don't count."""
    return category.strip().casefold()


def confidence_of(value: float) -> float:
    """A confidence from 0 to 1 whatever it was: the default where it is no finite number."""
    return min(1.0, max(0.0, value)) if -math.inf < value < math.inf else DEFAULT_CONFIDENCE
