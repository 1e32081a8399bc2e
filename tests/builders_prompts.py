"""What tests of prompts share: the message to a model, taken apart."""

from __future__ import annotations

import re
from pathlib import Path

from builders_policy import NOW

from deermem.extract.prompts import PromptRequest, build
from deermem.extract.templates import load_prompts
from deermem.model.summaries import Summaries


def asked(**values: object) -> list[dict[str, str]]:
    """The messages of the package's template; what isn't given is empty."""
    given: dict[str, object] = {"summaries": Summaries(), "facts": (), "turns": (), "now": NOW, **values}
    return build(load_prompts().template("coder"), PromptRequest(**given))  # type: ignore[arg-type]


def shown(**values: object) -> str:
    """The user message."""
    return asked(**values)[1]["content"]


def inside(text: str, tag: str) -> str:
    """What stands between the one opening and the one closing tag."""
    found = re.findall(rf"(?ms)^<{tag}>\n(.*?)\n</{tag}>$", text)
    assert len(found) == 1, tag
    return str(found[0])


def template_file(path: Path, **changes: str | None) -> Path:
    """A small template file; a text that is None is left out."""
    texts: dict[str, str | None] = {
        "system": "Be brief.",
        "user": "{summaries} {facts} {staleness} {consolidation} {conversation}",
        "staleness": "{candidates}",
        "consolidation": "{groups}",
        **changes,
    }
    lines = [f"{name}: '{text}'\n" for name, text in texts.items() if text is not None]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")
    return path
