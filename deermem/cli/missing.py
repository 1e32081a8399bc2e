"""Names that stand for nobody: a mistyped user or agent must not look like one of whom nothing is known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from deermem.cli.output import count, note
from deermem.errors import DeerMemError

if TYPE_CHECKING:
    from deermem.cli.invocation import Invocation
    from deermem.engine import DeerMem

_FEW: Final = 5
_MEANT: Final = 3
_MARK: Final = re.compile(r"-[0-9a-f]{16}\Z")


def note_missing_store(engine: DeerMem) -> bool:
    """Says so where the root does not exist; whether it was said."""
    try:
        there = engine.root.exists()
    except OSError:
        return False
    if not there:
        note(f"deermem: there is no store at {engine.root} yet")
    return not there


def note_missing(invocation: Invocation, engine: DeerMem) -> bool:
    """The same, and for a user or agent that is named and not there, with whom may be meant; whether it was said."""
    if note_missing_store(engine):
        return True
    said = missing(invocation, engine)
    if said:
        note(f"deermem: {said}")
    return bool(said)


def missing(invocation: Invocation, engine: DeerMem) -> str:
    """Which of the user and agent that are named the store lacks, and who may be meant; "" for none."""
    try:
        return _missing_user(invocation, engine) or _missing_agent(invocation, engine)
    except (DeerMemError, OSError):
        # The call itself says better what can't be read, or which name is none.
        return ""


def newcomer(invocation: Invocation, engine: DeerMem) -> str:
    """` for the new user alice` before something is written that makes a user or an agent, else ""."""
    try:
        if invocation.user is not None and not _has_user(invocation, engine):
            return f" for the new user {invocation.user}"
        return f" for the new agent {invocation.agent}" if _missing_agent(invocation, engine) else ""
    except (DeerMemError, OSError):
        return ""


def missing_option(invocation: Invocation, engine: DeerMem) -> str:
    """That `--user` may be missing, where the call names no user and the store has some; else ""."""
    try:
        names = engine.users() if invocation.user is None else []
    except OSError:
        return ""
    return f"no --user is given, and the store has {_named(names, 'user')}" if names else ""


def _missing_user(invocation: Invocation, engine: DeerMem) -> str:
    if invocation.user is None or _has_user(invocation, engine):
        return ""
    names = engine.users()
    known = f"it has {_named(names, 'user')}" if names else "it has no users yet"
    meant = _meant(engine.memory(invocation.user).scope.user_folder or "", names)
    return f"there is no user {invocation.user!r} in {engine.root}; {meant or known}"


def _missing_agent(invocation: Invocation, engine: DeerMem) -> str:
    from deermem.model.scope import DEFAULT_AGENT, normalize_agent

    agent = normalize_agent(invocation.agent)
    there = [] if agent == DEFAULT_AGENT else engine.agents(invocation.user)
    if agent == DEFAULT_AGENT or agent in there:
        return ""
    names = [name for name in there if name != DEFAULT_AGENT]
    known = f"there is {_named(names, 'agent')}" if names else "only the default one is there, without --agent"
    whose = "the no-user root" if invocation.user is None else f"user {invocation.user!r}"
    return f"{whose} has no agent {invocation.agent!r}; {_meant(agent, names) or known}"


def _has_user(invocation: Invocation, engine: DeerMem) -> bool:
    from deermem.store.layout import Layout

    scope = engine.memory(invocation.user).scope
    return Layout(engine.root, engine.settings.manifest_filename).of(scope).folder.is_dir()


def _meant(word: str, names: Iterable[str]) -> str:
    """A question after the names that look like a word, "" for none."""
    from difflib import get_close_matches

    # The mark that keeps two ids apart is another one for each spelling.
    plain = {_MARK.sub("", name).casefold(): name for name in names}
    close = get_close_matches(_MARK.sub("", word).casefold(), plain, n=_MEANT)
    return f"did you mean {_joined([plain[name] for name in close], 'or')}?" if close else ""


def _named(names: Sequence[str], noun: str) -> str:
    if len(names) > _FEW:
        return f"{count(len(names), noun)}, which `deermem stats` lists"
    return f"the {noun}{'s' if len(names) > 1 else ''} {_joined(names, 'and')}"


def _joined(names: Sequence[str], word: str) -> str:
    return f" {word} ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
