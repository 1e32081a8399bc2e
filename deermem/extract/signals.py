"""Signs in what a person said that something is worth remembering. They come from pattern files, not from a model.

A pattern file is YAML: languages, each with a list of regular expressions. They see a turn as the model does (of a
long one both ends), NFKC-folded, with straight apostrophes and single blanks, and each sentence on a line of its own:
`^` and `$` are its ends. Case doesn't count.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, Literal, get_args

import yaml

from deermem.errors import InvalidInput
from deermem.extract.messages import Turn
from deermem.extract.repeats import repeats_a_repeat
from deermem.extract.transcript import shown

Signal = Literal["correction", "reinforcement", "preference", "identity", "goal", "decision"]
SIGNALS: Final[tuple[Signal, ...]] = get_args(Signal)
RECENT_TURNS: Final = 6

_APOSTROPHES: Final = str.maketrans(dict.fromkeys("’‘ʼ`´", "'"))
_SENTENCE_GAP: Final = re.compile(r"(?<=[.!?;]) |(?<=[。!?;])(?=[\u3400-\u9fff])")


@dataclass(frozen=True, slots=True)
class SignalPatterns:
    """Compiled patterns of each signal; `load_patterns` makes them."""

    patterns: Mapping[Signal, tuple[re.Pattern[str], ...]]

    def detect(self, turns: Sequence[Turn]) -> frozenset[Signal]:
        """The signals in what the person said among the last six turns; the assistant's words never count."""
        said = [folded(turn.text) for turn in turns[-RECENT_TURNS:] if turn.role == "user"]
        return frozenset(
            signal
            for signal, patterns in self.patterns.items()
            if any(pattern.search(text) for text in said for pattern in patterns)
        )


def load_patterns(patterns_dir: Path | None = None) -> SignalPatterns:
    """The patterns of the package, or of a folder in their place, read and compiled once.

    The folder holds one file a signal, `correction.yaml` to `decision.yaml`; a file without patterns switches its
    signal off. Raises InvalidInput that names the file, where one is missing, can't be read, is no mapping of
    languages to lists of regular expressions, or has a pattern that matches everything or might take for ever.
    """
    return _bundled() if patterns_dir is None else _load(patterns_dir)


def folded(text: str) -> str:
    """A turn as patterns see it."""
    plain = unicodedata.normalize("NFKC", shown(text)).translate(_APOSTROPHES)
    lines = (" ".join(line.split()) for line in plain.splitlines())
    return _SENTENCE_GAP.sub("\n", "\n".join(filter(None, lines)))


@cache
def _bundled() -> SignalPatterns:
    return _load(files("deermem.extract") / "patterns")


def _load(folder: Traversable) -> SignalPatterns:
    return SignalPatterns({signal: _read(folder / f"{signal}.yaml") for signal in SIGNALS})


def _read(file: Traversable) -> tuple[re.Pattern[str], ...]:
    hint = "patterns_dir needs one readable file a signal; copy those of the package and change them"
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidInput(f"{file} is missing", hint=hint) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} can't be read: {error}", hint=hint) from None
    return tuple(_compiled(pattern, file) for pattern in _listed(text, file))


def _listed(text: str, file: Traversable) -> list[str]:
    loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
    try:
        node = yaml.compose(text, Loader=loader)
        document = yaml.load(text, Loader=loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{file} is no YAML: {' '.join(str(error).split())}", hint="mend or replace it") from None
    if isinstance(node, yaml.MappingNode) and len({key.value for key, _ in node.value if key.value}) < len(node.value):
        raise InvalidInput(f"{file} names a language twice or not at all", hint="put its patterns into one list")
    languages = {} if document is None else document
    if not isinstance(languages, dict):
        raise InvalidInput(f"{file} is no mapping", hint="give languages, each with a list of patterns")
    listed: list[str] = []
    for language, patterns in languages.items():
        if not isinstance(patterns, list | None):
            raise InvalidInput(f"{language!r:.40} in {file} is no list", hint="give a list of patterns")
        listed += [_text(pattern, f"{language!r:.40}", file) for pattern in patterns or ()]
    return listed


def _text(pattern: object, language: str, file: Traversable) -> str:
    if not isinstance(pattern, str):
        raise InvalidInput(f"{pattern!r:.60} under {language} in {file} is no text", hint="put it in quotes")
    return pattern


def _compiled(pattern: str, file: Traversable) -> re.Pattern[str]:
    where = f"the pattern {pattern!r:.80} in {file}"
    if repeats_a_repeat(pattern):
        hint = "give the inner repeat a fixed count or the outer one a limit"
        raise InvalidInput(f"{where} repeats a repeat without limit and might take for ever", hint=hint)
    try:
        compiled = re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidInput(f"{where} is no regular expression: {error}", hint="mend it or take it out") from None
    if compiled.search(""):
        raise InvalidInput(f"{where} matches everything", hint="make it match what the signal is about")
    return compiled
