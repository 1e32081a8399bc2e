"""docs/integrations/langgraph.md: its examples run, and its table says what there is."""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langgraph.store.base")

from deermem.integrations.langgraph_store import DeerMemStore

PAGE = (Path(__file__).resolve().parents[3] / "docs/integrations/langgraph.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"<!-- tested -->\n```python\n(.*?)```", PAGE, re.DOTALL)


async def put_and_get(store: Any) -> None:
    """As the server does with what `langgraph.json` names."""
    async with store() as opened:
        await opened.aput(("memories", "alice"), "seat", {"text": "aisle"})
        assert (await opened.aget(("memories", "alice"), "seat")).value == {"text": "aisle"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")
@pytest.mark.parametrize("number", range(5))
def test_the_examples_run(tmp_path, monkeypatch, number):
    assert len(EXAMPLES) == 5
    for needed in ("langgraph.graph", "deepagents"):
        if f"from {needed} " in EXAMPLES[number]:
            pytest.importorskip(needed)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(EXAMPLES[number], f"example {number}", "exec", dont_inherit=True), names)
    if "async def store" in EXAMPLES[number]:
        asyncio.run(put_and_get(names["store"]))
    if number == 0:
        (file,) = Path("memory").rglob("seat.md")
        shown = re.search(r"The item is now this file, `([^`]+)`:\n\n```\n(.*?)```", PAGE, re.DOTALL)
        assert shown is not None
        assert str(file) == shown[1]
        head, _, tail = shown[2].partition("…\n")
        text = re.sub(r"digest: \S+", "digest: 1-73ffa0dd1cd0c5b5", file.read_text(encoding="utf-8"))
        assert text.startswith(head)
        assert text.endswith(tail)


def test_every_option_is_in_the_table():
    rows = dict(re.findall(r"^\| `(\w+)` \| ?(.*?) ?\| ", PAGE.partition("## DeerMemStore")[2], re.MULTILINE))
    options = list(inspect.signature(DeerMemStore).parameters.values())
    assert list(rows) == [item.name for item in options]
    assert {rows[item.name] for item in options[1:]} == {str(item.default) for item in options[1:]} == {"None"}
