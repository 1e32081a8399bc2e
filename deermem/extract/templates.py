"""The texts that a model is asked with: those of the package, or a person's own, one file for all agents or one each.

A file is YAML with four texts. `system` is sent as it is, so that it is the same in every call. In `user`,
`staleness` and `consolidation` a `{name}` is replaced; any other curly bracket is text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import yaml

from deermem.errors import InvalidInput
from deermem.model.scope import normalize_agent

FILE_NAME: Final = "extract.yaml"

_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "system": (),
    "user": ("summaries", "facts", "staleness", "consolidation", "conversation"),
    "staleness": ("candidates",),
    "consolidation": ("groups",),
}
_OPTIONAL: Final[Mapping[str, tuple[str, ...]]] = {
    "system": (),
    "user": ("today", "signals"),
    "staleness": ("count",),
    "consolidation": ("count",),
}
_KNOWN: Final = frozenset(name for names in (*_REQUIRED.values(), *_OPTIONAL.values()) for name in names)


@dataclass(frozen=True, slots=True)
class Template:
    """Four checked texts; `load_prompts` reads them."""

    system: str
    user: str
    staleness: str
    consolidation: str


@dataclass(frozen=True, slots=True)
class Prompts:
    """The template of each agent. Each file is read once, so a change counts from the next start."""

    _common: Template
    _folder: Path | None = None
    _own: dict[str, Template] = field(default_factory=dict)

    def template(self, agent: str) -> Template:
        """The agent's own template where its folder has one, else that of all.

        Raises InvalidInput that names the file, where the agent's can't be used: a person's words are not passed over.
        """
        if self._folder is None:
            return self._common
        name = normalize_agent(agent)
        found = self._own.get(name)
        if found is None:
            file = self._folder / name / FILE_NAME
            found = self._own[name] = _read(file) if file.exists() else self._common
        return found


def load_prompts(prompts_dir: Path | None = None) -> Prompts:
    """The prompts of the package, or of a folder in their place: `extract.yaml`, and `{agent}/extract.yaml`.

    Raises InvalidInput that names the file, where the folder's own is missing, can't be read, or lacks a text or a
    placeholder: nothing of the package stands in for it.
    """
    if prompts_dir is None:
        return Prompts(_bundled())
    return Prompts(_read(prompts_dir / FILE_NAME), prompts_dir)


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with each `{name}` replaced, once: what a value holds is never replaced again.

    A paragraph of which nothing is left goes.
    """
    paragraphs = (_PLACEHOLDER.sub(lambda found: values[found[1]], part) for part in re.split(r"\n{2,}", text.strip()))
    return "\n\n".join(part for part in paragraphs if part.strip())


@cache
def _bundled() -> Template:
    return _read(files("deermem.extract") / "prompts" / FILE_NAME)


def _read(file: Traversable) -> Template:
    hint = "prompts_dir needs a readable extract.yaml; copy that of the package and change it"
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidInput(f"{file} is missing", hint=hint) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} can't be read: {error}", hint=hint) from None
    texts = _texts(text, file)
    for name, found in texts.items():
        _check(name, found, file)
    return Template(**texts)


def _texts(text: str, file: Traversable) -> dict[str, str]:
    loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
    try:
        document = yaml.load(text, Loader=loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{file} is no YAML: {' '.join(str(error).split())}", hint="mend or replace it") from None
    if not isinstance(document, dict):
        raise InvalidInput(f"{file} is no mapping", hint=f"give the texts {', '.join(_REQUIRED)}")
    unknown = [name for name in document if name not in _REQUIRED]
    if unknown:
        raise InvalidInput(f"{file} has {unknown[0]!r:.60}", hint=f"the texts are {', '.join(_REQUIRED)}")
    found: dict[str, str] = {}
    for name in _REQUIRED:
        value = document.get(name)
        if not isinstance(value, str) or not value.strip():
            raise InvalidInput(f"{file} has no text {name}", hint="copy the package's file and change it")
        found[name] = value.strip()
    return found


def _check(name: str, text: str, file: Traversable) -> None:
    used = dict.fromkeys(_PLACEHOLDER.findall(text))
    if name == "system":
        # Braces are text here, but the name of a placeholder shows that somebody expects it to be replaced.
        for found in used:
            if found in _KNOWN:
                hint = "it must be the same in every call; use the placeholder in user"
                raise InvalidInput(f"system in {file} has the placeholder {{{found}}}", hint=hint)
        return
    allowed = (*_REQUIRED[name], *_OPTIONAL[name])
    for found in used:
        if found not in allowed:
            known = ", ".join(f"{{{each}}}" for each in allowed)
            hint = f"known are {known}; where text is meant, put a blank behind the bracket"
            raise InvalidInput(f"{name} in {file} has the unknown placeholder {{{found}}}", hint=hint)
    for needed in _REQUIRED[name]:
        if needed not in used:
            raise InvalidInput(f"{name} in {file} lacks the placeholder {{{needed}}}", hint="put it where it belongs")
