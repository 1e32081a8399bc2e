"""Stores of the no-user root for tests of moving them, and what such a run says and leaves."""

from __future__ import annotations

from pathlib import Path

from builders_store import fact_text, shard
from builders_v1 import V2, as_json, v1_document, v1_fact

from deermem import Settings
from deermem.migrate.isolation import Isolation, isolate
from deermem.store.files import Files

V1 = as_json(v1_document(v1_fact(), work="Ann tunes cellos."))
TABS = f"agents/coder/facts/{shard('f_tabs')}/f_tabs.md"
FACT = fact_text("f_tabs", "Prefers tabs.").encode()
STORE = {
    "memory.json": V2,
    TABS: FACT,
    "agents/coder/config.yaml": b"model: none\n",
    "agents/coder/SOUL.md": b"Be brief.\n",
}
HOST = {"threads/t1/user-data/a.txt": b"a", "skills/custom/s/SKILL.md": b"s", "USER.md": b"u", "config.yaml": b"c"}


def moved(root: Path, user: str = "ann", *, dry_run: bool = False, files: Files | None = None) -> Isolation:
    """One run; a lock that is taken is not waited for."""
    settings = Settings(root=str(root), file_lock_timeout_seconds=0.0)
    return isolate(settings, user, tell=lambda line: None, dry_run=dry_run, files=files)


def said(root: Path, user: str = "ann", *, dry_run: bool = False) -> list[str]:
    """The lines of one run that nothing stands in the way of."""
    lines: list[str] = []
    result = isolate(Settings(root=str(root)), user, tell=lines.append, dry_run=dry_run)
    assert result.problems == ()
    return [*lines, str(result)]


def everything(root: Path) -> dict[str, tuple[object, ...]]:
    """Every name below the root with mode, size, time and content."""
    found = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path.relative_to(root))] = (status.st_mode, status.st_mtime_ns, content)
    return found


def below(prefix: str, files: dict[str, bytes]) -> dict[str, bytes]:
    """The same files in another folder."""
    return {f"{prefix}/{path}": data for path, data in files.items()}


def problem(result: Isolation, *words: str) -> None:
    """Asserts that one thing alone stands in the way, named in one line with these words."""
    assert len(result.problems) == 1, result.problems
    assert "\n" not in result.problems[0]
    assert all(word in result.problems[0] for word in words), result.problems
