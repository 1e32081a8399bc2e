"""docs/integrations/langchain.md: its examples run, and its tables say what there is."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from deermem.testing import ScriptedModel, answer, scripted_chat_model

pytest.importorskip("langchain")

from deermem.integrations.langchain import DeerMemMiddleware, memory_tools

PAGE = (Path(__file__).resolve().parents[3] / "docs/integrations/langchain.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"<!-- tested -->\n```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(6))
def test_the_examples_run(tmp_path, monkeypatch, number):
    assert len(EXAMPLES) == 6
    monkeypatch.chdir(tmp_path)
    # What the page leaves to the reader.
    given = {
        "__name__": "__main__",
        "chat_model": scripted_chat_model("Noted.", "There is one at nine."),
        "extraction_model": ScriptedModel(answer(facts=["Flies from Graz"]), answer()),
    }
    exec(compile(EXAMPLES[number], f"example {number}", "exec", dont_inherit=True), given)


def test_every_option_is_in_the_table():
    options = list(inspect.signature(DeerMemMiddleware).parameters.values())
    rows = dict(re.findall(r"^\| `(\w+)` \| ?(.*?) ?\| ", PAGE.partition("## DeerMemMiddleware")[2], re.MULTILINE))
    assert [name for name in rows if not name.startswith("memory_")] == [item.name for item in options]
    for item in options[3:]:
        assert rows[item.name].strip("`") == str(item.default if item.name != "recall" else '"context"')
    assert [rows["user_id"], rows["agent_name"]] == ['`FromRun("user_id")`', '`FromRun("agent_name", required=False)`']


def test_every_tool_is_in_the_table_with_its_arguments(engine):
    rows = dict(re.findall(r"^\| `(memory_\w+)` \| (.*?) \| ", PAGE, re.MULTILINE))
    tools = memory_tools(engine, user_id="alice")
    assert list(rows) == [tool.name for tool in tools]
    for tool in tools:
        assert set(re.findall(r"`(\w+)`", rows[tool.name])) == set(
            tool.tool_call_schema.model_json_schema()["properties"]
        )
