"""Where a fact lies, as text: posix paths relative to the user's folder."""

from __future__ import annotations

import hashlib


def facts_folder(agent: str) -> str:
    """The folder that holds all fact files of one agent bucket."""
    return f"agents/{agent}/facts"


def fact_path(agent: str, fact_id: str) -> str:
    """The canonical place of a fact; `agent` is normalised, the id checked."""
    prefix = hashlib.sha256(fact_id.encode()).hexdigest()[:2]
    return f"{facts_folder(agent)}/{prefix}/{fact_id}.md"
