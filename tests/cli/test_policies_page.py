"""docs/policies.md: its example comes out, and each range is the one that settings have."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from pathlib import Path

import pytest
from builders_policy import NOW, ago, contender

from deermem import InvalidInput, Settings
from deermem.model.usage import Usage
from deermem.policy.hybrid import score
from deermem.service.rules import rules_of

PAGE = (Path(__file__).resolve().parents[2] / "docs/policies.md").read_text(encoding="utf-8")
WEIGHTS = [f"eviction_{part}_weight" for part in ("confidence", "confirmation", "access")]


def rows(heading: str) -> list[list[str]]:
    """The cells of the table that follows a line which begins so."""
    table = PAGE[PAGE.index(heading) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in table]


def test_the_worked_example_comes_out():
    examples = rows("| fact | confidence |")
    assert len(examples) == 2
    for name, confidence, confirmed, created, heat, *results in examples:
        usage = None
        if heat != "-":
            warmth, days = (float(number) for number in heat.split(", "))
            usage = Usage(warmth, 1, ago(days))
        known = None if confirmed == "-" else float(confirmed)
        fact = contender(name, float(confidence), float(created), known)
        found = score(fact, usage, rules_of(Settings()).capacity.hybrid, NOW)
        assert [f"{number:.3f}" for number in (found.confirmation, found.access, found.total)] == results
    assert float(examples[0][-1]) > float(examples[1][-1])


def test_the_formula_has_the_defaults():
    defaults = Settings()
    line = PAGE[PAGE.index("worth        =") :].splitlines()[0]
    assert [float(number) for number in re.findall(r"0\.\d+", line)] == [getattr(defaults, name) for name in WEIGHTS]
    assert f"days since it was last confirmed / {defaults.eviction_confirmation_half_life_days:g})" in PAGE
    assert f"(days since / {defaults.eviction_access_half_life_days:g})" in PAGE


def settings_rows() -> list[list[str]]:
    return rows("| setting | default |")


def test_every_setting_of_the_policies_has_a_row_with_its_default():
    own = ("max_facts", "fact_eviction_", "eviction_", "staleness_", "consolidation_")
    expected = [item.name for item in fields(Settings) if item.name.startswith(own)]
    assert [row[0] for row in settings_rows()] == expected
    for name, default, *_ in settings_rows():
        value = getattr(Settings(), name)
        shown = f"{value:g}" if type(value) in (int, float) else str(value).replace("'", '"')
        assert default == shown, name


@pytest.mark.parametrize("row", settings_rows(), ids=lambda row: row[0])
def test_every_range_is_the_one_that_holds(row):
    name, _, told = row[:3]
    bounds = re.match(r"(\d+) to (\d+)", told)
    if bounds is None:
        for word in {"True, False": [True, False], "category words": [["goal"], ()]}.get(
            told, re.findall(r"[\w-]+", told)
        ):
            assert getattr(Settings(**{name: word}), name) in (word, tuple(word) if isinstance(word, list) else word)
        with pytest.raises(InvalidInput, match=name):
            Settings(**{name: "hybrid"})
        return
    low, high = (int(number) for number in bounds.groups())
    for value in (low, high):
        assert getattr(Settings(**balanced(name, value)), name) == value
    for value in (low - 1, high + 1, math.nan, True, "5"):
        with pytest.raises(InvalidInput, match=name):
            Settings(**balanced(name, value))


def balanced(name: str, value: object) -> dict[str, object]:
    """The other weights with a weight, so that all add up to 1 where they can."""
    if name not in WEIGHTS or not isinstance(value, (int, float)):
        return {name: value}
    rest = 0.0 if math.isnan(value) else min(1.0, max(0.0, 1 - value))
    return {name: value} | {other: rest / 2 for other in WEIGHTS if other != name}
