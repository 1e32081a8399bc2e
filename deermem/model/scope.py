"""Whose memory: the (user, agent) pair and the folder names it maps to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from deermem.errors import InvalidInput

DEFAULT_AGENT = "__default__"
MAX_NAME = 128
_SAFE_USER = re.compile(r"[A-Za-z0-9_-]+")
_UNSAFE_CHARACTER = re.compile(r"[^A-Za-z0-9_-]")
_AGENT = re.compile(r"[A-Za-z0-9-]+")


def safe_user_id(raw: str) -> str:
    """The folder name of a user id: bad characters become `-`, and a hash then keeps two ids apart.

    Raises InvalidInput for an id that is no text, is empty, holds NUL or can't be encoded, and for a folder name over
    128 characters.
    """
    if not isinstance(raw, str):
        raise InvalidInput(
            f"user_id is {raw!r:.60}; it must be text", hint="give the id in quotes, or none for the no-user root"
        )
    if "\0" in raw:
        raise InvalidInput(f"user_id {raw[:40]!r} holds a NUL character", hint="use another id")
    if not raw:
        raise InvalidInput("user_id is empty", hint="give the id of the user, or none for the no-user root")
    if _SAFE_USER.fullmatch(raw):
        name = raw
    else:
        try:
            digest = hashlib.sha256(raw.encode()).hexdigest()[:16]
        except UnicodeEncodeError:
            raise InvalidInput(f"user_id {raw!r} is not valid Unicode", hint="use another id") from None
        name = f"{_UNSAFE_CHARACTER.sub('-', raw)}-{digest}"
    if len(name) > MAX_NAME:
        raise InvalidInput(
            f"user_id {raw[:40]!r}… makes a folder name of {len(name)} characters", hint=f"at most {MAX_NAME} fit"
        )
    return name


def normalize_agent(name: str | None) -> str:
    """The bucket of an agent name: lower case; None is the reserved bucket `__default__`."""
    if name is None or name == DEFAULT_AGENT:
        return DEFAULT_AGENT
    if not isinstance(name, str) or not _AGENT.fullmatch(name):
        raise InvalidInput(f"agent name {name!r} is not valid", hint="use letters, digits and hyphens")
    if len(name) > MAX_NAME:
        raise InvalidInput(f"agent name {name[:40]!r}… has {len(name)} characters", hint=f"at most {MAX_NAME} fit")
    return name.lower()


def normalize_agents(names: Iterable[str]) -> list[str]:
    """The buckets of several agent names; a bare text would be taken for its letters."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidInput(f"agents is {names!r:.60}", hint="give a list of names")
    return [normalize_agent(name) for name in names]


@dataclass(frozen=True, slots=True)
class Scope:
    """One bucket of facts. `user_id` None is the legacy no-user root; `agent` is normalised."""

    user_id: str | None
    agent: str = DEFAULT_AGENT

    @classmethod
    def of(cls, user_id: str | None, agent_name: str | None = None) -> Scope:
        """Checked and normalised; raises InvalidInput."""
        if user_id is not None:
            safe_user_id(user_id)
        return cls(user_id, normalize_agent(agent_name))

    @property
    def user_folder(self) -> str | None:
        """The name below `users/`, None for the no-user root."""
        return None if self.user_id is None else safe_user_id(self.user_id)

    def owns(self, user_id: str | None, agent_name: str | None) -> bool:
        """Whether a file that names this owner belongs here: the owner must *map to* this folder.

        A missing name passes (hand-made files have none); the raw id and the id already made safe both do.
        """
        return self._owns_user(user_id) and self._owns_agent(agent_name)

    def _owns_user(self, user_id: str | None) -> bool:
        if user_id is None or user_id == self.user_id:
            return True
        if self.user_id is None:
            return False
        try:
            return user_id == self.user_folder or safe_user_id(user_id) == self.user_folder
        except InvalidInput:
            return False

    def _owns_agent(self, agent_name: str | None) -> bool:
        try:
            return agent_name is None or normalize_agent(agent_name) == self.agent
        except InvalidInput:
            return False
